package sqlite

import (
	"database/sql"
	"errors"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pressly/goose/v3"

	"github.com/openbot-build/openbot-go/index"
)

// A file of the first schema is read by this program as it was by the one that
// wrote it.
func TestMigrateSplit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`PRAGMA journal_mode = WAL`,
		`INSERT INTO host (id, name, domain, found_by, first_seen, class, next_at) VALUES
			(7, 'a.example.com', 'example.com', '', 1, 2, 5), (3, 'b.example.com', 'example.com', '', 1, 2, 6)`,
		`INSERT INTO doc (id, url, host, kind, class, next_at, wanted_at, from_url, found_by, first_seen, interval, checked_at, read_at, full_get_at,
			status, final_url, chain, etag, last_modified, content_type, cache_control, link, x_robots, hash, noindex, fault, fault_text,
			fault_since, fails, needs, targets, body) VALUES
			(9, 'https://a.example.com/card', 'a.example.com', 'card', 1, 5, 4, 'https://a.example.com/catalog', 'example.com', 1, 2, 3, 4, 5,
			200, 'https://a.example.com/final', 'x' || char(10) || 'y' || char(10), '"\\t' || char(10) || '"', 'lm', 'ct', 'cc', '<l\\n>' || char(10), 'noindex' || char(10), 'h', 1, 'card_invalid', 'why' || char(10) || 'so',
			6, 7, 'https://a.example.com/catalog' || char(10), 'https://a.example.com/t' || char(10), x'7b7d'),
			(4, 'https://b.example.com/card', 'b.example.com', 'card', 3, 6, NULL, '', '', 1, 0, 0, 0, 0,
			0, '', '', '', '', '', '', '', '', '', 0, '', '', 0, 0, '', '', NULL),
			(5, 'https://lost.example.com/card', 'lost.example.com', 'card', 3, 6, NULL, '', '', 1, 0, 0, 0, 0,
			0, '', '', '', '', '', '', '', '', '', 0, '', '', 0, 0, '', '', x'7b7d')`,
		`INSERT INTO need (url, doc) VALUES ('https://a.example.com/catalog', 9), ('https://a.example.com/catalog', 5)`,
	} {
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	us := time.UnixMicro
	for _, want := range []index.Doc{
		{
			URL: "https://a.example.com/card", Host: "a.example.com", Kind: index.CardDoc, Class: 1, NextAt: us(5).UTC(),
			From: "https://a.example.com/catalog", FoundBy: "example.com", FirstSeen: us(1).UTC(), Interval: 2 * time.Microsecond,
			CheckedAt: us(3).UTC(), ReadAt: us(4).UTC(), FullGetAt: us(5).UTC(), Status: 200, FinalURL: "https://a.example.com/final",
			Chain: []string{"x", "y"}, ETag: "\"\\\\t\n\"", LastModified: "lm", ContentType: "ct", CacheControl: "cc", Link: []string{`<l\n>`},
			XRobots: []string{"noindex"}, Hash: "h", NoIndex: true, Fault: index.ReasonInvalid, FaultText: "why\nso", FaultSince: us(6).UTC(), Fails: 7,
			Needs: []string{"https://a.example.com/catalog"}, Targets: []string{"https://a.example.com/t"}, Body: []byte("{}"),
		},
		{
			URL: "https://b.example.com/card", Host: "b.example.com", Kind: index.CardDoc, Class: 3, NextAt: us(6).UTC(), FirstSeen: us(1).UTC(),
		},
	} {
		got, err := s.Doc(t.Context(), want.URL)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, got); diff != "" {
			t.Error(diff)
		}
	}
	if _, err := s.Doc(t.Context(), "https://lost.example.com/card"); !errors.Is(err, index.ErrNotFound) {
		t.Errorf("a document without a host: %v", err)
	}
	if needed, err := s.Needed(t.Context(), "https://a.example.com/catalog"); err != nil || !needed {
		t.Errorf("the need is lost: %v", err)
	}
	leases, err := s.Lease(t.Context(), index.LeaseRequest{Owner: "o", Now: us(10), Hosts: 10})
	if err != nil || len(leases) != 2 || len(leases[0].Docs) != 1 || len(leases[1].Docs) != 1 {
		t.Fatalf("%+v, %v", leases, err)
	}
}

// A migration that fails on its way leaves the file as it was.
func TestMigrationIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=foreign_keys(1)&_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, dir, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	schema := func() (text string) {
		if err := db.QueryRowContext(t.Context(), `SELECT group_concat(name || sql) FROM (SELECT name, sql FROM sqlite_schema ORDER BY name)`).Scan(&text); err != nil {
			t.Fatal(err)
		}
		return text
	}
	// The last statement of the migration finds nothing to drop.
	if _, err := db.ExecContext(t.Context(), `DROP INDEX entry_state`); err != nil {
		t.Fatal(err)
	}
	was := schema()
	if _, err := p.Up(t.Context()); err == nil {
		t.Fatal("the migration did not fail")
	}
	if diff := cmp.Diff(was, schema()); diff != "" {
		t.Error(diff)
	}
	if version, err := p.GetDBVersion(t.Context()); err != nil || version != 1 {
		t.Errorf("version %d, %v", version, err)
	}
}
