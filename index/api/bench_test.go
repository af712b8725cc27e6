package api

import (
	"fmt"
	"testing"

	"github.com/openbot-build/openbot-go/index"
)

// BenchmarkAnswers measures whole answers by kind: a search and a page of it,
// one app, the search page, and a client that has the answer.
func BenchmarkAnswers(b *testing.B) {
	m := newMemory()
	for i := range 2000 {
		m.put(entryFor(b, fmt.Sprintf("https://h%d-x.com/card", i), fmt.Sprintf("Chess %d", i%50), "Plays chess and other games of the board."))
	}
	s := open(b, m, nil)
	tag := s.get("/v1/apps?q=chess").Header().Get("ETag")
	var next struct{ NextCursor string }
	next.NextCursor, _ = object(b, s.get("/v1/apps?q=chess"))["nextCursor"].(string)
	for _, c := range []struct{ kind, path, have string }{
		{"search", "/v1/apps?q=chess", ""},
		{"next", "/v1/apps?cursor=" + next.NextCursor, ""},
		{"unchanged", "/v1/apps?q=chess", tag},
		{"listing", "/v1/apps?limit=100", ""},
		{"app", "/v1/apps/" + index.ID("https://h7-x.com/card"), ""},
		{"page", "/?q=chess", ""},
		{"stats", "/v1/stats", ""},
	} {
		b.Run(c.kind, func(b *testing.B) {
			for b.Loop() {
				if w := s.get(c.path, "If-None-Match", c.have); w.Code >= 400 {
					b.Fatal(w.Code, w.Body)
				}
			}
		})
	}
}

// BenchmarkItem measures the making of an item, which happens once an entry.
func BenchmarkItem(b *testing.B) {
	e := entryFor(b, "https://h.example.com/card", "Chess", "Plays chess.")
	for b.Loop() {
		if _, err := new(items).of(e); err != nil {
			b.Fatal(err)
		}
	}
}
