package indextest

import (
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// Copies: an entry keeps the document that it was made from, whatever becomes
// of the stored body of its card. A store may keep the two as one.
func Copies(t *testing.T, open Open) {
	first, second := []byte(`{"name":"com.example/first"}`), []byte(`{"name":"com.example/second"}`)
	s := begin(t, open)
	s.add(index.NewDoc{URL: cardURL, Kind: index.CardDoc})

	// visit reads body at the card, and writes an entry if document is given.
	visit := func(body, document []byte, state index.State) {
		t.Helper()
		s.wait(48 * time.Hour)
		v := s.visit(s.take("a.example.com"))
		if body != nil {
			v.Docs[0].Body, v.Docs[0].Hash = body, index.ID(string(body))
		}
		if document != nil {
			e := s.entry(1)
			e.ID, e.CardURL, e.FinalURL = index.ID(cardURL), cardURL, cardURL
			e.State, e.Document, e.Hash = state, document, index.ID(string(document))
			v.Entries = []index.Entry{e}
		}
		s.apply(v)
	}
	is := func(what string, document, body []byte) {
		t.Helper()
		e := s.get(index.ID(cardURL))
		if string(e.Document) != string(document) {
			t.Errorf("%s: the entry's document is %q, want %q", what, e.Document, document)
		}
		byCard, err := s.ByCard(s.ctx, cardURL)
		if err != nil || string(byCard.Document) != string(document) {
			t.Errorf("%s: by its card the entry's document is %q, %v", what, byCard.Document, err)
		}
		if c := s.changes(e.Seq-1, 1); len(c) != 1 || c[0].Entry == nil || string(c[0].Entry.Document) != string(document) {
			t.Errorf("%s: the feed has %+v", what, c)
		}
		if _, err := s.Snapshot(s.ctx, func(e *index.Entry) error {
			if string(e.Document) != string(document) {
				t.Errorf("%s: the snapshot has %q", what, e.Document)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if got := s.doc(cardURL).Body; string(got) != string(body) {
			t.Errorf("%s: the body is %q, want %q", what, got, body)
		}
	}

	visit(first, first, index.Listed)
	is("one visit wrote both", first, first)
	visit(nil, first, index.Stale)
	is("the entry alone was written", first, first)
	visit(second, second, index.Listed)
	visit([]byte("<html>"), nil, "")
	is("the card alone was read", second, []byte("<html>"))
	visit(first, first, index.Listed)
	visit([]byte("<html>"), nil, "")
	is("the card was replaced by something else", first, []byte("<html>"))
	visit(second, second, index.Listed)
	is("a new card", second, second)
	visit(first, second, index.Stale)
	is("the entry keeps the older one", second, first)
	visit(second, second, index.Listed)
	is("as before", second, second)

	// The document is forgotten; the entry is not.
	s.wait(48 * time.Hour)
	v := s.visit(s.take("a.example.com"))
	v.Docs, v.Drop = nil, []string{cardURL}
	s.apply(v)
	if e := s.get(index.ID(cardURL)); string(e.Document) != string(second) {
		t.Errorf("after its card was dropped the entry's document is %q", e.Document)
	}

	// Found again, and gone for good.
	s.add(index.NewDoc{URL: cardURL, Kind: index.CardDoc})
	visit(first, first, index.Listed)
	is("found again", first, first)
	visit(nil, first, index.Removed)
	if e := s.get(index.ID(cardURL)); len(e.Document) != 0 {
		t.Errorf("a tombstone has the document %q", e.Document)
	}
	if d := s.doc(cardURL); string(d.Body) != string(first) {
		t.Errorf("the card's body is %q", d.Body)
	}
}
