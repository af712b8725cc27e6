package crawlercmd_test

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

// audit looks at a database for what a crash must not leave behind. It also is
// a follower of the change feed that goes on from one look to the next.
type audit struct {
	net  *loopback
	path string
	head index.Head
	fed  map[string]int64 // Seq of each change read, by card URL
}

func newAudit(l *loopback, path string) *audit {
	return &audit{net: l, path: path, fed: make(map[string]int64)}
}

// check opens the database, which repairs what a killed process left, and
// compares everything in it with what the sites serve. It gives the number of
// entries.
func (a *audit) check(t *testing.T) (entries int) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), a.path, nil)
	if err != nil {
		t.Fatalf("open after the crash: %v", err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	a.rows(t)
	entries = a.entries(t, s)
	a.feed(t, s, entries)
	return entries
}

// rows are rules over the tables: each query counts what breaks one.
func (a *audit) rows(t *testing.T) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+a.path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var verdict string
	if err := db.QueryRow("PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity check: %s, %v", verdict, err)
	}
	for what, query := range map[string]string{
		"rows without what they refer to":        `SELECT count(*) FROM pragma_foreign_key_check`,
		"documents without a next visit":         `SELECT count(*) FROM doc WHERE next_at IS NULL`,
		"documents without a host":               `SELECT count(*) FROM doc WHERE host NOT IN (SELECT id FROM host)`,
		"hosts whose next visit is another than": `SELECT count(*) FROM host h WHERE next_at IS NOT max(not_before, (SELECT min(next_at) FROM doc WHERE host = h.id))`,
		"visited documents without an outcome":   `SELECT count(*) FROM doc WHERE checked_at > 0 AND url NOT IN (SELECT url FROM outcome)`,
		"outcomes of documents never visited":    `SELECT count(*) FROM outcome WHERE url NOT IN (SELECT url FROM doc WHERE checked_at > 0)`,
		"outcomes before the newest visit only":  `SELECT count(*) FROM doc WHERE checked_at > 0 AND checked_at > (SELECT max(at) FROM outcome o WHERE o.url = doc.url)`,
		"outcomes whose numbers have gaps":       `SELECT count(*) FROM (SELECT max(n) - count(*) AS gap FROM outcome GROUP BY url) WHERE gap <> 0`,
		"hosts read without their robots.txt":    `SELECT count(*) FROM doc JOIN host ON host.id = doc.host WHERE checked_at > 0 AND robots_state = ''`,
		"leases without an owner":                `SELECT count(*) FROM host WHERE (owner = '') <> (lease_until = 0)`,
		"entries without their document":         `SELECT count(*) FROM entry e LEFT JOIN doc d ON d.url = e.card_url LEFT JOIN body b ON b.doc = d.id WHERE d.hash IS NOT e.hash OR b.bytes IS NOT coalesce(e.document, (SELECT bytes FROM body WHERE doc = e.doc))`,
		"cards read and proven without an entry": `SELECT count(*) FROM outcome WHERE code = 'listed' AND url NOT IN (SELECT card_url FROM entry)`,
		"documents without their body":           `SELECT count(*) FROM doc WHERE stored <> EXISTS (SELECT 1 FROM body WHERE body.doc = doc.id)`,
		"needs that nothing names":               `SELECT count(*) FROM need n JOIN doc d ON d.id = n.doc WHERE instr(d.needs, n.url) = 0`,
	} {
		var n int
		if err := db.QueryRow(query).Scan(&n); err != nil {
			t.Errorf("%s: %v", what, err)
		} else if n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
}

// entries compares each entry with the card that its site serves.
func (a *audit) entries(t *testing.T, s *sqlite.Store) (n int) {
	t.Helper()
	seen := make(map[string]bool)
	_, err := s.Snapshot(t.Context(), func(e *index.Entry) error {
		n++
		catalog, known := a.net.cards[e.CardURL]
		body := a.net.pages[e.CardURL[len("https://"):]].body
		sum := sha256.Sum256(body)
		switch {
		case !known:
			t.Errorf("%s is no card of ours", e.CardURL)
		case seen[e.CardURL]:
			t.Errorf("%s is there twice", e.CardURL)
		case e.State != index.Listed || e.ID != index.ID(e.CardURL):
			t.Errorf("%s: %s %s", e.CardURL, e.State, e.ID)
		case !bytes.Equal(e.Document, body) || e.Hash != hex.EncodeToString(sum[:]):
			t.Errorf("%s: %d octets with hash %s, the site serves %d with %x", e.CardURL, len(e.Document), e.Hash, len(body), sum)
		case e.Evidence == nil || e.Evidence.CatalogURL != catalog:
			t.Errorf("%s: evidence %+v, want %s", e.CardURL, e.Evidence, catalog)
		case e.Description == "" || e.Name == "" || e.CheckedAt.IsZero():
			t.Errorf("%s: %+v", e.CardURL, e)
		}
		seen[e.CardURL] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// feed reads on from the last look. Every site's documents stay as they are,
// so each card has one change, and none may come twice.
func (a *audit) feed(t *testing.T, s *sqlite.Store, entries int) {
	t.Helper()
	head, err := s.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if head.Seq < a.head.Seq || a.head.Epoch != "" && head.Epoch != a.head.Epoch {
		t.Errorf("the feed went from %+v to %+v", a.head, head)
	}
	changes, err := s.Changes(t.Context(), a.head.Seq, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range changes {
		if want := a.head.Seq + int64(i) + 1; c.Seq != want {
			t.Errorf("change %d of %s where %d was due", c.Seq, c.CardURL, want)
		}
		if c.Op != index.Upsert || c.Entry == nil || c.Entry.Seq != c.Seq {
			t.Errorf("change %+v", c)
		}
		if before, ok := a.fed[c.CardURL]; ok {
			t.Errorf("%s changed twice: %d and %d", c.CardURL, before, c.Seq)
		}
		a.fed[c.CardURL] = c.Seq
	}
	a.head = head
	if int(head.Seq) != entries || len(a.fed) != entries {
		t.Errorf("%d changes, %d of them read, about %d entries", head.Seq, len(a.fed), entries)
	}
}

// complete waits until every app is listed and nothing is due or leased.
func (a *audit) complete(t *testing.T, p *process, within time.Duration) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), a.path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for deadline := time.Now().Add(within); ; time.Sleep(200 * time.Millisecond) {
		stats, err := s.Stats(t.Context(), time.Now())
		if err != nil && !errors.Is(err, index.ErrLocked) {
			t.Fatal(err)
		}
		if err == nil && int(stats.Entries[index.Listed]) == len(a.net.cards) && stats.Due == 0 {
			return
		}
		select {
		case <-p.done:
			t.Fatalf("the crawler ended by itself: %v; it wrote:\n%s", p.err, p.log)
		default:
		}
		if time.Now().After(deadline) {
			t.Fatalf("not done after %s: %+v; it wrote:\n%s", within, stats, p.log)
		}
	}
}

// leased counts the hosts that somebody holds or held when it was killed.
func (a *audit) leased(t *testing.T) (n int) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+a.path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow(`SELECT count(*) FROM host WHERE lease_until > ?`, time.Now().UnixMicro()).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
