// Package indextest owns the Store contract of package index as one test suite.
// Every store runs Exercise; the topics can be run one by one.
package indextest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
)

// Open gives a new, empty store with these limits and closes it when the test
// is over.
type Open func(t testing.TB, limits index.Limits) index.Store

// Exercise runs the whole suite, its topics in parallel.
func Exercise(t *testing.T, open Open) {
	for _, topic := range []struct {
		name string
		run  func(*testing.T, Open)
	}{
		{"sources", Sources},
		{"pings", Pings},
		{"kinds", Kinds},
		{"limits", Limits},
		{"foreign", Foreign},
		{"new documents", NewDocuments},
		{"leases", Leases},
		{"shares", Shares},
		{"due times", DueTimes},
		{"fences", Fences},
		{"atomicity", Atomicity},
		{"documents", Documents},
		{"bodies", Bodies},
		{"copies", Copies},
		{"needs", Needs},
		{"entries", Entries},
		{"states", States},
		{"leads", Leads},
		{"tombstones", Tombstones},
		{"feed", Feed},
		{"race", Race},
		{"snapshots", Snapshots},
		{"watch", Watch},
		{"compaction", Compaction},
		{"outcomes", Outcomes},
		{"forgetting", Forgetting},
		{"idle", Idle},
		{"stats", Stats},
	} {
		t.Run(topic.name, func(t *testing.T) {
			t.Parallel()
			topic.run(t, open)
		})
	}
}

// Addresses that the suite uses.
const (
	catalogURL = "https://a.example.com/.well-known/ai-catalog.json"
	cardURL    = "https://a.example.com/server-card.json"
	otherURL   = "https://b.example.net/server-card.json"
)

// start is when every story begins. Its nanoseconds are not kept.
var start = time.Date(2026, 8, 1, 12, 0, 0, 123456789, time.FixedZone("", 7200))

// stored is t as a store gives it back.
func stored(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// story is a store and a clock.
type story struct {
	testing.TB
	ctx context.Context
	index.Store
	now time.Time
}

func begin(t testing.TB, open Open) *story { return beginWith(t, open, index.Limits{}) }

func beginWith(t testing.TB, open Open, limits index.Limits) *story {
	t.Helper()
	return &story{TB: t, ctx: t.Context(), Store: open(t, limits), now: start}
}

// wait moves the clock.
func (s *story) wait(d time.Duration) { s.now = s.now.Add(d) }

// add makes documents known and expects that none is turned away.
func (s *story) add(docs ...index.NewDoc) {
	s.Helper()
	if capped := s.addCapped(docs...); len(capped) > 0 {
		s.Fatalf("turned away: %v", capped)
	}
}

func (s *story) addCapped(docs ...index.NewDoc) []index.NewDoc {
	s.Helper()
	capped, err := s.AddSource(s.ctx, s.now, docs...)
	if err != nil {
		s.Fatal(err)
	}
	return capped
}

// lease asks for so many hosts as "w1".
func (s *story) lease(hosts int) []index.Lease {
	s.Helper()
	return s.leaseAs("w1", hosts)
}

func (s *story) leaseAs(owner string, hosts int) []index.Lease {
	s.Helper()
	leases, err := s.Lease(s.ctx, index.LeaseRequest{Owner: owner, Now: s.now, Hosts: hosts})
	if err != nil {
		s.Fatal(err)
	}
	return leases
}

// take leases everything that is due and gives the lease of one host.
func (s *story) take(host string) index.Lease {
	s.Helper()
	for _, l := range s.lease(1000) {
		if l.Host.Name == host {
			return l
		}
	}
	s.Fatalf("%s is not due", host)
	return index.Lease{}
}

// visit is a visit in which every leased document was read and comes round
// again after a day.
func (s *story) visit(l index.Lease) index.Visit {
	v := index.Visit{Host: l.Host.Name, Owner: l.Owner, No: l.No, At: s.now}
	for _, d := range l.Docs {
		d.CheckedAt, d.NextAt = s.now, s.now.Add(24*time.Hour)
		v.Docs = append(v.Docs, d)
	}
	return v
}

// apply writes visits and expects that none is fenced.
func (s *story) apply(visits ...index.Visit) []index.Applied {
	s.Helper()
	applied, err := s.Apply(s.ctx, visits...)
	if err != nil {
		s.Fatal(err)
	}
	if len(applied) != len(visits) {
		s.Fatalf("%d visits gave %d results", len(visits), len(applied))
	}
	for i, a := range applied {
		if a.Fenced {
			s.Fatalf("visit %d of %s was fenced", i, visits[i].Host)
		}
	}
	return applied
}

// publish writes entries with a visit to a host of their own, and gives the
// changes.
func (s *story) publish(entries ...index.Entry) []index.Change {
	s.Helper()
	const door = "https://door.example.org/"
	s.add(index.NewDoc{URL: door, Now: true})
	v := s.visit(s.take("door.example.org"))
	v.Entries = entries
	return s.apply(v)[0].Changes
}

// entry is a listed app.
func (s *story) entry(n int) index.Entry {
	url := fmt.Sprintf("https://app%d.example.com/server-card.json", n)
	document := fmt.Appendf(nil, `{"name":"com.example/app%d"}`, n)
	return index.Entry{
		ID: index.ID(url), CardURL: url, FinalURL: url,
		Document: document, Hash: index.ID(string(document)),
		Name: fmt.Sprintf("com.example/app%d", n), Version: "1.0.0",
		Identifier: fmt.Sprintf("urn:app:%d", n), DisplayName: "App", Description: "An app.", Tags: []string{"one", "two\nlines"},
		Evidence: &catalog.Evidence{
			Kind: catalog.WellKnown, CatalogURL: fmt.Sprintf("https://app%d.example.com/.well-known/ai-catalog.json", n),
			Chain: []string{"https://x.example.com/a", "https://x.example.com/b"}, CheckedAt: stored(s.now),
		},
		State: index.Listed, FirstSeen: stored(s.now), CheckedAt: stored(s.now),
	}
}

func (s *story) get(id string) *index.Entry {
	s.Helper()
	e, err := s.Get(s.ctx, id)
	if err != nil {
		s.Fatal(err)
	}
	return e
}

func (s *story) doc(url string) *index.Doc {
	s.Helper()
	d, err := s.Doc(s.ctx, url)
	if err != nil {
		s.Fatal(err)
	}
	return d
}

func (s *story) host(name string) *index.Host {
	s.Helper()
	h, err := s.Host(s.ctx, name)
	if err != nil {
		s.Fatal(err)
	}
	return h
}

func (s *story) head() index.Head {
	s.Helper()
	h, err := s.Head(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	return h
}

func (s *story) changes(after int64, n int) []index.Change {
	s.Helper()
	c, err := s.Changes(s.ctx, after, n)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

func (s *story) wantNextDue(want time.Time) {
	s.Helper()
	got, err := s.NextDue(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	if !want.IsZero() {
		want = stored(want)
	}
	if !got.Equal(want) {
		s.Errorf("next due is %v, want %v", got, want)
	}
}

// same compares what was written with what came back.
func same(t testing.TB, what string, want, got any, opts ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// hostsOf gives the host names of leases, in order.
func hostsOf(leases []index.Lease) []string {
	var names []string
	for _, l := range leases {
		names = append(names, l.Host.Name)
	}
	return names
}

// urlsOf gives the URLs of documents, in order.
func urlsOf(docs []index.Doc) []string {
	var urls []string
	for _, d := range docs {
		urls = append(urls, d.URL)
	}
	return urls
}
