package fetch_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/tools/txtar"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

const cardURL = "https://apps.example.com/card"

// world is a story and a client that sees it.
type world struct {
	net    *fakenet.Net
	client *http.Client
}

// inWorld runs f in a bubble with the story.
func inWorld(t *testing.T, story string, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := fakenet.New()
		defer n.Close()
		if rest, err := n.Load(txtar.Parse([]byte(story))); err != nil || len(rest) > 0 {
			t.Fatalf("load story: %v, rest %v", err, rest)
		}
		network, err := publicnet.New(&publicnet.Options{UserAgent: "Test/1", Below: n.Below()})
		if err != nil {
			t.Fatal(err)
		}
		client := network.Client()
		defer client.CloseIdleConnections()
		f(t, &world{n, client})
	})
}

func (w *world) get(t *testing.T, r fetch.Request) (*fetch.Document, error) {
	t.Helper()
	if r.URL.IsZero() {
		r.URL = parse(t, cardURL)
	}
	return fetch.Get(t.Context(), w.client, &r)
}

func parse(t *testing.T, s string) weburl.URL {
	t.Helper()
	u, err := weburl.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestGet(t *testing.T) {
	inWorld(t, `
-- GET https://apps.example.com/card --
200
Content-Type: Application/JSON; charset=utf-8
ETag: "1"

{}
`, func(t *testing.T, w *world) {
		begin := time.Now()
		doc, err := w.get(t, fetch.Request{})
		if err != nil {
			t.Fatal(err)
		}
		want := &fetch.Document{
			URL: cardURL, FinalURL: cardURL, Status: 200, Header: doc.Header, Body: []byte("{}\n"),
			Hash: "ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356", FetchedAt: begin,
		}
		if diff := cmp.Diff(want, doc); diff != "" {
			t.Errorf("document (-want +got):\n%s", diff)
		}
		if got := doc.ContentType(); got != "application/json" {
			t.Errorf("content type %q", got)
		}
		if doc.Header.Get("ETag") != `"1"` {
			t.Errorf("header %v", doc.Header)
		}
	})
}

func TestContentType(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "text/HTML": "text/html", "Application/AI-Catalog+JSON ; x=y": "application/ai-catalog+json",
		"application/json; charset": "application/json", "application/json;;": "application/json", "  ; x": "",
	} {
		d := &fetch.Document{Header: http.Header{"Content-Type": {in}}}
		if got := d.ContentType(); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestAnyStatusIsADocument(t *testing.T) {
	inWorld(t, `
-- GET https://apps.example.com/card --
410
X-Robots-Tag: noindex

gone
`, func(t *testing.T, w *world) {
		doc, err := w.get(t, fetch.Request{})
		if err != nil || doc.Status != 410 || string(doc.Body) != "gone\n" || doc.Header.Get("X-Robots-Tag") != "noindex" {
			t.Errorf("%+v, %v", doc, err)
		}
	})
}

func TestTruncate(t *testing.T) {
	inWorld(t, "-- GET https://apps.example.com/card --\n0123456789", func(t *testing.T, w *world) {
		doc, err := w.get(t, fetch.Request{MaxBytes: 4, Truncate: true})
		if err != nil || string(doc.Body) != "0123" || !doc.Truncated || doc.Hash == "" {
			t.Errorf("%+v, %v", doc, err)
		}
		if doc, err = w.get(t, fetch.Request{MaxBytes: 11, Truncate: true}); err != nil || doc.Truncated || len(doc.Body) != 11 {
			t.Errorf("%+v, %v", doc, err)
		}
		if _, err = w.get(t, fetch.Request{MaxBytes: 10}); !errors.Is(err, publicnet.ErrTooLarge) {
			t.Errorf("11 octets, limit 10: %v", err)
		}
	})
}

func TestBrokenAnswers(t *testing.T) {
	inWorld(t, `
-- GET https://cut.example.com/ --
200
cut

{"half": "of this"}
-- GET https://reset.example.com/ --
reset
-- GET https://timeout.example.com/ --
timeout
-- GET https://slow.example.com/ --
200
slow

0123456789abcdef
-- GET https://expired.example.com/ --
tls-expired
-- GET https://self.example.com/ --
tls-selfsigned
-- DNS nx.example.com --
nxdomain
-- CONNECT refused.example.com --
refused
-- CONNECT silent.example.com --
timeout
-- GET https://part.example.com/ --
206

x
`, func(t *testing.T, w *world) {
		for host, want := range map[string]error{
			"cut": publicnet.ErrBadAnswer, "reset": publicnet.ErrConnect, "timeout": publicnet.ErrTimeout, "slow": publicnet.ErrTimeout,
			"expired": publicnet.ErrTLS, "self": publicnet.ErrTLS, "nx": publicnet.ErrDNS, "refused": publicnet.ErrConnect,
			"silent": publicnet.ErrTimeout, "part": publicnet.ErrBadAnswer, "unheard": publicnet.ErrDNS,
		} {
			begin := time.Now()
			doc, err := w.get(t, fetch.Request{URL: parse(t, "https://"+host+".example.com/")})
			if !errors.Is(err, want) {
				t.Errorf("%s: %+v, %v; want %v", host, doc, err, want)
			}
			if want == publicnet.ErrTimeout && time.Since(begin) != 10*time.Second {
				t.Errorf("%s: ended after %s", host, time.Since(begin))
			}
		}
	})
}

func TestCallerEndsTheFetch(t *testing.T) {
	inWorld(t, "-- GET https://apps.example.com/card --\ntimeout\n", func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := fetch.Get(ctx, w.client, &fetch.Request{URL: parse(t, cardURL)}); !errors.Is(err, context.Canceled) {
			t.Errorf("canceled: %v", err)
		}
		if _, err := fetch.Get(t.Context(), w.client, &fetch.Request{}); err == nil {
			t.Error("a request without URL was made")
		}
	})
}

// The request line carries what the normal form says, octet for octet.
func TestTargetIsSentAsWritten(t *testing.T) {
	for _, target := range []string{
		"/", "/?", "/a?b=c", "/a%2fb", "/%7Ea", "/{a}(b)[c]|", "/a?{b}", "//a", "//a{b}", "/a;b,c'd\"e", "/a?b?c", "/+%20", "/a:b", "/*",
	} {
		inWorld(t, "", func(t *testing.T, w *world) {
			url := "https://apps.example.com" + target
			w.net.Set(url, fakenet.Answer{Body: "found"})
			doc, err := w.get(t, fetch.Request{URL: parse(t, url)})
			if err != nil || string(doc.Body) != "found" {
				t.Errorf("%s: %+v, %v; server saw %v", target, doc, err, w.net.Requests())
			}
		})
	}
}

// D13: reading a document asks nobody's robots.txt; that is Before's to do.
func TestRule_D13_NoRobotsOfItsOwn(t *testing.T) {
	inWorld(t, conditionalStory, func(t *testing.T, w *world) {
		if _, err := w.get(t, fetch.Request{}); err != nil {
			t.Fatal(err)
		}
		for _, r := range w.net.Requests() {
			if strings.HasSuffix(r.URL, "/robots.txt") {
				t.Errorf("asked for %s", r.URL)
			}
		}
	})
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A body takes no more memory than it has octets, about, whether the server
// tells its length or not.
func TestBodyFits(t *testing.T) {
	inWorld(t, "", func(t *testing.T, w *world) {
		size, flush := 0, false
		w.net.Handle("apps.example.com", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			if flush {
				rw.(http.Flusher).Flush()
			}
			_, _ = rw.Write([]byte(strings.Repeat("x", size)))
		}))
		for _, size = range []int{0, 1, 2047, 2048, 2049, publicnet.SmallBody, publicnet.SmallBody + 1, 300_000, publicnet.DefaultMaxBytes} {
			for _, flush = range []bool{false, true} {
				d, err := w.get(t, fetch.Request{})
				if err != nil || len(d.Body) != size {
					t.Fatalf("%d octets, flush %v: %d, %v", size, flush, len(d.Body), err)
				}
				if most := size + size/8 + 64; cap(d.Body) > most+1 {
					t.Errorf("%d octets, flush %v: %d are held", size, flush, cap(d.Body))
				}
			}
		}
		size = publicnet.DefaultMaxBytes + 1
		for _, flush = range []bool{false, true} {
			if _, err := w.get(t, fetch.Request{}); !errors.Is(err, publicnet.ErrTooLarge) {
				t.Errorf("one octet too many, flush %v: %v", flush, err)
			}
			if d, err := w.get(t, fetch.Request{Truncate: true}); err != nil || !d.Truncated || len(d.Body) != publicnet.DefaultMaxBytes {
				t.Errorf("cut, flush %v: %v", flush, err)
			}
		}
	})
}
