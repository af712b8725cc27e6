package indextest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// Sources: documents become known once, and are due at once.
func Sources(t *testing.T, open Open) {
	t.Run("new", func(t *testing.T) {
		s := begin(t, open)
		s.wantNextDue(time.Time{})
		s.add(index.NewDoc{
			URL: "https://apps.shop.example.co.uk:8443/card", Kind: index.CardDoc, Class: index.ClassNew,
			From: catalogURL, FoundBy: "example.com",
		})
		d := s.doc("https://apps.shop.example.co.uk:8443/card")
		same(t, "document", &index.Doc{
			URL: "https://apps.shop.example.co.uk:8443/card", Host: "apps.shop.example.co.uk:8443", Kind: index.CardDoc,
			Class: index.ClassNew, From: catalogURL, FoundBy: "example.com", FirstSeen: stored(s.now), NextAt: stored(s.now),
		}, d)
		same(t, "host", &index.Host{
			Name: "apps.shop.example.co.uk:8443", Domain: "example.co.uk", FoundBy: "example.com",
			FirstSeen: stored(s.now), NextAt: stored(s.now), Class: index.ClassNew,
		}, s.host("apps.shop.example.co.uk:8443"))
		s.wantNextDue(s.now)
	})
	t.Run("known ones keep their place", func(t *testing.T) {
		s := begin(t, open)
		s.add(index.NewDoc{URL: catalogURL, Kind: index.CatalogDoc, Class: index.ClassNew}, index.NewDoc{URL: catalogURL})
		s.apply(s.visit(s.take("a.example.com")))
		before := s.doc(catalogURL)
		s.wait(time.Hour)
		s.add(index.NewDoc{URL: catalogURL, Kind: index.CardDoc, Class: index.ClassUser})
		same(t, "document", before, s.doc(catalogURL))
		if n := len(s.lease(10)); n != 0 {
			t.Errorf("%d hosts are due", n)
		}
	})
	t.Run("now", func(t *testing.T) {
		s := begin(t, open)
		s.add(index.NewDoc{URL: catalogURL, Class: index.ClassRecheck})
		s.apply(s.visit(s.take("a.example.com")))
		s.wait(time.Hour)
		s.add(index.NewDoc{URL: catalogURL, Class: index.ClassUser, Now: true})
		l := s.take("a.example.com")
		if l.Host.Class != index.ClassUser || l.Docs[0].Class != index.ClassUser || !l.Docs[0].NextAt.Equal(stored(s.now)) {
			t.Errorf("host %+v, document %+v", l.Host, l.Docs[0])
		}
	})
	t.Run("now, during a visit", func(t *testing.T) {
		s := begin(t, open)
		s.add(index.NewDoc{URL: catalogURL, Class: index.ClassRecheck})
		l := s.take("a.example.com")
		s.wait(time.Second)
		s.add(index.NewDoc{URL: catalogURL, Class: index.ClassUser, Now: true})
		s.apply(s.visit(l)) // read before it was asked for
		l = s.take("a.example.com")
		s.apply(s.visit(l))
		if n := len(s.lease(10)); n != 0 {
			t.Errorf("it is due a third time")
		}
	})
	t.Run("not in normal form", func(t *testing.T) {
		s := begin(t, open)
		for _, url := range []string{"", "http://a.example.com/", "https://A.example.com/", "https://a.example.com", "https://a.example.com/#x", "a.example.com"} {
			if _, err := s.AddSource(s.ctx, s.now, index.NewDoc{URL: catalogURL}, index.NewDoc{URL: url}); err == nil {
				t.Errorf("%q was added", url)
			}
		}
		if st, err := s.Stats(s.ctx, s.now); err != nil || st.Documents != 0 {
			t.Errorf("a refused call added %d documents: %v", st.Documents, err)
		}
	})
}

// Pings move a check forward once in ten minutes an origin (OB-135).
func Pings(t *testing.T, open Open) {
	s := begin(t, open)
	s.add(index.NewDoc{URL: catalogURL, Class: index.ClassRecheck}, index.NewDoc{URL: cardURL, Class: index.ClassRecheck})
	due := func(want ...string) {
		t.Helper()
		var got []string
		if leases := s.lease(10); len(leases) > 0 {
			got = urlsOf(leases[0].Docs)
			s.apply(s.visit(leases[0]))
		}
		same(t, "due", want, got)
	}
	due(catalogURL, cardURL)
	ping := func(url string) {
		t.Helper()
		s.add(index.NewDoc{URL: url, Class: index.ClassUser, Ping: true})
	}
	s.wait(time.Minute)
	ping(catalogURL)
	due(catalogURL)
	s.wait(index.PingGap - time.Second)
	ping(catalogURL)
	ping(cardURL)
	due()
	s.wait(time.Second)
	ping(cardURL)
	due(cardURL)

	// An unknown address is added all the same, but not visited sooner.
	s.wait(time.Minute)
	ping("https://a.example.com/new")
	due()
	s.wait(index.PingGap - time.Minute)
	due("https://a.example.com/new")

	// Another origin has its own ten minutes; a plain Now knows no gap.
	ping(otherURL)
	s.add(index.NewDoc{URL: catalogURL, Class: index.ClassUser, Now: true})
	same(t, "due", []string{"a.example.com", "b.example.net"}, slices.Sorted(slices.Values(hostsOf(s.lease(10)))))
}

// Limits: what strangers can add in a day (A1, A2, A3, D39).
func Limits(t *testing.T, open Open) {
	host := func(n int) index.NewDoc {
		return index.NewDoc{URL: fmt.Sprintf("https://h%d.example.com/", n), Class: index.ClassNew}
	}
	t.Run("new hosts of a domain", func(t *testing.T) {
		s := beginWith(t, open, index.Limits{HostsPerDomain: 3})
		capped := s.addCapped(host(1), host(2), host(3), host(4), host(5))
		same(t, "turned away", []index.NewDoc{host(4), host(5)}, capped)
		if _, err := s.Host(s.ctx, "h4.example.com"); err == nil {
			t.Error("a host that was turned away is known")
		}
		// Known hosts, other domains and what a person asks for are free.
		s.add(index.NewDoc{URL: "https://h1.example.com/more", Class: index.ClassNew}, index.NewDoc{URL: "https://h9.example.net/"})
		user := host(6)
		user.Class = index.ClassUser
		s.add(user)

		s.wait(index.LimitWindow - time.Second)
		same(t, "within a day", []index.NewDoc{host(4)}, s.addCapped(host(4)))
		s.wait(time.Second)
		s.add(host(4))
	})
	t.Run("a private suffix is a domain each", func(t *testing.T) {
		s := beginWith(t, open, index.Limits{HostsPerDomain: 1})
		s.add(index.NewDoc{URL: "https://a.github.io/"}, index.NewDoc{URL: "https://b.github.io/"})
	})
	t.Run("hosts are remembered without documents", func(t *testing.T) {
		s := beginWith(t, open, index.Limits{HostsPerDomain: 1})
		s.add(host(1))
		v := s.visit(s.take("h1.example.com"))
		v.Docs, v.Drop = nil, []string{"https://h1.example.com/"}
		s.apply(v)
		if h := s.host("h1.example.com"); !h.NextAt.IsZero() {
			t.Errorf("a host without documents is due at %v", h.NextAt)
		}
		s.wantNextDue(time.Time{})
		same(t, "turned away", []index.NewDoc{host(2)}, s.addCapped(host(2)))
	})

	card := func(n int) index.NewDoc {
		return index.NewDoc{
			URL: fmt.Sprintf("https://third%d.example.org/card", n), Kind: index.CardDoc, Class: index.ClassNew,
			From: catalogURL, FoundBy: "example.com",
		}
	}
	t.Run("cards on other hosts", func(t *testing.T) {
		s := beginWith(t, open, index.Limits{ForeignPerFinder: 2})
		s.add(index.NewDoc{URL: catalogURL, Kind: index.CatalogDoc})
		v := s.visit(s.take("a.example.com"))
		own := index.NewDoc{URL: cardURL, Kind: index.CardDoc, From: catalogURL, FoundBy: "example.com"}
		v.Found = []index.NewDoc{card(1), own, card(2), card(3), card(4)}
		v.Outcomes = []index.Outcome{{URL: catalogURL, At: s.now, Code: index.OutcomeRead, Sentence: "Read."}}
		a := s.apply(v)[0]
		same(t, "turned away", []index.NewDoc{card(3), card(4)}, a.Capped)
		s.doc(cardURL)

		// The visit's own outcome is the newest; the other tells what was cut.
		got, err := s.Outcomes(s.ctx, catalogURL, 10)
		if err != nil || len(got) != 2 || got[0].Code != index.OutcomeRead || got[1].Code != index.OutcomeCapped {
			t.Fatalf("outcomes %+v, %v", got, err)
		}
		if !strings.HasPrefix(got[1].Sentence, "2 addresses") || len(got[1].Steps) != 2 || got[1].Steps[1].URL != card(4).URL {
			t.Errorf("the outcome tells too little: %+v", got[1])
		}

		// Another document of the domain draws on the same allowance; another
		// domain has its own. The rest comes the next day.
		from := card(5)
		from.From = "https://b.example.com/catalog"
		if len(s.addCapped(from)) != 1 {
			t.Error("a second document doubled the allowance")
		}
		from.From, from.FoundBy = "https://b.example.net/catalog", "example.net"
		s.add(from)
		s.wait(index.LimitWindow)
		s.add(card(1), card(2), card(3), card(4))
		same(t, "turned away", []index.NewDoc{card(6)}, s.addCapped(card(6)))
	})
	t.Run("giving a card up gives no allowance back", func(t *testing.T) {
		s := beginWith(t, open, index.Limits{ForeignPerFinder: 1})
		s.add(card(1))
		v := s.visit(s.take("third1.example.org"))
		v.Docs, v.Drop = nil, []string{card(1).URL}
		s.apply(v)
		same(t, "turned away", []index.NewDoc{card(2)}, s.addCapped(card(2)))
		s.add(card(1))
	})
	t.Run("an address that nobody named", func(t *testing.T) {
		s := beginWith(t, open, index.Limits{HostsPerDomain: 1})
		s.addCapped(host(1), host(2))
		got, err := s.Outcomes(s.ctx, host(2).URL, 10)
		if err != nil || len(got) != 1 || got[0].Code != index.OutcomeCapped || got[0].Sentence == "" {
			t.Errorf("outcomes %+v, %v", got, err)
		}
	})
}
