package sqlite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// Apply implements index.Store. All visits of one call are one transaction;
// what a fenced visit would have written is left out of it, and so is a visit
// whose own data cannot be written: the others are written without it.
func (s *Store) Apply(ctx context.Context, visits ...index.Visit) ([]index.Applied, error) {
	applied := make([]index.Applied, len(visits))
	var good []index.Visit
	var place []int // of good ones in visits
	for i := range visits {
		if err := checkVisit(&visits[i]); err != nil {
			applied[i].Err = fmt.Errorf("visit of %s: %w", visits[i].Host, err)
			continue
		}
		good, place = append(good, visits[i]), append(place, i)
	}
	for len(good) > 0 {
		results, err := s.apply(ctx, good)
		if bad, ok := errors.AsType[*visitError](err); ok {
			// It is a fault of this program, so it is rare: nothing is
			// prepared for it, and the batch is begun again without the visit.
			applied[place[bad.i]].Err = bad
			good, place = slices.Delete(good, bad.i, bad.i+1), slices.Delete(place, bad.i, bad.i+1)
			continue
		}
		if err != nil {
			return nil, err
		}
		for i, r := range results {
			applied[place[i]] = r
		}
		s.leased.forget(good)
		break
	}
	return applied, nil
}

// apply writes visits in one transaction. The error is a *visitError when
// another try without that visit may succeed.
func (s *Store) apply(ctx context.Context, visits []index.Visit) ([]index.Applied, error) {
	applied := make([]index.Applied, len(visits))
	var published bool
	err := s.writing(ctx, "apply", func(t *tx) error {
		b := &batch{tx: t, touched: make(map[string]bool), known: make(map[string]knownDoc), needed: make(map[string]bool)}
		if err := b.load(visits); err != nil {
			return err
		}
		for i := range visits {
			if err := t.alive(); err != nil {
				return err
			}
			if err := b.visit(&visits[i], &applied[i]); err != nil {
				if refused(err) {
					return &visitError{i, visits[i].Host, err}
				}
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

// batch is the state of one call of Apply.
type batch struct {
	*tx
	touched map[string]bool // hosts whose documents or not_before changed
	now     int64           // latest visit
	old     map[string]*index.Entry
	known   map[string]knownDoc
	needed  map[string]bool // URLs of visits' news that documents need
	cut     map[string]bool // documents of the present visit that the limits turned away
	shared  map[string]bool // cards of the present visit whose entry is made from the body that it writes

	published bool
	head      index.Head
}

// load asks for what the visits will be compared with: one query a table and
// not one a row.
func (b *batch) load(visits []index.Visit) error {
	var ids, urls, wake []string
	for i := range visits {
		v := &visits[i]
		b.now = max(b.now, micro(v.At))
		for j := range v.Entries {
			ids = append(ids, index.ID(v.Entries[j].CardURL))
		}
		wake = append(wake, v.Wake...)
		handed := b.store.leased.handed(v)
		for j := range v.Docs {
			url := v.Docs[j].URL
			if k, ok := handed[url]; ok {
				b.known[url] = k
			} else {
				urls = append(urls, url)
			}
		}
	}
	q := &b.store.stmts
	if len(urls) > 0 {
		err := b.each(q.oldDocs, func(rows *sql.Rows) error {
			var url string
			var k knownDoc
			err := rows.Scan(&url, &k.id, word[index.Kind]{&k.kind}, &k.needs, &k.hash, &k.body)
			b.known[url] = k
			return err
		}, jsonList(urls))
		if err != nil {
			return err
		}
	}
	if len(wake) > 0 {
		err := b.each(q.needed, func(rows *sql.Rows) error {
			var url string
			err := rows.Scan(&url)
			b.needed[url] = true
			return err
		}, jsonList(wake))
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
	if err := b.docs(v, a); err != nil {
		return err
	}
	most := min(len(v.Found), index.MaxFound)
	capped, err := b.add(v.At, v.Found[:most], b.touched)
	if err != nil {
		return err
	}
	a.Capped = append(append(a.Capped, capped...), v.Found[most:]...)
	if err := b.spend(v.At); err != nil {
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
	outcomes := v.Outcomes
	if b.cut != nil {
		outcomes = slices.DeleteFunc(slices.Clone(outcomes), func(o index.Outcome) bool { return b.cut[o.URL] })
	}
	if err := b.outcomes(outcomes); err != nil {
		return err
	}
	wake := slices.DeleteFunc(slices.Clone(v.Wake), func(url string) bool { return !b.needed[url] })
	if len(wake) == 0 {
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
	}, micro(v.At), jsonList(wake), jsonList(judged))
}

func (b *batch) docs(v *index.Visit, a *index.Applied) error {
	b.cut, b.shared = nil, nil
	for i := range v.Entries {
		e := &v.Entries[i]
		if len(e.Document) > 0 && slices.ContainsFunc(v.Docs, func(d index.Doc) bool { return d.URL == e.CardURL && bytes.Equal(d.Body, e.Document) }) {
			if b.shared == nil {
				b.shared = make(map[string]bool)
			}
			b.shared[e.CardURL] = true
		}
	}
	for i := range v.Docs {
		if err := b.doc(v, &v.Docs[i], a); err != nil {
			return err
		}
	}
	for _, url := range v.Drop {
		k, ok := b.known[url]
		if !ok {
			var err error
			if k, ok, err = b.lookUp(url); err != nil {
				return err
			}
		}
		if ok && k.body {
			if _, err := b.exec(b.store.stmts.ownDocument, k.id, index.ID(url)); err != nil {
				return err
			}
		}
		if _, err := b.exec(b.store.stmts.drop, url, v.Host); err != nil {
			return err
		}
		delete(b.known, url)
	}
	return nil
}

func (b *batch) doc(v *index.Visit, d *index.Doc, a *index.Applied) (err error) {
	q := &b.store.stmts
	old, known := b.known[d.URL]
	if !known && b.added[d.URL] { // by an earlier visit of the batch
		if old, known, err = b.lookUp(d.URL); err != nil {
			return err
		}
	}
	if !known {
		n := index.NewDoc{URL: d.URL, Kind: d.Kind, Class: d.Class, From: d.From, FoundBy: d.FoundBy}
		ok, err := b.allowed(&n, v.Host, true, v.At)
		if err != nil {
			return err
		}
		if !ok {
			if b.cut == nil {
				b.cut = make(map[string]bool)
			}
			b.cut[d.URL] = true
			a.Capped = append(a.Capped, n)
			return nil
		}
	}
	keep := old.keeps(d)
	k := knownDoc{id: old.id, kind: d.Kind, needs: lines(d.Needs), hash: d.Hash}
	k.body = keep && old.body || !keep && len(d.Body) > 0
	k.sum = b.store.leased.contents(d, &k)
	switch {
	case !known:
		var r sql.Result
		if r, err = b.on(q.addWhole).ExecContext(b.ctx, addValues(d, &k)...); err == nil {
			k.id, err = r.LastInsertId()
		}
	case k.sum == old.sum:
		_, err = b.exec(q.putTimes, timeValues(d, k.id)...)
	case old.kind == d.Kind:
		_, err = b.exec(q.putSameKind, contentValues(d, &k)...)
	default:
		_, err = b.exec(q.putDoc, append([]any{string(d.Kind)}, contentValues(d, &k)...)...)
	}
	if err == nil && !keep && old.body && !b.shared[d.URL] {
		_, err = b.exec(q.ownDocument, k.id, index.ID(d.URL))
	}
	switch {
	case err != nil || keep:
	case k.body && old.body:
		_, err = b.exec(q.putBody, d.Body, k.id)
	case k.body:
		_, err = b.exec(q.addBody, d.Body, k.id)
	case old.body:
		_, err = b.exec(q.dropBody, k.id)
	}
	if err != nil {
		return err
	}
	b.known[d.URL] = k
	if k.needs == old.needs {
		return nil
	}
	if old.needs != "" {
		if _, err := b.exec(q.clearNeeds, k.id); err != nil {
			return err
		}
	}
	for _, need := range d.Needs {
		if _, err := b.exec(q.addNeed, need, k.id); err != nil {
			return err
		}
		b.needed[need] = true
	}
	return nil
}

// lookUp asks for one document.
func (b *batch) lookUp(url string) (k knownDoc, ok bool, err error) {
	err = b.each(b.store.stmts.oldDocs, func(rows *sql.Rows) error {
		ok = true
		return rows.Scan(&url, &k.id, word[index.Kind]{&k.kind}, &k.needs, &k.hash, &k.body)
	}, jsonList([]string{url}))
	return k, ok, err
}

// entry writes one entry and, if readers can see the difference, publishes it.
func (b *batch) entry(at time.Time, e index.Entry, a *index.Applied) error {
	e.ID = index.ID(e.CardURL)
	old := b.old[e.ID]
	if old == nil && b.cut[e.CardURL] {
		return nil
	}
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
	var doc int64
	if b.shared[e.CardURL] && len(e.Document) > 0 {
		doc = b.known[e.CardURL].id
	}
	q := &b.store.stmts
	put, values := q.addEntry, entryValues(&e, doc)
	switch {
	case old == nil:
	case e.Seq == old.Seq && e.Hash == old.Hash:
		put, values = q.touchEntry, touchValues(&e)
	default:
		put, values = q.putEntry, append(values[2:], e.ID)
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
