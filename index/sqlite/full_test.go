package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// When the disk is full nothing of a visit is written, and the store goes on
// once there is space again.
func TestDiskFull(t *testing.T) {
	ctx, now := t.Context(), time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)
	s, err := Open(ctx, filepath.Join(t.TempDir(), "index.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const url = "https://a.example.com/server-card.json"
	if _, err := s.AddSource(ctx, now, index.NewDoc{URL: url}); err != nil {
		t.Fatal(err)
	}
	leases, err := s.Lease(ctx, index.LeaseRequest{Owner: "w", Now: now, Hosts: 1})
	if err != nil {
		t.Fatal(err)
	}
	d := leases[0].Docs[0]
	d.ETag, d.Body = `"new"`, make([]byte, 200_000)
	v := index.Visit{
		Host: "a.example.com", Owner: "w", No: 1, At: now,
		Entries:  []index.Entry{{CardURL: url, State: index.Listed, Document: []byte("{}")}},
		Outcomes: []index.Outcome{{URL: url, At: now, Code: index.OutcomeListed, Sentence: strings.Repeat("x", 300_000)}},
		Docs:     []index.Doc{d},
	}
	limit := func(pages int64) {
		t.Helper()
		if _, err := s.write.Exec(fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
			t.Fatal(err)
		}
	}
	var pages int64
	if err := s.write.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	// At each of these limits another part of the visit is the one that fails.
	for more := int64(0); more < 120; more += 20 {
		limit(pages + more)
		if _, err := s.Apply(ctx, v); !errors.Is(err, index.ErrFull) || !strings.Contains(err.Error(), "free some space") {
			t.Fatalf("with %d pages left: %v", more, err)
		}
		if doc, err := s.Doc(ctx, url); err != nil || doc.ETag != "" || doc.Body != nil {
			t.Fatalf("document %+v, %v", doc, err)
		}
		if _, err := s.ByCard(ctx, url); !errors.Is(err, index.ErrNotFound) {
			t.Fatalf("entry: %v", err)
		}
		if h, err := s.Head(ctx); err != nil || h.Seq != 0 {
			t.Fatalf("head %+v, %v", h, err)
		}
	}
	limit(1 << 30)
	if a, err := s.Apply(ctx, v); err != nil || a[0].Fenced {
		t.Fatalf("with space again: %+v, %v", a, err)
	}
}

// Writing where it is not allowed is a matter of permission.
func TestReadOnly(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "index.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.read.Exec("DELETE FROM feed")
	if err = explain(err); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error is %v", err)
	}
	if err := explain(errors.New("x")); err.Error() != "x" {
		t.Errorf("another error became %v", err)
	}
}

// The claim, the next due time and a host's own documents are found by index,
// however many rows there are.
func TestPlans(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "index.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, p := range s.stmts.list() {
		if p.stmt == &s.stmts.snapshot {
			continue // it is meant to read them all
		}
		rows, err := s.write.Query("EXPLAIN QUERY PLAN "+p.text, make([]any, 40)...)
		if err != nil {
			t.Fatalf("%s: %v", p.text, err)
		}
		var id, parent, unused int
		var step string
		for rows.Next() {
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				t.Fatal(err)
			}
			if scan, ok := strings.CutPrefix(step, "SCAN "); ok {
				table, _, _ := strings.Cut(scan, " ")
				switch table {
				case "host", "doc", "d", "h", "x", "entry", "e", "need", "n", "lead", "outcome":
					t.Errorf("%s\nreads a whole table: %s", p.text, step)
				}
			}
			if strings.Contains(step, "TEMP B-TREE") {
				t.Errorf("%s\nsorts: %s", p.text, step)
			}
		}
		_ = rows.Close()
	}
}
