package fetch_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Documents R4: the exact type first, JSON after it, and validators as they came.
func TestRule_DocumentsR4_HeadersSent(t *testing.T) {
	inWorld(t, "-- GET https://apps.example.com/card --\n{}\n", func(t *testing.T, w *world) {
		for _, etag := range []string{`"1"`, `W/"1"`, `unquoted`, `"a b"`} {
			w.net.Reset()
			_, err := w.get(t, fetch.Request{
				Accept:     "application/mcp-server-card+json",
				Validators: fetch.Validators{FinalURL: cardURL, ETag: etag},
			})
			if err != nil {
				t.Fatal(err)
			}
			want := http.Header{
				"Accept":          {"application/mcp-server-card+json, application/json;q=0.9, */*;q=0.1"},
				"Accept-Encoding": {"gzip"},
				"If-None-Match":   {etag},
				"User-Agent":      {"Test/1"},
			}
			if diff := cmp.Diff(want, w.net.Requests()[0].Header); diff != "" {
				t.Errorf("%s: headers (-want +got):\n%s", etag, diff)
			}
		}
		w.net.Reset()
		const date = "Tue, 01 Jul 2025 00:00:00 GMT"
		if _, err := w.get(t, fetch.Request{Validators: fetch.Validators{FinalURL: cardURL, LastModified: date}}); err != nil {
			t.Fatal(err)
		}
		if h := w.net.Requests()[0].Header; h.Get("If-Modified-Since") != date || h.Get("If-None-Match") != "" || h.Get("Accept") != "*/*" {
			t.Errorf("headers %v", h)
		}
	})
}

// Crawler C1: both validators, the tag byte for byte.
func TestRule_CrawlerC1_BothValidators(t *testing.T) {
	inWorld(t, "-- GET https://apps.example.com/card --\n{}\n", func(t *testing.T, w *world) {
		v := fetch.Validators{FinalURL: cardURL, ETag: `W/"x"`, LastModified: "Tue, 01 Jul 2025 00:00:00 GMT"}
		if _, err := w.get(t, fetch.Request{Validators: v}); err != nil {
			t.Fatal(err)
		}
		if h := w.net.Requests()[0].Header; h.Get("If-None-Match") != v.ETag || h.Get("If-Modified-Since") != v.LastModified {
			t.Errorf("headers %v", h)
		}
	})
}

const conditionalStory = `
-- GET https://apps.example.com/card --
301 https://www.example.com/card
ETag: "asked"
-- GET https://www.example.com/card --
200
ETag: "1"
Last-Modified: Tue, 01 Jul 2025 00:00:00 GMT
X-Robots-Tag: noindex

{}
`

// Crawler C2: validators go to the URL that they came from, and to no other.
func TestRule_CrawlerC2_ValidatorsOnlyToFinalURL(t *testing.T) {
	inWorld(t, conditionalStory, func(t *testing.T, w *world) {
		doc, err := w.get(t, fetch.Request{Validators: fetch.Validators{FinalURL: "https://www.example.com/card", ETag: `"1"`}})
		if err != nil || !doc.NotModified || doc.Status != 304 || doc.Body != nil || doc.Hash != "" {
			t.Fatalf("%+v, %v", doc, err)
		}
		got := w.net.Requests()
		if len(got) != 2 || got[0].Header.Get("If-None-Match") != "" || got[1].Header.Get("If-None-Match") != `"1"` {
			t.Errorf("requests %v", got)
		}
		// The first hop has moved: its own tag must not follow the redirect.
		w.net.Reset()
		doc, err = w.get(t, fetch.Request{Validators: fetch.Validators{FinalURL: cardURL, ETag: `"1"`, LastModified: "Tue, 01 Jul 2025 00:00:00 GMT"}})
		if err != nil || doc.NotModified || string(doc.Body) != "{}\n" {
			t.Fatalf("%+v, %v", doc, err)
		}
		if h := w.net.Requests()[1].Header; h.Get("If-None-Match") != "" || h.Get("If-Modified-Since") != "" || h.Get("Referer") != "" {
			t.Errorf("second hop got %v", h)
		}
	})
}

// Crawler C4, documents R6, FO-09: a 304 that nobody asked for is an error,
// and one thin 304 to a conditional request is an answer.
func TestRule_CrawlerC4_Unasked304(t *testing.T)   { testUnasked304(t) }
func TestRule_DocumentsR6_Unasked304(t *testing.T) { testUnasked304(t) }
func TestRule_FO09_ThinNotModified(t *testing.T)   { testUnasked304(t) }

func testUnasked304(t *testing.T) {
	inWorld(t, "-- GET https://apps.example.com/card --\n304\n", func(t *testing.T, w *world) {
		if doc, err := w.get(t, fetch.Request{}); !errors.Is(err, publicnet.ErrBadAnswer) {
			t.Errorf("%+v, %v", doc, err)
		}
		doc, err := w.get(t, fetch.Request{Validators: fetch.Validators{FinalURL: cardURL, ETag: `"1"`}})
		if err != nil || !doc.NotModified {
			t.Errorf("%+v, %v", doc, err)
		}
		// Validators of another URL make no conditional request.
		_, err = w.get(t, fetch.Request{Validators: fetch.Validators{FinalURL: cardURL + "/", ETag: `"1"`}})
		if !errors.Is(err, publicnet.ErrBadAnswer) {
			t.Errorf("304 with foreign validators: %v", err)
		}
		if n := len(w.net.Requests()); n != 3 {
			t.Errorf("%d requests, want 3: no loop", n)
		}
	})
}

// Crawler C9: Apache never answers 304 to a tag that it marked itself.
func TestRule_CrawlerC9_ApacheGzipTags(t *testing.T) {
	inWorld(t, "-- GET https://apps.example.com/card --\n{}\n", func(t *testing.T, w *world) {
		for etag, want := range map[string]string{`"5a-gzip"`: "identity", `W/"5a-gzip"`: "identity", `"5a"`: "gzip", `"gzip"`: "gzip"} {
			w.net.Reset()
			if _, err := w.get(t, fetch.Request{Validators: fetch.Validators{FinalURL: cardURL, ETag: etag}}); err != nil {
				t.Fatal(err)
			}
			h := w.net.Requests()[0].Header
			if h.Get("Accept-Encoding") != want || h.Get("If-None-Match") != etag {
				t.Errorf("%s: %v", etag, h)
			}
		}
	})
}

// FO-08: a tag that changed on the way goes back as it came, and a new tag over
// the same bytes leaves the hash as it was.
func TestRule_FO08_ChangedTags(t *testing.T) {
	inWorld(t, `
-- GET https://apps.example.com/card --
200
ETag: W/"abc"

{}
-- GET https://apps.example.com/card --
200
ETag: "other"

{}
`, func(t *testing.T, w *world) {
		first, err := w.get(t, fetch.Request{})
		if err != nil {
			t.Fatal(err)
		}
		second, err := w.get(t, fetch.Request{Validators: fetch.Validators{FinalURL: first.FinalURL, ETag: first.Header.Get("ETag")}})
		if err != nil || second.Hash != first.Hash {
			t.Errorf("%+v, %v", second, err)
		}
		if got := w.net.Requests()[1].Header.Get("If-None-Match"); got != `W/"abc"` {
			t.Errorf("sent %s", got)
		}
	})
}
