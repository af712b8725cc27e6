package sqlite_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

// One round of a crawler: a source is added, its host leased, its document
// visited, and the visit applied. A reader finds the entry in the change feed.
func Example() {
	dir, err := os.MkdirTemp("", "index")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)

	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "index.db"), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	now := time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)
	const card = "https://calendar.example.com/server-card.json"
	_, err = store.AddSource(ctx, now, index.NewDoc{URL: card, Kind: index.CardDoc, Class: index.ClassUser, Now: true})
	if err != nil {
		log.Fatal(err)
	}
	leases, err := store.Lease(ctx, index.LeaseRequest{Owner: "example", Now: now, Hosts: 1})
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range leases {
		visit := index.Visit{Host: l.Host.Name, Owner: l.Owner, No: l.No, At: now}
		for _, d := range l.Docs {
			d.CheckedAt, d.NextAt, d.Class = now, now.Add(24*time.Hour), index.ClassRecheck
			visit.Docs = append(visit.Docs, d)
			visit.Entries = append(visit.Entries, index.Entry{
				CardURL: d.URL, FinalURL: d.URL, Document: []byte(`{"name":"com.example/calendar"}`),
				Name: "com.example/calendar", State: index.Listed, CheckedAt: now,
			})
		}
		if _, err := store.Apply(ctx, visit); err != nil {
			log.Fatal(err)
		}
	}

	changes, err := store.Changes(ctx, 0, 100)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range changes {
		fmt.Println(c.Seq, c.Op, c.Entry.Name)
	}
	next, err := store.NextDue(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("next visit:", next.Format(time.RFC3339))
	// Output:
	// 1 upsert com.example/calendar
	// next visit: 2026-08-02T12:00:00Z
}
