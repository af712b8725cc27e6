package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// Apply implements index.Store. All visits of one call are one transaction;
// what a fenced visit would have written is left out of it. A visit that breaks
// the contract (a document of another host, an entry without a state) is the
// caller's fault: the call writes nothing and the error says which one it is.
func (s *Store) Apply(ctx context.Context, visits ...index.Visit) ([]index.Applied, error) {
	if len(visits) == 0 {
		return nil, nil
	}
	for i := range visits {
		if err := checkVisit(&visits[i]); err != nil {
			return nil, fmt.Errorf("apply visit of %s: %w", visits[i].Host, err)
		}
	}
	var applied []index.Applied
	var published bool
	err := s.writing(ctx, "apply", func(t *tx) error {
		b := &batch{tx: t, touched: make(map[string]bool)}
		if err := b.load(visits); err != nil {
			return err
		}
		applied = make([]index.Applied, len(visits))
		for i := range visits {
			if err := b.visit(&visits[i], &applied[i]); err != nil {
				return fmt.Errorf("visit of %s: %w", visits[i].Host, err)
			}
		}
		if err := t.trim(); err != nil {
			return err
		}
		if err := t.settle(b.touched, b.now); err != nil {
			return err
		}
		published = b.published
		return b.publish()
	})
	if err != nil {
		return nil, err
	}
	if published {
		s.watch.notify()
	}
	return applied, nil
}

func checkVisit(v *index.Visit) error {
	switch {
	case v.Owner == "" || v.No == 0:
		return errors.New("it names no lease")
	case v.At.IsZero():
		return errors.New("it names no time")
	}
	for i := range v.Docs {
		d := &v.Docs[i]
		if d.Host != v.Host || authority(d.URL) != v.Host || !strings.HasPrefix(d.URL, "https://") {
			return fmt.Errorf("document %s is on another host", d.URL)
		}
		if err := checkClass(d.Class); err != nil {
			return fmt.Errorf("document %s: %w", d.URL, err)
		}
	}
	for _, url := range v.Drop {
		if authority(url) != v.Host {
			return fmt.Errorf("document %s to drop is on another host", url)
		}
	}
	for i := range v.Found {
		if err := checkNew(&v.Found[i]); err != nil {
			return fmt.Errorf("found: %w", err)
		}
	}
	for i := range v.Entries {
		e := &v.Entries[i]
		switch e.State {
		case index.Listed, index.Stale, index.Hidden, index.Removed, index.Blocked:
		default:
			return fmt.Errorf("entry %s has no state that an entry can have: %q", e.CardURL, e.State)
		}
		if e.ID != "" && e.ID != index.ID(e.CardURL) {
			return fmt.Errorf("entry %s has the id of another card", e.CardURL)
		}
	}
	return nil
}

// batch is the state of one call of Apply.
type batch struct {
	*tx
	touched map[string]bool // hosts whose documents or not_before changed
	now     int64           // latest visit
	old     map[string]*index.Entry
	known   map[string]knownDoc

	published bool
	head      index.Head
}

// knownDoc is what is known of a stored document.
type knownDoc struct {
	id    int64
	kind  index.Kind
	needs string
}

// load asks for what the visits will be compared with: one query a table and
// not one a row.
func (b *batch) load(visits []index.Visit) error {
	var ids, urls []string
	for i := range visits {
		v := &visits[i]
		b.now = max(b.now, micro(v.At))
		for j := range v.Entries {
			ids = append(ids, index.ID(v.Entries[j].CardURL))
		}
		for j := range v.Docs {
			urls = append(urls, v.Docs[j].URL)
		}
	}
	q := &b.store.stmts
	if len(urls) > 0 {
		b.known = make(map[string]knownDoc, len(urls))
		err := b.each(q.oldDocs, func(rows *sql.Rows) error {
			var url string
			var k knownDoc
			err := rows.Scan(&url, &k.id, &k.kind, &k.needs)
			b.known[url] = k
			return err
		}, jsonList(urls))
		if err != nil {
			return err
		}
	}
	if len(ids) == 0 {
		return nil
	}
	b.old = make(map[string]*index.Entry, len(ids))
	err := b.each(q.oldEntries, func(rows *sql.Rows) error {
		e := new(index.Entry)
		err := scanEntry(rows, e)
		b.old[e.ID] = e
		return err
	}, jsonList(ids))
	if err != nil {
		return err
	}
	var dropped int64
	return scanHead(b.sql.QueryRowContext(b.ctx, headText), &b.head, &dropped)
}

// visit writes one visit, unless its lease is lost.
func (b *batch) visit(v *index.Visit, a *index.Applied) error {
	q := &b.store.stmts
	n, err := b.exec(q.fence, v.Gap.Microseconds(), micro(v.NotBefore), int64(v.Fails), v.IPKey, v.Host, v.Owner, v.No)
	if err != nil {
		return err
	}
	if n == 0 {
		a.Fenced = true
		return nil
	}
	b.touched[v.Host] = true
	if v.Robots != nil {
		values, err := robotsValues(v.Robots)
		if err != nil {
			return err
		}
		if _, err := b.exec(q.setRobots, append(values, v.Host)...); err != nil {
			return err
		}
	}
	if err := b.docs(v); err != nil {
		return err
	}
	if a.Capped, err = b.add(v.At, v.Found, b.touched); err != nil {
		return err
	}
	for i := range v.Entries {
		if err := b.entry(v.At, v.Entries[i], a); err != nil {
			return err
		}
	}
	// The visit's own word about a document comes last, so that it is the newest.
	if err := b.outcomes(index.Capped(a.Capped, v.At)); err != nil {
		return err
	}
	if err := b.outcomes(v.Outcomes); err != nil {
		return err
	}
	if len(v.Wake) == 0 {
		return nil
	}
	judged := make([]string, len(v.Docs))
	for i := range v.Docs {
		judged[i] = v.Docs[i].URL
	}
	return b.each(q.wake, func(rows *sql.Rows) error {
		var host string
		err := rows.Scan(&host)
		b.touched[host] = true
		return err
	}, micro(v.At), jsonList(v.Wake), jsonList(judged))
}

func (b *batch) docs(v *index.Visit) error {
	for i := range v.Docs {
		if err := b.doc(&v.Docs[i]); err != nil {
			return err
		}
	}
	for _, url := range v.Drop {
		if _, err := b.exec(b.store.stmts.drop, url, v.Host); err != nil {
			return err
		}
		delete(b.known, url)
	}
	return nil
}

func (b *batch) doc(d *index.Doc) (err error) {
	q := &b.store.stmts
	old, known := b.known[d.URL]
	k := knownDoc{id: old.id, kind: d.Kind, needs: lines(d.Needs)}
	values := docValues(d, k.needs)
	switch {
	case !known:
		var r sql.Result
		if r, err = b.on(q.addWhole).ExecContext(b.ctx, values...); err == nil {
			k.id, err = r.LastInsertId()
		}
	case old.kind == d.Kind:
		_, err = b.exec(q.putSameKind, append(values, k.id)...)
	default:
		_, err = b.exec(q.putDoc, append(values, k.id)...)
	}
	if err != nil {
		return err
	}
	b.known[d.URL] = k
	if k.needs == old.needs {
		return nil
	}
	if _, err := b.exec(q.clearNeeds, k.id); err != nil {
		return err
	}
	for _, need := range d.Needs {
		if _, err := b.exec(q.addNeed, need, k.id); err != nil {
			return err
		}
	}
	return nil
}

// entry writes one entry and, if readers can see the difference, publishes it.
func (b *batch) entry(at time.Time, e index.Entry, a *index.Applied) error {
	e.ID = index.ID(e.CardURL)
	old := b.old[e.ID]
	if e.Hash == "" && len(e.Document) > 0 {
		sum := sha256.Sum256(e.Document)
		e.Hash = hex.EncodeToString(sum[:])
	}
	if old != nil {
		if e.Name == "" && e.Version == "" {
			e.Name, e.Version = old.Name, old.Version
		}
		if e.FirstSeen.IsZero() {
			e.FirstSeen = old.FirstSeen
		}
		e.Seq, e.UpdatedAt = old.Seq, old.UpdatedAt
	}
	if e.FirstSeen.IsZero() {
		e.FirstSeen = at
	}
	if e.State == index.Removed || e.State == index.Blocked {
		e = e.Tombstone()
	}
	if e.News(old) {
		b.published = true
		b.head.Seq++
		next := b.head.UpdatedAt.Add(time.Microsecond)
		if b.head.UpdatedAt = fromMicro(micro(at)); b.head.UpdatedAt.Before(next) {
			b.head.UpdatedAt = next
		}
		e.Seq, e.UpdatedAt = b.head.Seq, b.head.UpdatedAt
	}
	put, values := b.store.stmts.putEntry, entryValues(&e)
	if old != nil && e.Seq == old.Seq && e.Hash == old.Hash {
		put, values = b.store.stmts.touchEntry, values[:len(values)-1]
	}
	if _, err := b.exec(put, values...); err != nil {
		return err
	}
	if old == nil || e.Seq != old.Seq {
		a.Changes = append(a.Changes, e.Change())
	}
	b.old[e.ID] = &e
	return nil
}

// publish moves the end of the feed, in the same transaction as its changes.
func (b *batch) publish() error {
	if !b.published {
		return nil
	}
	_, err := b.exec(b.store.stmts.advance, b.head.Seq, micro(b.head.UpdatedAt))
	return err
}
