package search

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/index"
)

// naive scores a query by the formulas of index.md section 5, in floats and
// over every entry: a second opinion on the index.
func naive(entries []*index.Entry, text string) (tiers map[string]int, scores map[string]float64) {
	a := newAnalyzer()
	type doc struct {
		in  map[string][fieldCount]bool
		len [fieldCount]int
		of  *index.Entry
	}
	var docs []doc
	df := make(map[string]int)
	for _, e := range entries {
		d := doc{in: make(map[string][fieldCount]bool), of: e}
		texts := textsOf(e)
		for f, list := range texts.fields {
			put := func(term string) {
				set := d.in[term]
				set[f] = true
				d.in[term] = set
			}
			for _, s := range list {
				a.tokens(s, func(t token) bool {
					put(t.text)
					put(stem(t.text))
					for _, p := range t.parts {
						put(p)
						put(stem(p))
					}
					if !t.single || t.alone {
						d.len[f]++
					}
					return true
				})
			}
		}
		for term := range d.in {
			df[term]++
		}
		docs = append(docs, d)
	}
	idf := func(term string) float64 {
		n := float64(len(docs))
		return math.Log2(1 + (n-float64(df[term])+0.5)/(float64(df[term])+0.5))
	}
	weights := [fieldCount]float64{5, 4, 3, 3, 1.5, 1}
	means := [fieldCount]float64{5, 8, 4, 6, 30, 22}
	part := func(d doc, term string) float64 {
		v := 0.0
		for f, in := range d.in[term] {
			if in {
				v += weights[f] / (0.5 + 0.5*float64(d.len[f])/means[f])
			}
		}
		return v / (1.2 + v)
	}

	type way map[string]float64 // term to weight
	var ways []way
	var tokens []token
	a.tokens(text, func(t token) bool {
		if (!t.single || t.alone) && !slices.ContainsFunc(tokens, func(x token) bool { return x.text == t.text }) {
			tokens = append(tokens, t)
		}
		return true
	})
	if slices.ContainsFunc(tokens, func(t token) bool { return !isStop(t.text) }) {
		tokens = slices.DeleteFunc(tokens, func(t token) bool { return isStop(t.text) })
	}
	for i, t := range tokens {
		w := way{}
		for _, term := range []string{t.text, stem(t.text)} {
			if df[term] > 0 {
				w[term] = idf(term)
			}
		}
		var begin []string
		for term := range df {
			if strings.HasPrefix(term, t.text) && w[term] == 0 {
				begin = append(begin, term)
			}
		}
		slices.SortFunc(begin, func(a, b string) int { return cmp.Or(df[b]-df[a], strings.Compare(a, b)) })
		switch {
		case t.alone:
			for _, term := range begin {
				if utf8.RuneCountInString(term) == 2 {
					w[term] = idf(term)
				}
			}
		case !t.gram && i == len(tokens)-1 && utf8.RuneCountInString(t.text) > 1:
			for _, term := range begin[:min(64, len(begin))] {
				w[term] = 0.6 * idf(term)
				if df[t.text] > 0 {
					w[term] = 0.6 * min(idf(term), idf(t.text))
				}
			}
		}
		ways = append(ways, w)
	}
	tiers, scores = make(map[string]int), make(map[string]float64)
	count := 0
	for _, d := range docs {
		score, words := 0.0, 0
		for _, w := range ways {
			best := 0.0
			for term, weight := range w {
				best = max(best, weight*part(d, term))
			}
			if best > 0 {
				words++
			}
			score += best
		}
		if words == 0 {
			continue
		}
		for _, title := range textsOf(d.of).fields[fieldTitle] {
			if a.phrase(title) == a.phrase(text) {
				score *= 1.3
				break
			}
		}
		for _, name := range textsOf(d.of).publisherNames {
			if a.phrase(name) == a.phrase(text) {
				score *= 1.3
				break
			}
		}
		scores[d.of.ID] = score * float64(standing(d.of)) / 100
		tiers[d.of.ID] = tierAny
		if words == len(ways) {
			tiers[d.of.ID] = tierAll
			count++
		}
	}
	if count >= 20 {
		for id, tier := range tiers {
			if tier == tierAny {
				delete(tiers, id)
				delete(scores, id)
			}
		}
	}
	return tiers, scores
}

// vocabulary of the random corpora: words that share beginnings, stems and
// characters.
var vocabulary = strings.Fields(`table tables tabled tabular cat cats catalog catalogs category sun suns sunny weather whether wet
	run running runs 天气 天气预报 天 预报 报告 气温 한국어 한국 サーバー café cafe naïve api API k8s 42 4 x`)

func randomApp(r *rand.Rand, n int) app {
	text := func(most int) string {
		var ws []string
		for range r.IntN(most) + 1 {
			ws = append(ws, vocabulary[r.IntN(len(vocabulary))])
		}
		return strings.Join(ws, []string{" ", "", ", "}[r.IntN(3)])
	}
	host := fmt.Sprintf("%s%d.example%d.com", []string{"cat", "sun", "api"}[r.IntN(3)], r.IntN(4), r.IntN(4))
	a := app{
		URL: fmt.Sprintf("https://%s/%d", host, n), Name: "com.example/" + []string{"cat", "table", "run"}[r.IntN(3)],
		Title: text(3), Description: text(12), DisplayName: text(2),
	}
	for range r.IntN(3) {
		a.Tags = append(a.Tags, text(1))
		a.Prompts = append(a.Prompts, text(5))
	}
	if r.IntN(5) == 0 {
		a.State = index.Stale
	}
	return a
}

func randomQuery(r *rand.Rand) string {
	var ws []string
	for range r.IntN(4) + 1 {
		w := []rune(vocabulary[r.IntN(len(vocabulary))])
		if r.IntN(3) == 0 {
			w = w[:r.IntN(len(w))+1]
		}
		ws = append(ws, string(w))
	}
	return strings.Join(ws, " ")
}

// IX-T3: the index against a naive scorer on random small corpora.
func TestRule_IX27_ScoresAsTheFormulas(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		var entries []*index.Entry
		for n := range r.IntN(60) + 1 {
			entries = append(entries, randomApp(r, n).entry(t))
		}
		g := load(index.Head{}, slices.Clone(entries))
		for range 20 {
			text := randomQuery(r)
			q := g.analyze(text)
			m, err := g.score(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			tiers, scores := naive(entries, text)
			got := make(map[string]int)
			plain := m.top(len(entries)+1, nil)
			for _, c := range plain {
				got[m.entry(c).ID] = c.tier()
			}
			if diff := gocmp.Diff(tiers, got); diff != "" {
				t.Fatalf("seed %d, %q: entries and tiers (-naive +index):\n%s", seed, text, diff)
			}
			for _, c := range plain {
				want, have := scores[m.entry(c).ID], float64(c.score())/65536
				if math.Abs(want-have) > 0.002*want+0.001 {
					t.Fatalf("seed %d, %q: score %.4f, naive %.4f of %s", seed, text, have, want, m.entry(c).Document)
				}
			}
		}
	}
}

// flat gives a page as lines, for a comparison.
func flat(p *Page) []string {
	out := []string{fmt.Sprint(p.Tier, p.Words, p.Head, p.Next)}
	for _, h := range p.Hits {
		out = append(out, fmt.Sprint(h.Position, h.Entry.State, string(h.Entry.Document)))
	}
	return out
}

// Any order of upserts and deletes that ends in one state equals a rebuild
// (IX-35), however the segments came about (IX-3).
func TestRule_IX35_UpdatesEqualARebuild(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 2))
		state := make(map[string]*index.Entry)
		g := load(index.Head{}, nil)
		for seq := int64(1); seq < 120; {
			var changes []index.Change
			for range r.IntN(12) + 1 {
				e := randomApp(r, r.IntN(40)).entry(t)
				c := index.Change{Seq: seq, Op: index.Upsert, ID: e.ID, Entry: e}
				if old, ok := state[e.ID]; ok && r.IntN(2) == 0 {
					c.Op, c.Entry = index.Delete, nil
					delete(state, old.ID)
				} else {
					state[e.ID] = e
				}
				changes = append(changes, c)
				seq++
			}
			g = g.apply(index.Head{Seq: seq}, changes)
			if g.live != len(state) {
				t.Fatalf("seed %d: %d live entries, want %d", seed, g.live, len(state))
			}
		}
		fresh := load(g.head, slices.Collect(maps.Values(state)))
		x, y := New(nil), New(nil)
		x.gen.Store(g)
		y.gen.Store(fresh)
		if len(g.views) < 2 {
			t.Fatalf("seed %d: only %d segments, nothing to compare", seed, len(g.views))
		}
		for range 60 {
			text := randomQuery(r)
			if r.IntN(10) == 0 {
				text = ""
			}
			for q := (Query{Text: text, Limit: r.IntN(12) + 1}); ; {
				a, b := search(t, x, q), search(t, y, q)
				if diff := gocmp.Diff(flat(b), flat(a)); diff != "" {
					t.Fatalf("seed %d, %q (-rebuilt +updated):\n%s", seed, text, diff)
				}
				if a.Next == nil {
					break
				}
				q.After = a.Next
			}
		}
		for id := range state {
			if e, ok := x.Entry(id); !ok || e != state[id] {
				t.Fatalf("seed %d: entry %s is not the last one written", seed, id)
			}
		}
	}
}

// Two page sizes, one order (IX-26, IX-44), and each result once.
func TestRule_IX26_AllPageSizesSeeOneOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	var apps []app
	for n := range 150 {
		apps = append(apps, randomApp(r, n))
	}
	x := indexOf(t, apps...)
	for range 40 {
		text := randomQuery(r)
		want := all(t, x, text, MaxLimit)
		seen := make(map[string]bool)
		for _, u := range want {
			if seen[u] {
				t.Fatalf("%q: %s twice", text, u)
			}
			seen[u] = true
		}
		for _, limit := range []int{1, 3, 7, 10, 11} {
			if diff := gocmp.Diff(want, all(t, x, text, limit)); diff != "" {
				t.Fatalf("%q in pages of %d:\n%s", text, limit, diff)
			}
		}
	}
}
