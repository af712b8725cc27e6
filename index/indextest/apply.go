package indextest

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/robots"
)

// Fences: what a late worker writes is dropped whole (F3, IX-7).
func Fences(t *testing.T, open Open) {
	// late gives a full visit on a lease that spoil has made worthless, or not.
	late := func(t *testing.T, spoil func(*story, *index.Visit)) (*story, index.Applied) {
		s := begin(t, open)
		s.add(index.NewDoc{URL: catalogURL}, index.NewDoc{URL: otherURL})
		v := s.visit(s.take("a.example.com"))
		e := s.entry(1)
		v.Entries = []index.Entry{e}
		v.Found = []index.NewDoc{{URL: cardURL}}
		v.Outcomes = []index.Outcome{{URL: catalogURL, At: s.now, Code: index.OutcomeRead}}
		v.Robots = &robots.File{State: robots.None}
		v.Docs[0].ETag, v.Fails, v.NotBefore = `"late"`, 7, s.now.Add(time.Hour)
		v.Drop = []string{"https://a.example.com/none"}
		spoil(s, &v)
		host, doc := s.host("a.example.com"), s.doc(catalogURL)
		applied, err := s.Apply(s.ctx, v)
		if err != nil {
			t.Fatal(err)
		}
		if applied[0].Fenced {
			same(t, "host", host, s.host("a.example.com"))
			same(t, "document", doc, s.doc(catalogURL))
			if _, err := s.Get(s.ctx, e.ID); !errors.Is(err, index.ErrNotFound) {
				t.Errorf("entry: %v", err)
			}
			if _, err := s.Doc(s.ctx, cardURL); !errors.Is(err, index.ErrNotFound) {
				t.Errorf("found document: %v", err)
			}
			if o, err := s.Outcomes(s.ctx, catalogURL, 10); err != nil || len(o) != 0 {
				t.Errorf("outcomes: %v, %v", o, err)
			}
			if h := s.head(); h.Seq != 0 {
				t.Errorf("the feed moved to %d", h.Seq)
			}
			if len(applied[0].Changes)+len(applied[0].Capped) != 0 {
				t.Errorf("result %+v", applied[0])
			}
		}
		return s, applied[0]
	}
	for name, spoil := range map[string]func(*story, *index.Visit){
		"another owner":  func(_ *story, v *index.Visit) { v.Owner = "w2" },
		"another number": func(_ *story, v *index.Visit) { v.No++ },
		"taken over":     func(s *story, _ *index.Visit) { s.wait(index.LeaseTTL); s.leaseAs("w2", 10) },
		"taken over by itself": func(s *story, _ *index.Visit) {
			s.wait(index.LeaseTTL)
			s.leaseAs("w1", 10)
		},
		"applied before": func(s *story, v *index.Visit) {
			s.apply(index.Visit{Host: v.Host, Owner: v.Owner, No: v.No, At: s.now, NotBefore: s.now.Add(time.Second)})
		},
		"unknown host": func(_ *story, v *index.Visit) {
			*v = index.Visit{Host: "never.example.com", Owner: "w1", No: 1, At: v.At, Entries: v.Entries}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, a := late(t, spoil); !a.Fenced {
				t.Error("the visit was applied")
			}
		})
	}
	t.Run("ended, but not given again", func(t *testing.T) {
		s, a := late(t, func(s *story, _ *index.Visit) { s.wait(time.Hour) })
		if a.Fenced {
			t.Error("the visit was fenced")
		}
		s.doc(cardURL)
	})
	t.Run("a fenced visit costs only itself", func(t *testing.T) {
		s := begin(t, open)
		s.add(index.NewDoc{URL: catalogURL}, index.NewDoc{URL: otherURL}, index.NewDoc{URL: "https://c.example.org/"})
		leases := s.lease(10)
		var visits []index.Visit
		for i, l := range leases {
			v := s.visit(l)
			v.Entries = []index.Entry{s.entry(i)}
			visits = append(visits, v)
		}
		visits[1].No++
		visits = append(visits, visits[0]) // its lease ended with the first
		applied, err := s.Apply(s.ctx, visits...)
		if err != nil {
			t.Fatal(err)
		}
		var fenced []bool
		for _, a := range applied {
			fenced = append(fenced, a.Fenced)
		}
		same(t, "fenced", []bool{false, true, false, true}, fenced)
		s.get(s.entry(0).ID)
		s.get(s.entry(2).ID)
		if _, err := s.Get(s.ctx, s.entry(1).ID); !errors.Is(err, index.ErrNotFound) {
			t.Errorf("entry of the fenced visit: %v", err)
		}
		if h := s.head(); h.Seq != 2 {
			t.Errorf("head is %d, want 2", h.Seq)
		}
	})
}

// Atomicity: a visit is written whole or not at all, and ends its lease
// (IX-7, F4).
func Atomicity(t *testing.T, open Open) {
	t.Run("all of it", func(t *testing.T) {
		s := begin(t, open)
		s.add(index.NewDoc{URL: catalogURL}, index.NewDoc{URL: "https://a.example.com/old"})
		v := s.visit(s.take("a.example.com"))
		v.Docs = v.Docs[:1]
		v.Drop = []string{"https://a.example.com/old"}
		v.Found = []index.NewDoc{{URL: otherURL, Kind: index.CardDoc, Class: index.ClassNew, From: catalogURL, FoundBy: "example.com"}}
		v.Entries = []index.Entry{s.entry(1)}
		v.Outcomes = []index.Outcome{{URL: catalogURL, At: s.now, Code: index.OutcomeRead, Sentence: "Read."}}
		a := s.apply(v)[0]
		if len(a.Changes) != 1 || a.Changes[0].Seq != 1 || a.Changes[0].Op != index.Upsert {
			t.Errorf("changes %+v", a.Changes)
		}
		if d := s.doc(otherURL); d.From != catalogURL || d.FoundBy != "example.com" || d.Class != index.ClassNew || d.Host != "b.example.net" {
			t.Errorf("found document %+v", d)
		}
		if _, err := s.Doc(s.ctx, "https://a.example.com/old"); !errors.Is(err, index.ErrNotFound) {
			t.Errorf("dropped document: %v", err)
		}
		if o, err := s.Outcomes(s.ctx, catalogURL, 1); err != nil || len(o) != 1 {
			t.Errorf("outcomes %v, %v", o, err)
		}
		// The lease is over: new work can be had at once.
		s.add(index.NewDoc{URL: cardURL})
		if l := s.take("a.example.com"); l.No != 2 {
			t.Errorf("lease %d", l.No)
		}
	})
	for name, spoil := range map[string]func(*index.Visit){
		"document of another host": func(v *index.Visit) { v.Docs[0].Host = "b.example.net" },
		"URL of another host":      func(v *index.Visit) { v.Docs[0].URL = otherURL },
		"drop on another host":     func(v *index.Visit) { v.Drop = []string{otherURL} },
		"unknown class":            func(v *index.Visit) { v.Docs[0].Class = 4 },
		"entry without a state":    func(v *index.Visit) { v.Entries[0].State = "" },
		"entry that is a lead":     func(v *index.Visit) { v.Entries[0].State = index.Lead },
		"entry of another id":      func(v *index.Visit) { v.Entries[0].ID = index.ID("x") },
		"found no URL":             func(v *index.Visit) { v.Found = []index.NewDoc{{URL: "card.json"}} },
		"no lease":                 func(v *index.Visit) { v.Owner = "" },
		"no time":                  func(v *index.Visit) { v.At = time.Time{} },
	} {
		t.Run("broken: "+name, func(t *testing.T) {
			s := begin(t, open)
			s.add(index.NewDoc{URL: catalogURL}, index.NewDoc{URL: otherURL})
			leases := s.lease(2)
			good, bad := s.visit(leases[0]), s.visit(leases[1])
			if good.Host != "b.example.net" {
				good, bad = bad, good
			}
			bad.Entries = []index.Entry{s.entry(1)}
			good.Entries = []index.Entry{s.entry(2)}
			spoil(&bad)
			bad.Outcomes = []index.Outcome{{URL: catalogURL, At: s.now, Code: index.OutcomeRead}}
			applied, err := s.Apply(s.ctx, bad, good, bad)
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range applied {
				if a.Fenced || (a.Err != nil) != (i != 1) {
					t.Errorf("visit %d: %+v", i, a)
				}
			}
			// It cost itself only, whole, and its lease still stands.
			s.get(s.entry(2).ID)
			if _, err := s.Get(s.ctx, s.entry(1).ID); !errors.Is(err, index.ErrNotFound) {
				t.Errorf("entry of the broken visit: %v", err)
			}
			if o, err := s.Outcomes(s.ctx, catalogURL, 10); err != nil || len(o) != 0 {
				t.Errorf("outcomes of the broken visit: %v, %v", o, err)
			}
			if h := s.head(); h.Seq != 1 || len(applied[1].Changes) != 1 {
				t.Errorf("head is %d", h.Seq)
			}
			s.wait(time.Second)
			off := s.now.Add(time.Hour)
			for _, l := range leases {
				if l.Host.Name == "a.example.com" {
					s.apply(index.Visit{Host: l.Host.Name, Owner: l.Owner, No: l.No, At: s.now, NotBefore: off})
				}
			}
			s.wantNextDue(off)
		})
	}
	t.Run("batches", func(t *testing.T) { Batches(t, open) })
	t.Run("nothing", func(t *testing.T) {
		s := begin(t, open)
		if a, err := s.Apply(s.ctx); err != nil || len(a) != 0 {
			t.Errorf("%v, %v", a, err)
		}
	})
}

// Documents: every field comes back as it was written.
func Documents(t *testing.T, open Open) {
	s := begin(t, open)
	s.add(index.NewDoc{URL: catalogURL})
	l := s.take("a.example.com")
	at := func(n int) time.Time { return stored(s.now.Add(time.Duration(n)*time.Minute + 7*time.Microsecond)) }
	want := index.Doc{
		URL: catalogURL, Host: "a.example.com", Kind: index.CatalogDoc, Class: index.ClassRecheck,
		From: "https://b.example.net/", FoundBy: "example.net", FirstSeen: at(-1),
		NextAt: at(1), Interval: 90*time.Minute + time.Microsecond, CheckedAt: at(2), ReadAt: at(3), FullGetAt: at(4),
		Status: 304, FinalURL: "https://a.example.com/final", Chain: []string{catalogURL, "https://a.example.com/final"},
		ETag: "W/\"\xff\"", LastModified: "Sat, 01 Aug 2026 00:00:00 GMT", ContentType: "application/json", CacheControl: "max-age=60",
		Link: []string{`</a>; rel="ai-catalog"`, "\xe9 no UTF-8", ""}, XRobots: []string{`no\index`, "a\nb"},
		Hash: strings.Repeat("ab", 32), Body: []byte("{\x00\xff}"), Targets: []string{"https://c.example.org/catalog"},
		NoIndex: true, Fault: index.ReasonGone, FaultText: "Gone: 文本\x00.", FaultSince: at(5), Fails: 3,
		Needs: []string{"https://b.example.net/one", "https://b.example.net/two"},
	}
	v := index.Visit{
		Host: "a.example.com", Owner: l.Owner, No: l.No, At: s.now,
		Gap: 1500*time.Millisecond + time.Microsecond, NotBefore: at(0), Fails: 2, IPKey: "2001:db8::/64",
		Robots: &robots.File{
			State: robots.Found, Rules: robots.Parse([]byte("User-agent: *\nCrawl-delay: 5\nDisallow: /private\nAllow: /private/x$\n"), robots.Token),
			ReadAt: at(6), TriedAt: at(7), Unreachable: true, Problem: "503", ETag: `"r"`, LastModified: "yesterday", FinalURL: "https://a.example.com/robots.txt",
		},
		Docs: []index.Doc{want},
	}
	s.apply(v)
	same(t, "document", &want, s.doc(catalogURL))

	host := s.host("a.example.com")
	same(t, "host", &index.Host{
		Name: "a.example.com", Domain: "example.com", FirstSeen: stored(s.now), NextAt: at(1), Class: index.ClassRecheck,
		NotBefore: v.NotBefore, Gap: v.Gap, Fails: v.Fails, IPKey: v.IPKey, Robots: *v.Robots,
	}, host, cmpopts.IgnoreFields(robots.File{}, "Rules"))
	rules := host.Robots.Rules
	if rules == nil || rules.Allowed("/private/y") || !rules.Allowed("/private/x") || !rules.Allowed("/") || rules.CrawlDelay() != 5*time.Second {
		t.Error("the robots rules came back different")
	}

	// A lease hands out the same; a visit without robots leaves them alone.
	s.now = want.NextAt
	l = s.take("a.example.com")
	same(t, "leased document", []index.Doc{want}, l.Docs, cmpopts.IgnoreFields(index.Doc{}, "Body"))
	same(t, "leased host", *host, l.Host, cmp.Comparer(func(a, b *robots.Rules) bool { return (a == nil) == (b == nil) }))
	s.apply(index.Visit{Host: l.Host.Name, Owner: l.Owner, No: l.No, At: s.now})
	if h := s.host("a.example.com"); h.Robots.Rules == nil || h.Robots.State != robots.Found || h.Gap != 0 || h.IPKey != "" {
		t.Errorf("host %+v", h)
	}

	// Written whole: what is empty now is gone.
	l = s.take("a.example.com")
	bare := index.Doc{URL: catalogURL, Host: "a.example.com", FirstSeen: at(0), NextAt: at(9)}
	s.apply(index.Visit{Host: l.Host.Name, Owner: l.Owner, No: l.No, At: s.now, Docs: []index.Doc{bare}, Robots: &robots.File{State: robots.None, ReadAt: at(8)}})
	same(t, "document", &bare, s.doc(catalogURL))
	same(t, "robots", robots.File{State: robots.None, ReadAt: at(8)}, s.host("a.example.com").Robots)

	if _, err := s.Doc(s.ctx, otherURL); !errors.Is(err, index.ErrNotFound) {
		t.Errorf("unknown document: %v", err)
	}
	if _, err := s.Host(s.ctx, "b.example.net"); !errors.Is(err, index.ErrNotFound) {
		t.Errorf("unknown host: %v", err)
	}

	// A visit may bring a document of its host that nobody knew.
	l = s.leaseAfter(time.Hour, "a.example.com")
	fresh := index.Doc{URL: cardURL, Host: "a.example.com", Kind: index.CardDoc, FirstSeen: at(1), NextAt: at(2)}
	s.apply(index.Visit{Host: l.Host.Name, Owner: l.Owner, No: l.No, At: s.now, Docs: []index.Doc{fresh}})
	same(t, "document", &fresh, s.doc(cardURL))
}

func (s *story) leaseAfter(d time.Duration, host string) index.Lease {
	s.Helper()
	s.wait(d)
	return s.take(host)
}

// Needs: news about one document makes those that rest on it due.
func Needs(t *testing.T, open Open) {
	s := begin(t, open)
	const first, second = "https://b.example.net/one", "https://b.example.net/two"
	s.add(index.NewDoc{URL: catalogURL, Class: index.ClassRecheck}, index.NewDoc{URL: cardURL, Class: index.ClassRecheck}, index.NewDoc{URL: otherURL})
	leases := s.lease(10)
	i := slices.IndexFunc(leases, func(l index.Lease) bool { return l.Host.Name == "a.example.com" })
	v, other := s.visit(leases[i]), leases[1-i]
	v.Docs[0].Needs = []string{first, second}
	v.Docs[1].Needs = []string{second}
	s.apply(v)
	for url, want := range map[string]bool{first: true, second: true, otherURL: false} {
		if got, err := s.Needed(t.Context(), url); err != nil || got != want {
			t.Errorf("%s is needed: %t, %v", url, got, err)
		}
	}

	wake := func(urls ...string) {
		t.Helper()
		w := s.visit(other)
		w.Wake = urls
		s.apply(w)
		s.add(index.NewDoc{URL: otherURL, Now: true})
		other = s.leaseOnly("b.example.net")
	}
	due := func(want ...string) index.Lease {
		t.Helper()
		for _, l := range s.lease(10) {
			if l.Host.Name == "a.example.com" {
				same(t, "due", want, urlsOf(l.Docs))
				return l
			}
		}
		if len(want) > 0 {
			t.Errorf("nothing is due, want %v", want)
		}
		return index.Lease{}
	}
	s.wait(time.Second)
	wake("https://b.example.net/three")
	due()
	wake(first)
	if d := s.doc(catalogURL); !d.NextAt.Equal(stored(s.now)) {
		t.Errorf("woken document is due at %v, want %v", d.NextAt, stored(s.now))
	}
	l := due(catalogURL)

	// Woken while it is being visited: it is visited once more.
	wake(first)
	s.apply(s.visit(l))
	l = due(catalogURL)
	v = s.visit(l)
	v.Docs[0].Needs = []string{second} // first is needed no more
	s.apply(v)
	due()
	wake(first)
	due()
	wake(second)
	l = due(catalogURL, cardURL)

	// What the same visit writes was judged with the news.
	v = s.visit(l)
	v.Wake = []string{second}
	s.apply(v)
	s.wait(time.Second)
	due()
	wake(second)
	l = due(catalogURL, cardURL)

	// A document that is dropped needs nothing.
	v = s.visit(l)
	v.Docs, v.Drop = v.Docs[:1], []string{cardURL}
	s.apply(v)
	s.wait(time.Second)
	wake(second)
	due(catalogURL)
}

// leaseOnly leases one host and gives the leases of the others that are due
// back at once.
func (s *story) leaseOnly(host string) (only index.Lease) {
	s.Helper()
	for _, l := range s.lease(1000) {
		if l.Host.Name == host {
			only = l
			continue
		}
		s.apply(index.Visit{Host: l.Host.Name, Owner: l.Owner, No: l.No, At: s.now})
	}
	if only.Owner == "" {
		s.Fatalf("%s is not due", host)
	}
	return only
}
