//go:build unix

package crawlercmd_test

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
)

// kill ends a process at a moment that r chooses: some while they start, some
// at any time, some just when the log of the database is being written.
func (p *process) kill(t *testing.T, r *rand.Rand, db string) {
	// A visit takes two seconds and more: the gaps between three requests.
	wait := 1500*time.Millisecond + time.Duration(r.Int64N(int64(3*time.Second)))
	if r.IntN(5) == 0 {
		wait = time.Duration(r.Int64N(int64(400 * time.Millisecond)))
	}
	writing := r.IntN(5) < 3
	select {
	case <-p.done:
	case <-time.After(wait):
	}
	if writing {
		began := written(db)
		for end := time.Now().Add(time.Second); written(db) == began && time.Now().Before(end); {
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(time.Duration(r.Int64N(int64(3 * time.Millisecond))))
	}
	_ = p.Process.Kill()
	<-p.done
	if s, ok := p.ProcessState.Sys().(syscall.WaitStatus); !ok || s.Signal() != syscall.SIGKILL {
		t.Errorf("the crawler ended before it was killed, %s; it wrote:\n%s", p.ProcessState, p.log)
	}
}

// written changes when the database's log does.
func written(db string) string {
	info, err := os.Stat(db + "-wal")
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size(), info.ModTime())
}

// Crawlers are killed at more than fifty points: while they make the database,
// while they start, between and in the middle of writes, several of them on one
// database. After each round, with nobody left alive, the database must be
// whole; at the end a crawler that is left alone finishes the crawl, and every
// app is there once, with the octets that its site serves.
//
// The last crawler is alone, so the leases of the killed ones end with its first
// look: it does not wait for them.
func TestRule_CrawlerF4_KilledAtAnyPoint(t *testing.T) {
	sites, rounds, together, creations := 500, 10, 5, 6
	if testing.Short() {
		sites, rounds, together, creations = 100, 2, 4, 2
	}
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 0))
	l := newLoopback(t)
	seeds := l.publish(t, sites)
	db := filepath.Join(t.TempDir(), "index.db")
	args := []string{"--seeds", seeds, "--workers", "6"}
	began, kills := time.Now(), 0

	for range creations {
		p := l.run(t, nil, db, args...)
		time.Sleep(time.Duration(r.Int64N(int64(150 * time.Millisecond))))
		_ = p.Process.Kill()
		<-p.done
		kills++
	}
	a := newAudit(l, db)
	n := a.check(t)
	for round := range rounds {
		var lanes sync.WaitGroup
		for range together {
			lane := rand.New(rand.NewPCG(r.Uint64(), 1))
			p := l.run(t, nil, db, args...)
			lanes.Go(func() { p.kill(t, lane, db) })
			kills++
			time.Sleep(time.Duration(r.Int64N(int64(100 * time.Millisecond))))
		}
		lanes.Wait()
		was := n
		if n = a.check(t); n < was {
			t.Errorf("%d entries where there were %d", n, was)
		}
		if t.Failed() {
			t.Fatalf("after round %d, seed %d", round, seed)
		}
	}
	abandoned := a.leased(t)
	t.Logf("seed %d: %d kills in %s; %d of %d apps listed, %d hosts leased to the dead", seed, kills, time.Since(began).Round(time.Millisecond), n, len(l.cards), abandoned)
	if n == 0 || n == len(l.cards) {
		t.Errorf("%d of %d apps were listed meanwhile: the kills met no crawl", n, len(l.cards))
	}

	began = time.Now()
	p := l.run(t, nil, db, "--seeds", seeds, "--workers", "64")
	a.complete(t, p, index.LeaseTTL)
	p.stop(t)
	if n := a.check(t); n != len(l.cards) {
		t.Errorf("%d apps listed, want %d", n, len(l.cards))
	}
	if n := a.leased(t); n != 0 {
		t.Errorf("%d hosts are leased after a clean stop", n)
	}
	l.wantGaps(t)
	t.Logf("the last crawler took %s; %d requests in all", time.Since(began).Round(time.Millisecond), l.total())
}

// A crawler that is stopped by a signal gives its hosts back and stores what is
// complete; the next one goes on at once and asks for nothing twice.
func TestStoppedAndRestarted(t *testing.T) {
	t.Parallel()
	l := newLoopback(t)
	seeds := l.publish(t, 60)
	db := filepath.Join(t.TempDir(), "index.db")
	a := newAudit(l, db)
	n := 0
	for range 2 {
		p := l.run(t, nil, db, "--seeds", seeds, "--workers", "20")
		time.Sleep(2500 * time.Millisecond)
		p.stop(t)
		if !strings.Contains(p.log.String(), "msg=stopped") {
			t.Errorf("it did not say that it stopped:\n%s", p.log)
		}
		was := n
		if n = a.check(t); n < was || n == len(l.cards) {
			t.Errorf("%d entries after %d", n, was)
		}
		if n := a.leased(t); n != 0 {
			t.Errorf("%d hosts are still leased", n)
		}
	}
	l.mu.Lock()
	before := make(map[string]int)
	for k, n := range l.requests {
		before[k] = n
	}
	l.mu.Unlock()
	fed := make(map[string]bool)
	for card := range a.fed {
		fed[strings.TrimPrefix(card, "https://")] = true
	}

	began := time.Now()
	p := l.run(t, nil, db, "--seeds", seeds)
	a.complete(t, p, 50*time.Second) // less than a lease
	p.stop(t)
	if n := a.check(t); n != len(l.cards) {
		t.Errorf("%d apps listed, want %d", n, len(l.cards))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for card := range fed {
		if l.requests[card] != before[card] {
			t.Errorf("%s was listed and was asked for again", card)
		}
	}
	t.Logf("%d listed when it stopped; the rest took %s", len(fed), time.Since(began).Round(time.Millisecond))
}

// abandoned is the story of leases that outlive their owners' work: one crawler
// is killed and one stands still for longer than its leases, as on a suspended
// machine; a third takes their hosts over; then the second wakes up. It takes a
// minute, so it is told once, and the rules look at what it left.
var abandoned struct {
	once sync.Once

	taken            bool // the third one finished the crawl
	refused          int  // visits of the second that came too late
	before, after    string
	killed, finished time.Time
}

func tellAbandoned(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a lease lasts a minute")
	}
	t.Parallel()
	abandoned.once.Do(func() {
		l := newLoopback(t)
		seeds := l.publish(t, 8)
		db := filepath.Join(t.TempDir(), "index.db")
		a := newAudit(l, db)

		// Both are met after robots.txt of each of their hosts, and before the
		// gap of a second is over.
		dead := l.run(t, nil, db, "--seeds", seeds, "--workers", "4")
		l.wait(t, dead, 4)
		time.Sleep(200 * time.Millisecond)
		_ = dead.Process.Kill()
		<-dead.done
		abandoned.killed = time.Now()
		late := l.run(t, nil, db, "--workers", "4")
		l.wait(t, late, 8)
		time.Sleep(200 * time.Millisecond)
		if err := late.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		if n := a.leased(t); n != 8 {
			t.Fatalf("%d hosts leased, want 8", n)
		}

		third := l.run(t, nil, db)
		a.complete(t, third, 90*time.Second)
		abandoned.finished = time.Now()
		third.stop(t)
		abandoned.taken = a.check(t) == len(l.cards)
		abandoned.before = dump(t, db)

		if err := late.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		refused := func() int { return strings.Count(late.log.String(), "came too late") }
		for end := time.Now().Add(20 * time.Second); refused() < 4 && time.Now().Before(end); {
			time.Sleep(50 * time.Millisecond)
		}
		late.stop(t)
		abandoned.refused = refused()
		abandoned.after = dump(t, db)
		a.check(t)
		l.wantGaps(t)
	})
}

// What a killed crawler held is taken over once its leases have ended, not
// before.
func TestRule_CrawlerF2_AbandonedLeasesAreTakenOver(t *testing.T) {
	tellAbandoned(t)
	if !abandoned.taken {
		t.Fatal("the hosts of a killed crawler and of one that stands still were not visited by the third")
	}
	took := abandoned.finished.Sub(abandoned.killed)
	if took < index.LeaseTTL-5*time.Second { // the leases are somewhat older than the kill
		t.Errorf("a host was taken from its owner: done %s after the kill", took)
	}
	t.Logf("done %s after the kill", took.Round(time.Millisecond))
}

// A crawler that stood still finds its hosts given to another one. What it
// then writes is refused, and nothing of it shows.
func TestRule_CrawlerF3_LateProcessIsRefused(t *testing.T) {
	tellAbandoned(t)
	if abandoned.refused != 4 {
		t.Errorf("%d late visits were refused, want 4", abandoned.refused)
	}
	if abandoned.after == "" || abandoned.after != abandoned.before {
		t.Errorf("the late crawler left something:\n%s\nbefore:\n%s", abandoned.after, abandoned.before)
	}
}

// wait waits until the sites have got n requests.
func (l *loopback) wait(t *testing.T, p *process, n int) {
	t.Helper()
	late := time.After(30 * time.Second)
	for l.total() < n {
		select {
		case <-l.arrived:
		case <-p.done:
			t.Fatalf("the crawler ended, %s; it wrote:\n%s", p.ProcessState, p.log)
		case <-late:
			t.Fatalf("%d requests, want %d; it wrote:\n%s", l.total(), n, p.log)
		}
	}
}

// dump is what a late visit would change.
func dump(t *testing.T, path string) string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var text string
	err = db.QueryRow(`SELECT
		(SELECT group_concat(name || ' ' || lease_no || ' ' || owner || ' ' || not_before || ' ' || next_at || ' ' || robots_read_at, char(10)) FROM host) || char(10) ||
		(SELECT group_concat(url || ' ' || next_at || ' ' || checked_at || ' ' || hash, char(10)) FROM doc) || char(10) ||
		(SELECT group_concat(url || ' ' || n || ' ' || at || ' ' || code, char(10)) FROM outcome) || char(10) ||
		(SELECT group_concat(card_url || ' ' || seq || ' ' || checked_at, char(10)) FROM entry)`).Scan(&text)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// lock takes the database for itself, as a backup program or a shell may.
func lock(t *testing.T, path string) (unlock func()) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec("BEGIN EXCLUSIVE"); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := db.Exec("ROLLBACK"); err != nil {
			t.Error(err)
		}
		_ = db.Close()
	}
}

// wantFailed wants exit status 1 and a message for people that has all parts.
func (p *process) wantFailed(t *testing.T, within time.Duration, parts ...string) {
	t.Helper()
	code, text := p.exit(t, within), p.log.String()
	if code != 1 {
		t.Errorf("exit status %d", code)
	}
	message := ""
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "crawler: ") {
			message += line
		}
	}
	for _, part := range parts {
		if !strings.Contains(message, part) {
			t.Errorf("no %q in the message", part)
		}
	}
	for _, bad := range []string{"goroutine ", "panic:"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q in the output", bad)
		}
	}
	if t.Failed() {
		t.Logf("it wrote:\n%s", text)
	}
}

// A database that another process keeps to itself is an error that says so,
// at the start and in the middle of a crawl, and costs nothing that was stored.
func TestDatabaseLockedByAnotherProcess(t *testing.T) {
	t.Parallel()
	l := newLoopback(t)
	seeds := l.publish(t, 30)
	db := filepath.Join(t.TempDir(), "index.db")
	a := newAudit(l, db)
	p := l.run(t, nil, db, "--seeds", seeds, "--workers", "8")
	l.wait(t, p, 30)
	time.Sleep(300 * time.Millisecond)
	unlock := lock(t, db)
	p.wantFailed(t, 40*time.Second, "locked by another process", "stop the other process")
	var together sync.WaitGroup
	for _, args := range [][]string{
		{"run", "--db", db, "--listen", "127.0.0.1:0", "--about", "https://crawler.example.com/", "--contact", "c@example.com", "--seeds", seeds},
		{"add", "--db", db, "s0000.example.com"},
	} {
		p := l.start(t, nil, args...)
		together.Go(func() { p.wantFailed(t, 40*time.Second, "locked by another process", "stop the other process") })
	}
	together.Wait()
	unlock()
	n := a.check(t)
	if n == 0 || n == len(l.cards) {
		t.Errorf("%d of %d apps were listed when the database was locked", n, len(l.cards))
	}
	t.Logf("%d of %d apps listed, %d hosts leased", n, len(l.cards), a.leased(t))
}

// A limit on the size of files, of the shell or of a service manager.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	l := newLoopback(t)
	seeds := l.publish(t, 100)
	db := filepath.Join(t.TempDir(), "index.db")
	a := newAudit(l, db)
	limited := []string{"sh", "-c", `ulimit -f ` + strconv.Itoa(2048) + `; exec "$0" "$@"`}
	p := l.run(t, limited, db, "--seeds", seeds)
	p.wantFailed(t, 60*time.Second, "ulimit -f")
	n := a.check(t)
	if n == len(l.cards) {
		t.Error("the limit was too high for this test")
	}
	t.Logf("%d of %d apps listed", n, len(l.cards))
}
