package sqlite

import (
	"database/sql"
	"encoding/json"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// allowance is what the limits still allow (A1, A2, D39), within one
// transaction. Rows are asked for when they are first needed; what is used up
// is written by spend.
type allowance struct {
	tx      *tx
	hosts   map[string]int             // new hosts of a domain
	finders map[string]map[string]bool // documents on other hosts, by the domain that brought them
	docs    map[string]*tally          // new documents, by the names that tallyNames gives
	leads   [][]any                    // rows of lead to be written

	from, fromHost string // the last From and its authority
}

// tally counts new documents.
type tally struct{ stored, more int }

// allowed asks the limits about an unknown document, and counts it against them
// if it passes.
func (t *tx) allowed(d *index.NewDoc, host string, hostKnown bool, now time.Time) (bool, error) {
	if d.Exempt() {
		return true, nil
	}
	a := t.left
	if a == nil {
		a = &allowance{tx: t, hosts: make(map[string]int), finders: make(map[string]map[string]bool), docs: make(map[string]*tally)}
		t.left = a
	}
	since, limits, domain := now.Add(-index.LimitWindow), &t.store.limits, index.RegistrableDomain(host)
	if !hostKnown {
		if n, err := a.newHosts(domain, since); err != nil || n >= limits.HostsPerDomain {
			return false, err
		}
	}
	if d.From != a.from {
		a.from, a.fromHost = d.From, authority(d.From)
	}
	if d.From != "" && a.fromHost != host {
		if ok, err := a.foreign(d, now, since); !ok {
			return false, err
		}
	} else {
		ofHost, ofDomain := tallyNames(host, domain, d.From == "")
		h, err := a.tally(ofHost, since)
		if err != nil || h.stored+h.more >= limits.NewPerHost {
			return false, err
		}
		all, err := a.tally(ofDomain, since)
		if err != nil || all.stored+all.more >= domainTimes*limits.NewPerHost {
			return false, err
		}
		h.more++
		all.more++
	}
	if !hostKnown {
		a.hosts[domain]++
	}
	return true, nil
}

// domainTimes is how many times NewPerHost all hosts of a domain have together.
const domainTimes = 10

// tallyNames are the names under which a host's and a domain's new documents
// are counted. Those that nobody's documents name are counted apart: strangers
// who submit addresses of a site do not use up what it may bring itself.
func tallyNames(host, domain string, submitted bool) (ofHost, ofDomain string) {
	if submitted {
		return "?" + host, "?*." + domain
	}
	return host, "*." + domain
}

func (a *allowance) newHosts(domain string, since time.Time) (int, error) {
	n, ok := a.hosts[domain]
	if !ok {
		if err := a.tx.on(a.tx.store.stmts.newInDomain).QueryRowContext(a.tx.ctx, domain, micro(since)).Scan(&n); err != nil {
			return 0, err
		}
		a.hosts[domain] = n
	}
	return n, nil
}

// foreign asks about a document on another host than the one that named it.
func (a *allowance) foreign(d *index.NewDoc, now, since time.Time) (bool, error) {
	finder := d.FoundBy
	if finder == "" {
		finder = index.RegistrableDomain(a.fromHost)
	}
	led, ok := a.finders[finder]
	if !ok {
		led = make(map[string]bool)
		err := a.tx.each(a.tx.store.stmts.ledBy, func(rows *sql.Rows) error {
			var url string
			err := rows.Scan(&url)
			led[url] = true
			return err
		}, finder, micro(since))
		if err != nil {
			return false, err
		}
		a.finders[finder] = led
	}
	// One that was found today and given up since counts only once.
	if led[d.URL] {
		return true, nil
	}
	if len(led) >= a.tx.store.limits.ForeignPerFinder {
		return false, nil
	}
	led[d.URL] = true
	a.leads = append(a.leads, []any{finder, micro(now), d.URL})
	return true, nil
}

func (a *allowance) tally(name string, since time.Time) (*tally, error) {
	c := a.docs[name]
	if c == nil {
		c = new(tally)
		if err := a.tx.on(a.tx.store.stmts.addedTo).QueryRowContext(a.tx.ctx, name, hour(since)).Scan(&c.stored); err != nil {
			return nil, err
		}
		a.docs[name] = c
	}
	return c, nil
}

// hour numbers the hour that a time lies in: new documents are counted by it.
func hour(t time.Time) int64 { return t.Unix() / 3600 }

// spend writes what was used up.
func (t *tx) spend(now time.Time) error {
	if t.left == nil {
		return nil
	}
	a, q := t.left, &t.store.stmts
	if len(a.leads) > 0 {
		finders := make(map[string]bool)
		for _, l := range a.leads {
			finders[l[0].(string)] = true
		}
		for finder := range finders {
			if _, err := t.exec(q.pruneLeads, finder, micro(now.Add(-index.LimitWindow))); err != nil {
				return err
			}
		}
		if _, err := t.exec(q.addLeads, jsonRows(a.leads)); err != nil {
			return err
		}
		a.leads = nil
	}
	for name, c := range a.docs {
		if c.more == 0 {
			continue
		}
		if c.stored > 0 { // else there is little to prune, and Compact does it
			if _, err := t.exec(q.pruneAdded, name, hour(now.Add(-index.LimitWindow))); err != nil {
				return err
			}
		}
		if _, err := t.exec(q.addAdded, name, hour(now), c.more); err != nil {
			return err
		}
		c.stored, c.more = c.stored+c.more, 0
	}
	return nil
}

// jsonRows passes rows of text and numbers to json_each, so that one statement
// writes many.
func jsonRows(rows [][]any) string {
	data, _ := json.Marshal(rows) // strings and numbers always marshal
	return string(data)
}
