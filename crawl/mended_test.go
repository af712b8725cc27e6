package crawl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// D15: a redirected card is removed only when its target was seen gone twice, a
// day apart; the times are those of the target.
func TestRule_D15_RedirectedCardGone(t *testing.T) {
	const cdn = "https://cdn.example.net/card"
	setUp := func(w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "302 "+cdn, "")
		w.page(cdn, `ETag: "1"`, cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		w.settle()
		w.wantState(cardURL, "listed")
		w.page(cdn, "404", "")
	}
	t.Run("back after six hours", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			setUp(w)
			for w.doc(cdn).Fault != index.ReasonGone {
				w.until(time.Since(w.start) + 10*time.Minute)
			}
			w.until(time.Since(w.start) + 6*time.Hour)
			w.page(cdn, `ETag: "1"`, cardJSON("com.example/notes", ""))
			for range 80 {
				w.until(time.Since(w.start) + time.Hour)
				if got := w.stands(cardURL); strings.HasPrefix(got, "removed") {
					t.Fatalf("%s: %s", got, w.sentence(cardURL))
				}
			}
			w.wantState(cardURL, "listed")
		})
	})
	t.Run("gone for good", func(t *testing.T) {
		rule(t, func(t *testing.T, w *world) {
			setUp(w)
			w.until(4 * day)
			w.wantState(cardURL, "removed card_gone")
		})
	})
}

// OB-134, D14: one nested part that asks for noindex does not make up for
// another that cannot be read.
func TestRule_OB134_NoIndexAndUnreadParts(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(catURL, "", nestedJSON(appsHost+"/a.json", appsHost+"/b.json"))
		w.page(appsHost+"/a.json", "X-Robots-Tag: noindex", catalogJSON())
		w.page(appsHost+"/b.json", "", catalogJSON(cardURL))
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		w.add("apps.example.com")
		w.settle()
		w.wantState(cardURL, "listed")
		w.page(appsHost+"/b.json", "500", "")
		w.until(60 * time.Hour)
		w.wantState(cardURL, "stale unconfirmed")
	})
}

// D7: what a root is redirected to is a root, and its parts are read.
func TestRule_D7_PartsOfARedirectedRoot(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		const www = "https://www.example.com"
		w.page("https://example.com"+wellKnownPath, "302 "+www+"/catalogs/main.json", "")
		w.page(www+"/catalogs/main.json", "", nestedJSON(www+"/catalogs/part.json"))
		w.page(www+"/catalogs/part.json", "", catalogJSON(www+"/card"))
		w.page(www+wellKnownPath, "", catalogJSON(www+"/card"))
		w.page(www+"/card", "", cardJSON("com.example/notes", ""))
		w.add("example.com")
		w.until(day)
		w.wantState(www+"/card", "listed")
	})
}

// D7: many nested catalogs do not hide the other kinds of evidence.
func TestRule_D7_RootsComeFirst(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		var parts []string
		for i := range 60 {
			parts = append(parts, fmt.Sprintf("%s/part/%d", appsHost, i))
			w.page(parts[i], "", catalogJSON())
		}
		w.page(catURL, "", nestedJSON(parts...))
		w.page(cardURL, `Link: </mine.json>; rel=ai-catalog`, cardJSON("com.example/notes", ""))
		w.page(appsHost+"/mine.json", "", catalogJSON(cardURL))
		w.add("apps.example.com", cardURL)
		w.until(day)
		w.wantState(cardURL, "listed")
	})
}

// OB-133, OB-137: a card that was cut off is no invalid one, wherever the cut
// falls.
func TestRule_OB133_CutAtABrace(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		full := cardJSON("com.example/notes", "")
		w.page(cardURL, "Content-Type: application/mcp-server-card+json", full[:strings.LastIndex(full, "}]}")+1])
		w.until(4 * day)
		w.wantState(cardURL, "stale card_unreachable")
		w.page(cardURL, "Content-Type: application/mcp-server-card+json", full+"}")
		w.until(12 * day)
		w.wantState(cardURL, "removed card_invalid")
	})
}

// D17: a catalog that changes all the time costs its own requests, not those of
// all its cards.
func TestRule_D17_NewsIsJudgedFromTheStore(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		var cards []string
		for i := range 40 {
			cards = append(cards, fmt.Sprintf("%s/card/%d", appsHost, i))
			w.page(cards[i], `ETag: "1"`, cardJSON("com.example/notes", ""))
		}
		change := func(hour int) {
			w.page(catURL, "", strings.Replace(catalogJSON(cards...), `{`, fmt.Sprintf(`{"generatedAt": "%d", `, hour), 1))
		}
		change(0)
		w.add("apps.example.com")
		for hour := range 4 * 24 {
			change(hour)
			w.until(time.Duration(hour+1) * time.Hour)
		}
		from := len(w.requests(appsHost))
		for hour := range 24 {
			change(1000 + hour)
			w.until(time.Duration(4*24+hour+1) * time.Hour)
		}
		if n := len(w.requests(appsHost)) - from; n > 90 { // the catalog hourly, each card once at most
			t.Errorf("%d requests in a day for cards that never changed", n)
		}
		w.wantState(cards[0], "listed")
	})
}

// Documents that nobody needs any more are given up, and so is what was
// submitted and never could be read.
func TestRule_OB130_RowsDoNotPileUp(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.page(cardURL, "", cardJSON("com.example/notes", ""))
		for i := range 70 {
			u := fmt.Sprintf("https://cdn.example.net/cat.json?t=%d", i)
			w.page(u, "", catalogJSON(cardURL))
			w.page(catURL, "302 "+u, "")
			if i == 0 {
				w.add("apps.example.com")
				w.add("https://nowhere.example.org/x")
			}
			w.until(time.Duration(i+1) * day)
		}
		st, err := w.store.Stats(t.Context(), time.Now())
		if err != nil || st.Documents > 45 {
			t.Errorf("%d documents, %v", st.Documents, err)
		}
		w.wantState(cardURL, "listed")
		if got := w.outcome("https://nowhere.example.org/x"); got != "dropped" {
			t.Errorf("a submission that never could be read: %s", got)
		}
	})
}

// FO-09: a 304 that names another catalog in its Link header is not enough.
func TestRule_FO09_NewLinkOnA304(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		const site = appsHost + "/about"
		w.page(cardURL, "", cardJSON("com.example/notes", fmt.Sprintf(`, "websiteUrl": %q`, site)))
		w.page(site, "ETag: \"1\"\nLink: </old.json>; rel=ai-catalog", "<html></html>")
		w.page(appsHost+"/old.json", "", catalogJSON())
		w.page(appsHost+"/new.json", "", catalogJSON(cardURL))
		w.add(cardURL)
		w.settle()
		w.page(site, "ETag: \"1\"\nLink: </new.json>; rel=ai-catalog", "<html></html>")
		w.until(4 * day)
		w.wantState(cardURL, "listed")
	})
}

// F6: requests at one address are counted over all visits of a process, and the
// address is stored with the host, for workers to divide hosts by.
func TestRule_CrawlerF6_AddressIsStored(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		w.published()
		h, err := w.store.Host(t.Context(), "apps.example.com")
		if want := addressKey(w.net.Host("apps.example.com")).String(); err != nil || h.IPKey != want {
			t.Errorf("ip_key %q, want %q; %v", h.IPKey, want, err)
		}
	})
}

// fullStore fails every write; slowStore takes too long for more than three
// visits, and counts.
type fullStore struct{ index.Store }

func (fullStore) Apply(context.Context, ...index.Visit) ([]index.Applied, error) {
	return nil, fmt.Errorf("write: %w", index.ErrFull)
}

// The error of the last write is not lost when the crawl is being stopped.
func TestRunReportsTheLastWrite(t *testing.T) {
	inWorld(t, func(c *Config) { c.Store = fullStore{c.Store} }, func(t *testing.T, w *world) {
		w.page(catURL, "", catalogJSON(cardURL))
		w.page(cardURL, "timeout", "")
		w.add("apps.example.com")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := w.c.Run(ctx); !errors.Is(err, index.ErrFull) {
			t.Errorf("Run gave %v", err)
		}
	})
}

type slowStore struct {
	index.Store
	slow, compacted int
}

func (s *slowStore) Apply(ctx context.Context, v ...index.Visit) ([]index.Applied, error) {
	if len(v) > 3 {
		s.slow++
		<-ctx.Done()
		return nil, fmt.Errorf("write: %w", ctx.Err())
	}
	return s.Store.Apply(ctx, v...)
}

func (s *slowStore) Compact(ctx context.Context, before time.Time) (int64, error) {
	s.compacted++
	return s.Store.Compact(ctx, before)
}

// A batch that takes too long is written in halves.
func TestRule_CrawlerF4_SlowBatches(t *testing.T) {
	slow := &slowStore{}
	inWorld(t, func(c *Config) { slow.Store = c.Store; c.Store = slow }, func(t *testing.T, w *world) {
		var hosts []string
		for i := range 6 {
			hosts = append(hosts, fmt.Sprintf("h%d.example.com", i))
			w.page("https://"+hosts[i]+wellKnownPath, "", catalogJSON())
		}
		w.add(hosts...)
		w.until(30 * time.Minute)
		for _, h := range hosts {
			if got := w.outcome("https://" + h + wellKnownPath); got != "read" && got != "unchanged" {
				t.Errorf("%s: %s", h, got)
			}
		}
		if slow.slow == 0 {
			t.Error("no batch was slow")
		}
	})
}

// IX-10: Run compacts the store at its start and once a day.
func TestRule_IX10_RunCompacts(t *testing.T) {
	slow := &slowStore{}
	inWorld(t, func(c *Config) { slow.Store = c.Store; c.Store = slow }, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Hour)
		defer cancel()
		if err := w.c.Run(ctx); err != nil || slow.compacted != 2 {
			t.Errorf("compacted %d times in 25 hours, %v", slow.compacted, err)
		}
	})
}

// A2: the addresses that one judgement rests on are bounded in length.
func TestLongAddresses(t *testing.T) {
	rule(t, func(t *testing.T, w *world) {
		var urls []string
		for i := range 60 {
			urls = append(urls, fmt.Sprintf("%s/%s/%d", evilHost, strings.Repeat("a", 7900), i))
		}
		w.page(evilCat, "", nestedJSON(urls...))
		w.add("evil.example.net")
		w.until(time.Hour)
		size := 0
		for _, u := range w.doc(evilCat).Needs {
			size += len(u)
		}
		if size > maxNeeds {
			t.Errorf("needs of %d octets", size)
		}
	})
}
