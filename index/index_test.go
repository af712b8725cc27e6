package index

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/catalog"
)

func TestID(t *testing.T) {
	const want = "d6c63f66704c8ac7cb3247c49bc85604a781222fb67e0571c931c31274ea1603"
	got := ID("https://calendar.example.com/server-card.json")
	if got != want {
		t.Errorf("id %q, want %q", got, want)
	}
	if got == ID("https://calendar.example.com/server-card.json/") {
		t.Error("two URLs have one id")
	}
}

func TestNews(t *testing.T) {
	day := 24 * time.Hour
	at := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	base := func() *Entry {
		return &Entry{
			Hash: "a", State: Listed, UpdatedAt: at, CheckedAt: at, FinalURL: "f", Tags: []string{"t"},
			Evidence: &catalog.Evidence{Kind: catalog.WellKnown, CatalogURL: "c", Chain: []string{"c"}, CheckedAt: at},
		}
	}
	for _, c := range []struct {
		name   string
		change func(e, old *Entry)
		want   bool
	}{
		{"nothing", func(_, _ *Entry) {}, false},
		{"document", func(e, _ *Entry) { e.Hash = "b" }, true},
		{"tags", func(e, _ *Entry) { e.Tags = nil }, true},
		{"evidence", func(e, _ *Entry) { e.Evidence.Kind = catalog.Website }, true},
		{"evidence gone", func(e, _ *Entry) { e.Evidence = nil }, true},
		{"evidence checked again", func(e, _ *Entry) { e.Evidence.CheckedAt = at.Add(day) }, false},
		{"seq, first seen", func(e, _ *Entry) { e.Seq, e.FirstSeen = 9, at }, false},
		{"checked again", func(e, _ *Entry) { e.CheckedAt = at.Add(CheckedNews - time.Microsecond) }, false},
		{"checked after 7 days", func(e, _ *Entry) { e.CheckedAt = at.Add(CheckedNews) }, true},
		{"state", func(e, _ *Entry) { e.State = Stale }, true},
		{"reason", func(e, _ *Entry) { e.Reason = ReasonGone }, true},
		{"hidden: document", func(e, old *Entry) { e.State, old.State, e.Hash = Hidden, Hidden, "b" }, false},
		{"hidden: checked", func(e, old *Entry) { e.State, old.State, e.CheckedAt = Hidden, Hidden, at.Add(30*day) }, false},
		{"hidden to removed", func(e, old *Entry) { e.State, old.State = Removed, Hidden }, true},
	} {
		e, old := base(), base()
		c.change(e, old)
		if got := e.News(old); got != c.want {
			t.Errorf("%s: news is %t", c.name, got)
		}
	}
	if !base().News(nil) {
		t.Error("a new entry is no news")
	}
}

func TestTombstoneAndChange(t *testing.T) {
	at := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	e := &Entry{
		ID: "id", CardURL: "card", FinalURL: "f", Chain: []string{"f"}, Document: []byte("{}"), Hash: "h", Name: "n", Version: "v",
		Identifier: "i", DisplayName: "d", Description: "t", Tags: []string{"t"}, Evidence: &catalog.Evidence{},
		State: Removed, Reason: ReasonGone, StaleSince: at, FirstSeen: at, CheckedAt: at, UpdatedAt: at, Seq: 7,
	}
	want := Entry{ID: "id", CardURL: "card", Name: "n", Version: "v", State: Removed, Reason: ReasonGone, FirstSeen: at, CheckedAt: at, UpdatedAt: at, Seq: 7}
	if diff := cmp.Diff(want, e.Tombstone()); diff != "" {
		t.Error(diff)
	}
	for state, op := range map[State]Op{Listed: Upsert, Stale: Upsert, Hidden: Delete, Removed: Delete, Blocked: Delete} {
		e.State = state
		c := e.Change()
		if c.Op != op || (c.Entry != nil) != (op == Upsert) || c.Seq != 7 || c.ID != "id" || c.CardURL != "card" || c.Reason != ReasonGone || !c.At.Equal(at) {
			t.Errorf("%s: %+v", state, c)
		}
	}
}

func TestTurns(t *testing.T) {
	for _, c := range []struct {
		due  [4]int
		n    int
		want [4]int
	}{
		{[4]int{100, 100, 100, 100}, 20, [4]int{8, 4, 5, 3}},
		{[4]int{100, 100, 100, 100}, 1, [4]int{1, 0, 0, 0}},
		{[4]int{0, 0, 0, 5}, 20, [4]int{0, 0, 0, 5}},
		{[4]int{1, 0, 0, 100}, 20, [4]int{1, 0, 0, 19}},
		{[4]int{0, 100, 0, 100}, 35, [4]int{0, 20, 0, 15}}, // 20 to 15
		{[4]int{}, 5, [4]int{}},
		{[4]int{5, 5, 5, 5}, 0, [4]int{}},
	} {
		if got := new(Turns).Take(c.due, c.n); got != c.want {
			t.Errorf("%d of %v: %v, want %v", c.n, c.due, got, c.want)
		}
	}

	// In small steps the shares are the same, and nobody waits long.
	var turns Turns
	var sum [4]int
	var waited [4]int
	for range 1000 {
		got := turns.Take([4]int{9, 9, 9, 9}, 1)
		for class, n := range got {
			sum[class] += n
			if waited[class]++; n > 0 {
				waited[class] = 0
			}
			if waited[class] > 10 {
				t.Fatalf("class %d has waited for %d turns", class, waited[class])
			}
		}
	}
	if sum != [4]int{400, 200, 250, 150} {
		t.Errorf("1000 turns went to %v", sum)
	}
	// A class that was idle saves nothing up.
	for range 1000 {
		turns.Take([4]int{0, 0, 0, 9}, 1)
	}
	if got := turns.Take([4]int{99, 99, 99, 99}, 20); got != [4]int{8, 4, 5, 3} {
		t.Errorf("after a quiet time: %v", got)
	}
}

func TestRegistrableDomain(t *testing.T) {
	for authority, want := range map[string]string{
		"example.com": "example.com", "a.b.example.com": "example.com", "a.example.co.uk:8443": "example.co.uk",
		"a.github.io": "a.github.io", "x.a.github.io": "a.github.io", "github.io": "github.io", "com": "com", "localhost": "localhost", "": "",
	} {
		if got := RegistrableDomain(authority); got != want {
			t.Errorf("%q: %q, want %q", authority, got, want)
		}
	}
}

func TestCapped(t *testing.T) {
	at := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	docs := []NewDoc{{URL: "https://alone.example.com/"}}
	for n := range 30 {
		docs = append(docs, NewDoc{URL: fmt.Sprintf("https://h%d.example.com/", n), From: "https://many.example.com/"})
	}
	docs = append(docs, NewDoc{URL: "https://one.example.net/", From: "https://few.example.com/"})
	got := Capped(docs, at)
	var urls []string
	for _, o := range got {
		urls = append(urls, o.URL)
		if o.Code != OutcomeCapped || !o.At.Equal(at) || o.Sentence == "" || len(o.Steps) == 0 || len(o.Steps) > 20 {
			t.Errorf("outcome %+v", o)
		}
	}
	if want := []string{"https://alone.example.com/", "https://many.example.com/", "https://few.example.com/"}; !slices.Equal(urls, want) {
		t.Errorf("outcomes of %v, want %v", urls, want)
	}
	if !strings.HasPrefix(got[1].Sentence, "30 addresses ") || !strings.HasPrefix(got[2].Sentence, "1 address ") {
		t.Errorf("sentences %q, %q", got[1].Sentence, got[2].Sentence)
	}
	if len(Capped(nil, at)) != 0 {
		t.Error("an outcome about nothing")
	}
}

func TestLimitsOrDefault(t *testing.T) {
	if got := (Limits{}).OrDefault(); got != (Limits{HostsPerDomain: 100, ForeignPerFinder: 100, NewPerHost: 1000}) {
		t.Errorf("%+v", got)
	}
	if got := (Limits{1, 2, 3}).OrDefault(); got != (Limits{1, 2, 3}) {
		t.Errorf("%+v", got)
	}
}
