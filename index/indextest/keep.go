package indextest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// Compaction: tombstones stay 90 days, and a reader that may have missed one
// is told so (IX-10, IX-17).
func Compaction(t *testing.T, open Open) {
	s := begin(t, open)
	compact := func(want int64) {
		t.Helper()
		n, err := s.Compact(s.ctx, s.now.Add(-index.KeepTombstones))
		if err != nil || n != want {
			t.Errorf("dropped %d, want %d: %v", n, want, err)
		}
	}
	remove := func(n int) {
		e := s.entry(n)
		e.State, e.Reason = index.Removed, index.ReasonGone
		s.publish(e)
	}
	s.publish(s.entry(1), s.entry(2), s.entry(3), s.entry(4))
	s.wait(time.Hour)
	remove(1) // 5
	removed := s.now
	s.wait(time.Hour)
	hidden, blocked := s.entry(2), s.entry(3)
	hidden.State, hidden.Reason = index.Hidden, index.ReasonUnreadable
	blocked.State, blocked.Reason = index.Blocked, index.ReasonBlocked
	s.publish(hidden, blocked) // 6, 7
	remove(4)                  // 8

	// 90 days to the microsecond: still there.
	s.now = removed.Add(index.KeepTombstones)
	compact(0)
	if c := s.changes(1, 10); len(c) != 4 {
		t.Errorf("%d changes", len(c))
	}
	s.get(s.entry(1).ID)
	s.wait(time.Microsecond)
	compact(1)
	if _, err := s.Get(s.ctx, s.entry(1).ID); !errors.Is(err, index.ErrNotFound) {
		t.Errorf("dropped tombstone: %v", err)
	}

	// Tombstone 5 is gone: who has read up to 4 may have missed it, who has read
	// up to 5 has not, and who starts from nothing needs none.
	for after, want := range map[int64]error{1: index.ErrCompact, 4: index.ErrCompact, 5: nil, 0: nil} {
		c, err := s.Changes(s.ctx, after, 10)
		if !errors.Is(err, want) || (want == nil && len(c) != 3) {
			t.Errorf("after %d: %d changes, %v", after, len(c), err)
		}
	}

	// Only tombstones go, however old the others are.
	s.wait(1000 * 24 * time.Hour)
	compact(1)
	s.get(hidden.ID)
	s.get(blocked.ID)
	if h := s.head(); h.Seq != 8 {
		t.Errorf("head %d", h.Seq)
	}
	// One that returns starts anew, under the same id.
	s.publish(s.entry(4))
	if e := s.get(s.entry(4).ID); e.Seq != 9 || !e.FirstSeen.Equal(stored(s.now)) {
		t.Errorf("entry %+v", e)
	}
}

// Outcomes: the newest ten of each document, newest first.
func Outcomes(t *testing.T, open Open) {
	s := begin(t, open)
	s.add(index.NewDoc{URL: catalogURL})
	var want []index.Outcome
	for n := range index.KeepOutcomes + 3 {
		l := s.leaseAfter(24*time.Hour, "a.example.com")
		o := index.Outcome{
			URL: catalogURL, At: stored(s.now), Code: index.OutcomeUnchanged, Sentence: fmt.Sprintf("Visit %d: 文本.", n), NextAt: stored(s.now.Add(time.Hour)),
			Steps: []index.Step{
				{At: stored(s.now), What: "fetch", URL: catalogURL, Status: 304, Took: 1234567, Result: "304", Detail: "d"},
				{At: stored(s.now), What: "judge", Result: "unchanged"},
			},
		}
		if n%2 == 1 {
			o.Steps, o.NextAt, o.Code = nil, time.Time{}, index.OutcomeGone
		}
		v := s.visit(l)
		v.Outcomes = []index.Outcome{o, {URL: cardURL, At: s.now, Code: index.OutcomeListed}}
		s.apply(v)
		want = append([]index.Outcome{o}, want...)
	}
	for _, n := range []int{1, 3, index.KeepOutcomes, 100} {
		got, err := s.Outcomes(s.ctx, catalogURL, n)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "outcomes", want[:min(n, index.KeepOutcomes)], got)
	}
	if got, err := s.Outcomes(s.ctx, otherURL, 10); err != nil || len(got) != 0 {
		t.Errorf("outcomes of an unknown document: %v, %v", got, err)
	}
}

// Forgetting: outcomes of documents that are known no more go with the
// tombstones of their time.
func Forgetting(t *testing.T, open Open) {
	s := begin(t, open)
	s.add(index.NewDoc{URL: catalogURL}, index.NewDoc{URL: cardURL})
	v := s.visit(s.take("a.example.com"))
	v.Outcomes = []index.Outcome{{URL: catalogURL, At: s.now, Code: index.OutcomeRead}, {URL: cardURL, At: s.now, Code: index.OutcomeDropped}}
	v.Docs, v.Drop = v.Docs[:1], []string{cardURL}
	s.apply(v)
	for _, step := range []struct {
		before  time.Time
		dropped int // outcomes left of the dropped document
	}{{s.now, 1}, {s.now.Add(time.Second), 0}} {
		if _, err := s.Compact(s.ctx, step.before); err != nil {
			t.Fatal(err)
		}
		for url, want := range map[string]int{catalogURL: 1, cardURL: step.dropped} {
			if got, err := s.Outcomes(s.ctx, url, 10); err != nil || len(got) != want {
				t.Errorf("%s has %d outcomes, want %d: %v", url, len(got), want, err)
			}
		}
	}
}

// Idle hosts go when they have no documents, but not before their day is over:
// until then they count against the limits (A1).
func Idle(t *testing.T, open Open) {
	s := beginWith(t, open, index.Limits{HostsPerDomain: 1})
	const gone = "https://gone.example.org/"
	s.add(index.NewDoc{URL: catalogURL}, index.NewDoc{URL: gone, Class: index.ClassNew})
	v := s.visit(s.take("gone.example.org"))
	v.Docs, v.Drop = nil, []string{gone}
	s.apply(v)
	compact := func(host bool, before time.Time) {
		t.Helper()
		if _, err := s.Compact(s.ctx, before); err != nil {
			t.Fatal(err)
		}
		s.host("a.example.com") // it has a document
		if _, err := s.Host(s.ctx, "gone.example.org"); (err == nil) != host {
			t.Errorf("host: %v", err)
		}
	}
	first := s.now
	other := index.NewDoc{URL: "https://other.example.org/", Class: index.ClassNew}
	s.wait(index.LimitWindow - time.Second)
	compact(true, first)
	if len(s.addCapped(other)) != 1 {
		t.Error("it does not count any more")
	}
	s.wait(time.Second)
	compact(false, first.Add(time.Microsecond))
	s.add(other)
	s.add(index.NewDoc{URL: "https://gone.example.org/again", Class: index.ClassUser})
	s.take("gone.example.org")
}

// Stats: counts for operators.
func Stats(t *testing.T, open Open) {
	s := begin(t, open)
	want := func(want index.Stats) {
		t.Helper()
		want.Head = s.head()
		got, err := s.Stats(s.ctx, s.now)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "stats", &want, got)
	}
	want(index.Stats{Entries: map[index.State]int64{}})
	listed, stale, gone := s.entry(1), s.entry(2), s.entry(3)
	stale.State, stale.Reason = index.Stale, index.ReasonUnreadable
	gone.State, gone.Reason = index.Removed, index.ReasonGone
	s.publish(listed, stale, gone)
	s.add(
		index.NewDoc{URL: listed.CardURL, Kind: index.CardDoc}, index.NewDoc{URL: gone.CardURL, Kind: index.CardDoc},
		index.NewDoc{URL: cardURL, Kind: index.CardDoc}, index.NewDoc{URL: catalogURL, Kind: index.CatalogDoc},
	)
	want(index.Stats{
		Entries: map[index.State]int64{index.Listed: 1, index.Stale: 1, index.Removed: 1, index.Lead: 1},
		Hosts:   4, Documents: 5, Due: 4,
	})
	for _, l := range s.lease(10) {
		s.apply(s.visit(l))
	}
	want(index.Stats{
		Entries: map[index.State]int64{index.Listed: 1, index.Stale: 1, index.Removed: 1, index.Lead: 1},
		Hosts:   4, Documents: 5, Due: 0,
	})
	s.wait(24 * time.Hour)
	want(index.Stats{
		Entries: map[index.State]int64{index.Listed: 1, index.Stale: 1, index.Removed: 1, index.Lead: 1},
		Hosts:   4, Documents: 5, Due: 5,
	})
}
