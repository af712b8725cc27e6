package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/oauth"
)

// childEnv makes the test binary a second process that works on a database.
const childEnv = "OPENBOT_TEST_HOST_CHILD"

// startChild runs a job in another process and gives its output, line by line.
func startChild(t *testing.T, job, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, path)
	cmd.Env = append(os.Environ(), childEnv+"="+job)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewScanner(out)
}

// inFile keeps the master key beside the database, where the store writes it.
func inFile(path string) *Options { return &Options{MasterKey: KeyFile(path + ".key")} }

func child(job, path string) error {
	if job == "keyring" {
		return useKeyring(path)
	}
	ctx, c := context.Background(), conn("c1", "ann")
	s, err := Open(ctx, path, inFile(path))
	if err != nil {
		return err
	}
	if err := s.Add(ctx, c); err != nil {
		return err
	}
	switch job, arg, _ := strings.Cut(job, " "); job {
	case "put": // for ever; a line for each version that was written
		for {
			v, err := advance(ctx, s, c)
			if err != nil {
				return err
			}
			fmt.Println(v)
		}
	case "rotate": // for ever; a line for each rotation
		for n := 0; ; n++ {
			if err := s.Rotate(ctx); err != nil {
				return err
			}
			fmt.Println(n)
		}
	case "count": // so many versions, whoever else counts
		var n int
		if _, err := fmt.Sscan(arg, &n); err != nil {
			return err
		}
		for n > 0 {
			_, err := advance(ctx, s, c)
			if err == nil {
				n--
			} else if !errors.Is(err, oauth.ErrConflict) {
				return err
			}
		}
		return s.Close()
	case "die": // at a step of a rotation
		s.step = func(step string) {
			if step == arg {
				fmt.Println("at", step)
				p, _ := os.FindProcess(os.Getpid())
				_ = p.Kill()
				select {}
			}
		}
		return s.Rotate(ctx)
	}
	return errors.New("no such job")
}

// A process that is killed while it writes tokens loses none that it reported,
// and leaves no set with parts of two versions. A rotation by a second process
// goes on all the time, and is killed as well.
func TestKilledWhileWriting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	rounds := 6
	if testing.Short() {
		rounds = 2
	}
	var last int64
	for round := range rounds {
		putter, puts := startChild(t, "put", path)
		if !puts.Scan() {
			t.Fatal("it wrote nothing")
		}
		rotator, rotations := startChild(t, "rotate", path)
		if !rotations.Scan() {
			t.Fatal("it did not rotate")
		}
		go func() {
			for rotations.Scan() { // its pipe must not fill
				continue
			}
		}()
		for n := 0; n < 5+5*round && puts.Scan(); n++ {
			_, _ = fmt.Sscan(puts.Text(), &last)
		}
		time.Sleep(time.Duration(round) * 2 * time.Millisecond)
		if round%2 == 0 {
			_ = rotator.Process.Kill()
		}
		_ = putter.Process.Kill()
		_ = rotator.Process.Kill()
		for puts.Scan() { // what it reported before it died
			_, _ = fmt.Sscan(puts.Text(), &last)
		}
		_ = putter.Wait()
		_ = rotator.Wait()
		checkWhole(t, path, last)
	}
	if last == 0 {
		t.Error("nothing was ever reported")
	}
}

// checkWhole opens a database, finishes what was under way, and reads it all.
func checkWhole(t *testing.T, path string, last int64) {
	t.Helper()
	s, err := Open(t.Context(), path, inFile(path))
	if err != nil {
		t.Fatalf("open after the kill: %v", err)
	}
	defer s.Close()
	x, err := s.Tokens(t.Context(), conn("c1", "ann"))
	if err != nil {
		t.Fatal(err)
	}
	if x.Version < last {
		t.Errorf("version %d is lost, %d is there", last, x.Version)
	}
	if err := whole(x); err != nil {
		t.Error(err)
	}
	s.done.Wait() // a rotation that was cut short goes on by itself
	if n := count(t, s, `SELECT count(*) FROM data_key`); n != 1 {
		t.Errorf("%d data keys are left", n)
	}
	if x, err = s.Tokens(t.Context(), conn("c1", "ann")); err != nil || whole(x) != nil {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := os.Stat(path + ".key.next"); err == nil && count(t, s, `SELECT count(*) FROM data_key WHERE master = ?`, fingerprintIn(t, s, pending)) > 0 {
		t.Error("the key in use is not in its place")
	}
}

func fingerprintIn(t *testing.T, s *Store, which slot) string {
	t.Helper()
	k, ok, err := s.master.(kept).get(t.Context(), which, s.id)
	if err != nil || !ok {
		t.Fatalf("no key: %v", err)
	}
	return k.fingerprint()
}

// A rotation that dies at any of its steps leaves everything readable, is
// finished by the next opening, and does not stand in the way of the next one.
func TestRotateDiesAtEveryStep(t *testing.T) {
	for _, step := range []string{"next key made", "rewrap not committed", "rewrapped", "promoted", "batch sealed"} {
		t.Run(strings.ReplaceAll(step, " ", "_"), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "host.db")
			s := openAt(t, path, inFile(path))
			if err := s.Add(t.Context(), conn("c1", "ann")); err != nil {
				t.Fatal(err)
			}
			v, err := advance(t.Context(), s, conn("c1", "ann"))
			if err != nil {
				t.Fatal(err)
			}
			cmd, out := startChild(t, "die "+step, path)
			if !out.Scan() || out.Text() != "at "+step {
				t.Fatalf("it never came there: %q", out.Text())
			}
			_ = cmd.Wait()
			// This one learned its keys before.
			if x, err := s.Tokens(t.Context(), conn("c1", "ann")); err != nil || whole(x) != nil {
				t.Errorf("%+v, %v", x, err)
			}
			checkWhole(t, path, v)
			if v, err = advance(t.Context(), s, conn("c1", "ann")); err != nil {
				t.Fatal(err)
			}
			if err := s.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkWhole(t, path, v)
			if _, err := os.Stat(path + ".key.next"); err == nil {
				t.Error("a key is left over")
			}
		})
	}
}

// Several processes count one version up.
func TestProcessesCountTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db") // which they make together
	const processes, each = 3, 15
	var cmds []*exec.Cmd
	for range processes {
		cmd, _ := startChild(t, fmt.Sprintf("count %d", each), path)
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	s := openAt(t, path, inFile(path))
	x, err := s.Tokens(t.Context(), conn("c1", "ann"))
	if err != nil || x.Version != processes*each || whole(x) != nil {
		t.Errorf("%+v, %v", x, err)
	}
}
