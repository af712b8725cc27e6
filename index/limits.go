package index

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/publicnet"
)

// Numbers of the Store contract.
const (
	LeaseTTL       = 60 * time.Second    // a lease whose request names no TTL (F2)
	LeaseDocs      = 100                 // due documents a host, when the request names no number
	PingGap        = 10 * time.Minute    // between two pings of one origin (OB-135)
	LimitWindow    = 24 * time.Hour      // the day that Limits count over: the last 24 hours, not the calendar's
	KeepOutcomes   = 10                  // newest outcomes kept a document
	MaxFound       = 10_000              // documents that one visit may bring; the rest is turned away
	KeepTombstones = 90 * 24 * time.Hour // IX-10
)

// OrDefault fills in the numbers that are 0.
func (l Limits) OrDefault() Limits {
	if l.HostsPerDomain == 0 {
		l.HostsPerDomain = 100
	}
	if l.ForeignPerFinder == 0 {
		l.ForeignPerFinder = 100
	}
	if l.NewPerHost == 0 {
		l.NewPerHost = 1000
	}
	return l
}

// RegistrableDomain is the registrable domain of an authority ("host" or
// "host:port"), by the Public Suffix List with its private section (A1):
// "a.github.io" is one. A host that is a public suffix itself is its own.
func RegistrableDomain(authority string) string {
	host, _, _ := strings.Cut(authority, ":")
	return publicnet.RegistrableDomain(host)
}

// Exempt reports whether Limits leave d alone: the operator named it. What
// strangers submit is a ping, and what a document names has a From.
func (d *NewDoc) Exempt() bool { return d.Class == ClassUser && !d.Ping && d.From == "" }

// Capped gives the outcomes that tell which documents Limits turned away (A3):
// one for each document that named them, or one at the new document's own URL
// when nobody did. Stores write them beside what they add.
func Capped(docs []NewDoc, at time.Time) []Outcome {
	const most = 20 // URLs named in one outcome
	var urls []string
	by := make(map[string][]NewDoc)
	for _, d := range docs {
		u := d.From
		if u == "" {
			u = d.URL
		}
		if by[u] == nil {
			urls = append(urls, u)
		}
		by[u] = append(by[u], d)
	}
	outcomes := make([]Outcome, 0, len(urls))
	for _, u := range urls {
		o := Outcome{URL: u, At: at, Code: OutcomeCapped}
		switch n := len(by[u]); {
		case by[u][0].From == "":
			o.Sentence = "Not added: too many new hosts or addresses of this registrable domain in one day. Add it again tomorrow."
		case n == 1:
			o.Sentence = "1 address that this document names was not followed yet, because of the daily limits on new hosts and addresses. It waits for a later visit."
		default:
			o.Sentence = fmt.Sprintf("%d addresses that this document names were not followed yet, because of the daily limits on new hosts and addresses. They wait for later visits.", n)
		}
		for d := range slices.Values(by[u][:min(most, len(by[u]))]) {
			o.Steps = append(o.Steps, Step{At: at, What: "limit", URL: d.URL, Result: string(OutcomeCapped)})
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}
