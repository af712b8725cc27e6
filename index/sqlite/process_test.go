package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/indextest"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

// childEnv makes the test binary a second process that works on a database.
const childEnv = "OPENBOT_TEST_SQLITE_CHILD"

func TestMain(m *testing.M) {
	if job := os.Getenv(childEnv); job != "" {
		if err := child(job, os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// startChild runs a job in another process and gives its output, line by line.
func startChild(t *testing.T, job, path string) (cmd *exec.Cmd, in io.WriteCloser, out *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(exe, path)
	cmd.Env = append(os.Environ(), childEnv+"="+job)
	cmd.Stderr = os.Stderr
	if in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, in, bufio.NewScanner(pipe)
}

var dawn = time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)

func child(job, path string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	switch job {
	case "apply": // for ever; a line for each visit that was reported as applied
		now := dawn
		if h, err := s.Host(ctx, "a.example.com"); err == nil {
			now = h.NextAt
		}
		for n := 0; ; n++ {
			now = now.Add(time.Hour)
			applied, err := applyOne(ctx, s, now)
			if err != nil {
				return err
			}
			fmt.Println(applied.Changes[0].Seq)
		}
	case "once": // one visit, when told to
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		if _, err := applyOne(ctx, s, dawn); err != nil {
			return err
		}
		fmt.Println("done")
		return s.Close()
	}
	return errors.New("no such job")
}

// applyOne visits one document, which changes an entry: all of them carry the
// time of the visit.
func applyOne(ctx context.Context, s *sqlite.Store, now time.Time) (index.Applied, error) {
	const url = "https://a.example.com/server-card.json"
	if _, err := s.AddSource(ctx, now, index.NewDoc{URL: url, Now: true}); err != nil {
		return index.Applied{}, err
	}
	leases, err := s.Lease(ctx, index.LeaseRequest{Owner: "child", Now: now, Hosts: 1})
	if err != nil || len(leases) != 1 {
		return index.Applied{}, fmt.Errorf("%d leases: %w", len(leases), err)
	}
	l := leases[0]
	d := l.Docs[0]
	d.CheckedAt, d.NextAt = now, now
	d.Body = []byte(strings.Repeat(now.String(), 500))
	applied, err := s.Apply(ctx, index.Visit{
		Host: l.Host.Name, Owner: l.Owner, No: l.No, At: now, Docs: []index.Doc{d},
		Entries:  []index.Entry{{CardURL: url, State: index.Listed, Document: d.Body, Description: now.String()}},
		Outcomes: []index.Outcome{{URL: url, At: now, Code: index.OutcomeListed}},
	})
	if err != nil || applied[0].Fenced {
		return index.Applied{}, fmt.Errorf("apply: %+v: %w", applied, err)
	}
	return applied[0], nil
}

// A process that is killed while it applies visits loses none that it reported,
// and leaves no half of one.
func TestKilledWhileApplying(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	var last int64
	for round := range 4 {
		cmd, _, out := startChild(t, "apply", path)
		for n := 0; n < 5+7*round && out.Scan(); n++ {
			if _, err := fmt.Sscan(out.Text(), &last); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(round) * 3 * time.Millisecond)
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for out.Scan() { // what it reported before it died
			_, _ = fmt.Sscan(out.Text(), &last)
		}
		_ = cmd.Wait()

		s, err := sqlite.Open(t.Context(), path, nil)
		if err != nil {
			t.Fatalf("open after the kill: %v", err)
		}
		head, err := s.Head(t.Context())
		if err != nil || head.Seq < last {
			t.Fatalf("head %+v, but %d was reported: %v", head, last, err)
		}
		doc, err := s.Doc(t.Context(), "https://a.example.com/server-card.json")
		if err != nil {
			t.Fatal(err)
		}
		entry, err := s.ByCard(t.Context(), doc.URL)
		if err != nil {
			t.Fatal(err)
		}
		outcomes, err := s.Outcomes(t.Context(), doc.URL, 1)
		if err != nil {
			t.Fatal(err)
		}
		if entry.Seq != head.Seq || entry.Description != doc.CheckedAt.String() || string(entry.Document) != string(doc.Body) ||
			!outcomes[0].At.Equal(doc.CheckedAt) {
			t.Errorf("half a visit: entry %d of %s, document of %s, outcome of %s, head %d",
				entry.Seq, entry.Description, doc.CheckedAt, outcomes[0].At, head.Seq)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if last == 0 {
		t.Error("no visit was ever reported")
	}
}

// The hint also comes for what another process commits.
func TestRule_IX18_WatchIsAHint(t *testing.T) {
	t.Run("in process", func(t *testing.T) { indextest.Watch(t, open) })
	path := filepath.Join(t.TempDir(), "index.db")
	s := openFile(t, path, nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	hints := s.Watch(ctx)
	<-hints // the first look always gives one
	if c, err := s.Changes(ctx, 0, 10); err != nil || len(c) != 0 {
		t.Fatalf("%v, %v", c, err)
	}
	_, in, out := startChild(t, "once", path)
	fmt.Fprintln(in)
	if !out.Scan() || out.Text() != "done" {
		t.Fatalf("the other process says %q", out.Text())
	}
	select {
	case <-hints:
	case <-time.After(20 * time.Second):
		t.Fatal("no hint of the other process's commit")
	}
	if c, err := s.Changes(ctx, 0, 10); err != nil || len(c) != 1 {
		t.Errorf("%v, %v", c, err)
	}
}

// One machine, one writer at a time: those of two processes wait for each other
// instead of failing. The contract suite is TestExercise.
func TestRule_CrawlerF5_WritersOfTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	s := openFile(t, path, nil)
	_, _, out := startChild(t, "apply", path)
	for n := range 50 {
		if _, err := s.AddSource(t.Context(), dawn, index.NewDoc{URL: fmt.Sprintf("https://b.example.net/%d", n), Class: index.ClassNew}); err != nil {
			t.Fatal(err)
		}
		if !out.Scan() {
			t.Fatal("the other process stopped")
		}
	}
	if st, err := s.Stats(t.Context(), dawn); err != nil || st.Documents != 51 {
		t.Errorf("%+v, %v", st, err)
	}
}

// Processes that open a new file at the same time agree on who makes it.
func TestOpenTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	var outs []*bufio.Scanner
	for range 4 {
		_, in, out := startChild(t, "once", path)
		fmt.Fprintln(in)
		outs = append(outs, out)
	}
	done := 0
	for _, out := range outs {
		for out.Scan() {
			if out.Text() == "done" {
				done++
			}
		}
	}
	// All visit one host at one time: some meet its lease. Opening must not fail.
	if done == 0 {
		t.Error("no process could use the file")
	}
}
