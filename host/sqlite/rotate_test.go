package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zalando/go-keyring"

	"github.com/openbot-build/openbot-go/oauth"
)

// fill signs n connections in.
func fill(t testing.TB, s *Store, n int) (all []*oauth.Tokens) {
	t.Helper()
	for i := range n {
		all = append(all, signedIn(t, s, conn(fmt.Sprint("c", i), "ann")))
	}
	return all
}

func readAll(t testing.TB, s *Store, all []*oauth.Tokens) {
	t.Helper()
	for _, want := range all {
		got, err := s.Tokens(context.Background(), want.Connection)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
	}
}

func TestRotate(t *testing.T) {
	keyring.MockInit()
	for name, master := range map[string]func(path string) *MasterKey{
		"file":    func(path string) *MasterKey { return KeyFile(path + ".key") },
		"keyring": func(string) *MasterKey { return Keyring("openbot-test") },
		"default": func(path string) *MasterKey { return DefaultMasterKey(path + ".key") },
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "host.db")
			o := &Options{MasterKey: master(path)}
			s, other := openAt(t, path, o), openAt(t, path, o)
			all := fill(t, s, 75) // 225 rows: three batches
			if err := s.PutRegistration(t.Context(), &oauth.Registration{Issuer: "i", ClientID: "1"}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				before := oldKeys(t, s)
				if err := s.Rotate(t.Context()); err != nil {
					t.Fatal(err)
				}
				if after := oldKeys(t, s); after == before {
					t.Error("nothing was rotated")
				}
				if n := count(t, s, `SELECT count(*) FROM data_key`); n != 1 {
					t.Errorf("%d data keys are left", n)
				}
				readAll(t, s, all)
				readAll(t, other, all) // it learns the new keys by itself
				if _, err := other.Registration(t.Context(), "i"); err != nil {
					t.Error(err)
				}
			}
			// A process that knows old keys only writes with the new one.
			third := openAt(t, path, o)
			if err := s.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			v, err := third.PutTokens(t.Context(), all[0])
			if err != nil {
				t.Fatal(err)
			}
			all[0].Version = v
			if n := count(t, s, `SELECT count(*) FROM secret WHERE key_id NOT IN (SELECT id FROM data_key WHERE current = 1)`); n != 0 {
				t.Errorf("%d rows are sealed with an old key", n)
			}
			readAll(t, openAt(t, path, o), all)
		})
	}
}

// oldKeys tells master and data keys apart from those before.
func oldKeys(t *testing.T, s *Store) (keys string) {
	t.Helper()
	if err := s.write.QueryRowContext(t.Context(), `SELECT id || ' ' || master FROM data_key WHERE current = 1`).Scan(&keys); err != nil {
		t.Fatal(err)
	}
	return keys
}

// With keys that the operator keeps: the new one first, the old one behind it.
func TestRotateGivenKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	a, b := key{1}, key{2}
	s := openAt(t, path, &Options{MasterKey: fixed(a)})
	all := fill(t, s, 2)

	both := openAt(t, path, &Options{MasterKey: fixed(b, a)})
	readAll(t, both, all)
	_, err := Open(t.Context(), path, &Options{MasterKey: fixed(b)})
	wantErr(t, err, ErrMasterKey) // not rotated yet
	if err := both.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	readAll(t, openAt(t, path, &Options{MasterKey: fixed(b)}), all)
	_, err = Open(t.Context(), path, &Options{MasterKey: fixed(a)})
	wantErr(t, err, ErrMasterKey)

	// The first process has the old key only: what it knows it still reads, and
	// what it cannot read it leaves alone.
	_, err = s.Tokens(t.Context(), all[0].Connection)
	wantErr(t, err, ErrMasterKey)
	_, err = s.PutTokens(t.Context(), all[0])
	wantErr(t, err, ErrMasterKey)
	wantErr(t, s.Rotate(t.Context()), ErrMasterKey)
	_, err = s.Kill(t.Context(), all[1].Connection)
	wantErr(t, err, ErrMasterKey)
	_, err = both.Tokens(t.Context(), all[1].Connection)
	wantErr(t, err, oauth.ErrGone) // dead all the same
	if left, err := both.Kill(t.Context(), all[1].Connection); err != nil || left == nil {
		t.Errorf("%v, %v", left, err)
	}
	readAll(t, both, all[:1])

	// Without a new master key the data key alone is replaced.
	before := oldKeys(t, both)
	again := openAt(t, path, &Options{MasterKey: fixed(b)})
	if err := again.Rotate(t.Context()); err != nil || oldKeys(t, both) == before {
		t.Errorf("%v", err)
	}
	readAll(t, both, all[:1])
}

// A row that does not open does not keep an old key alive, nor the rotation from
// its end.
func TestRotateDropsWhatDoesNotOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	var log logs
	s := openAt(t, path, &Options{MasterKey: fixed(testKey), Log: log.logger()})
	all := fill(t, s, 3)
	edit(t, raw(t, path), `UPDATE secret SET scopes = '[]' WHERE connection = 'c1'`)
	if err := s.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := count(t, s, `SELECT count(*) FROM data_key`); n != 1 {
		t.Errorf("%d data keys are left", n)
	}
	_, err := s.Tokens(t.Context(), all[1].Connection)
	wantErr(t, err, oauth.ErrNotFound)
	readAll(t, s, []*oauth.Tokens{all[0], all[2]})
	if !log.contains("does not open") {
		t.Error("nothing was logged")
	}
}

// Rotations in two processes at one time do not lose the key.
func TestRotateTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	a, b := openAt(t, path, inFile(path)), openAt(t, path, inFile(path))
	all := fill(t, a, 5)
	errs := make(chan error)
	for _, s := range []*Store{a, b} {
		go func() {
			var err error
			for n := 0; n < 5 && err == nil; n++ {
				err = s.Rotate(context.Background())
			}
			errs <- err
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	c := openAt(t, path, inFile(path))
	c.done.Wait()
	readAll(t, c, all)
	if n := count(t, c, `SELECT count(*) FROM data_key`); n != 1 {
		t.Errorf("%d data keys are left", n)
	}
}

// failing is a source that fails at one of its calls.
type failing struct {
	source
	at string
}

var errPlace = errors.New("the place is out of order")

func (f *failing) next(ctx context.Context, store string, k key) (key, error) {
	if f.at == "next" {
		return key{}, errPlace
	}
	return f.source.next(ctx, store, k)
}

func (f *failing) promote(ctx context.Context, store string, k key) error {
	if f.at == "promote" {
		return errPlace
	}
	return f.source.promote(ctx, store, k)
}

func TestRotateWhenThePlaceFails(t *testing.T) {
	for _, at := range []string{"next", "promote"} {
		path := filepath.Join(t.TempDir(), "host.db")
		f := &failing{source: KeyFile(path + ".key").source}
		s := openAt(t, path, &Options{MasterKey: &MasterKey{f}})
		all := fill(t, s, 2)
		f.at = at
		err := s.Rotate(t.Context())
		wantErr(t, err, errPlace)
		wantErr(t, err, ErrMasterKey)
		f.at = ""
		readAll(t, s, all)
		readAll(t, openAt(t, path, inFile(path)), all)
		if err := s.Rotate(t.Context()); err != nil {
			t.Error(err)
		}
		readAll(t, openAt(t, path, inFile(path)), all)
	}
}

// Rotate ends with its context, and the next opening finishes it.
func TestRotateCutShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	s := openAt(t, path, inFile(path))
	all := fill(t, s, 75)
	ctx, cancel := context.WithCancel(t.Context())
	s.step = func(step string) {
		if step == "batch sealed" {
			cancel()
		}
	}
	wantErr(t, s.Rotate(ctx), context.Canceled)
	if n := count(t, s, `SELECT count(*) FROM data_key`); n != 2 {
		t.Fatalf("%d data keys", n)
	}
	readAll(t, s, all) // some of each
	next := openAt(t, path, inFile(path))
	next.done.Wait()
	if n := count(t, s, `SELECT count(*) FROM data_key`); n != 1 {
		t.Errorf("%d data keys are left", n)
	}
	readAll(t, s, all)
}

// A long rotation lets the writers of other processes in all the time. They are
// counted between its beginning and its end; without pauses SQLite's lock goes
// from one batch to the next.
func TestRotateLetsOthersWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	s, other := openAt(t, path, nil), openAt(t, path, nil)
	fill(t, s, 12*resealBatch/3)
	c := conn("writer", "bob")
	if err := other.Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var writes, batches atomic.Int64
	begun, ended := make(chan struct{}), make(chan struct{})
	s.step = func(step string) {
		switch step {
		case "rewrapped":
			close(begun)
		case "batch sealed":
			batches.Add(1)
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		<-begun
		for {
			if _, err := advance(t.Context(), other, c); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-ended:
				return
			default:
				writes.Add(1)
			}
		}
	})
	err := s.Rotate(t.Context())
	close(ended)
	wg.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d writes in %d batches", writes.Load(), batches.Load())
	if 2*writes.Load() < batches.Load() {
		t.Errorf("%d writes in %d batches", writes.Load(), batches.Load())
	}
}
