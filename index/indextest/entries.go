package indextest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
)

// Entries: what an entry holds, and which writes are news (IX-6, IX-8).
func Entries(t *testing.T, open Open) {
	t.Run("every field", func(t *testing.T) {
		s := begin(t, open)
		want := s.entry(1)
		want.Document = []byte("{\"a\":\"\xc3\xa9\"}\n")
		want.Identifier, want.Description = "urn:x:\x00 Ä", "文本"
		want.FinalURL, want.Chain = "https://cdn.example.net/card", []string{want.CardURL, "https://cdn.example.net/card"}
		want.State, want.Reason, want.StaleSince = index.Stale, index.ReasonUnreadable, stored(s.now.Add(-time.Hour))
		c := s.publish(want)
		want.Seq, want.UpdatedAt = 1, stored(s.now)
		same(t, "change", []index.Change{{
			Seq: 1, Op: index.Upsert, ID: want.ID, CardURL: want.CardURL,
			Reason: want.Reason, At: want.UpdatedAt, Entry: &want,
		}}, c)
		same(t, "by id", &want, s.get(want.ID))
		e, err := s.ByCard(s.ctx, want.CardURL)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "by card", &want, e)
		same(t, "in the feed", c, s.changes(0, 10))
		for _, err := range []error{
			second(s.Get(s.ctx, index.ID("x"))), second(s.ByCard(s.ctx, "https://x.example.com/")),
		} {
			if !errors.Is(err, index.ErrNotFound) {
				t.Errorf("unknown entry: %v", err)
			}
		}
	})
	t.Run("filled in", func(t *testing.T) {
		s := begin(t, open)
		e := index.Entry{CardURL: cardURL, State: index.Listed, Document: []byte("{}")}
		s.publish(e)
		got := s.get(index.ID(cardURL))
		if got.Hash != index.ID("{}") || !got.FirstSeen.Equal(stored(s.now)) {
			t.Errorf("entry %+v", got)
		}
	})

	// Each of these is news to readers, and nothing else is.
	for name, change := range map[string]func(*index.Entry){
		"document":         func(e *index.Entry) { e.Document, e.Hash = []byte("{}"), index.ID("{}") },
		"final URL":        func(e *index.Entry) { e.FinalURL = otherURL },
		"redirects":        func(e *index.Entry) { e.Chain = []string{otherURL} },
		"identifier":       func(e *index.Entry) { e.Identifier += "x" },
		"display name":     func(e *index.Entry) { e.DisplayName += "x" },
		"description":      func(e *index.Entry) { e.Description += "x" },
		"tags":             func(e *index.Entry) { e.Tags = []string{"x"} },
		"evidence kind":    func(e *index.Entry) { e.Evidence.Kind = catalog.Website },
		"evidence catalog": func(e *index.Entry) { e.Evidence.CatalogURL += "x" },
		"evidence chain":   func(e *index.Entry) { e.Evidence.Chain = nil },
		"state":            func(e *index.Entry) { e.State, e.Reason = index.Stale, index.ReasonUnconfirmed },
	} {
		t.Run("news: "+name, func(t *testing.T) {
			s := begin(t, open)
			e := s.entry(1)
			s.publish(e)
			s.wait(24 * time.Hour)
			change(&e)
			c := s.publish(e)
			if len(c) != 1 || c[0].Seq != 2 || !s.get(e.ID).UpdatedAt.Equal(stored(s.now)) {
				t.Errorf("changes %+v", c)
			}
			if c := s.publish(e); len(c) != 0 {
				t.Errorf("the same again is a change: %+v", c)
			}
		})
	}
	t.Run("checked again", func(t *testing.T) {
		s := begin(t, open)
		e := s.entry(1)
		s.publish(e)
		published := s.now
		for s.wait(24 * time.Hour); s.now.Sub(published) < index.CheckedNews; s.wait(24 * time.Hour) {
			e.CheckedAt, e.Evidence.CheckedAt = stored(s.now), stored(s.now)
			if c := s.publish(e); len(c) != 0 {
				t.Fatalf("a check alone is a change after %v", s.now.Sub(published))
			}
			got := s.get(e.ID)
			if !got.CheckedAt.Equal(e.CheckedAt) || !got.Evidence.CheckedAt.Equal(e.CheckedAt) {
				t.Errorf("the time of the check was not kept: %+v", got)
			}
			if got.Seq != 1 || !got.UpdatedAt.Equal(stored(published)) {
				t.Errorf("number %d at %v, want the old ones", got.Seq, got.UpdatedAt)
			}
		}
		e.CheckedAt = stored(s.now)
		if c := s.publish(e); len(c) != 1 || c[0].Seq != 2 {
			t.Errorf("after 7 days a check is not published: %+v", c)
		}
	})
	t.Run("the same entry twice in one call", func(t *testing.T) {
		s := begin(t, open)
		e, again := s.entry(1), s.entry(1)
		again.Description = "Second."
		c := s.publish(e, again)
		if len(c) != 2 || c[0].Seq != 1 || c[1].Seq != 2 {
			t.Errorf("changes %+v", c)
		}
		if got := s.changes(0, 10); len(got) != 1 || got[0].Seq != 2 || got[0].Entry.Description != "Second." {
			t.Errorf("feed %+v", got)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// States: which change each state gives (IX-9, OB-130).
func States(t *testing.T, open Open) {
	s := begin(t, open)
	e := s.entry(1)
	var seq int64
	for _, step := range []struct {
		state  index.State
		reason index.Reason
		op     index.Op
		bytes  bool // whether the document is kept
		live   bool // whether a snapshot has it
	}{
		{index.Listed, "", index.Upsert, true, true},
		{index.Stale, index.ReasonUnreadable, index.Upsert, true, true},
		{index.Stale, index.ReasonUnconfirmed, index.Upsert, true, true},
		{index.Hidden, index.ReasonUnconfirmed, index.Delete, true, false},
		{index.Listed, "", index.Upsert, true, true},
		{index.Hidden, index.ReasonUnconfirmed, index.Delete, true, false},
		{index.Removed, index.ReasonExpired, index.Delete, false, false},
		{index.Listed, "", index.Upsert, true, true},
		{index.Removed, index.ReasonNoIndex, index.Delete, false, false},
		{index.Blocked, index.ReasonBlocked, index.Delete, false, false},
		{index.Listed, "", index.Upsert, true, true},
	} {
		s.wait(time.Hour)
		e.State, e.Reason = step.state, step.reason
		c := s.publish(e)
		seq++
		if len(c) != 1 || c[0].Seq != seq || c[0].Op != step.op || c[0].Reason != step.reason || c[0].ID != e.ID ||
			c[0].CardURL != e.CardURL || (c[0].Entry != nil) != step.live {
			t.Fatalf("%s: change %+v", step.state, c)
		}
		got := s.get(e.ID)
		if got.State != step.state || got.Reason != step.reason || (got.Document != nil) != step.bytes {
			t.Errorf("%s: entry %+v", step.state, got)
		}
		if feed := s.changes(0, 10); len(feed) != 1 || feed[0].Seq != seq || feed[0].Op != step.op {
			t.Errorf("%s: feed %+v", step.state, feed)
		}
		if live := s.snapshot(); slices.Contains(live, e.ID) != step.live {
			t.Errorf("%s: snapshot %v", step.state, live)
		}
		// Out of sight only state and reason count.
		e.CheckedAt, e.Evidence.CheckedAt = stored(s.now), stored(s.now)
		if c := s.publish(e); len(c) != 0 {
			t.Errorf("%s: the same again is a change: %+v", step.state, c)
		}
	}
}

// Leads are card documents without an entry. One that is given up is gone, with
// its outcome to tell of it (OB-130).
func Leads(t *testing.T, open Open) {
	s := begin(t, open)
	s.add(index.NewDoc{URL: cardURL, Kind: index.CardDoc, Class: index.ClassNew})
	leads := func(want int64) {
		t.Helper()
		if st, err := s.Stats(s.ctx, s.now); err != nil || st.Entries[index.Lead] != want {
			t.Errorf("leads: %+v, %v; want %d", st, err, want)
		}
	}
	leads(1)
	v := s.visit(s.take("a.example.com"))
	v.Docs[0].Fault, v.Docs[0].Fails = index.ReasonGone, 1
	s.apply(v)
	leads(1)
	v = s.visit(s.leaseAfter(7*24*time.Hour, "a.example.com"))
	v.Docs, v.Drop = nil, []string{cardURL}
	v.Outcomes = []index.Outcome{{URL: cardURL, At: s.now, Code: index.OutcomeDropped, Sentence: "Given up."}}
	if c := s.apply(v)[0].Changes; len(c) != 0 {
		t.Errorf("readers are told of a lead: %+v", c)
	}
	leads(0)
	if _, err := s.Doc(s.ctx, cardURL); !errors.Is(err, index.ErrNotFound) {
		t.Errorf("document: %v", err)
	}
	if _, err := s.ByCard(s.ctx, cardURL); !errors.Is(err, index.ErrNotFound) {
		t.Errorf("entry: %v", err)
	}
	if o, err := s.Outcomes(s.ctx, cardURL, 1); err != nil || len(o) != 1 || o[0].Code != index.OutcomeDropped {
		t.Errorf("outcomes %+v, %v", o, err)
	}
	s.wantNextDue(time.Time{})
	s.add(index.NewDoc{URL: cardURL, Kind: index.CardDoc, Class: index.ClassNew}) // it may be named again
	leads(1)
	s.take("a.example.com")
}

// snapshot gives the ids in a snapshot, in order.
func (s *story) snapshot() (ids []string) {
	s.Helper()
	head, err := s.Snapshot(s.ctx, func(e *index.Entry) error {
		ids = append(ids, e.ID)
		return nil
	})
	if err != nil {
		s.Fatal(err)
	}
	same(s, "head of the snapshot", s.head(), head)
	return ids
}

// Tombstones: what stays of a removed entry (IX-10).
func Tombstones(t *testing.T, open Open) {
	for _, state := range []index.State{index.Removed, index.Blocked} {
		s := begin(t, open)
		e := s.entry(1)
		s.publish(e)
		first := stored(s.now)
		s.wait(time.Hour)
		e.State, e.Reason = state, index.ReasonDelisted
		e.CheckedAt = stored(s.now)
		// A caller need not know name and version any more.
		gone := e
		gone.Name, gone.Version, gone.FirstSeen = "", "", time.Time{}
		s.publish(gone)
		want := &index.Entry{
			ID: e.ID, CardURL: e.CardURL, Name: e.Name, Version: e.Version, State: state, Reason: index.ReasonDelisted,
			FirstSeen: first, CheckedAt: stored(s.now), UpdatedAt: stored(s.now), Seq: 2,
		}
		same(t, "tombstone", want, s.get(e.ID))

		// It comes back under the same id.
		s.wait(time.Hour)
		e.State, e.Reason = index.Listed, ""
		if c := s.publish(e); len(c) != 1 || c[0].Op != index.Upsert || c[0].ID != e.ID || c[0].Seq != 3 {
			t.Errorf("changes %+v", c)
		}
		if got := s.get(e.ID); got.Document == nil || !got.FirstSeen.Equal(first) {
			t.Errorf("entry %+v", got)
		}
	}
}
