package indextest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// Leases: a host has one owner at a time, until a time (F1, F2).
func Leases(t *testing.T, open Open) {
	t.Run("one owner", func(t *testing.T) {
		s := begin(t, open)
		s.add(index.NewDoc{URL: catalogURL})
		l := s.leaseAs("w1", 10)[0]
		if l.Owner != "w1" || l.No != 1 || !l.Until.Equal(stored(s.now.Add(index.LeaseTTL))) || l.Host.Name != "a.example.com" {
			t.Errorf("lease %+v", l)
		}
		s.add(index.NewDoc{URL: cardURL}) // new work changes nothing
		s.wait(index.LeaseTTL - time.Second)
		if len(s.leaseAs("w2", 10)) != 0 || len(s.leaseAs("w1", 10)) != 0 {
			t.Error("a leased host was leased again")
		}
		s.wantNextDue(l.Until)
		s.wait(time.Second)
		again := s.leaseAs("w2", 10)[0]
		if again.Owner != "w2" || again.No != 2 {
			t.Errorf("second lease %+v", again)
		}
	})
	t.Run("numbers grow", func(t *testing.T) {
		s := begin(t, open)
		s.add(index.NewDoc{URL: catalogURL})
		for want := int64(1); want <= 4; want++ {
			l := s.take("a.example.com")
			if l.No != want {
				t.Fatalf("lease has number %d, want %d", l.No, want)
			}
			if want%2 == 0 {
				s.apply(s.visit(l))
			}
			s.wait(24 * time.Hour)
		}
	})
	t.Run("many workers at once", func(t *testing.T) {
		s := begin(t, open)
		var docs []index.NewDoc
		for i := range 60 {
			docs = append(docs, index.NewDoc{URL: fmt.Sprintf("https://h%d.example.com/", i), Class: index.Class(i % 4)})
		}
		s.add(docs...)
		var mu sync.Mutex
		owners := make(map[string]string)
		var wg sync.WaitGroup
		for w := range 6 {
			wg.Go(func() {
				for {
					owner := fmt.Sprint("w", w)
					leases, err := s.Lease(s.ctx, index.LeaseRequest{Owner: owner, Now: s.now, Hosts: 3})
					if err != nil {
						t.Error(err)
					}
					if err != nil || len(leases) == 0 {
						return
					}
					mu.Lock()
					for _, l := range leases {
						if other := owners[l.Host.Name]; other != "" {
							t.Errorf("%s was given to %s and %s", l.Host.Name, other, owner)
						}
						owners[l.Host.Name] = owner
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if len(owners) != 60 {
			t.Errorf("%d of 60 hosts were leased", len(owners))
		}
	})
	t.Run("documents by class and time, within the number asked for", func(t *testing.T) {
		s := begin(t, open)
		url := func(n int) string { return fmt.Sprintf("https://a.example.com/%d", n) }
		for n, class := range []index.Class{index.ClassNew, index.ClassRecheck, index.ClassNew, index.ClassUser, index.ClassRecheck} {
			s.add(index.NewDoc{URL: url(n), Class: class})
			s.wait(time.Second)
		}
		s.now = start.Add(3 * time.Second) // number 4 is not due yet
		order := []string{url(3), url(1), url(0), url(2)}
		for _, n := range []int{2, 0} {
			leases, err := s.Lease(s.ctx, index.LeaseRequest{Owner: "w1", Now: s.now, Hosts: 1, Docs: n, TTL: time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			want := order
			if n > 0 {
				want = order[:n]
			}
			same(t, "documents", want, urlsOf(leases[0].Docs))
			s.wait(time.Millisecond)
		}
	})
	t.Run("a request without an owner or a time", func(t *testing.T) {
		s := begin(t, open)
		if _, err := s.Lease(s.ctx, index.LeaseRequest{Now: s.now, Hosts: 1}); err == nil {
			t.Error("no owner")
		}
		if _, err := s.Lease(s.ctx, index.LeaseRequest{Owner: "w1", Hosts: 1}); err == nil {
			t.Error("no time")
		}
	})
}

// Shares: each class has its part of the claims, and what one does not use
// passes on (P6).
func Shares(t *testing.T, open Open) {
	fill := func(s *story, class index.Class, n int) {
		var docs []index.NewDoc
		for i := range n {
			docs = append(docs, index.NewDoc{URL: fmt.Sprintf("https://h%d-%d.example.com/", class, i), Class: class})
		}
		s.add(docs...)
	}
	count := func(leases []index.Lease) (n [4]int) {
		for _, l := range leases {
			n[l.Host.Class]++
		}
		return n
	}
	open100k := func(t *testing.T) *story { return beginWith(t, open, index.Limits{HostsPerDomain: 100_000}) }

	t.Run("all waiting", func(t *testing.T) {
		s := open100k(t)
		for class := index.ClassUser; class <= index.ClassNew; class++ {
			fill(s, class, 60)
		}
		leases := s.lease(100)
		same(t, "hosts by class", [4]int{40, 20, 25, 15}, count(leases))
		if !slices.IsSortedFunc(leases, func(a, b index.Lease) int { return int(a.Host.Class - b.Host.Class) }) {
			t.Error("leases are not in the order of their classes")
		}
	})
	t.Run("one at a time", func(t *testing.T) {
		s := open100k(t)
		for class := index.ClassUser; class <= index.ClassNew; class++ {
			fill(s, class, 60)
		}
		var got [4]int
		for range 100 {
			got[s.lease(1)[0].Host.Class]++
		}
		same(t, "hosts by class", [4]int{40, 20, 25, 15}, got)
	})
	t.Run("unused shares pass on", func(t *testing.T) {
		s := open100k(t)
		fill(s, index.ClassNew, 200)
		fill(s, index.ClassUser, 3)
		same(t, "hosts by class", [4]int{3, 0, 0, 97}, count(s.lease(100)))
	})
	t.Run("a flood starves nobody", func(t *testing.T) {
		s := open100k(t)
		fill(s, index.ClassNew, 500)
		s.wait(time.Hour)
		fill(s, index.ClassUser, 1)
		fill(s, index.ClassRecheck, 2)
		got := count(s.lease(10))
		if got[index.ClassUser] != 1 || got[index.ClassRecheck] != 2 {
			t.Errorf("hosts by class %v", got)
		}
	})
	t.Run("oldest first within a class", func(t *testing.T) {
		s := begin(t, open)
		for _, host := range []string{"c", "a", "b"} {
			s.add(index.NewDoc{URL: "https://" + host + ".example.com/", Class: index.ClassNew})
			s.wait(time.Second)
		}
		same(t, "hosts", []string{"c.example.com", "a.example.com"}, hostsOf(s.lease(2)))
	})
}

// DueTimes: a host's time and class are those of its next due document, never
// before the gap or Retry-After that it asked for (F1).
func DueTimes(t *testing.T, open Open) {
	s := begin(t, open)
	s.add(index.NewDoc{URL: catalogURL, Class: index.ClassUser}, index.NewDoc{URL: cardURL, Class: index.ClassUser})
	v := s.visit(s.take("a.example.com"))
	v.Docs[0].NextAt, v.Docs[0].Class = s.now.Add(3*time.Hour), index.ClassRemoval
	v.Docs[1].NextAt, v.Docs[1].Class = s.now.Add(2*time.Hour), index.ClassRecheck
	v.NotBefore = s.now.Add(time.Hour)
	s.apply(v)
	want := func(at time.Time, class index.Class) {
		t.Helper()
		s.wantNextDue(at)
		if h := s.host("a.example.com"); !h.NextAt.Equal(stored(at)) || h.Class != class {
			t.Errorf("host is due at %v in class %d, want %v in %d", h.NextAt, h.Class, stored(at), class)
		}
	}
	want(start.Add(2*time.Hour), index.ClassRecheck)

	// Asked for now, but the host wants to be left alone for an hour.
	s.add(index.NewDoc{URL: cardURL, Class: index.ClassUser, Now: true})
	want(start.Add(time.Hour), index.ClassUser)
	if len(s.lease(1)) != 0 {
		t.Error("a host was leased before the time it asked for")
	}

	// Both are due by the time it may be asked again: the more urgent counts.
	s.wait(4 * time.Hour)
	v = s.visit(s.take("a.example.com"))
	v.Docs[0].NextAt, v.Docs[0].Class = s.now.Add(time.Minute), index.ClassNew
	v.Docs[1].NextAt, v.Docs[1].Class = s.now.Add(time.Hour), index.ClassRemoval
	v.NotBefore = s.now.Add(2 * time.Hour)
	s.apply(v)
	want(v.NotBefore, index.ClassRemoval)

	// A lease in force counts too, and the earlier of two hosts wins.
	s.wait(2 * time.Hour)
	l := s.take("a.example.com")
	s.wantNextDue(l.Until)
	s.add(index.NewDoc{URL: otherURL})
	s.wantNextDue(s.now)

	// A document without a next time never comes again.
	v = s.visit(l)
	for i := range v.Docs {
		v.Docs[i].NextAt = time.Time{}
	}
	s.apply(v)
	if h := s.host("a.example.com"); !h.NextAt.IsZero() {
		t.Errorf("host is due at %v", h.NextAt)
	}
	s.apply(s.visit(s.take("b.example.net")))
	s.wait(1000 * time.Hour)
	same(t, "hosts", []string{"b.example.net"}, hostsOf(s.lease(10)))
}
