package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// A visit whose rows the database refuses costs itself only, at whatever point
// it fails; what it had written by then is undone.
func TestRefusedVisit(t *testing.T) {
	for name, trigger := range map[string]string{
		"document": `BEFORE INSERT ON doc WHEN new.url LIKE '%.org/found%'`,
		"entry":    `BEFORE INSERT ON entry WHEN new.name = 'bad'`,
		"outcome":  `AFTER INSERT ON outcome WHEN new.sentence = 'bad'`,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, now := t.Context(), time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
			s, err := Open(ctx, filepath.Join(t.TempDir(), "index.db"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.write.Exec("CREATE TRIGGER refuse " + trigger + " BEGIN SELECT raise(ABORT, 'refused'); END"); err != nil {
				t.Fatal(err)
			}
			url := func(i int) string { return fmt.Sprintf("https://h%d.example.com/", i) }
			for i := range 5 {
				if _, err := s.AddSource(ctx, now, index.NewDoc{URL: url(i), Class: index.ClassUser}); err != nil {
					t.Fatal(err)
				}
			}
			leases, err := s.Lease(ctx, index.LeaseRequest{Owner: "w", Now: now, Hosts: 5})
			if err != nil || len(leases) != 5 {
				t.Fatalf("%d leases, %v", len(leases), err)
			}
			bad := func(i int) bool { return i == 1 || i == 3 }
			var visits []index.Visit
			for i, l := range leases {
				d := l.Docs[0]
				d.ETag, d.NextAt = "new", now.Add(time.Hour)
				word, found := "good", fmt.Sprintf("https://f%d.example.net/found", i)
				if bad(i) {
					word, found = "bad", fmt.Sprintf("https://f%d.example.org/found", i)
				}
				visits = append(visits, index.Visit{
					Host: l.Host.Name, Owner: "w", No: l.No, At: now, Docs: []index.Doc{d},
					Found:    []index.NewDoc{{URL: found, Class: index.ClassNew, From: d.URL, FoundBy: "example.com"}},
					Entries:  []index.Entry{{CardURL: d.URL, State: index.Listed, Name: word}},
					Outcomes: []index.Outcome{{URL: d.URL, At: now, Code: index.OutcomeListed, Sentence: word}},
				})
			}
			applied, err := s.Apply(ctx, visits...)
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range applied {
				v := &visits[i]
				if a.Fenced || (a.Err != nil) != bad(i) || (len(a.Changes) == 1) == bad(i) {
					t.Errorf("visit %d: %+v", i, a)
				}
				d, err := s.Doc(ctx, v.Docs[0].URL)
				if err != nil || (d.ETag == "new") == bad(i) {
					t.Errorf("document %d: %+v, %v", i, d, err)
				}
				if _, err := s.Doc(ctx, v.Found[0].URL); errors.Is(err, index.ErrNotFound) != bad(i) {
					t.Errorf("found document %d: %v", i, err)
				}
				if _, err := s.ByCard(ctx, v.Docs[0].URL); errors.Is(err, index.ErrNotFound) != bad(i) {
					t.Errorf("entry %d: %v", i, err)
				}
			}
			if h, err := s.Head(ctx); err != nil || h.Seq != 3 {
				t.Errorf("head %+v, %v", h, err)
			}
			// The lease stands; without what was refused the visit goes through.
			again := index.Visit{Host: visits[1].Host, Owner: "w", No: visits[1].No, At: now, Docs: visits[1].Docs}
			if a, err := s.Apply(ctx, again); err != nil || a[0].Fenced || a[0].Err != nil {
				t.Errorf("again: %+v, %v", a, err)
			}
		})
	}
}

// BenchmarkFound writes batches of 30 visits that each bring 8,000 documents:
// new ones without limits, the same every day, and new ones that the limits turn
// away but for the first thousand. Its unit is one batch.
func BenchmarkFound(b *testing.B) {
	const most = 1 << 30
	free := index.Limits{HostsPerDomain: most, ForeignPerFinder: most, NewPerHost: most}
	b.Run("new", func(b *testing.B) { benchFound(b, free, false) })
	b.Run("known", func(b *testing.B) { benchFound(b, free, true) })
	b.Run("limited", func(b *testing.B) { benchFound(b, index.Limits{}, false) })
}

func benchFound(b *testing.B, limits index.Limits, known bool) {
	ctx, now := b.Context(), time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	s, err := Open(ctx, filepath.Join(b.TempDir(), "index.db"), &Options{Limits: limits})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var seeds []index.NewDoc
	for h := range 30 {
		seeds = append(seeds, index.NewDoc{URL: fmt.Sprintf("https://www.site%d.example/catalog", h), Class: index.ClassUser})
	}
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		now = now.Add(48 * time.Hour)
		for i := range seeds {
			seeds[i].Now = true
		}
		if _, err := s.AddSource(ctx, now, seeds...); err != nil {
			b.Fatal(err)
		}
		var visits []index.Visit
		for len(visits) < 30 {
			leases, err := s.Lease(ctx, index.LeaseRequest{Owner: "w", Now: now, Hosts: 30, Docs: 1})
			if err != nil || len(leases) == 0 {
				b.Fatal(len(leases), err)
			}
			for _, l := range leases {
				v := index.Visit{Host: l.Host.Name, Owner: "w", No: l.No, At: now}
				for i := range 8000 {
					url := fmt.Sprintf("https://%s/%d/card%d", l.Host.Name, n, i)
					if known {
						url = fmt.Sprintf("https://%s/card%d", l.Host.Name, i)
					}
					v.Found = append(v.Found, index.NewDoc{URL: url, Kind: index.CardDoc, Class: index.ClassNew, From: l.Docs[0].URL, FoundBy: l.Host.Domain})
				}
				visits = append(visits, v)
			}
		}
		b.StartTimer()
		if _, err := s.Apply(ctx, visits...); err != nil {
			b.Fatal(err)
		}
	}
}
