package search

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/index"
)

// rest reads all pages after one.
func rest(t testing.TB, x *Index, text string, limit int, page *Page) []string {
	t.Helper()
	var got []string
	for page.Next != nil {
		page = search(t, x, Query{Text: text, Limit: limit, After: page.Next})
		got = append(got, urls(page)...)
	}
	return got
}

func update(t testing.TB, x *Index, seq int64, apps ...app) {
	t.Helper()
	var changes []index.Change
	for _, a := range apps {
		e := a.entry(t)
		e.Seq = seq
		changes = append(changes, index.Change{Seq: seq, Op: index.Upsert, ID: e.ID, Entry: e})
	}
	x.gen.Store(x.gen.Load().apply(index.Head{Epoch: "e", Seq: seq}, changes))
}

func remove(x *Index, seq int64, cardURLs ...string) {
	var changes []index.Change
	for _, u := range cardURLs {
		changes = append(changes, index.Change{Seq: seq, Op: index.Delete, ID: index.ID(u)})
	}
	x.gen.Store(x.gen.Load().apply(index.Head{Epoch: "e", Seq: seq}, changes))
}

// What the entry of a cursor becomes, and what comes and goes elsewhere, moves
// no entry that stays as it is.
func TestRule_IX44_TheCursorsOwnEntryChanges(t *testing.T) {
	host := func(cardURL string) string {
		return strings.TrimSuffix(strings.TrimPrefix(cardURL, "https://"), "/card")
	}
	unrelated := func(title string, n int) (out []app) {
		for i := range n {
			out = append(out, simple(fmt.Sprintf("new%s%d.com", strings.ToLower(title), i), title, ""))
		}
		return out
	}
	for name, change := range map[string]func(x *Index, last string){
		"deleted":               func(x *Index, last string) { remove(x, 99, last) },
		"deleted, 3 more match": func(x *Index, last string) { remove(x, 98, last); update(t, x, 99, unrelated("Chess", 3)...) },
		"deleted, 50 unrelated": func(x *Index, last string) { remove(x, 98, last); update(t, x, 99, unrelated("Weather", 50)...) },
		"50 unrelated":          func(x *Index, _ string) { update(t, x, 99, unrelated("Weather", 50)...) },
		"retitled":              func(x *Index, last string) { update(t, x, 99, simple(host(last), "Chess and other games", "")) },
		"retitled, worth more": func(x *Index, last string) {
			update(t, x, 99, app{URL: last, Name: "org.chess/chess", Title: "Chess", Tags: []string{"chess"}})
		},
		"matches no more": func(x *Index, last string) { update(t, x, 99, simple(host(last), "Weather", "")) },
		"stale": func(x *Index, last string) {
			a := simple(host(last), "Chess", "")
			a.State = index.Stale
			update(t, x, 99, a)
		},
		"another word becomes common": func(x *Index, last string) { remove(x, 98, last); update(t, x, 99, unrelated("Openings", 200)...) },
		"new beginnings":              func(x *Index, last string) { remove(x, 98, last); update(t, x, 99, unrelated("Chessboard", 100)...) },
	} {
		for _, text := range []string{"chess", "chess openings", "openings che", "chess openings endgames"} {
			for _, limit := range []int{7, 10, 20} {
				var apps []app
				for i := range 60 {
					a := simple(fmt.Sprintf("h%d-a.com", i), "Chess", "")
					if text != "chess" {
						a.Title += []string{"", " openings", " openings and endgames", " endgames"}[i%4]
						a.Description = []string{"An app.", "Openings", "Chess boards"}[i%3]
					}
					apps = append(apps, a)
				}
				x := indexOf(t, apps...)
				before := all(t, x, text, MaxLimit)
				page := search(t, x, Query{Text: text, Limit: limit})
				got := urls(page)
				last := got[len(got)-1]
				change(x, last)
				got = append(got, rest(t, x, text, limit, page)...)
				count := make(map[string]int)
				for _, u := range got {
					count[u]++
				}
				for _, u := range before {
					if count[u] != 1 {
						t.Errorf("%s, %q, pages of %d: %s comes %d times", name, text, limit, u, count[u])
						break
					}
				}
			}
		}
	}
}

// Entries that stay come once, whatever happens between any two pages.
func TestRule_IX44_RandomChanges(t *testing.T) {
	for seed := range uint64(15) {
		r := rand.New(rand.NewPCG(seed, 3))
		var apps []app
		for n := range 120 {
			apps = append(apps, randomApp(r, n))
		}
		for range 5 {
			x := indexOf(t, apps...)
			text, limit := randomQuery(r), r.IntN(12)+3
			stay := make(map[string]bool)
			before := all(t, x, text, MaxLimit)
			for _, u := range before {
				stay[u] = true
			}
			page := search(t, x, Query{Text: text, Limit: limit})
			got := urls(page)
			for seq := int64(200); page.Next != nil; seq++ {
				gone := apps[r.IntN(len(apps))].URL
				delete(stay, gone)
				remove(x, seq, gone)
				for range 5 {
					a := randomApp(r, 1000+r.IntN(1000))
					a.URL = strings.Replace(a.URL, "https://", "https://new.", 1)
					update(t, x, seq, a)
				}
				page = search(t, x, Query{Text: text, Limit: limit, After: page.Next})
				got = append(got, urls(page)...)
			}
			count := make(map[string]int)
			for _, u := range got {
				count[u]++
			}
			for u := range stay {
				if count[u] != 1 {
					t.Fatalf("seed %d, %q, pages of %d: %s comes %d times", seed, text, limit, u, count[u])
				}
			}
		}
	}
}

// Counts that no page gave are refused, not trusted.
func TestPosition_brokenCounts(t *testing.T) {
	x := indexOf(t, simple("a.example", "Chess", ""))
	for _, counts := range [][]byte{{1}, {0, 0xFF}, {0, 5, 1, 2}, {0, 5, 1, 2, 3, 4}, {0, 5, 1, 2, 3, 4, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F}, make([]byte, maxCounts+1)} {
		if _, err := x.Search(t.Context(), Query{Text: "chess", Limit: 1, After: &Position{Depth: 1, Counts: counts}}); !errors.Is(err, ErrQuery) {
			t.Errorf("%v: %v", counts, err)
		}
	}
}

// vocabularyOf is a generation whose dictionary has n terms that begin with
// "zz" and as many with one Chinese character, in several segments.
func vocabularyOf(n, segments int) *generation {
	var views []view
	for k := range segments {
		s := &segment{entries: []*index.Entry{{ID: fmt.Sprint("e", k)}}, standing: []uint8{100}}
		for i := range n / segments {
			s.terms = append(s.terms, fmt.Sprintf("zz%07d", i*segments+k), "天"+string(rune(0x4E00+i)))
		}
		slices.Sort(s.terms)
		s.starts = make([]uint32, len(s.terms)+1)
		s.docs, s.parts = make([]uint32, len(s.terms)), make([]uint16, len(s.terms))
		for i := range s.terms {
			s.starts[i+1] = uint32(i + 1)
			s.parts[i] = 1000
		}
		views = append(views, view{segment: s})
	}
	return newGeneration(index.Head{}, views)
}

// A beginning of a million terms costs little memory, finds the best 64, and
// ends when its time is up.
func TestRule_IX40_BeginningsAreBounded(t *testing.T) {
	const n = 200_000
	g := vocabularyOf(n, 4)
	all := func(string) bool { return true }
	for _, p := range []string{"zz", "天"} {
		ctx, cancel := context.WithCancel(t.Context())
		looked := 0
		_, err := g.counts().beginning(ctx, p, 64, func(string) bool {
			if looked++; looked == 10 {
				cancel()
			}
			return true
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: after its time was up: %v", p, err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		found, err := g.counts().beginning(t.Context(), p, 64, all)
		runtime.ReadMemStats(&after)
		if err != nil || len(found) != 64 {
			t.Fatalf("%s: %d terms, %v", p, len(found), err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
			t.Errorf("%s: %d bytes for %d terms", p, used, n)
		}
	}
	found, err := g.counts().beginning(t.Context(), "zz", 3, func(term string) bool { return term != "zz0000001" })
	if err != nil || found[0].term != "zz0000000" || found[1].term != "zz0000002" || found[2].term != "zz0000003" {
		t.Errorf("%v, %v", found, err)
	}
	// Through a whole search, too.
	x := New(nil)
	x.gen.Store(g)
	for _, q := range []string{"zz", "天"} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := g.counts().analyze(ctx, q); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", q, err)
		}
	}
}

// The beginnings of several segments are those of one.
func TestBeginning_equalsASort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 9))
	for range 50 {
		var apps []app
		for n := range 80 {
			apps = append(apps, randomApp(r, n))
		}
		g := generationOf(t, apps[:20]...)
		df := make(map[string]int)
		for _, a := range apps[20:] {
			e := a.entry(t)
			g = g.apply(index.Head{}, []index.Change{{Op: index.Upsert, ID: e.ID, Entry: e}})
		}
		p := []string{"ta", "c", "天", "run", "x", "zz"}[r.IntN(6)]
		for _, v := range g.views {
			for i, term := range v.terms {
				if n := v.df(i); n > 0 && strings.HasPrefix(term, p) {
					df[term] += n
				}
			}
		}
		want := []alt{}
		for term, n := range df {
			want = append(want, alt{term: term, df: n})
		}
		slices.SortFunc(want, byEntries)
		most := r.IntN(8) + 1
		want = want[:min(most, len(want))]
		got, err := g.counts().beginning(t.Context(), p, most, func(string) bool { return true })
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v (%v)", p, got, want, err)
		}
	}
}

// One entry cannot fill the dictionary, however many tags or capitals it has.
func TestEntry_bringsFewTerms(t *testing.T) {
	many := simple("a.example", "Chess", "")
	for i := range 20_000 {
		many.Tags = append(many.Tags, fmt.Sprintf("tag%d", i))
	}
	camel := simple("b.example", "Chess", "")
	for i := range 2_000 {
		word := ""
		for k := range 20 {
			word += fmt.Sprintf("%c%c%c", 'A'+(i+k)%26, 'a'+i%26, 'a'+i/26%26)
		}
		camel.CatalogText += word + " "
	}
	for _, a := range []app{many, camel} {
		if n := len(newAnalyzer().terms(a.entry(t))); n > maxFieldTerms*(2+2*maxParts) || n < 200 {
			t.Errorf("%s brings %d terms", a.URL, n)
		}
	}
	if n := len(newAnalyzer().terms(many.entry(t))); n > 2*maxFieldTerms {
		t.Errorf("20,000 tags bring %d terms", n)
	}
}

// A query of which nothing can be seen is the listing.
func TestSearch_blankQueries(t *testing.T) {
	x := indexOf(t, simple("a.example", "Chess", ""), simple("b.example", "Go", ""))
	for _, text := range []string{"", " ", "\t\n", "\u202E\u2066", "\u200B", "\u200D \uFE0F", "\u3000", "\x00"} {
		if got := find(t, x, text, 10); len(got) != 2 {
			t.Errorf("%q finds %d", text, len(got))
		}
	}
	if got := find(t, x, "!", 10); len(got) != 0 {
		t.Errorf("a query without words finds %d", len(got))
	}
	if got := CleanQuery(" a\u202Eb "); got != "ab" {
		t.Errorf("%q", got)
	}
}
