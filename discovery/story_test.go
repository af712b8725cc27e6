package discovery_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

var update = flag.Bool("update", false, "rewrite the want sections of the stories")

// TestStories runs testdata/*.txtar. A story is an Internet (see
// fakenet.Net.Load) and what resolving comes to in it: each "resolve INPUT"
// section, which may hold the word confirm, is followed by a want section.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			story, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			asked := 0
			for i, f := range story.Files {
				input, ok := strings.CutPrefix(f.Name, "resolve ")
				if !ok {
					continue
				}
				asked++
				if i+1 == len(story.Files) || story.Files[i+1].Name != "want" {
					t.Fatalf("%q is not followed by a want section", f.Name)
				}
				var got string
				synctest.Test(t, func(t *testing.T) { got = tell(t, story, input, bytes.Contains(f.Data, []byte("confirm"))) })
				if *update {
					story.Files[i+1].Data = []byte(got)
				} else if d := cmp.Diff(string(story.Files[i+1].Data), got); d != "" {
					t.Errorf("resolve %s (-want +got):\n%s", input, d)
				}
			}
			if asked == 0 {
				t.Fatal("the story resolves nothing")
			}
			if *update {
				if err := os.WriteFile(file, txtar.Format(story), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// tell resolves input in a story's Internet and writes down what came of it.
func tell(t *testing.T, story *txtar.Archive, input string, confirm bool) string {
	net := fakenet.New()
	defer net.Close()
	if _, err := net.Load(story); err != nil {
		t.Fatal(err)
	}
	r, err := resolveOn(t, net, input, confirm)
	var b strings.Builder
	if err != nil {
		e, ok := errors.AsType[*discovery.Error](err)
		if !ok {
			t.Fatalf("%T: %v", err, err)
		}
		fmt.Fprintf(&b, "error %s\n%s\n", e.Kind, e)
	} else {
		b.WriteString(string(r.Shape) + "\n")
		for _, c := range r.Candidates {
			fmt.Fprintf(&b, "card %s %s\n", c.CardURL, c.Card.Name)
			if c.FinalURL != c.CardURL {
				fmt.Fprintf(&b, "  final %s after %d redirects\n", c.FinalURL, len(c.Hops))
			}
			if c.NamedBy != "" {
				fmt.Fprintf(&b, "  named by %s\n", c.NamedBy)
			}
			if e := c.Evidence; e != nil {
				fmt.Fprintf(&b, "  evidence %s %s\n", e.Kind, strings.Join(e.Chain, " > "))
			}
			for _, w := range c.Warnings {
				fmt.Fprintf(&b, "  warning %s\n", w)
			}
		}
		for _, e := range r.Failed {
			fmt.Fprintf(&b, "failed %s %s\n", e.Kind, e)
		}
		for _, s := range r.Skipped {
			fmt.Fprintf(&b, "skipped %d %s: %s\n", s.Index, s.Reason, s.Detail)
		}
		if r.Others > 0 {
			fmt.Fprintf(&b, "others %d\n", r.Others)
		}
		for _, w := range r.Warnings {
			fmt.Fprintf(&b, "warning %s\n", w)
		}
		if r.Cut != "" {
			fmt.Fprintf(&b, "cut %s\n", r.Cut)
		}
	}
	var asked []string
	for _, r := range net.Requests() {
		asked = append(asked, "asked "+r.URL)
	}
	slices.Sort(asked) // cards are read several at once
	for _, a := range asked {
		b.WriteString(a + "\n")
	}
	return b.String()
}

// resolveOn resolves through publicnet's guard on an Internet in memory.
func resolveOn(t *testing.T, net *fakenet.Net, input string, confirm bool) (*discovery.Result, error) {
	t.Helper()
	network, err := publicnet.New(&publicnet.Options{UserAgent: "test/1.0 (+https://www.example.com/)", Below: net.Below()})
	if err != nil {
		t.Fatal(err)
	}
	client := network.Client()
	defer client.CloseIdleConnections()
	r, err := discovery.NewResolver(&discovery.Options{Client: client, Confirm: confirm})
	if err != nil {
		t.Fatal(err)
	}
	return r.Resolve(t.Context(), input)
}

// OB-T13, OB-150 to OB-153: what the guard and the limits refuse, each with its
// own kind, also for cards that a catalog names.
func TestRule_OBT13_Refused(t *testing.T)  { testRefused(t) }
func TestRule_D12_LimitsHold(t *testing.T) { testRefused(t) }

func testRefused(t *testing.T) {
	private := netip.MustParseAddr("10.0.0.1")
	public := netip.MustParseAddr("93.184.99.9")
	redirect := func(to string) fakenet.Answer {
		return fakenet.Answer{Status: 302, Header: http.Header{"Location": {to}}}
	}
	tests := []struct {
		name string
		want discovery.Kind
		set  func(n *fakenet.Net)
	}{
		{"oversize", discovery.TooLarge, func(n *fakenet.Net) {
			n.Set(cardURL, fakenet.Answer{Body: cardText("x") + strings.Repeat(" ", publicnet.DefaultMaxBytes)})
		}},
		{"slow", discovery.Timeout, func(n *fakenet.Net) { n.Set(cardURL, fakenet.Answer{Body: cardText("x"), Fault: fakenet.Slow}) }},
		{"silent", discovery.Timeout, func(n *fakenet.Net) { n.Set(cardURL, fakenet.Answer{Fault: fakenet.Timeout}) }},
		{"sixth redirect", discovery.TooManyRedirects, func(n *fakenet.Net) {
			n.Set(cardURL, redirect(origin+"/1"))
			for i := 1; i <= 6; i++ {
				n.Set(fmt.Sprintf("%s/%d", origin, i), redirect(fmt.Sprintf("%s/%d", origin, i+1)))
			}
		}},
		{"http hop", discovery.NotHTTPS, func(n *fakenet.Net) { n.Set(cardURL, redirect("http://apps.example.com/card")) }},
		{"private by DNS", discovery.BlockedAddress, func(n *fakenet.Net) {
			n.Set(cardURL, fakenet.Answer{Body: cardText("x")})
			n.SetDNS("apps.example.com", fakenet.DNS{Addrs: []netip.Addr{public, private}})
		}},
		{"private by redirect", discovery.BlockedAddress, func(n *fakenet.Net) {
			n.Set(cardURL, redirect("https://inner.example.com/"))
			n.Set("https://inner.example.com/", fakenet.Answer{Body: cardText("x")})
			n.SetDNS("inner.example.com", fakenet.DNS{Addrs: []netip.Addr{private}})
		}},
		{"private by rebinding", discovery.BlockedAddress, func(n *fakenet.Net) {
			// Public for the first request, private for the next one.
			n.Set(cardURL, fakenet.Answer{Status: 302, Header: http.Header{"Location": {"/again"}, "Connection": {"close"}}})
			n.Set(origin+"/again", fakenet.Answer{Body: cardText("x")})
			n.SetDNS("apps.example.com", fakenet.DNS{Addrs: []netip.Addr{public}}, fakenet.DNS{Addrs: []netip.Addr{private}})
		}},
		{"no such name", discovery.DNS, func(n *fakenet.Net) { n.SetDNS("apps.example.com", fakenet.DNS{Err: "nxdomain"}) }},
		{"refused", discovery.Connect, func(n *fakenet.Net) { n.SetConnect("apps.example.com", "refused") }},
		{"certificate", discovery.TLS, func(n *fakenet.Net) { n.Host("apps.example.com"); n.SetTLS("apps.example.com", "expired") }},
		{"not modified, unasked", discovery.BadAnswer, func(n *fakenet.Net) { n.Set(cardURL, fakenet.Answer{Status: 304}) }},
		{"encoding", discovery.BadAnswer, func(n *fakenet.Net) {
			n.Set(cardURL, fakenet.Answer{Body: cardText("x"), Header: http.Header{"Content-Encoding": {"br"}, "Content-Type": {card.MediaType}}})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := fakenet.New()
				defer net.Close()
				tt.set(net)
				r, err := resolveOn(t, net, cardURL, false)
				if !errors.Is(err, tt.want) {
					t.Errorf("Resolve = %v, %v; want %s", r, err, tt.want)
				}
				for _, d := range net.Dials() {
					if d.Addr() == private {
						t.Errorf("%s was dialled", d)
					}
				}
			})
			synctest.Test(t, func(t *testing.T) {
				net := fakenet.New()
				defer net.Close()
				tt.set(net)
				list := "https://list.example.net/.well-known/ai-catalog.json"
				net.Set(list, fakenet.Answer{Body: catalogText(lists(cardURL), lists("https://list.example.net/card"))})
				net.Set("https://list.example.net/card", fakenet.Answer{Body: cardText("good")})
				r, err := resolveOn(t, net, "list.example.net", false)
				if err != nil || len(r.Candidates) != 1 || len(r.Failed) != 1 || r.Failed[0].Kind != tt.want || r.Shape != discovery.Multiple {
					t.Errorf("from a catalog: %+v, %v; want %s", r, err, tt.want)
				}
			})
		})
	}
}

// FO-09: a 304 to a first, plain request is an error and no loop.
func TestRule_FO09_UnaskedNotModified(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fakenet.New()
		defer net.Close()
		net.Set(cardURL, fakenet.Answer{Status: 304})
		r, err := resolveOn(t, net, cardURL, false)
		if !errors.Is(err, discovery.BadAnswer) || len(net.Requests()) != 1 {
			t.Errorf("Resolve = %v, %v after %v", r, err, net.Requests())
		}
	})
}

// R4: each document is asked for by its own type first.
func TestRule_DocumentsR4_Accept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fakenet.New()
		defer net.Close()
		net.Set(known, fakenet.Answer{Body: catalogText(lists("https://example.net/card"))})
		net.Set("https://example.net/card", fakenet.Answer{Body: cardText("x", `"websiteUrl":"`+site+`"`)})
		net.Set(site, fakenet.Answer{Body: page("").body})
		if _, err := resolveOn(t, net, "apps.example.com", true); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{
			known:                      "application/ai-catalog+json,",
			"https://example.net/card": "application/mcp-server-card+json,",
			site:                       "text/html,",
		}
		for _, r := range net.Requests() {
			if !strings.HasPrefix(r.Header.Get("Accept"), want[r.URL]) {
				t.Errorf("%s is asked for with Accept: %s", r.URL, r.Header.Get("Accept"))
			}
			delete(want, r.URL)
		}
		if len(want) > 0 {
			t.Errorf("not asked: %v", want)
		}
	})
}
