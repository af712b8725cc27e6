package indextest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// Feed: numbers, order, pages, times (IX-11, IX-14, IX-15, IX-16).
func Feed(t *testing.T, open Open) {
	t.Run("an empty one", func(t *testing.T) {
		s := begin(t, open)
		h := s.head()
		if h.Epoch == "" || h.Seq != 0 || !h.UpdatedAt.IsZero() {
			t.Errorf("head %+v", h)
		}
		if other := begin(t, open).head(); other.Epoch == h.Epoch {
			t.Error("two new databases have one epoch")
		}
		if c := s.changes(0, 10); len(c) != 0 {
			t.Errorf("changes %+v", c)
		}
	})
	t.Run("numbers without gaps, last state only", func(t *testing.T) {
		s := begin(t, open)
		for range 3 {
			s.wait(time.Second)
			var entries []index.Entry
			for n := range 3 {
				e := s.entry(n)
				e.Description = s.now.String()
				entries = append(entries, e)
			}
			s.publish(entries...)
		}
		if h := s.head(); h.Seq != 9 || !h.UpdatedAt.Equal(s.changes(0, 10)[2].At) {
			t.Errorf("head %+v", h)
		}
		var seqs []int64
		for _, c := range s.changes(0, 10) {
			seqs = append(seqs, c.Seq)
		}
		same(t, "numbers", []int64{7, 8, 9}, seqs)
		if c := s.changes(7, 1); len(c) != 1 || c[0].Seq != 8 {
			t.Errorf("after 7: %+v", c)
		}
		if c := s.changes(9, 10); len(c) != 0 {
			t.Errorf("after the end: %+v", c)
		}
	})
	t.Run("times never run backwards", func(t *testing.T) {
		s := begin(t, open)
		var last time.Time
		for n, shift := range []time.Duration{0, 0, -time.Hour, time.Hour, -time.Minute} {
			s.now = start.Add(shift)
			// The visitor's clock is its own business; leases need a later one.
			s.wait(0)
			c := s.publishAt(start.Add(time.Duration(n)*48*time.Hour), s.now, s.entry(2*n), s.entry(2*n+1))
			for _, c := range c {
				if !c.At.After(last) {
					t.Errorf("change %d at %v, not after %v", c.Seq, c.At, last)
				}
				last = c.At
			}
		}
		if h := s.head(); !h.UpdatedAt.Equal(last) {
			t.Errorf("head is at %v, want %v", h.UpdatedAt, last)
		}
	})
	t.Run("pages while entries move", func(t *testing.T) {
		s := begin(t, open)
		const entries = 40
		for n := range entries {
			s.publish(s.entry(n))
		}
		seen := make(map[string]int64)
		var after int64
		for page := 0; ; page++ {
			c := s.changes(after, 7)
			if len(c) == 0 {
				break
			}
			for _, c := range c {
				if c.Seq <= after || c.Seq <= seen[c.ID] {
					t.Fatalf("change %d of %s after %d", c.Seq, c.ID, after)
				}
				after, seen[c.ID] = c.Seq, c.Seq
			}
			if page < 5 { // one that was read already, and one that was not
				for _, n := range []int{page, entries - 1 - page} {
					e := s.entry(n)
					e.Description = fmt.Sprint(page)
					s.publish(e)
				}
			}
		}
		if len(seen) != entries || after != s.head().Seq {
			t.Errorf("%d entries up to %d, want %d up to %d", len(seen), after, entries, s.head().Seq)
		}
		for id, seq := range seen {
			if e := s.get(id); e.Seq != seq {
				t.Errorf("%s was seen at %d, is at %d", id, seq, e.Seq)
			}
		}
	})
}

// publishAt leases at one time and applies at another.
func (s *story) publishAt(lease, at time.Time, entries ...index.Entry) []index.Change {
	s.Helper()
	s.now = lease
	const door = "https://door.example.org/"
	s.add(index.NewDoc{URL: door, Now: true})
	v := s.visit(s.take("door.example.org"))
	v.At, v.Entries = at, entries
	return s.apply(v)[0].Changes
}

// Race: a reader that polls while many write never misses a change (index.md
// section 3). A store that numbers by a sequence fails it.
func Race(t *testing.T, open Open) {
	const writers, rounds = 12, 25
	s := beginWith(t, open, index.Limits{HostsPerDomain: writers * rounds})
	var docs []index.NewDoc
	for n := range writers * rounds {
		docs = append(docs, index.NewDoc{URL: fmt.Sprintf("https://h%d.example.com/", n)})
	}
	s.add(docs...)
	leases := s.lease(writers * rounds)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for r := range rounds {
				n := w*rounds + r
				v := s.visit(leases[n])
				v.Entries = []index.Entry{s.entry(n)}
				if a, err := s.Apply(s.ctx, v); err != nil || a[0].Fenced {
					t.Errorf("writer %d: %+v, %v", w, a, err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	seen := make(map[string]bool)
	var after int64
	poll := func() {
		for {
			c := s.changes(after, 10)
			for _, c := range c {
				if c.Seq != after+1 {
					// Entries are written once here, so there are no gaps.
					t.Errorf("change %d follows %d", c.Seq, after)
				}
				after, seen[c.ID] = c.Seq, true
			}
			if len(c) == 0 {
				return
			}
		}
	}
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
		}
		poll()
	}
	if want := writers * rounds; len(seen) != want && !t.Failed() {
		t.Errorf("the reader saw %d of %d changes", len(seen), want)
	}
}

// Snapshots: all live entries of one moment (IX-12).
func Snapshots(t *testing.T, open Open) {
	s := begin(t, open)
	const entries = 30
	var want []string
	for n := range entries {
		e := s.entry(n)
		s.publish(e)
		want = append(want, e.ID)
	}
	slices.Sort(want)
	same(t, "ids", want, s.snapshot())

	// What is written meanwhile belongs to the next one.
	before := s.head()
	var got []*index.Entry
	head, err := s.Snapshot(s.ctx, func(e *index.Entry) error {
		if len(got) == 0 {
			for n := range 3 {
				changed := s.entry(n)
				changed.Description = "Later."
				s.publish(changed)
			}
			gone := s.entry(entries - 1)
			gone.State, gone.Reason = index.Removed, index.ReasonGone
			s.publish(gone, s.entry(entries))
		}
		got = append(got, e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "head", before, head)
	for i, e := range got {
		if i >= len(want) || e.ID != want[i] || e.Seq > head.Seq || e.Description == "Later." || len(e.Document) == 0 {
			t.Fatalf("entry %d of the snapshot is %+v", i, e)
		}
	}
	if len(got) != entries {
		t.Errorf("%d entries, want %d", len(got), entries)
	}

	// Snapshot and feed together give the present.
	follower := make(map[string]int64)
	for _, e := range got {
		follower[e.ID] = e.Seq
	}
	for _, c := range s.changes(head.Seq, 100) {
		if follower[c.ID] = c.Seq; c.Op == index.Delete {
			delete(follower, c.ID)
		}
	}
	present := make(map[string]int64)
	for _, id := range s.snapshot() {
		present[id] = s.get(id).Seq
	}
	same(t, "follower", present, follower)

	stop := errors.New("stop")
	if _, err := s.Snapshot(s.ctx, func(*index.Entry) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("the reader's error is %v", err)
	}
	s.publish(s.entry(99)) // and the store goes on
}

// Watch: a hint after each commit that published something (IX-18).
func Watch(t *testing.T, open Open) {
	s := begin(t, open)
	ctx, cancel := context.WithCancel(s.ctx)
	first, second := s.Watch(ctx), s.Watch(ctx)
	s.publish(s.entry(1))
	for _, ch := range []<-chan struct{}{first, second} {
		select {
		case _, ok := <-ch:
			if !ok {
				t.Error("closed too early")
			}
		case <-time.After(10 * time.Second):
			t.Error("no hint")
		}
	}
	// A receiver that is slow holds up nobody.
	for n := range 5 {
		s.publish(s.entry(10 + n))
	}
	cancel()
	deadline := time.After(10 * time.Second)
	for _, ch := range []<-chan struct{}{first, second} {
		for open := true; open; {
			select {
			case _, open = <-ch:
			case <-deadline:
				t.Fatal("not closed")
			}
		}
	}
	s.publish(s.entry(2))
}
