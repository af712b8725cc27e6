package indextest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// Batches: visits of one batch may touch the same addresses, each in every way
// and in any order; each sees what those before it wrote.
func Batches(t *testing.T, open Open) {
	const shared = "https://a.example.com/shared"
	// Everything that a visit of a.example.com can do to the shared document,
	// and what the visit of another host can.
	write := func(s *story, v *index.Visit) {
		v.Docs = append(v.Docs, index.Doc{
			URL: shared, Host: "a.example.com", Kind: index.CardDoc, FirstSeen: stored(s.now), NextAt: stored(s.now.Add(time.Hour)),
			ETag: "own", Needs: []string{otherURL},
		})
	}
	drop := func(_ *story, v *index.Visit) { v.Drop = append(v.Drop, shared) }
	find := func(now bool) func(*story, *index.Visit) {
		return func(_ *story, v *index.Visit) {
			v.Found = append(v.Found, index.NewDoc{URL: shared, Kind: index.CatalogDoc, Class: index.ClassNew, From: otherURL, FoundBy: "example.net", Now: now})
		}
	}
	wake := func(_ *story, v *index.Visit) { v.Wake = append(v.Wake, otherURL) }
	own := map[string]func(*story, *index.Visit){
		"writes": write, "drops": drop,
		"writes and drops": func(s *story, v *index.Visit) { write(s, v); drop(s, v) },
		"writes twice":     func(s *story, v *index.Visit) { write(s, v); write(s, v) },
	}
	others := map[string]func(*story, *index.Visit){"finds": find(false), "asks for": find(true), "wakes": wake}

	for o, mine := range own {
		for n, theirs := range others {
			for _, first := range []string{"own", "other"} {
				for _, known := range []bool{false, true} {
					name := fmt.Sprintf("own host %s, another %s, %s first, known %t", o, n, first, known)
					t.Run(name, func(t *testing.T) {
						s := begin(t, open)
						s.add(index.NewDoc{URL: catalogURL}, index.NewDoc{URL: otherURL})
						if known {
							s.add(index.NewDoc{URL: shared, Kind: index.CardDoc})
						}
						var a, b index.Visit
						for _, l := range s.lease(2) {
							v := index.Visit{Host: l.Host.Name, Owner: l.Owner, No: l.No, At: s.now}
							for _, d := range l.Docs {
								if d.URL != shared {
									d.CheckedAt, d.NextAt = s.now, s.now.Add(24*time.Hour)
									v.Docs = append(v.Docs, d)
								}
							}
							if l.Host.Name == "a.example.com" {
								a = v
							} else {
								b = v
							}
						}
						mine(s, &a)
						theirs(s, &b)
						// Both also write the same entry and tell of the same document.
						for i, v := range []*index.Visit{&a, &b} {
							e := s.entry(1)
							e.Version = fmt.Sprint(i)
							v.Entries = []index.Entry{e}
							v.Outcomes = []index.Outcome{{URL: shared, At: s.now, Code: index.OutcomeRead, Sentence: fmt.Sprint(i)}}
						}
						visits := []index.Visit{a, b}
						if first == "other" {
							visits = []index.Visit{b, a}
						}
						for i, applied := range s.apply(visits...) {
							if applied.Err != nil || len(applied.Capped) > 0 {
								t.Errorf("visit %d: %+v", i, applied)
							}
						}

						d, err := s.Doc(s.ctx, shared)
						found := n != "wakes"
						gone := (o == "drops" || o == "writes and drops") && (first == "other" || !found)
						switch {
						case gone:
							if !errors.Is(err, index.ErrNotFound) {
								t.Errorf("document %+v, %v", d, err)
							}
						case err != nil:
							t.Fatal(err)
						case o == "writes" || o == "writes twice":
							due := s.now.Add(time.Hour)
							if n == "asks for" || n == "wakes" && first == "own" {
								due = s.now // it was visited before that
							}
							if first == "other" && n == "asks for" && !known {
								due = s.now.Add(time.Hour) // it was no visit's yet
							}
							if d.ETag != "own" || d.Kind != index.CardDoc || !d.NextAt.Equal(stored(due)) {
								t.Errorf("document %+v, want it due at %v", d, stored(due))
							}
						default:
							if d.ETag != "" || d.Kind != index.CatalogDoc || d.From != otherURL {
								t.Errorf("document %+v", d)
							}
						}
						if got, err := s.Outcomes(s.ctx, shared, 10); err != nil || len(got) != 2 || got[0].Sentence == got[1].Sentence {
							t.Errorf("outcomes %+v, %v", got, err)
						}
						if e := s.get(s.entry(1).ID); e.Version != visits[1].Entries[0].Version {
							t.Errorf("entry %+v", e)
						}
						// Its needs are those that were written last.
						s.wait(time.Minute)
						s.add(index.NewDoc{URL: otherURL, Now: true})
						v := s.visit(s.leaseOnly("b.example.net"))
						v.Wake = []string{otherURL}
						s.apply(v)
						if d, err := s.Doc(s.ctx, shared); (o == "writes" || o == "writes twice") &&
							(err != nil || d.NextAt.After(stored(s.now))) {
							t.Errorf("it was not woken: %+v, %v", d, err)
						}
					})
				}
			}
		}
	}
}

// Bodies: leases come without them, and a document whose hash is what it was
// keeps its own.
func Bodies(t *testing.T, open Open) {
	s := begin(t, open)
	s.add(index.NewDoc{URL: catalogURL})
	l := s.take("a.example.com")
	for _, step := range []struct {
		name       string
		hash, body string
		want       string
	}{
		{"new", "h1", "one", "one"},
		{"unchanged, not handed in", "h1", "", "one"},
		{"unchanged, handed in", "h1", "one", "one"},
		{"changed", "h2", "two", "two"},
		{"another hash and no body", "h3", "", ""},
		{"the same hash, and a body at last", "h3", "three", "three"},
		{"no hash", "", "", ""},
		{"a body without a hash", "", "four", "four"},
		{"another without a hash", "", "five", "five"},
		{"nothing", "", "", ""},
	} {
		for again := range 2 {
			v := s.visit(l)
			d := &v.Docs[0]
			if d.Body != nil {
				t.Fatalf("%s: the lease has a body", step.name)
			}
			d.Hash, d.Body, d.Status = step.hash, nil, len(step.name)
			if step.body != "" {
				d.Body = []byte(step.body)
			}
			d.ETag = fmt.Sprint(step.name, again)
			s.apply(v)
			if got := s.doc(catalogURL); string(got.Body) != step.want || got.Hash != step.hash || got.ETag != d.ETag {
				t.Errorf("%s: body %q, hash %q, want %q", step.name, got.Body, got.Hash, step.want)
			}
			l = s.leaseAfter(24*time.Hour, "a.example.com")
		}
	}
}
