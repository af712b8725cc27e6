package sqlite_test

import (
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

// leaseAll leases what is due and gives how many hosts that were.
func leaseAll(t *testing.T, s *sqlite.Store, owner string, now time.Time) int {
	t.Helper()
	leases, err := s.Lease(t.Context(), index.LeaseRequest{Owner: owner, Now: now, Hosts: 10})
	if err != nil {
		t.Fatal(err)
	}
	return len(leases)
}

// Leases of a store that is gone end with it; those of one that lives last, for
// others in the same process too.
func TestRule_CrawlerF2_LeasesEndWithTheirOwners(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there is no lock there that ends with its process")
	}
	path := filepath.Join(t.TempDir(), "index.db")
	first, err := sqlite.Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	const host, url = "a.example.com", "https://a.example.com/server-card.json"
	if _, err := first.AddSource(t.Context(), dawn, index.NewDoc{URL: url}); err != nil {
		t.Fatal(err)
	}
	// One visit, so that the host has a gap.
	leases, err := first.Lease(t.Context(), index.LeaseRequest{Owner: "first", Now: dawn, Hosts: 1})
	if err != nil || len(leases) != 1 {
		t.Fatal(leases, err)
	}
	d := leases[0].Docs[0]
	d.CheckedAt, d.NextAt = dawn, dawn.Add(time.Hour)
	if _, err := first.Apply(t.Context(), index.Visit{
		Host: host, Owner: "first", No: leases[0].No, At: dawn, Docs: []index.Doc{d}, Gap: 90 * time.Second,
	}); err != nil {
		t.Fatal(err)
	}
	now := dawn.Add(time.Hour)
	if n := leaseAll(t, first, "first", now); n != 1 {
		t.Fatalf("%d hosts leased", n)
	}
	second := openFile(t, path, nil)
	now = now.Add(index.LeaseTTL - time.Second)
	if n := leaseAll(t, second, "second", now); n != 0 {
		t.Fatalf("%d hosts were taken from a living owner", n)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if n := leaseAll(t, second, "second", now); n != 0 {
		t.Fatalf("%d hosts were taken by a store that had begun before", n)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}

	// The third is alone. The gap is kept all the same: the last request may have
	// been made just now.
	third := openFile(t, path, nil)
	if n := leaseAll(t, third, "third", now); n != 0 {
		t.Fatalf("%d hosts were visited without their gap", n)
	}
	next, err := third.NextDue(t.Context())
	if err != nil || !next.Equal(now.Add(90*time.Second)) {
		t.Errorf("the host is ready at %s, want 90 s after %s: %v", next, now, err)
	}
	if n := leaseAll(t, third, "third", now.Add(90*time.Second)); n != 1 {
		t.Errorf("%d hosts leased after the gap", n)
	}
}

// The gap of a host counts from the end of a lease that nobody gave back.
func TestRule_CrawlerP1_GapAfterALostLease(t *testing.T) {
	s := openFile(t, filepath.Join(t.TempDir(), "index.db"), nil)
	if _, err := s.AddSource(t.Context(), dawn, index.NewDoc{URL: "https://a.example.com/server-card.json"}); err != nil {
		t.Fatal(err)
	}
	leases, err := s.Lease(t.Context(), index.LeaseRequest{Owner: "first", Now: dawn, Hosts: 1})
	if err != nil || len(leases) != 1 {
		t.Fatal(leases, err)
	}
	d := leases[0].Docs[0]
	d.CheckedAt, d.NextAt = dawn, dawn.Add(time.Hour)
	if _, err := s.Apply(t.Context(), index.Visit{
		Host: "a.example.com", Owner: "first", No: leases[0].No, At: dawn, Docs: []index.Doc{d}, Gap: 5 * time.Minute,
	}); err != nil {
		t.Fatal(err)
	}
	now := dawn.Add(time.Hour)
	if n := leaseAll(t, s, "first", now); n != 1 {
		t.Fatalf("%d hosts leased", n)
	}
	ready := now.Add(index.LeaseTTL + 5*time.Minute)
	if n := leaseAll(t, s, "second", ready.Add(-time.Microsecond)); n != 0 {
		t.Error("the host was visited before its gap was over")
	}
	if n := leaseAll(t, s, "second", ready); n != 1 {
		t.Error("the host is not ready after its gap")
	}
}
