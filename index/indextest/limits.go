package indextest

import (
	"fmt"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

const wellKnownURL = catalogURL

// Kinds: what a document is expected to be is a hint until it has been read. A
// stranger's hint gives way to that of a person, of the document's own host,
// and of the well-known address.
func Kinds(t *testing.T, open Open) {
	const page = "https://a.example.com/page"
	stranger := index.NewDoc{URL: page, Kind: index.CardDoc, Class: index.ClassNew, From: otherURL, FoundBy: "example.net"}
	person := index.NewDoc{URL: page, Kind: index.PageDoc, Class: index.ClassUser}
	ping := index.NewDoc{URL: page, Kind: index.Any, Class: index.ClassUser, Ping: true}
	own := index.NewDoc{URL: page, Kind: index.CatalogDoc, Class: index.ClassNew, From: "https://a.example.com/", FoundBy: "example.com"}
	// A stranger's document that a person asked for is still a stranger's.
	urgent := stranger
	urgent.Kind, urgent.Class = index.CatalogDoc, index.ClassUser
	second := stranger
	second.Kind, second.From, second.FoundBy = index.PageDoc, "https://c.example.org/", "example.org"
	wellKnown := index.NewDoc{URL: wellKnownURL, Kind: index.CatalogDoc, Class: index.ClassNew, From: otherURL, FoundBy: "example.net"}
	ownPage := own
	ownPage.URL, ownPage.Kind = wellKnownURL, index.PageDoc
	for _, c := range []struct {
		name        string
		first, then index.NewDoc
		want        index.Kind
	}{
		{"a person over a stranger", stranger, person, index.PageDoc},
		{"a submission over a stranger", stranger, ping, index.Any},
		{"the own host over a stranger", stranger, own, index.CatalogDoc},
		{"the own host over a person", person, own, index.CatalogDoc},
		{"well known over anybody", ownPage, wellKnown, index.CatalogDoc},
		{"a stranger over a stranger", stranger, second, index.CardDoc},
		{"a stranger in haste over a stranger", stranger, urgent, index.CardDoc},
		{"a stranger over a person", person, stranger, index.PageDoc},
		{"a stranger over the own host", own, stranger, index.CatalogDoc},
		{"a person over the own host", own, person, index.CatalogDoc},
		{"the own host over well known", wellKnown, ownPage, index.CatalogDoc},
	} {
		for _, how := range []string{"added", "one call", "found"} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				s := begin(t, open)
				switch how {
				case "added":
					s.add(c.first)
					s.wait(time.Second)
					s.add(c.then)
				case "one call":
					s.add(c.first, c.then)
				case "found":
					s.add(c.first, index.NewDoc{URL: "https://d.example.org/"})
					v := s.visit(s.take("d.example.org"))
					v.Found = []index.NewDoc{c.then}
					s.apply(v)
				}
				d := s.doc(c.first.URL)
				if d.Kind != c.want {
					t.Errorf("kind is %q, want %q", d.Kind, c.want)
				}
				// It stands under the hint that its own host gave.
				if c.want == c.then.Kind && c.then == own && (d.From != own.From || d.FoundBy != own.FoundBy) {
					t.Errorf("from %q, by %q", d.From, d.FoundBy)
				}
			})
		}
	}
	t.Run("a later stranger does not undo it", func(t *testing.T) {
		s := begin(t, open)
		s.add(stranger, own, stranger, person)
		if d := s.doc(page); d.Kind != index.CatalogDoc {
			t.Errorf("kind is %q", d.Kind)
		}
	})
	t.Run("a document that was read", func(t *testing.T) {
		s := begin(t, open)
		s.add(stranger)
		v := s.visit(s.take("a.example.com"))
		v.Docs[0].ReadAt = s.now
		s.apply(v)
		s.add(own, person)
		if d := s.doc(page); d.Kind != index.CardDoc || d.From != otherURL {
			t.Errorf("document %+v", d)
		}
	})
	t.Run("one that failed", func(t *testing.T) {
		s := begin(t, open)
		s.add(stranger)
		l := s.take("a.example.com")
		s.add(own) // while it is visited, in vain
		s.apply(s.visit(l))
		if d := s.doc(page); d.Kind != index.CatalogDoc {
			t.Errorf("kind is %q", d.Kind)
		}
		s.wait(24 * time.Hour)
		v := s.visit(s.take("a.example.com"))
		if v.Docs[0].Kind != index.CatalogDoc {
			t.Errorf("leased as %q", v.Docs[0].Kind)
		}
		v.Docs[0].Kind, v.Docs[0].ReadAt = index.PageDoc, s.now // the answer decides
		s.apply(v)
		if d := s.doc(page); d.Kind != index.PageDoc {
			t.Errorf("kind is %q", d.Kind)
		}
	})
}

// Foreign: what the documents of one domain may bring on other hosts in a day,
// whatever its kind and haste (A2, D39).
func Foreign(t *testing.T, open Open) {
	foreign := func(n int, kind index.Kind, class index.Class) index.NewDoc {
		return index.NewDoc{
			URL: fmt.Sprintf("https://third%d.example.org/x", n), Kind: kind, Class: class, From: catalogURL, FoundBy: "example.com",
		}
	}
	for _, kind := range []index.Kind{index.Any, index.CatalogDoc, index.PageDoc, index.CardDoc} {
		for class := index.ClassUser; class <= index.ClassNew; class++ {
			t.Run(fmt.Sprintf("%q in class %d", kind, class), func(t *testing.T) {
				s := beginWith(t, open, index.Limits{ForeignPerFinder: 2})
				s.add(foreign(1, index.CardDoc, index.ClassNew), foreign(2, kind, class))
				same(t, "turned away", []index.NewDoc{foreign(3, kind, class)}, s.addCapped(foreign(3, kind, class)))
			})
		}
	}
	t.Run("hosts of a domain, too", func(t *testing.T) {
		s := beginWith(t, open, index.Limits{HostsPerDomain: 1})
		ping := index.NewDoc{URL: "https://h2.example.org/", Class: index.ClassUser, Ping: true}
		s.add(foreign(1, index.CardDoc, index.ClassNew))
		same(t, "turned away", []index.NewDoc{foreign(2, index.CatalogDoc, index.ClassUser), ping},
			s.addCapped(foreign(2, index.CatalogDoc, index.ClassUser), ping))
		// The operator's own word is exempt.
		s.add(index.NewDoc{URL: "https://h3.example.org/", Class: index.ClassUser, Now: true})
	})
}

// NewDocuments: one site cannot fill the database in a day, whether its documents
// name the new ones, its visit brings them, or strangers submit them.
func NewDocuments(t *testing.T, open Open) {
	own := func(n int) index.NewDoc {
		return index.NewDoc{
			URL: fmt.Sprintf("https://a.example.com/%d", n), Kind: index.CardDoc, Class: index.ClassNew, From: catalogURL, FoundBy: "example.com",
		}
	}
	submitted := func(n int) index.NewDoc {
		return index.NewDoc{URL: fmt.Sprintf("https://a.example.com/s%d", n), Class: index.ClassUser, Ping: true}
	}
	limits := index.Limits{NewPerHost: 2}
	t.Run("named by its own documents", func(t *testing.T) {
		s := beginWith(t, open, limits)
		same(t, "turned away", []index.NewDoc{own(3), own(4)}, s.addCapped(own(1), own(2), own(3), own(4)))
		got, err := s.Outcomes(s.ctx, catalogURL, 10)
		if err != nil || len(got) != 1 || got[0].Code != index.OutcomeCapped {
			t.Errorf("outcomes %+v, %v", got, err)
		}
		s.add(own(1)) // known
		// Strangers have an allowance of their own, and the operator none.
		s.add(submitted(1), submitted(2))
		same(t, "turned away", []index.NewDoc{submitted(3)}, s.addCapped(submitted(3)))
		s.add(index.NewDoc{URL: "https://a.example.com/mine", Class: index.ClassUser, Now: true})
		s.wait(index.LimitWindow - 2*time.Hour)
		same(t, "within the day", []index.NewDoc{own(3)}, s.addCapped(own(3)))
		s.wait(2 * time.Hour)
		s.add(own(3), own(4), submitted(3))
	})
	t.Run("giving up gives no allowance back", func(t *testing.T) {
		s := beginWith(t, open, limits)
		s.add(own(1), own(2))
		v := s.visit(s.take("a.example.com"))
		v.Docs, v.Drop = nil, []string{own(1).URL, own(2).URL}
		s.apply(v)
		same(t, "turned away", []index.NewDoc{own(3)}, s.addCapped(own(3)))
	})
	t.Run("all hosts of a domain", func(t *testing.T) {
		s := beginWith(t, open, limits)
		for n := range 10 {
			for i := range 2 {
				from := fmt.Sprintf("https://h%d.example.com/", n)
				s.add(index.NewDoc{URL: fmt.Sprint(from, i), From: from, FoundBy: "example.com", Class: index.ClassNew})
			}
		}
		if len(s.addCapped(own(1))) != 1 {
			t.Error("a domain got more than ten times what a host gets")
		}
	})
	t.Run("brought by a visit", func(t *testing.T) {
		s := beginWith(t, open, limits)
		s.add(index.NewDoc{URL: catalogURL, Class: index.ClassUser})
		v := s.visit(s.take("a.example.com"))
		for n := range 3 {
			d := own(n)
			v.Docs = append(v.Docs, index.Doc{
				URL: d.URL, Host: "a.example.com", Kind: d.Kind, Class: index.ClassRecheck, From: d.From, FoundBy: d.FoundBy,
				FirstSeen: s.now, NextAt: s.now.Add(time.Hour),
			})
			e := s.entry(n)
			e.CardURL, e.ID = d.URL, ""
			v.Entries = append(v.Entries, e)
			v.Outcomes = append(v.Outcomes, index.Outcome{URL: d.URL, At: s.now, Code: index.OutcomeListed})
		}
		a := s.apply(v)[0]
		if len(a.Capped) != 1 || a.Capped[0].URL != own(2).URL || len(a.Changes) != 2 {
			t.Errorf("result %+v", a)
		}
		for n := range 3 {
			_, docErr := s.Doc(s.ctx, own(n).URL)
			_, entryErr := s.ByCard(s.ctx, own(n).URL)
			outcomes, err := s.Outcomes(s.ctx, own(n).URL, 10)
			if stays := n < 2; (docErr == nil) != stays || (entryErr == nil) != stays || (len(outcomes) == 1) != stays || err != nil {
				t.Errorf("document %d: %v, %v, %v", n, docErr, entryErr, outcomes)
			}
		}
		// What is known is written as before.
		s.wait(time.Hour)
		s.apply(s.visit(s.take("a.example.com")))
		if len(s.addCapped(own(5))) != 1 {
			t.Error("what the visit brought was not counted")
		}
	})
	t.Run("in one visit", func(t *testing.T) {
		s := beginWith(t, open, index.Limits{NewPerHost: 10 * index.MaxFound})
		s.add(index.NewDoc{URL: catalogURL, Class: index.ClassUser})
		v := s.visit(s.take("a.example.com"))
		for n := range index.MaxFound + 2 {
			v.Found = append(v.Found, own(n))
		}
		a := s.apply(v)[0]
		same(t, "turned away", []index.NewDoc{own(index.MaxFound), own(index.MaxFound + 1)}, a.Capped)
		s.doc(own(index.MaxFound - 1).URL)
	})
}
