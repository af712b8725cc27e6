package search

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
)

func want(t testing.TB, got []string, hosts ...string) {
	t.Helper()
	short := []string{}
	for _, u := range got {
		host, _, _ := strings.Cut(strings.TrimPrefix(u, "https://"), "/")
		short = append(short, host)
	}
	if hosts == nil {
		hosts = []string{}
	}
	if diff := cmp.Diff(hosts, short); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestRule_IX22_OneCharacter(t *testing.T) {
	x := indexOf(t, simple("a.example", "打开客厅的灯", ""), simple("b.example", "灯光控制", ""), simple("c.example", "开关", ""))
	got := find(t, x, "灯", 10)
	slices.Sort(got)
	want(t, got, "a.example", "b.example")
	want(t, find(t, x, "厅", 10), "a.example")
	want(t, find(t, x, "电", 10))
}

func TestRule_IX23_Prefix(t *testing.T) {
	var apps []app
	for i := range 100 {
		// 100 words begin with "zo"; the first 70 are in two entries.
		word := fmt.Sprintf("zo%c%c", 'a'+i/10, 'a'+i%10)
		apps = append(apps, simple(fmt.Sprintf("h%d.example", i), word, ""))
		if i < 70 {
			apps = append(apps, simple(fmt.Sprintf("k%d.example", i), word, ""))
		}
	}
	x := indexOf(t, apps...)
	got := all(t, x, "zo", 100)
	if len(got) != 2*maxPrefixTerms {
		t.Errorf("a prefix of two letters finds %d entries, want those of %d terms", len(got), maxPrefixTerms)
	}
	if slices.Contains(got, "https://h64.example/card") || !slices.Contains(got, "https://h63.example/card") {
		t.Error("not the first 64 terms by entries, then alphabet")
	}
	want(t, find(t, x, "z", 10)) // one letter is no prefix
	if p := search(t, x, Query{Text: "zoj org", Limit: 10}); p.Tier != "any" {
		t.Errorf("a word that is not the last one was taken as a prefix: tier %s", p.Tier)
	}
}

func TestRule_IX26_Tiers(t *testing.T) {
	x := indexOf(t, simple("both.example", "Weather", "Radar maps."), simple("one.example", "Weather", "Sun."), simple("none.example", "Chess", ""))
	page := search(t, x, Query{Text: "weather radar", Limit: 10})
	want(t, urls(page), "both.example", "one.example")
	if page.Tier != "any" || page.Hits[0].Tier != tierAll || page.Hits[1].Tier != tierAny || !cmp.Equal(page.Words, []string{"weather", "radar"}) {
		t.Errorf("tier %q %d %d, words %q", page.Tier, page.Hits[0].Tier, page.Hits[1].Tier, page.Words)
	}
	if page := search(t, x, Query{Text: "weather", Limit: 10}); page.Tier != "all" {
		t.Errorf("one word: tier %q", page.Tier)
	}
	for _, n := range []int{openBelow - 1, openBelow} {
		apps := []app{simple("half.example", "Weather", "")}
		for i := range n {
			apps = append(apps, simple(fmt.Sprintf("h%d.example", i), "Weather Radar", ""))
		}
		got := all(t, indexOf(t, apps...), "weather radar", 100)
		if opened := len(got) == n+1; opened != (n < openBelow) {
			t.Errorf("%d entries have all words: %d results", n, len(got))
		}
	}
	// Parts of a camelCase word are not asked for, and help when the whole fails.
	x = indexOf(t, simple("whole.example", "parcelbeam", ""), simple("apart.example", "Parcel beam", ""))
	want(t, find(t, x, "ParcelBeam", 10), "whole.example", "apart.example")
}

func TestRule_IX28_RepeatedWordsGainNothing(t *testing.T) {
	x := indexOf(t, simple("plain.example", "Chess", "Play chess."), simple("stuffed.example", "Chess Chess Chess", "Chess chess chess chess."))
	page := search(t, x, Query{Text: "chess", Limit: 10})
	want(t, urls(page), "plain.example", "stuffed.example")
	if page.Hits[1].Score >= page.Hits[0].Score {
		t.Error("stuffing costs nothing")
	}
}

func TestRule_D18_Order(t *testing.T) {
	apps := []app{simple("z.example", "Same", ""), simple("a.example", "Same", ""), simple("m.example", "Same", "")}
	slices.SortFunc(apps, func(a, b app) int { return strings.Compare(index.ID(a.URL), index.ID(b.URL)) })
	var ids []string
	for _, a := range apps {
		ids = append(ids, a.URL)
	}
	// Equal names are three results, in the order of their ids, always.
	for range 5 {
		if diff := cmp.Diff(ids, find(t, indexOf(t, apps[2], apps[0], apps[1]), "same", 10)); diff != "" {
			t.Fatal(diff)
		}
	}
	TestRule_IX28_RepeatedWordsGainNothing(t)
}

func TestRule_IX29_LiveEntriesOnlyAndIntegers(t *testing.T) {
	var apps []app
	for i := range 30 {
		apps = append(apps, simple(fmt.Sprintf("h%d.example", i), "Chess", "Game number."))
	}
	g := generationOf(t, apps...)
	var changes []index.Change
	for _, a := range apps[5:] {
		changes = append(changes, index.Change{Op: index.Delete, ID: index.ID(a.URL)})
	}
	for _, c := range changes[:6] { // too few for a rewrite: tombstones are in the postings
		g = g.apply(index.Head{}, []index.Change{c})
	}
	if len(g.views) != 1 || g.views[0].dead == nil || g.df("chess") != 24 || g.live != 24 {
		t.Errorf("%d segments, df %d, live %d", len(g.views), g.df("chess"), g.live)
	}
	for _, tc := range [][2]float64{{1, 1}, {99, 0}, {100_000, 1}, {100_000, 777}, {10_000_000, 3}} {
		g := &generation{live: int(tc[0])}
		want := math.Log2((2*tc[0]+2)/(2*tc[1]+1)) * 65536
		if got := float64(g.idf(int(tc[1]))); math.Abs(got-want) > 2 {
			t.Errorf("idf of %v = %v, want %v", tc, got, want)
		}
	}
	if got := (&generation{live: 100_000}).idf(100_000); got != 1 {
		t.Errorf("a word that all entries have weighs %d", got)
	}
}

func TestRule_IX30_Boosts(t *testing.T) {
	box := func(host string) app {
		return app{URL: "https://" + host + "/card", Name: "org.example/app", Title: "Box", Description: "Files."}
	}
	// The publisher's own name stands above the same title elsewhere.
	x := indexOf(t, box("files.example"), box("box.com"), box("cheap.example"), box("also.example"))
	for _, q := range []string{"box", "Box", "box.com"} {
		if got := find(t, x, q, 1); got[0] != "https://box.com/card" {
			t.Errorf("%q: first is %s", q, got[0])
		}
	}
	x = indexOf(t, simple("a.example", "Tide Tables Deluxe", ""), simple("b.example", "Deluxe tide, tables", ""), simple("c.example", "Tide tables", ""))
	g := x.gen.Load()
	base, err := g.score(t.Context(), g.analyze("TIDE  tables"))
	if err != nil {
		t.Fatal(err)
	}
	first := base.top(1, nil)[0]
	if base.entry(first).CardURL != "https://c.example/card" {
		t.Error("an equal title is not first")
	}
	q := g.analyze("TIDE  tables")
	q.phrase = ""
	plain, err := g.score(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := first.score(), plain.top(1, nil)[0].score()*13/10; got-want > 2 || want-got > 2 {
		t.Errorf("title boost: %d, want %d", got, want)
	}
	// A title and a displayName that both equal the query boost once.
	a := simple("a.example", "Echo", "")
	a.DisplayName = "ECHO!"
	ga := generationOf(t, a)
	i, _ := ga.views[0].term(keyTitle + "echo")
	if docs, _ := ga.views[0].postings(i); len(docs) != 1 {
		t.Errorf("title key has %d postings", len(docs))
	}
}

func TestRule_IX31_EvidenceAndLiveness(t *testing.T) {
	own, linked, stale := simple("own.example", "Chess", ""), simple("linked.example", "Chess", ""), simple("stale.example", "Chess", "")
	linked.Kind, stale.State = catalog.LinkHeader, index.Stale
	x := indexOf(t, stale, linked, own)
	page := search(t, x, Query{Text: "chess", Limit: 10})
	want(t, urls(page), "own.example", "linked.example", "stale.example")
	if lo, hi := float64(page.Hits[2].Score), float64(page.Hits[0].Score); lo/hi < 0.85/1.06 {
		t.Errorf("factor in all: %.3f", lo/hi)
	}
	// Never across a tier.
	stale.Title = "Chess Openings"
	want(t, find(t, indexOf(t, stale, own), "chess openings", 10), "stale.example", "own.example")
}

func TestRule_IX32_AtMostThreeOfTenFromOnePublisher(t *testing.T) {
	var apps []app
	for i := range 30 { // one publisher with the best titles
		apps = append(apps, simple(fmt.Sprintf("s%d.many.com", i), "Chess", "Game."))
	}
	for i := range 12 {
		apps = append(apps, simple(fmt.Sprintf("h%d-other.com", i), "Board games with chess", "Long description of other games."))
	}
	x := indexOf(t, apps...)
	many := func(list []string) (n int) {
		for _, u := range list {
			if strings.Contains(u, ".many.com/") {
				n++
			}
		}
		return n
	}
	got := all(t, x, "chess", 100)
	if len(got) != 42 || many(got[:10]) != 3 || many(got[10:37]) != 27 {
		t.Errorf("%d results, %d of one publisher among the first ten, %d of the next 27", len(got), many(got[:10]), many(got[10:37]))
	}
	for _, limit := range []int{1, 2, 3, 4, 9, 10, 11, 13} {
		if diff := cmp.Diff(got, all(t, x, "chess", limit)); diff != "" {
			t.Errorf("pages of %d:\n%s", limit, diff)
		}
	}
	// Not when the publisher is what is asked for.
	if got := find(t, x, "many", 10); len(got) != 10 {
		t.Errorf("a query for the publisher gives %d on a page", len(got))
	}
	// Others far down the order are found, too.
	apps = apps[:0]
	for i := range 300 {
		apps = append(apps, simple(fmt.Sprintf("s%d.many.com", i), "Chess", "Game."))
	}
	apps = append(apps, simple("one-other.com", "Board games with chess", "Long description of other games."))
	got = find(t, indexOf(t, apps...), "chess", 5)
	if len(got) != 5 || got[3] != "https://one-other.com/card" {
		t.Errorf("results %q", got)
	}
}

func TestRule_FO36_ChineseTextIsFound(t *testing.T) {
	x := indexOf(t, simple("a.example", "团队日历", "查看日程安排，创建会议"), simple("b.example", "ＡＰＩ网关", "한글 문서 도구"))
	for q, host := range map[string]string{
		"日程": "a.example", "日程安排": "a.example", "程安": "a.example", "会议": "a.example",
		"api": "b.example", "网关": "b.example", "한글": "b.example", "\u1112\u1161\u11ab\u1100\u1173\u11af": "b.example",
	} {
		want(t, find(t, x, q, 10), host)
	}
	want(t, find(t, x, "天气", 10))
}

func TestRule_FO37_WholeWordsTitlesAndNamesFirst(t *testing.T) {
	x := indexOf(t, simple("whole.example", "Cal", ""), simple("sub.example", "Calabash", ""))
	want(t, find(t, x, "cal", 10), "whole.example", "sub.example")
	x = indexOf(t, simple("wholetext.example", "App", "A cal tool."), simple("subtext.example", "App", "A calabash tool."))
	want(t, find(t, x, "cal", 10), "wholetext.example", "subtext.example")
	named := simple("named.example", "App", "")
	named.Name = "org.example/chess"
	x = indexOf(t, simple("text.example", "App", "Play chess."), named, simple("title.example", "Chess", ""))
	want(t, find(t, x, "chess", 10), "title.example", "named.example", "text.example")
	TestRule_IX28_RepeatedWordsGainNothing(t)
}
