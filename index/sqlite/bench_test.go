package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
)

// BenchmarkVisits claims hosts with ten due documents each and completes them,
// 32 hosts a batch. Its unit is one document.
func BenchmarkVisits(b *testing.B) {
	for _, kind := range []string{"trivial", "outcome", "outcome_and_feed"} {
		b.Run(kind, func(b *testing.B) { benchVisits(b, kind) })
	}
}

func benchVisits(b *testing.B, kind string) {
	const hosts, docs, step = 2000, 10, 32
	ctx, now := context.Background(), time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	s, err := Open(ctx, filepath.Join(b.TempDir(), "index.db"), &Options{Limits: index.Limits{HostsPerDomain: 1 << 30, NewPerHost: 1 << 30}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var list []index.NewDoc
	for h := range hosts {
		for d := range docs {
			list = append(list, index.NewDoc{
				URL:  fmt.Sprintf("https://host%d.example.com/apps/%d/server-card.json", h, d),
				Kind: index.CardDoc, Class: index.ClassNew,
			})
		}
	}
	if _, err := s.AddSource(ctx, now, list...); err != nil {
		b.Fatal(err)
	}
	document := make([]byte, 1024)
	done := 0
	b.ResetTimer()
	for done < b.N {
		now = now.Add(time.Second)
		leases, err := s.Lease(ctx, index.LeaseRequest{Owner: "bench", Now: now, Hosts: step})
		if err != nil {
			b.Fatal(err)
		}
		if len(leases) == 0 {
			now = now.Add(24 * time.Hour)
			continue
		}
		visits := make([]index.Visit, len(leases))
		for i, l := range leases {
			v := &visits[i]
			*v = index.Visit{Host: l.Host.Name, Owner: l.Owner, No: l.No, At: now, Gap: time.Second}
			for _, d := range l.Docs {
				d.CheckedAt, d.NextAt, d.Class = now, now.Add(24*time.Hour), index.ClassRecheck
				v.Docs = append(v.Docs, d)
				done++
				if kind == "trivial" {
					continue
				}
				v.Outcomes = append(v.Outcomes, index.Outcome{
					URL: d.URL, At: now, Code: index.OutcomeUnchanged,
					Sentence: "Nothing new since the last visit.", NextAt: d.NextAt,
					Steps: []index.Step{{At: now, What: "fetch", URL: d.URL, Status: 304, Took: time.Millisecond, Result: "304"}},
				})
				if kind == "outcome" {
					continue
				}
				v.Entries = append(v.Entries, index.Entry{
					CardURL: d.URL, FinalURL: d.URL, Document: document, Hash: now.String(), Name: "com.example/app", Version: "1.0.0",
					State: index.Listed, CheckedAt: now, Evidence: &catalog.Evidence{Kind: catalog.WellKnown, CatalogURL: d.URL},
				})
			}
		}
		if _, err := s.Apply(ctx, visits...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "docs/s")
}
