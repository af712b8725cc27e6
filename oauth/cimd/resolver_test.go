package cimd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

// private is what a name of the attacker may resolve to.
var private = []netip.Addr{netip.MustParseAddr("10.0.0.7")}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// resolver runs fn in a bubble with a Resolver on a fresh Internet.
func resolver(t *testing.T, fn func(t *testing.T, n *fakenet.Net, r *Resolver)) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenet.New()
		defer n.Close()
		network, err := publicnet.New(&publicnet.Options{UserAgent: "test", Below: n.Below()})
		if err != nil {
			t.Fatal(err)
		}
		fn(t, n, NewResolver(network))
	})
}

func answer(header ...string) fakenet.Answer {
	h := http.Header{"Content-Type": {"application/json"}}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return fakenet.Answer{Header: h, Body: string(body())}
}

// asked is how often the document was fetched.
func asked(n *fakenet.Net) int { return len(n.Requests()) }

func resolve(t *testing.T, r *Resolver) *Document {
	t.Helper()
	d, err := r.Resolve(t.Context(), testID)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRule_OauthA5_ResolverFetchesAndKeeps(t *testing.T) {
	resolver(t, func(t *testing.T, n *fakenet.Net, r *Resolver) {
		n.Set(testID, answer())
		if d := resolve(t, r); d.ClientName != "Host" || d.ClientID != testID {
			t.Errorf("document %+v", d)
		}
		resolve(t, r)
		if asked(n) != 1 {
			t.Errorf("fetched %d times", asked(n))
		}
		if got := n.Requests()[0].Header.Get("Accept"); got != "application/json" {
			t.Errorf("Accept: %q", got)
		}
	})
}

func TestRule_OauthM4_ResolverFollowsNothingAndStaysPublic(t *testing.T) {
	for name, c := range map[string]struct {
		answer fakenet.Answer
		want   error
	}{
		"redirect":  {fakenet.Answer{Status: 302, Header: http.Header{"Location": {"https://host.example.com/good"}}}, nil},
		"too large": {fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: "{" + strings.Repeat(" ", MaxBytes) + "}"}, publicnet.ErrTooLarge},
		"timeout":   {fakenet.Answer{Fault: fakenet.Timeout}, publicnet.ErrTimeout},
		"slow":      {fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: string(body()), Fault: fakenet.Slow}, publicnet.ErrTimeout},
		"not found": {fakenet.Answer{Status: 404}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			resolver(t, func(t *testing.T, n *fakenet.Net, r *Resolver) {
				n.Set("https://host.example.com/good", answer())
				n.Set(testID, c.answer)
				_, err := r.Resolve(t.Context(), testID)
				if err == nil || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				if asked(n) > 1 {
					t.Errorf("asked %v", n.Requests())
				}
			})
		})
	}
	resolver(t, func(t *testing.T, n *fakenet.Net, r *Resolver) {
		n.SetDNS("host.example.com", fakenet.DNS{Addrs: private})
		n.Set(testID, answer())
		if _, err := r.Resolve(t.Context(), testID); !errors.Is(err, publicnet.ErrNotPublic) {
			t.Errorf("a document at a private address: %v", err)
		}
		for _, id := range []string{"https://127.0.0.1/c", "https://localhost/c", "https://host.example.com:8443/c", "https://printer.local/c"} {
			if _, err := r.Resolve(t.Context(), id); err == nil {
				t.Errorf("%s was read", id)
			}
		}
		n.SetDNS("host.example.com")
		n.Set(testID, fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: string(body(`"logo_uri":"https://printer.local/logo"`))})
		if _, err := r.Resolve(t.Context(), testID); err == nil {
			t.Error("an address in the document that no public host has was accepted")
		}
		for _, name := range []string{"client_uri", "tos_uri", "policy_uri"} {
			n.Set(testID, fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: string(body(`"` + name + `":"https://printer.local/x"`))})
			if _, err := r.Resolve(t.Context(), testID); !errors.Is(err, publicnet.ErrNotPublic) {
				t.Errorf("%s: %v", name, err)
			}
		}
		n.Set(testID, fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: string(body(`"client_uri":"https://host.example.com:8443/"`))})
		if d := resolve(t, r); d.ClientURI != "https://host.example.com:8443/" {
			t.Errorf("a link with a port: %q", d.ClientURI)
		}
		if asked(n) > 5 || len(n.Dials()) > 5 {
			t.Errorf("asked %v, dialled %v", n.Requests(), n.Dials())
		}
	})
}

func TestRule_OauthM5_KeptWithinHTTPAndOurBounds(t *testing.T) {
	for _, c := range []struct {
		header []string
		want   time.Duration
	}{
		{nil, defaultLifetime},
		{[]string{"Cache-Control", "max-age=60"}, time.Minute},
		{[]string{"Cache-Control", "public, max-age=31536000"}, maxLifetime},
		{[]string{"Cache-Control", "max-age=60, s-maxage=30"}, 30 * time.Second},
		{[]string{"Cache-Control", "s-maxage=30, max-age=60"}, 30 * time.Second},
		{[]string{"Cache-Control", "max-age=60", "Age", "20"}, 40 * time.Second},
		{[]string{"Cache-Control", "max-age=60", "Age", "70"}, 0},
		{[]string{"Cache-Control", "No-Store"}, 0},
		{[]string{"Cache-Control", "no-cache, max-age=60"}, 0},
		{[]string{"Cache-Control", "private, max-age=60"}, 0},
		{[]string{"Cache-Control", "max-age=soon"}, 0},
		{[]string{"Cache-Control", "max-age=0"}, 0},
		{[]string{"Vary", "*"}, 0},
		{[]string{"Expires", "0"}, 0},
		{[]string{"Date", "Mon, 30 Nov 2026 08:00:00 GMT", "Expires", "Mon, 30 Nov 2026 08:10:00 GMT"}, 10 * time.Minute},
		{[]string{"Date", "Mon, 30 Nov 2026 08:00:00 GMT", "Expires", "Mon, 30 Nov 2026 07:00:00 GMT"}, 0},
		{[]string{"Cache-Control", `ext="a, max-age=9000", max-age=60`}, time.Minute},
		{[]string{"Cache-Control", `ext="a\", no-store", max-age="60"`}, time.Minute},
		{[]string{"Cache-Control", `max-age=60, ext="a`}, 0},
		{[]string{"Cache-Control", `ext="a"b, max-age=60`}, 0},
		{[]string{"Cache-Control", "max-age=3600, max-age=60"}, time.Minute},
		{[]string{"Cache-Control", "max-age=60", "Cache-Control", ", ,max-age=3600"}, time.Minute},
		{[]string{"Cache-Control", "s-maxage=3600, s-maxage=60, max-age=1"}, time.Minute},
		{[]string{"Cache-Control", "max-age =60, max-age = 3600"}, time.Minute},
		{[]string{"Cache-Control", "s-maxage =30, max-age=60"}, 30 * time.Second},
		{[]string{"Cache-Control", "max-age=60, s-maxage =30"}, 30 * time.Second},
		{[]string{"Cache-Control", "max-age"}, 0},
		{[]string{"Cache-Control", "max-age=-1"}, 0},
		{[]string{"Cache-Control", "max-age=99999999999999999999"}, maxLifetime},
		{[]string{"Cache-Control", "public", "Cache-Control", "no-store"}, 0},
		{[]string{"Cache-Control", "max-age=60", "Age", "99999999999999999999"}, 0},
		{[]string{"Cache-Control", "max-age=60", "Age", "1", "Age", "50"}, 10 * time.Second},
		{[]string{"Cache-Control", "max-age=60", "Age", "old"}, time.Minute},
		{[]string{"Vary", "Accept", "Vary", "Origin, *"}, 0},
		{[]string{"Vary", "Accept"}, defaultLifetime},
		{[]string{"Pragma", "No-Cache"}, 0},
		{[]string{"Pragma", "no-cache", "Cache-Control", "max-age=60"}, time.Minute},
		{[]string{"Date", "Mon, 30 Nov 2026 08:00:00 GMT", "Expires", "Mon, 30 Nov 2026 08:10:00 GMT", "Expires", "0"}, 0},
		{[]string{"Expires", "Mon, 01 Jan 0001 00:00:00 GMT", "Age", "9999999999"}, 0},
	} {
		h := http.Header{}
		for i := 0; i < len(c.header); i += 2 {
			h.Add(c.header[i], c.header[i+1])
		}
		if got := lifetime(h, time.Now()); got != c.want {
			t.Errorf("%v: kept for %v, want %v", c.header, got, c.want)
		}
	}
	resolver(t, func(t *testing.T, n *fakenet.Net, r *Resolver) {
		n.Set(testID, answer("Cache-Control", "max-age=60"))
		resolve(t, r)
		time.Sleep(59 * time.Second)
		resolve(t, r)
		if asked(n) != 1 {
			t.Errorf("fetched %d times within a minute", asked(n))
		}
		time.Sleep(time.Second)
		resolve(t, r)
		if asked(n) != 2 {
			t.Errorf("fetched %d times after a minute", asked(n))
		}
	})
	resolver(t, func(t *testing.T, n *fakenet.Net, r *Resolver) { // neither failures nor bad documents
		bad := answer("Cache-Control", "max-age=3600")
		bad.Body = "{}"
		n.Set(testID, fakenet.Answer{Status: 503, Header: http.Header{"Cache-Control": {"max-age=3600"}}}, bad, answer())
		for range 2 {
			if _, err := r.Resolve(t.Context(), testID); err == nil {
				t.Fatal("a failure was no error")
			}
		}
		resolve(t, r)
		if len(r.known) != 1 || r.order.Len() != 1 {
			t.Errorf("kept %d documents", len(r.known))
		}
	})
}

func TestResolverIsBounded(t *testing.T) {
	resolver(t, func(t *testing.T, n *fakenet.Net, r *Resolver) {
		n.Handle("host.example.com", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"client_id":"https://host.example.com%s","client_name":"Host","redirect_uris":["https://host.example.com/back"]}`, q.URL.Path)
		}))
		for i := range maxDocuments + 2 {
			if _, err := r.Resolve(t.Context(), fmt.Sprintf("https://host.example.com/%d", i)); err != nil {
				t.Fatal(err)
			}
		}
		if len(r.known) != maxDocuments || r.order.Len() != maxDocuments {
			t.Errorf("kept %d and %d documents", len(r.known), r.order.Len())
		}
		if _, ok := r.known["https://host.example.com/0"]; ok {
			t.Error("the oldest was kept")
		}
	})
}

// Sixteen strangers at a time keep the Resolver busy; a caller waits no longer
// than it wants to.
func TestResolverTakesTurns(t *testing.T) {
	resolver(t, func(t *testing.T, n *fakenet.Net, r *Resolver) {
		release := make(chan struct{})
		var mu sync.Mutex
		running, most := 0, 0
		n.Handle("host.example.com", http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-release
			mu.Lock()
			running--
			mu.Unlock()
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"client_id":"https://host.example.com%s","client_name":"Host","redirect_uris":["https://host.example.com/back"]}`, q.URL.Path)
		}))
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				if _, err := r.Resolve(t.Context(), fmt.Sprintf("https://host.example.com/%d", i)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Resolve(ctx, "https://host.example.com/late"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that gave up: %v", err)
		}
		if _, err := r.Keys(ctx, &Document{ClientID: testID, JWKSURI: "https://host.example.com/keys"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller that gave up on keys: %v", err)
		}
		synctest.Wait()
		if len(r.calls) != 40 {
			t.Errorf("%d requests wait", len(r.calls))
		}
		close(release)
		wg.Wait()
		if most != maxRequests {
			t.Errorf("%d requests ran at a time", most)
		}
	})
}

func TestRule_OauthM3_KeysOfAnAddressAreJudgedToo(t *testing.T) {
	const address = "https://host.example.com/keys"
	d := &Document{ClientID: testID, JWKSURI: address}
	for text, want := range map[string]bool{
		`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`:          true,
		`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA","d":"AA"}]}`: false,
		`{"keys":[{"kty":"oct","k":"AA"}]}`:                                false,
		`{"keys":[]}`:                                                      false,
		`{}`:                                                               false,
		`<html>`:                                                           false,
		`{"keys":[{"kty":"EC","pad":"` + strings.Repeat("x", maxKeys) + `"}]}`: false,
	} {
		resolver(t, func(t *testing.T, n *fakenet.Net, r *Resolver) {
			n.Set(address, fakenet.Answer{Body: text})
			if keys, err := r.Keys(t.Context(), d); (err == nil) != want || want && string(keys) != text {
				t.Errorf("%.80s: %s, %v", text, keys, err)
			}
		})
	}
	resolver(t, func(t *testing.T, n *fakenet.Net, r *Resolver) {
		n.Set("https://host.example.com/good", fakenet.Answer{Body: `{"keys":[{"kty":"EC"}]}`})
		n.Set(address, fakenet.Answer{Status: 302, Header: http.Header{"Location": {"https://host.example.com/good"}}})
		if _, err := r.Keys(t.Context(), d); err == nil {
			t.Error("a redirect was followed to keys")
		}
		if keys, err := r.Keys(t.Context(), &Document{JWKS: []byte(`{"keys":[{}]}`)}); err != nil || string(keys) != `{"keys":[{}]}` {
			t.Errorf("keys of the document: %s, %v", keys, err)
		}
		if _, err := r.Keys(t.Context(), &Document{}); err == nil {
			t.Error("a document without keys has some")
		}
		if asked(n) != 1 {
			t.Errorf("asked %v", n.Requests())
		}
	})
}

func TestResolverJoinsCallers(t *testing.T) {
	resolver(t, func(t *testing.T, n *fakenet.Net, r *Resolver) {
		slow := answer()
		slow.Wait = time.Second
		n.Set(testID, slow)
		var wg sync.WaitGroup
		leader, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if _, err := r.Resolve(leader, testID); !errors.Is(err, context.Canceled) {
				t.Errorf("the caller that gave up: %v", err)
			}
		})
		synctest.Wait()
		for range 10 {
			wg.Go(func() { resolve(t, r) })
		}
		time.Sleep(100 * time.Millisecond)
		cancel() // who began it leaves; the others still get it
		wg.Wait()
		if asked(n) != 1 {
			t.Errorf("fetched %d times", asked(n))
		}
	})
	resolver(t, func(t *testing.T, n *fakenet.Net, r *Resolver) { // nobody waits any more
		n.Set(testID, fakenet.Answer{Fault: fakenet.Timeout}, answer())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := r.Resolve(ctx, testID); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		resolve(t, r) // at once, and not the cancelled one
	})
}
