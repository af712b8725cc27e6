package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// AddSource implements index.Store.
func (s *Store) AddSource(ctx context.Context, now time.Time, docs ...index.NewDoc) (capped []index.NewDoc, err error) {
	if len(docs) == 0 {
		return nil, nil
	}
	for i := range docs {
		if err := checkNew(&docs[i]); err != nil {
			return nil, fmt.Errorf("add source: %w", err)
		}
	}
	err = s.writing(ctx, "add source", func(t *tx) error {
		touched := make(map[string]bool)
		if capped, err = t.add(now, docs, touched); err != nil {
			return err
		}
		if err := t.spend(now); err != nil {
			return err
		}
		if err := t.outcomes(index.Capped(capped, now)); err != nil {
			return err
		}
		if err := t.trim(); err != nil {
			return err
		}
		return t.settle(touched, micro(now))
	})
	if err != nil {
		return nil, err
	}
	return capped, nil
}

// adding is the state of one call of add: what is known, and the rows that are
// still to be inserted.
type adding struct {
	*tx
	now   time.Time
	docs  map[string]index.Doc // known ones: URL, and as long as they are unread Kind and From
	hosts map[string]time.Time // known hosts and when they were last pinged

	newHosts [][]any
	newDocs  map[newDoc][]string // URLs
}

// newDoc is what documents that are inserted by one statement have in common.
type newDoc struct {
	host          string
	kind          index.Kind
	class         index.Class
	due           int64
	from, foundBy string
}

// add writes documents that were heard of and gives those that the limits
// turned away. Hosts whose documents changed are put into touched.
func (t *tx) add(now time.Time, docs []index.NewDoc, touched map[string]bool) (capped []index.NewDoc, err error) {
	if len(docs) == 0 {
		return nil, nil
	}
	a := &adding{
		tx: t, now: now,
		docs: make(map[string]index.Doc, len(docs)), hosts: make(map[string]time.Time),
	}
	if err := a.load(docs); err != nil {
		return nil, err
	}
	for i := range docs {
		if err := t.alive(); err != nil {
			return nil, err
		}
		d := &docs[i]
		host := authority(d.URL)
		if known, ok := a.docs[d.URL]; ok {
			if err := a.again(d, &known, host, touched); err != nil {
				return nil, err
			}
			continue
		}
		_, hostKnown := a.hosts[host]
		allowed, err := t.allowed(d, host, hostKnown, now)
		if err != nil {
			return nil, err
		}
		if !allowed {
			capped = append(capped, *d)
			continue
		}
		if err := a.insert(d, host); err != nil {
			return nil, err
		}
		touched[host] = true
	}
	return capped, a.flush()
}

// flush inserts the rows that wait.
func (a *adding) flush() error {
	q := &a.store.stmts
	if len(a.newHosts) > 0 {
		if _, err := a.exec(q.addHosts, jsonRows(a.newHosts)); err != nil {
			return err
		}
	}
	for n, urls := range a.newDocs {
		_, err := a.exec(q.addDocs, string(n.kind), int64(n.class), n.due, n.from, n.foundBy, micro(a.now), jsonList(urls), n.host)
		if err != nil {
			return err
		}
	}
	a.newHosts, a.newDocs = nil, nil
	return nil
}

// load asks what is known of docs and their hosts.
func (a *adding) load(docs []index.NewDoc) error {
	q := &a.store.stmts
	urls, hosts := make([]string, len(docs)), make([]string, len(docs))
	for i := range docs {
		urls[i], hosts[i] = docs[i].URL, authority(docs[i].URL)
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	err := a.each(q.known, func(rows *sql.Rows) error {
		var d index.Doc
		err := rows.Scan(&d.URL, word[index.Kind]{&d.Kind}, &d.From, moment{&d.ReadAt})
		a.docs[d.URL] = d
		return err
	}, jsonList(urls))
	if err != nil {
		return err
	}
	return a.each(q.knownHosts, func(rows *sql.Rows) error {
		var name string
		var pinged time.Time
		err := rows.Scan(&name, moment{&pinged})
		a.hosts[name] = pinged
		return err
	}, jsonList(hosts))
}

// again makes a known document due if it was asked for; otherwise it keeps its
// place. A better hint about its kind counts in any case.
func (a *adding) again(d *index.NewDoc, known *index.Doc, host string, touched map[string]bool) error {
	better := d.Outweighs(known)
	if better || d.Now || d.Ping {
		if err := a.flush(); err != nil { // it may be one of those
			return err
		}
	}
	if better {
		known.Kind = d.Kind
		from, by := any(nil), any(nil) // as they were
		if authority(d.From) == host {
			known.From, from, by = d.From, d.From, d.FoundBy
		}
		a.docs[d.URL] = *known
		if _, err := a.exec(a.store.stmts.setKind, string(d.Kind), from, by, d.URL); err != nil {
			return err
		}
	}
	switch {
	case d.Now:
	case d.Ping:
		if last := a.hosts[host]; !last.IsZero() && a.now.Sub(last) < index.PingGap {
			return nil
		}
		if err := a.ping(host); err != nil {
			return err
		}
	default:
		return nil
	}
	touched[host] = true
	_, err := a.exec(a.store.stmts.want, micro(a.now), int64(d.Class), d.URL)
	return err
}

func (a *adding) ping(host string) error {
	a.hosts[host] = a.now
	_, err := a.exec(a.store.stmts.pinged, micro(a.now), host)
	return err
}

func (a *adding) insert(d *index.NewDoc, host string) error {
	if _, ok := a.hosts[host]; !ok {
		a.newHosts = append(a.newHosts, []any{host, index.RegistrableDomain(host), d.FoundBy, micro(a.now)})
		a.hosts[host] = time.Time{}
	}
	due := a.now
	if d.Ping && !d.Now {
		// One visit in ten minutes, whichever address of the origin was named.
		if last := a.hosts[host]; !last.IsZero() && a.now.Sub(last) < index.PingGap {
			due = last.Add(index.PingGap)
		} else if err := errors.Join(a.flush(), a.ping(host)); err != nil {
			return err
		}
	}
	a.docs[d.URL] = index.Doc{URL: d.URL, Kind: d.Kind, From: d.From}
	if a.added == nil {
		a.added = make(map[string]bool)
	}
	a.added[d.URL] = true
	if a.newDocs == nil {
		a.newDocs = make(map[newDoc][]string)
	}
	n := newDoc{host, d.Kind, d.Class, micro(due), d.From, d.FoundBy}
	a.newDocs[n] = append(a.newDocs[n], d.URL)
	return nil
}

// NextDue implements index.Store.
func (s *Store) NextDue(ctx context.Context) (time.Time, error) {
	var at time.Time
	if err := s.stmts.nextDue.QueryRowContext(ctx).Scan(moment{&at}); err != nil {
		return time.Time{}, fmt.Errorf("next due: %w", explain(err))
	}
	return at, nil
}

// Lease implements index.Store.
func (s *Store) Lease(ctx context.Context, r index.LeaseRequest) ([]index.Lease, error) {
	switch {
	case r.Owner == "":
		return nil, errors.New("lease: the request names no owner")
	case r.Now.IsZero():
		return nil, errors.New("lease: the request names no time")
	case r.Hosts <= 0:
		return nil, nil
	}
	if r.TTL <= 0 {
		r.TTL = index.LeaseTTL
	}
	if r.Docs <= 0 {
		r.Docs = index.LeaseDocs
	}
	if err := s.claimAlive(ctx, r.Now); err != nil {
		return nil, err
	}
	var leases []index.Lease
	var docs []map[string]knownDoc
	// A power cut ends all owners, who are processes of this machine: a lease
	// that is lost with them protects nobody.
	err := s.transact(ctx, "lease", "NORMAL", func(t *tx) (err error) {
		ids, err := t.choose(micro(r.Now), r.Hosts)
		if err != nil || len(ids) == 0 {
			return err
		}
		leases, docs, err = t.claim(r, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.leased.remember(leases, docs, r.Now)
	return leases, nil
}

// choose picks hosts whose time has come, each class with its share.
func (t *tx) choose(now int64, n int) ([]int64, error) {
	var waiting [4][]int64
	var due [4]int
	for class := range waiting {
		err := t.each(t.store.stmts.waiting, func(rows *sql.Rows) error {
			var id int64
			err := rows.Scan(&id)
			waiting[class] = append(waiting[class], id)
			return err
		}, class, now, n)
		if err != nil {
			return nil, err
		}
		due[class] = len(waiting[class])
	}
	t.store.turnsMu.Lock()
	got := t.store.turns.Take(due, n)
	t.store.turnsMu.Unlock()
	var ids []int64
	for class, n := range got {
		ids = append(ids, waiting[class][:n]...)
	}
	return ids, nil
}

// claim makes the hosts r.Owner's and reads what is due on them. It also gives
// what is to be remembered of each lease.
func (t *tx) claim(r index.LeaseRequest, ids []int64) (leases []index.Lease, handed []map[string]knownDoc, err error) {
	type claimed struct {
		index.Lease
		id   int64
		docs []*dueDoc
	}
	until := fromMicro(micro(r.Now.Add(r.TTL)))
	hosts := make([]*claimed, 0, len(ids))
	byID := make(map[int64]*claimed, len(ids))
	err = t.each(t.store.stmts.claim, func(rows *sql.Rows) error {
		h := &claimed{Lease: index.Lease{Owner: r.Owner, Until: until}}
		err := scanHost(rows, &h.Host, &h.No, &h.id)
		hosts, byID[h.id] = append(hosts, h), h
		return err
	}, r.Owner, micro(until), jsonNumbers(ids))
	if err != nil {
		return nil, nil, err
	}
	slices.SortFunc(hosts, func(a, b *claimed) int {
		if a.Host.Class != b.Host.Class {
			return int(a.Host.Class - b.Host.Class)
		}
		return a.Host.NextAt.Compare(b.Host.NextAt)
	})
	err = t.each(t.store.stmts.dueDocs, func(rows *sql.Rows) error {
		var host int64
		d := new(dueDoc)
		if err := scanDoc(rows, &d.Doc, &host, &d.id, &d.asked, &d.body); err != nil {
			return err
		}
		h := byID[host]
		d.Host = h.Host.Name
		h.docs = append(h.docs, d)
		return nil
	}, jsonNumbers(ids), micro(r.Now), r.Docs)
	if err != nil {
		return nil, nil, err
	}
	var asked []int64
	for _, h := range hosts {
		slices.SortFunc(h.docs, byClassAndTime)
		docs := h.docs[:min(len(h.docs), r.Docs)]
		known := make(map[string]knownDoc, len(docs))
		h.Docs = make([]index.Doc, 0, len(docs))
		for _, d := range docs {
			h.Docs = append(h.Docs, d.Doc)
			k := knownDoc{id: d.id, kind: d.Kind, needs: lines(d.Needs), hash: d.Hash, body: d.body}
			k.sum = t.store.leased.contents(&d.Doc, &k)
			known[d.URL] = k
			if d.asked {
				asked = append(asked, d.id)
			}
		}
		leases, handed = append(leases, h.Lease), append(handed, known)
	}
	if len(asked) > 0 {
		_, err = t.exec(t.store.stmts.handedOut, jsonNumbers(asked))
	}
	return leases, handed, err
}

// dueDoc is a document that a lease may hand out.
type dueDoc struct {
	index.Doc
	id    int64
	asked bool
	body  bool // whether there is one
}

func byClassAndTime(a, b *dueDoc) int {
	if a.Class != b.Class {
		return int(a.Class - b.Class)
	}
	if c := a.NextAt.Compare(b.NextAt); c != 0 {
		return c
	}
	return strings.Compare(a.URL, b.URL)
}
