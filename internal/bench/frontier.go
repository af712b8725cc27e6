package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver of the base

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

// frontier is a store full of documents, and a clock that makes hosts due as
// fast as they are worked off.
type frontier struct {
	store  *sqlite.Store
	bare   *sql.DB // the same file, for the base
	now    time.Time
	hosts  int // leased at a time
	docs   int // a host
	serial int // makes what a visit writes new
	card   []byte
}

// batchDocs is what the crawler writes in one transaction: so many documents,
// hosts counted as one each.
const batchDocs = 512

// openFrontier fills a new store in dir with documents that have been visited
// before: a card of 1 KB, validators, a hash.
func openFrontier(ctx context.Context, dir string, hosts, docs int) (*frontier, error) {
	path := filepath.Join(dir, fmt.Sprintf("frontier-%d.db", docs))
	store, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return nil, err
	}
	f := &frontier{
		store: store, now: time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC),
		hosts: batchDocs / (docs + 1), docs: docs, card: bytes.Repeat([]byte("card"), 256),
	}
	f.bare, err = sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=temp_store(MEMORY)"+
		"&_pragma=synchronous(FULL)&_pragma=cache_size(-32768)&_pragma=wal_autocheckpoint(4000)")
	if err != nil {
		return nil, err
	}
	f.bare.SetMaxOpenConns(1)
	// Through the store it takes minutes.
	for _, text := range []string{
		`WITH RECURSIVE h(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM h WHERE i + 1 < ?1)
			INSERT INTO host (name, domain, found_by, first_seen, class, next_at)
			SELECT 'host' || i || '.example.com', 'example.com', '', ?3, 2, ?3 FROM h WHERE ?2 > 0 AND ?4 IS NOT NULL`,
		`WITH RECURSIVE d(i) AS (VALUES (0) UNION ALL SELECT i + 1 FROM d WHERE i + 1 < ?2),
			u AS (SELECT host.id, 'https://' || name || '/apps/' || i || '/server-card.json' AS url FROM host CROSS JOIN d)
			INSERT INTO doc (url, host, kind, class, next_at, from_url, found_by, first_seen, interval, status, hash, about, stored)
			SELECT url, id, 'card', 2, ?3, '', '', ?3, 86400000000, 200, lower(hex(randomblob(32))),
				replace(url || '||"0123456789abcdef"||application/json||||0|||0||', '|', char(10)), 1
			FROM u WHERE ?1 > 0 AND ?4 IS NOT NULL`,
		`INSERT INTO body (doc, bytes) SELECT id, ?4 FROM doc WHERE ?1 + ?2 + ?3 > 0`,
	} {
		if _, err := f.bare.ExecContext(ctx, text, hosts, docs, f.now.UnixMicro(), f.card); err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	return f, nil
}

func (f *frontier) close() error { return errors.Join(f.bare.Close(), f.store.Close()) }

// visits works off n documents through the store. With news, each visit writes
// an outcome, a new card and its entry, which is a change in the feed.
func (f *frontier) visits(n int, news bool) func(context.Context) error {
	return func(ctx context.Context) error {
		for done := 0; done < n; {
			f.now = f.now.Add(time.Second)
			leases, err := f.store.Lease(ctx, index.LeaseRequest{Owner: "bench", Now: f.now, Hosts: f.hosts})
			if err != nil {
				return err
			}
			if len(leases) == 0 {
				f.now = f.now.Add(24 * time.Hour)
				continue
			}
			visits := make([]index.Visit, len(leases))
			for i := range leases {
				visits[i] = f.visit(&leases[i], news)
				done += len(leases[i].Docs)
			}
			applied, err := f.store.Apply(ctx, visits...)
			if err != nil {
				return err
			}
			if news && len(applied[0].Changes) != len(visits[0].Docs) {
				return fmt.Errorf("a visit to %d documents published %d changes", len(visits[0].Docs), len(applied[0].Changes))
			}
		}
		return nil
	}
}

func (f *frontier) visit(l *index.Lease, news bool) index.Visit {
	v := index.Visit{Host: l.Host.Name, Owner: l.Owner, No: l.No, At: f.now, Gap: time.Second}
	for _, d := range l.Docs {
		d.CheckedAt, d.NextAt, d.Class, d.Status = f.now, f.now.Add(24*time.Hour), index.ClassRecheck, 304
		if news {
			f.serial++
			d.Status, d.FullGetAt, d.ReadAt = 200, f.now, f.now
			d.Hash = fmt.Sprintf("%064x", f.serial)
			d.Body = append([]byte(nil), f.card...)
			copy(d.Body, d.Hash)
			v.Outcomes = append(v.Outcomes, index.Outcome{
				URL: d.URL, At: f.now, Code: index.OutcomeListed, NextAt: d.NextAt,
				Sentence: "The card is valid and its publisher's catalog lists it.",
				Steps:    []index.Step{{At: f.now, What: "fetch", URL: d.URL, Status: 200, Took: time.Millisecond, Result: "200"}},
			})
			v.Entries = append(v.Entries, index.Entry{
				CardURL: d.URL, FinalURL: d.URL, Document: d.Body, Hash: d.Hash, Name: "com.example/app", Version: "1.0.0",
				State: index.Listed, CheckedAt: f.now, Evidence: &catalog.Evidence{Kind: catalog.WellKnown, CatalogURL: d.URL},
			})
		}
		v.Docs = append(v.Docs, d)
	}
	return v
}

// least works off n documents with the least SQL that claims and finishes
// them: no contents, no fence, no classes.
func (f *frontier) least(n int) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx = context.WithoutCancel(ctx) // with an end, the driver starts a goroutine for each statement
		for done := 0; done < n; {
			f.now = f.now.Add(time.Second)
			ids, err := f.leastClaim(ctx)
			if err != nil {
				return err
			}
			if len(ids) == 0 {
				f.now = f.now.Add(24 * time.Hour)
			}
			if err := f.leastFinish(ctx, ids); err != nil {
				return err
			}
			done += len(ids)
		}
		return nil
	}
}

// leastClaim leases hosts and gives the ids of their due documents.
func (f *frontier) leastClaim(ctx context.Context) (docs []int64, err error) {
	tx, err := f.bare.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.QueryContext(ctx, `UPDATE host SET owner = 'bench', lease_no = lease_no + 1, lease_until = ?3 WHERE id IN (
		SELECT id FROM host WHERE class = 2 AND ready_at <= ?1 ORDER BY ready_at LIMIT ?2) RETURNING id`, f.now.UnixMicro(), f.hosts, f.now.Add(time.Minute).UnixMicro())
	if err != nil {
		return nil, err
	}
	var hosts []int64
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		hosts = append(hosts, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	list, err := json.Marshal(hosts)
	if err != nil {
		return nil, err
	}
	rows, err = tx.QueryContext(ctx, `SELECT d.id FROM json_each(?1) j CROSS JOIN doc d ON d.host = j.value AND d.class = 2 AND d.next_at <= ?2`,
		string(list), f.now.UnixMicro())
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		docs = append(docs, id)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return nil, err
	}
	return docs, tx.Commit()
}

// leastFinish puts documents and their hosts off by a day.
func (f *frontier) leastFinish(ctx context.Context, docs []int64) error {
	tx, err := f.bare.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	put, err := tx.PrepareContext(ctx, `UPDATE doc SET next_at = ?, checked_at = ? WHERE id = ?`)
	if err != nil {
		return err
	}
	next := f.now.Add(24 * time.Hour).UnixMicro()
	for _, id := range docs {
		if _, err := put.ExecContext(ctx, next, f.now.UnixMicro(), id); err != nil {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, `UPDATE host SET owner = '', lease_until = 0, next_at = ? WHERE class = 2 AND ready_at = ?`, next, f.now.Add(time.Minute).UnixMicro()); err != nil {
		return err
	}
	return tx.Commit()
}

// frontiers compares the store with the least that SQLite has to do.
func frontiers(ctx context.Context, size *size) (list []comparison, done func(), err error) {
	dir, err := os.MkdirTemp("", "openbot-bench")
	if err != nil {
		return nil, nil, err
	}
	var opened []*frontier
	done = func() {
		for _, f := range opened {
			_ = f.close()
		}
		_ = os.RemoveAll(dir)
	}
	for _, docs := range []int{10, 1} {
		f, err := openFrontier(ctx, dir, size.hosts, docs)
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("fill: %w", err)
		}
		opened = append(opened, f)
		const n = 10_000
		name := fmt.Sprintf("%d of %d docs", size.hosts, docs)
		least := []base{{what: "SQL that claims and finishes and no more", side: batch(n, f.least(n))}}
		list = append(list,
			comparison{name: name + ", unchanged", unit: "docs/s", ours: batch(n, f.visits(n, false)), bases: least},
			comparison{name: name + ", news", unit: "docs/s", ours: batch(n, f.visits(n, true)), bases: least},
		)
		if docs > 1 {
			list[0].rate, list[1].rate = 20_000, 8_000
		}
	}
	return list, done, nil
}
