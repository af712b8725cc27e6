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
	"github.com/openbot-build/openbot-go/internal/weburl"
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

func checkNew(d *index.NewDoc) error {
	u, err := weburl.Parse(d.URL)
	if err != nil {
		return err
	}
	if u.String() != d.URL {
		return fmt.Errorf("%q is not in normal form, which is %q", d.URL, u.String())
	}
	return checkClass(d.Class)
}

func checkClass(c index.Class) error {
	if c < index.ClassUser || c > index.ClassNew {
		return fmt.Errorf("there is no class %d", c)
	}
	return nil
}

// authority is the host part of an URL in normal form.
func authority(url string) string {
	rest := strings.TrimPrefix(url, "https://")
	host, _, _ := strings.Cut(rest, "/")
	return host
}

// adding is the state of one call of add: what is known, and what the limits
// still allow.
type adding struct {
	*tx
	now     time.Time
	docs    map[string]bool      // known URLs
	hosts   map[string]time.Time // known hosts and when they were last pinged
	domains map[string]int       // new hosts of a domain within the last day
	finders map[string]map[string]bool
}

// add writes documents that were heard of and gives those that the limits
// turned away. Hosts whose documents changed are put into touched.
func (t *tx) add(now time.Time, docs []index.NewDoc, touched map[string]bool) (capped []index.NewDoc, err error) {
	if len(docs) == 0 {
		return nil, nil
	}
	a := &adding{
		tx: t, now: now,
		docs: make(map[string]bool), hosts: make(map[string]time.Time),
		domains: make(map[string]int), finders: make(map[string]map[string]bool),
	}
	if err := a.load(docs); err != nil {
		return nil, err
	}
	for i := range docs {
		d := &docs[i]
		host := authority(d.URL)
		if a.docs[d.URL] {
			if err := a.again(d, host, touched); err != nil {
				return nil, err
			}
			continue
		}
		allowed, err := a.allowed(d, host)
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
	return capped, nil
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
		var url string
		err := rows.Scan(&url)
		a.docs[url] = true
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
// place.
func (a *adding) again(d *index.NewDoc, host string, touched map[string]bool) error {
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

// allowed asks the limits about an unknown document (A1, A2, D39), and counts
// it against them if it passes.
func (a *adding) allowed(d *index.NewDoc, host string) (bool, error) {
	if d.Class == index.ClassUser {
		return true, nil
	}
	q, since := &a.store.stmts, micro(a.now.Add(-index.LimitWindow))
	_, hostKnown := a.hosts[host]
	domain := ""
	if !hostKnown {
		domain = index.RegistrableDomain(host)
		if _, ok := a.domains[domain]; !ok {
			var n int
			if err := a.on(q.newInDomain).QueryRowContext(a.ctx, domain, since).Scan(&n); err != nil {
				return false, err
			}
			a.domains[domain] = n
		}
		if a.domains[domain] >= a.store.limits.HostsPerDomain {
			return false, nil
		}
	}
	if d.Kind == index.CardDoc && d.FoundBy != "" && authority(d.From) != host {
		led, ok := a.finders[d.FoundBy]
		if !ok {
			led = make(map[string]bool)
			err := a.each(q.ledBy, func(rows *sql.Rows) error {
				var url string
				err := rows.Scan(&url)
				led[url] = true
				return err
			}, d.FoundBy, since)
			if err != nil {
				return false, err
			}
			a.finders[d.FoundBy] = led
		}
		// One that was found today and given up since counts only once.
		if !led[d.URL] {
			if len(led) >= a.store.limits.CardsPerFinder {
				return false, nil
			}
			led[d.URL] = true
			if _, err := a.exec(q.pruneLeads, d.FoundBy, since); err != nil {
				return false, err
			}
			if _, err := a.exec(q.addLead, d.FoundBy, micro(a.now), d.URL); err != nil {
				return false, err
			}
		}
	}
	if !hostKnown {
		a.domains[domain]++
	}
	return true, nil
}

func (a *adding) insert(d *index.NewDoc, host string) error {
	q, now := &a.store.stmts, micro(a.now)
	if _, ok := a.hosts[host]; !ok {
		if _, err := a.exec(q.addHost, host, index.RegistrableDomain(host), d.FoundBy, now); err != nil {
			return err
		}
		a.hosts[host] = time.Time{}
	}
	due := a.now
	if d.Ping && !d.Now {
		// One visit in ten minutes, whichever address of the origin was named.
		if last := a.hosts[host]; !last.IsZero() && a.now.Sub(last) < index.PingGap {
			due = last.Add(index.PingGap)
		} else if err := a.ping(host); err != nil {
			return err
		}
	}
	a.docs[d.URL] = true
	_, err := a.exec(q.addDoc, d.URL, host, string(d.Kind), int64(d.Class), micro(due), d.From, d.FoundBy, now)
	return err
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
	var leases []index.Lease
	err := s.writing(ctx, "lease", func(t *tx) (err error) {
		ids, err := t.choose(micro(r.Now), r.Hosts)
		if err != nil || len(ids) == 0 {
			return err
		}
		leases, err = t.claim(r, ids)
		return err
	})
	if err != nil {
		return nil, err
	}
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

// claim makes the hosts r.Owner's and reads what is due on them.
func (t *tx) claim(r index.LeaseRequest, ids []int64) ([]index.Lease, error) {
	until := fromMicro(micro(r.Now.Add(r.TTL)))
	leases := make([]index.Lease, 0, len(ids))
	names := make([]string, 0, len(ids))
	err := t.each(t.store.stmts.claim, func(rows *sql.Rows) error {
		l := index.Lease{Owner: r.Owner, Until: until}
		err := scanHost(rows, &l.Host, &l.No)
		leases, names = append(leases, l), append(names, l.Host.Name)
		return err
	}, r.Owner, micro(until), jsonNumbers(ids))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(leases, func(a, b index.Lease) int {
		if a.Host.Class != b.Host.Class {
			return int(a.Host.Class - b.Host.Class)
		}
		return a.Host.NextAt.Compare(b.Host.NextAt)
	})
	due := make(map[string][]dueDoc, len(leases))
	err = t.each(t.store.stmts.dueDocs, func(rows *sql.Rows) error {
		var d dueDoc
		err := scanDoc(rows, &d.Doc, &d.id, &d.asked)
		due[d.Host] = append(due[d.Host], d)
		return err
	}, jsonList(names), micro(r.Now), r.Docs)
	if err != nil {
		return nil, err
	}
	var asked []int64
	for i := range leases {
		l := &leases[i]
		docs := due[l.Host.Name]
		slices.SortFunc(docs, byClassAndTime)
		for _, d := range docs[:min(len(docs), r.Docs)] {
			l.Docs = append(l.Docs, d.Doc)
			if d.asked {
				asked = append(asked, d.id)
			}
		}
	}
	if len(asked) > 0 {
		_, err = t.exec(t.store.stmts.handedOut, jsonNumbers(asked))
	}
	return leases, err
}

// dueDoc is a document that a lease may hand out.
type dueDoc struct {
	index.Doc
	id    int64
	asked bool
}

func byClassAndTime(a, b dueDoc) int {
	if a.Class != b.Class {
		return int(a.Class - b.Class)
	}
	if c := a.NextAt.Compare(b.NextAt); c != 0 {
		return c
	}
	return strings.Compare(a.URL, b.URL)
}
