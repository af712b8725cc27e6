package crawl

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

func validators(r fakenet.Request) string {
	return strings.TrimSpace(strings.Join(r.Header["If-None-Match"], ",") + " " + strings.Join(r.Header["If-Modified-Since"], ","))
}

// C1, FO-08: validators go back byte for byte, weak and unquoted ones too.
func TestRule_CrawlerC1_ValidatorsByteForByte(t *testing.T) { once(t, "byteForByte", byteForByte) }

func TestRule_FO08_ETagsChangeOnTheWay(t *testing.T) {
	once(t, "byteForByte", byteForByte)
	once(t, "sameBytesNewTag", sameBytesNewTag)
}

func byteForByte(t *testing.T) {
	for _, tag := range []string{`"abc"`, `W/"abc"`, `abc`, `"a b\c"`} {
		rule(t, func(t *testing.T, w *world) {
			w.page(catURL, "", catalogJSON(cardURL))
			w.page(cardURL, "ETag: "+tag+"\nLast-Modified: Fri, 31 Dec 1999 10:00:00 GMT", cardJSON("com.example/notes", ""))
			w.add("apps.example.com")
			w.until(30 * time.Hour)
			r := w.requests(cardURL)
			if len(r) != 2 || validators(r[0]) != "" || validators(r[1]) != tag+" Fri, 31 Dec 1999 10:00:00 GMT" {
				t.Errorf("%s: requests %v, validators %q", tag, r, validators(r[len(r)-1]))
			}
			w.wantState(cardURL, "listed")
		})
	}
}

// C2: validators are sent to the final URL only; a new one drops them.
func TestRule_CrawlerC2_OnlyToTheFinalURL(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "302 /v1/card", "")
		w.page(appsHost+"/v1/card", `ETag: "1"`, cardJSON("com.example/notes", ""))
		w.page(appsHost+"/v2/card", `ETag: "1"`, cardJSON("com.example/notes2", ""))
		w.add("apps.example.com")
		w.until(30 * time.Hour)
		if r := w.requests(appsHost + "/v1/card"); len(r) != 2 || validators(r[1]) != `"1"` {
			t.Errorf("final URL: %v", r)
		}
		w.page(cardURL, "302 /v2/card", "")
		w.until(80 * time.Hour)
		for _, r := range append(w.requests(cardURL), w.requests(appsHost + "/v2/card")[0]) {
			if validators(r) != "" {
				t.Errorf("%s got the validators %s", r, validators(r))
			}
		}
		if e := w.entry(cardURL); e.Name != "com.example/notes2" || e.FinalURL != appsHost+"/v2/card" {
			t.Errorf("entry %+v", e)
		}
	})
}

// C3: a 200 with the same bytes is "unchanged"; its headers are read all the
// same.
func TestRule_CrawlerC3_SameBytes(t *testing.T) {
	once(t, "sameBytesNewTag", sameBytesNewTag)
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.page(cardURL, "X-Robots-Tag: noindex", cardJSON("com.example/notes", ""))
		w.until(30 * time.Hour)
		w.wantState(cardURL, "removed noindex")
	})
}

func sameBytesNewTag(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		seq := w.entry(cardURL).Seq
		w.page(catURL, `ETag: "cat-2"`, catalogJSON(cardURL))
		w.page(cardURL, `ETag: W/"card-2"`, cardJSON("com.example/notes", ""))
		w.until(30 * time.Hour)
		if w.outcome(cardURL) != "unchanged" || w.outcome(catURL) != "unchanged" || w.entry(cardURL).Seq != seq {
			t.Errorf("card %s, catalog %s, seq %d then %d", w.outcome(cardURL), w.outcome(catURL), seq, w.entry(cardURL).Seq)
		}
		if d := w.doc(cardURL); d.ETag != `W/"card-2"` {
			t.Errorf("stored tag %s", d.ETag)
		}
	})
}

// C4: a 304 to a request without validators is a failure.
func TestRule_CrawlerC4_UnaskedNotModified(t *testing.T) { once(t, "unasked304", unasked304) }

func TestRule_DocumentsR6_NotModified(t *testing.T) {
	once(t, "unasked304", unasked304)
	once(t, "thin304", thin304)
	once(t, "noIndexRoundTrip", noIndexRoundTrip)
}

func unasked304(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "304", "")
		w.add("apps.example.com")
		w.until(30 * time.Minute)
		if w.outcome(cardURL) != "unreachable" || w.stands(cardURL) != "-" {
			t.Fatalf("outcome %s, entry %s", w.outcome(cardURL), w.stands(cardURL))
		}
		if n := len(w.requests(cardURL)); n > 2 {
			t.Errorf("asked %d times at once", n)
		}
	})
}

// C5, FO-09: a 304 keeps stored headers that it does not send anew.
func TestRule_CrawlerC5_HeadersOf304(t *testing.T) {
	once(t, "thin304", thin304)
	once(t, "noIndexRoundTrip", noIndexRoundTrip)
}
func TestRule_FO09_ThinNotModified(t *testing.T) { once(t, "thin304", thin304) }

func thin304(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(cardURL, "ETag: \"1\"\nCache-Control: max-age=7200\nLink: </c.json>; rel=ai-catalog", cardJSON("com.example/notes", ""))
		w.page(appsHost+"/c.json", "", catalogJSON(cardURL))
		w.add(cardURL)
		w.settle()
		w.wantState(cardURL, "listed")
		w.page(cardURL, "304", "")
		w.until(90 * time.Hour)
		w.wantState(cardURL, "listed")
		d := w.doc(cardURL)
		if d.CacheControl != "max-age=7200" || len(d.Link) != 1 || d.ETag != `"1"` || d.Body == nil {
			t.Errorf("stored: %+v", d)
		}
		for _, r := range w.requests(cardURL)[1:] {
			if validators(r) == "" {
				t.Errorf("%s at %s without validators", r, r.Time)
			}
		}
	})
}

// C6: while noindex is stored, a card is asked for without validators.
func TestRule_CrawlerC6_NoIndexWithoutValidators(t *testing.T) {
	once(t, "noIndexRoundTrip", noIndexRoundTrip)
}

// C7: a full GET at least once in 30 days.
func TestRule_CrawlerC7_FullGet(t *testing.T) { once(t, "fullGetEvery30Days", fullGetEvery30Days) }

func fullGetEvery30Days(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.until(120 * day)
		var last time.Time
		full := 0
		for _, r := range w.requests(cardURL) {
			if validators(r) != "" {
				continue
			}
			if !last.IsZero() && r.Time.Sub(last) > 30*day {
				t.Errorf("%s between two full GETs", r.Time.Sub(last))
			}
			last = r.Time
			full++
		}
		if full < 4 || full > 6 {
			t.Errorf("%d full GETs in 120 days", full)
		}
	})
}

// C8: a 304 proves a complete catalog only over stored bytes.
func TestRule_CrawlerC8_OverStoredBytes(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		w.until(60 * time.Hour)
		if d := w.doc(catURL); w.outcome(catURL) != "unchanged" || string(d.Body) != catalogJSON(cardURL)+"\n" || d.ETag != `"cat"` {
			t.Errorf("%s, %+v", w.outcome(catURL), d)
		}
		w.wantState(cardURL, "listed")
		// An error in between does not part tag and bytes.
		w.page(catURL, "500", "")
		w.until(120 * time.Hour)
		w.page(catURL, `ETag: "cat"`, catalogJSON(cardURL))
		w.until(12 * day)
		w.wantState(cardURL, "listed")
	})
}

// C9: with a tag that Apache has marked, ask for the plain answer.
func TestRule_CrawlerC9_GzipTags(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, `ETag: "abc-gzip"`, cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		w.until(30 * time.Hour)
		r := w.requests(cardURL)
		if r[0].Header.Get("Accept-Encoding") != "gzip" || r[1].Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("Accept-Encoding %q then %q", r[0].Header.Get("Accept-Encoding"), r[1].Header.Get("Accept-Encoding"))
		}
	})
}

// C10: no-store on a card: it is public all the same.
func TestRule_CrawlerC10_NoStore(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "Cache-Control: no-store, private", cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		w.settle()
		w.wantState(cardURL, "listed")
		if at := w.doc(cardURL).NextAt.Sub(w.start); at < 20*time.Hour {
			t.Errorf("next check after %s", at)
		}
	})
}

// C4, documents R6: a 304 when the stored bytes are gone is one plain fetch.
func TestNotModifiedOverLostBytes(t *testing.T) {
	losing := &losingStore{}
	inWorld(t, func(c *Config) { losing.Store = c.Store; c.Store = losing }, func(t *testing.T, w *world) {
		w.published()
		losing.url = cardURL
		w.until(30 * time.Hour)
		w.wantState(cardURL, "listed")
		r := w.requests(cardURL)
		if len(r) != 3 || validators(r[1]) == "" || validators(r[2]) != "" {
			t.Errorf("requests %v", r)
		}
		w.wantGaps(appsHost, time.Second)
	})
}

// losingStore has lost the body of one document.
type losingStore struct {
	index.Store
	url string
}

func (s *losingStore) Doc(ctx context.Context, url string) (*index.Doc, error) {
	d, err := s.Store.Doc(ctx, url)
	if err == nil && url == s.url {
		d.Body = nil
	}
	return d, err
}
