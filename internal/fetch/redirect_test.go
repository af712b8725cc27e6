package fetch_test

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/internal/webtest"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Documents R7, crawler G9, FO-07: redirects.
func TestRule_DocumentsR7_Redirects(t *testing.T) { testRedirects(t) }
func TestRule_CrawlerG9_Redirects(t *testing.T)   { testRedirects(t) }
func TestRule_FO07_Redirects(t *testing.T)        { testRedirects(t) }

func testRedirects(t *testing.T) {
	inWorld(t, `
-- GET https://s.example.com/.well-known/ai-catalog.json?a=%7b --
307 https://www.s.example.com/.well-known/ai-catalog.json?a=%7b
-- GET https://www.s.example.com/.well-known/ai-catalog.json?a=%7b --
200
Refresh: 0; url=https://127.0.0.1/

{"entries": []}
-- GET https://lost.example.com/ --
302 https://s.example.com.well-known/ai-catalog.json
-- GET https://down.example.com/ --
302 http://s.example.com/
-- GET https://deep.example.com/0 --
301 /1
-- GET https://deep.example.com/1 --
302 2
-- GET https://deep.example.com/2 --
303 ./x/../3
-- GET https://deep.example.com/3 --
307 //deep.example.com/4
-- GET https://deep.example.com/4 --
308 /5#part
-- GET https://deep.example.com/5 --
five
-- GET https://deep.example.com/six --
301 /0
-- GET https://nowhere.example.com/ --
302
-- GET https://empty.example.com/ --
302
Location:
-- GET https://inner.example.com/ --
302 https://metadata.example.com/
-- DNS metadata.example.com --
169.254.169.254
-- GET https://literal.example.com/ --
302 https://[::ffff:169.254.169.254]/
-- GET https://special.example.com/ --
300 https://s.example.com/
-- GET https://port.example.com/ --
302 https://s.example.com:8443/
-- GET https://raw.example.com/ --
302 https://bücher.example.com/ä
-- GET https://xn--bcher-kva.example.com/%C3%A4 --
raw
`, func(t *testing.T, w *world) {
		get := func(url string) (*fetch.Document, error) { return w.get(t, fetch.Request{URL: parse(t, url)}) }

		asked, final := "https://s.example.com/.well-known/ai-catalog.json?a=%7b", "https://www.s.example.com/.well-known/ai-catalog.json?a=%7b"
		doc, err := get(asked)
		if err != nil || doc.URL != asked || doc.FinalURL != final {
			t.Fatalf("%+v, %v", doc, err)
		}
		if diff := cmp.Diff([]fetch.Hop{{URL: asked, Status: 307, Location: final}}, doc.Hops); diff != "" {
			t.Errorf("hops (-want +got):\n%s", diff)
		}

		doc, err = get("https://deep.example.com/0")
		if err != nil || string(doc.Body) != "five\n" || len(doc.Hops) != 5 || doc.FinalURL != "https://deep.example.com/5" {
			t.Errorf("five redirects: %+v, %v", doc, err)
		}
		doc, err = get("https://raw.example.com/")
		if err != nil || doc.FinalURL != "https://xn--bcher-kva.example.com/%C3%A4" {
			t.Errorf("raw Location: %+v, %v", doc, err)
		}
		if doc, err = get("https://special.example.com/"); err != nil || doc.Status != 300 {
			t.Errorf("300 is no redirect to follow: %+v, %v", doc, err)
		}

		for _, tt := range []struct {
			url, message string
			want         error
		}{
			{"https://deep.example.com/six", "hop 5: https://deep.example.com/4", publicnet.ErrTooManyRedirects},
			{"https://lost.example.com/", "hop 1: https://s.example.com.well-known/ai-catalog.json", publicnet.ErrNotPublic},
			{"https://nowhere.example.com/", "https://nowhere.example.com/", fetch.ErrNoLocation},
			{"https://empty.example.com/", "https://empty.example.com/", fetch.ErrNoLocation},
			{"https://inner.example.com/", "hop 1: https://metadata.example.com/", publicnet.ErrNotPublic},
			{"https://port.example.com/", "hop 1: https://s.example.com:8443/", publicnet.ErrNotPublic},
		} {
			if doc, err := get(tt.url); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.message) {
				t.Errorf("%s: %+v, %v; want %v with %q", tt.url, doc, err, tt.want, tt.message)
			}
		}
		for url, reason := range map[string]weburl.Reason{
			"https://down.example.com/": weburl.NotHTTPS, "https://literal.example.com/": weburl.BadInput,
		} {
			_, err := get(url)
			if e, ok := errors.AsType[*weburl.Error](err); !ok || e.Reason != reason || !strings.Contains(err.Error(), "redirect to") {
				t.Errorf("%s: %v; want %s", url, err, reason)
			}
		}
		for _, d := range w.net.Dials() {
			if !publicnet.IsPublic(d.Addr()) {
				t.Errorf("dialled %s", d)
			}
		}
	})
}

// Before is asked for each hop, and its error ends the fetch.
func TestBeforeAndAfter(t *testing.T) {
	inWorld(t, conditionalStory, func(t *testing.T, w *world) {
		var seen []string
		stop := errors.New("robots say no")
		r := fetch.Request{
			Before: func(_ context.Context, u weburl.URL, hop int) error {
				seen = append(seen, "before "+u.Host())
				if hop == 1 {
					return stop
				}
				return nil
			},
			After: func(u weburl.URL, _ time.Duration, status int, h http.Header) {
				seen = append(seen, "after "+u.Host()+" "+h.Get("ETag")+" "+http.StatusText(status))
			},
		}
		_, err := w.get(t, r)
		if !errors.Is(err, stop) || !strings.Contains(err.Error(), "hop 1: https://www.example.com/card") {
			t.Errorf("error %v", err)
		}
		want := []string{"before apps.example.com", `after apps.example.com "asked" Moved Permanently`, "before www.example.com"}
		if diff := cmp.Diff(want, seen); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if n := len(w.net.Requests()); n != 1 {
			t.Errorf("%d requests", n)
		}
	})
}

// Crawler G8: ten seconds over all hops; waiting in Before is not counted.
func TestRule_CrawlerG8_TotalTime(t *testing.T) {
	const story = `
-- GET https://apps.example.com/card --
302 https://www.example.com/card
wait 6s
-- GET https://www.example.com/card --
200
wait 3s

{}
-- GET https://www.example.com/card --
200
wait 5s

{}
`
	inWorld(t, story, func(t *testing.T, w *world) {
		var tooks []time.Duration
		r := fetch.Request{
			Before: func(ctx context.Context, _ weburl.URL, _ int) error { time.Sleep(time.Minute); return ctx.Err() },
			After:  func(_ weburl.URL, took time.Duration, _ int, _ http.Header) { tooks = append(tooks, took) },
		}
		doc, err := w.get(t, r)
		if err != nil || doc.Took != 9*time.Second {
			t.Fatalf("%+v, %v", doc, err)
		}
		begin := time.Now()
		_, err = w.get(t, r)
		if !errors.Is(err, publicnet.ErrTimeout) || !strings.Contains(err.Error(), "hop 1") {
			t.Errorf("11 s of answers: %v", err)
		}
		if took := time.Since(begin); took != 2*time.Minute+10*time.Second {
			t.Errorf("ended after %s", took)
		}
		want := []time.Duration{6 * time.Second, 3 * time.Second, 6 * time.Second, 4 * time.Second}
		if diff := cmp.Diff(want, tooks); diff != "" {
			t.Errorf("times (-want +got):\n%s", diff)
		}
		r.Timeout = 20 * time.Second
		if _, err := w.get(t, r); err != nil {
			t.Errorf("with 20 s: %v", err)
		}
	})
}

type redirectVectors struct {
	Redirects []struct {
		ID, Verdict, Why string
		Chain            []string
	} `json:"redirect_vectors"`
}

func TestRedirectVectors(t *testing.T) {
	cases := 0
	for _, file := range webtest.Vectors[redirectVectors](t, "ssrf-vectors.json") {
		for _, v := range file.Redirects {
			cases++
			inWorld(t, "", func(t *testing.T, w *world) {
				first := parse(t, v.Chain[0])
				at, whole := first, true
				for _, location := range v.Chain[1:] {
					w.net.Set(at.String(), fakenet.Answer{Status: 302, Header: http.Header{"Location": {location}}})
					next, err := at.Resolve(location)
					if whole = err == nil && location != ""; !whole {
						break // the guard's to refuse
					}
					at = next
				}
				if strings.HasPrefix(at.Host(), "rebind.") {
					w.net.SetDNS(at.Host(), fakenet.DNS{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
				}
				if whole {
					w.net.Set(at.String(), fakenet.Answer{Body: "ok"})
				}
				doc, err := w.get(t, fetch.Request{URL: first})
				if (err == nil) != (v.Verdict == "allow") {
					t.Errorf("%s (%s): %+v, %v; want %s", v.ID, v.Why, doc, err, v.Verdict)
				}
				if err == nil && len(doc.Hops) != len(v.Chain)-1 {
					t.Errorf("%s: hops %v", v.ID, doc.Hops)
				}
				for _, d := range w.net.Dials() {
					if !publicnet.IsPublic(d.Addr()) {
						t.Errorf("%s: dialled %s", v.ID, d)
					}
				}
			})
		}
	}
	if cases == 0 {
		t.Error("no cases")
	}
}
