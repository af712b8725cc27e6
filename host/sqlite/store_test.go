package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/oauth"
)

// fixed gives keys as an operator would in the environment.
func fixed(keys ...key) *MasterKey {
	return Environment("TEST_KEY", func(string) (string, bool) {
		texts := make([]string, len(keys))
		for i, k := range keys {
			texts[i] = base64.StdEncoding.EncodeToString(k[:])
		}
		return strings.Join(texts, ", "), true
	})
}

var testKey = key{1, 2, 3}

func openAt(t testing.TB, path string, o *Options) *Store {
	t.Helper()
	if o == nil {
		o = &Options{MasterKey: fixed(testKey)}
	}
	s, err := Open(context.Background(), path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newStore(t testing.TB) *Store {
	t.Helper()
	return openAt(t, filepath.Join(t.TempDir(), "host.db"), nil)
}

// raw is the file in the hands of somebody who ignores all our rules.
func raw(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func edit(t testing.TB, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func count(t testing.TB, s *Store, query string, args ...any) (n int) {
	t.Helper()
	if err := s.write.QueryRowContext(t.Context(), query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func conn(id, user string) oauth.Connection {
	return oauth.Connection{ID: id, User: user, CardURL: "https://notes.example.com/card.json", Endpoint: "https://notes.example.com/mcp"}
}

func tokensOf(c oauth.Connection) *oauth.Tokens {
	return &oauth.Tokens{
		Connection: c,
		Client: oauth.Registration{
			Issuer: "https://login.example.com", ClientID: "https://host.example.com/client.json", Secret: "the client secret",
			AuthMethod: "client_secret_post", Expires: time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC),
		},
		Access: "the access token", Expires: time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), Refresh: "the refresh token",
		Scopes: []string{"read"}, Requested: []string{"read", "write"}, Resource: c.Endpoint,
		TokenEndpoint: "https://login.example.com/token", RevocationEndpoint: "https://login.example.com/revoke",
	}
}

func attemptOf(c oauth.Connection, state string) *oauth.Attempt {
	return &oauth.Attempt{
		State: state, Connection: c, Client: tokensOf(c).Client, RedirectURI: "https://host.example.com/callback", Verifier: "the verifier",
		Scopes: []string{"read"}, Resource: c.Endpoint, IssAdvertised: true,
		TokenEndpoint: "https://login.example.com/token", RevocationEndpoint: "https://login.example.com/revoke",
		Expires: time.Now().Add(10 * time.Minute).Truncate(time.Microsecond),
	}
}

// signedIn adds a connection with tokens, and gives them as they are stored.
func signedIn(t testing.TB, s *Store, c oauth.Connection) *oauth.Tokens {
	t.Helper()
	if err := s.Add(context.Background(), c); err != nil {
		t.Fatal(err)
	}
	x := tokensOf(c)
	var err error
	if x.Version, err = s.PutTokens(context.Background(), x); err != nil {
		t.Fatal(err)
	}
	return x
}

// same compares with all texts revealed.
func same(t testing.TB, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("the error is %v, it should be %v", err, want)
	}
}

func TestTokensComeBackAsTheyWere(t *testing.T) {
	s := newStore(t)
	for _, change := range []func(*oauth.Tokens){
		func(*oauth.Tokens) {},
		func(x *oauth.Tokens) { x.Refresh = "" },
		func(x *oauth.Tokens) { x.Client.Secret, x.Client.AuthMethod, x.Client.Expires = "", "none", time.Time{} },
		func(x *oauth.Tokens) { x.Expires, x.Scopes, x.Requested = time.Time{}, nil, []string{} },
		func(x *oauth.Tokens) { x.Access = "" },
		func(x *oauth.Tokens) { x.Resource, x.RevocationEndpoint = "https://notes.example.com", "" },
		func(x *oauth.Tokens) { x.Scopes = []string{"a\nb", "é\x00", `"`} },
	} {
		c := conn(randomID(), "ann")
		want := tokensOf(c)
		change(want)
		if err := s.Add(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		v, err := s.PutTokens(t.Context(), want)
		if err != nil || v != 1 {
			t.Fatalf("version %d, %v", v, err)
		}
		want.Version = 1
		got, err := s.Tokens(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, want)
	}
}

// No version is given twice: a refresh that began before the user signed out and
// in again cannot write over the new tokens.
func TestVersionsAreNotUsedAgain(t *testing.T) {
	s, c := newStore(t), conn("c1", "ann")
	old := signedIn(t, s, c)
	wantErr(t, s.RemoveTokens(t.Context(), c, old.Version+1), oauth.ErrConflict)
	if err := s.RemoveTokens(t.Context(), c, old.Version); err != nil {
		t.Fatal(err)
	}
	_, err := s.Tokens(t.Context(), c)
	wantErr(t, err, oauth.ErrNotFound)
	if err := s.RemoveTokens(t.Context(), c, old.Version); err != nil {
		t.Error(err)
	}
	_, err = s.PutTokens(t.Context(), old) // the late refresh, before
	wantErr(t, err, oauth.ErrConflict)
	v, err := s.PutTokens(t.Context(), tokensOf(c))
	if err != nil || v == old.Version {
		t.Fatalf("version %d again, %v", v, err)
	}
	_, err = s.PutTokens(t.Context(), old) // and after the new sign-in
	wantErr(t, err, oauth.ErrConflict)
}

func TestAttempts(t *testing.T) {
	s, c := newStore(t), conn("c1", "ann")
	wantErr(t, s.AddAttempt(t.Context(), attemptOf(c, "s1")), oauth.ErrGone)
	x := signedIn(t, s, c) // tokens stay apart from attempts
	want := attemptOf(c, "s1")
	if err := s.AddAttempt(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if err := s.AddAttempt(t.Context(), want); err == nil {
		t.Error("a state was used twice")
	}
	other := attemptOf(c, "s2")
	other.Client.Secret = ""
	if err := s.AddAttempt(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	got, err := s.TakeAttempt(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	same(t, got, want)
	_, err = s.TakeAttempt(t.Context(), "s1")
	wantErr(t, err, oauth.ErrNotFound)
	if got, err = s.TakeAttempt(t.Context(), "s2"); err != nil {
		t.Fatal(err)
	}
	same(t, got, other)
	if got, err := s.Tokens(t.Context(), c); err != nil {
		t.Error(err)
	} else {
		same(t, got, x)
	}
}

func TestAttemptsExpire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	synctest.Test(t, func(t *testing.T) {
		s, c := openAt(t, path, nil), conn("c1", "ann")
		x := signedIn(t, s, c)
		for _, state := range []string{"s1", "s2", "s3"} {
			if err := s.AddAttempt(t.Context(), attemptOf(c, state)); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10*time.Minute - time.Second)
		if _, err := s.TakeAttempt(t.Context(), "s1"); err != nil {
			t.Errorf("in time: %v", err)
		}
		time.Sleep(time.Second)
		_, err := s.TakeAttempt(t.Context(), "s2")
		wantErr(t, err, oauth.ErrNotFound)
		if n := count(t, s, `SELECT count(*) FROM secret WHERE kind = 'verifier'`); n != 1 {
			t.Fatalf("%d attempts wait", n)
		}
		if err := s.AddAttempt(t.Context(), attemptOf(c, "s4")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		other := openAt(t, path, nil) // opening sweeps
		if n := count(t, other, `SELECT count(*) FROM secret WHERE name <> ''`); n != 0 {
			t.Errorf("%d rows of attempts are left", n)
		}
		if got, err := s.Tokens(t.Context(), c); err != nil {
			t.Error(err)
		} else {
			same(t, got, x)
		}
	})
}

func TestLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	synctest.Test(t, func(t *testing.T) {
		a, b, c := openAt(t, path, nil), openAt(t, path, nil), conn("c1", "ann")
		lease := func(s *Store, holder string, want bool) {
			t.Helper()
			if ok, err := s.Lease(t.Context(), c, holder, 30*time.Second); err != nil || ok != want {
				t.Errorf("%s: %v, %v", holder, ok, err)
			}
		}
		_, err := a.Lease(t.Context(), c, "a", time.Second)
		wantErr(t, err, oauth.ErrGone)
		if err := a.Add(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		lease(a, "a", true)
		lease(b, "b", false)
		time.Sleep(20 * time.Second)
		lease(a, "a", true) // longer
		time.Sleep(29 * time.Second)
		lease(b, "b", false)
		if err := b.Release(t.Context(), c, "b"); err != nil { // not its own
			t.Error(err)
		}
		lease(b, "b", false)
		time.Sleep(time.Second)
		lease(b, "b", true) // the holder died
		lease(a, "a", false)
		if err := b.Release(t.Context(), c, "b"); err != nil {
			t.Error(err)
		}
		lease(a, "a", true)
		if _, err := a.Lease(t.Context(), c, "", time.Second); err == nil {
			t.Error("a holder without a name")
		}
	})
}

func TestRegistrations(t *testing.T) {
	s := newStore(t)
	_, err := s.Registration(t.Context(), "https://login.example.com")
	wantErr(t, err, oauth.ErrNotFound)
	for _, r := range []*oauth.Registration{
		{Issuer: "https://login.example.com", ClientID: "1", AuthMethod: "none"},
		{Issuer: "https://login.example.com/", ClientID: "2", Secret: "s", AuthMethod: "client_secret_basic", Expires: time.Unix(1e9, 0).UTC()},
		{Issuer: "https://login.example.com", ClientID: "3", Secret: "s", AuthMethod: "client_secret_basic"},
	} {
		if err := s.PutRegistration(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		got, err := s.Registration(t.Context(), r.Issuer)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got, r)
	}
	if n := count(t, s, `SELECT count(*) FROM secret`); n != 2 {
		t.Errorf("%d rows for two issuers", n)
	}
}

func TestSettings(t *testing.T) {
	s, c := newStore(t), conn("c1", "ann")
	if err := s.PutSetting(t.Context(), c, Header, "X-Key", "1"); !errors.Is(err, oauth.ErrGone) {
		t.Error(err)
	}
	if err := s.Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	_, err := s.Setting(t.Context(), c, Header, "X-Key")
	wantErr(t, err, oauth.ErrNotFound)
	for _, v := range []struct {
		kind        Kind
		name, value string
	}{{Header, "X-Key", "1"}, {Header, "x-key", "2"}, {Variable, "X-Key", ""}, {Header, "X-Key", "3"}} {
		if err := s.PutSetting(t.Context(), c, v.kind, v.name, oauth.Secret(v.value)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Setting(t.Context(), c, v.kind, v.name); err != nil || got.Reveal() != v.value {
			t.Errorf("%s %s is %q, %v", v.kind, v.name, got.Reveal(), err)
		}
	}
	for range 2 { // the second time it is gone already
		if err := s.DeleteSetting(t.Context(), c, Header, "X-Key"); err != nil {
			t.Error(err)
		}
	}
	_, err = s.Setting(t.Context(), c, Header, "X-Key")
	wantErr(t, err, oauth.ErrNotFound)
	if got, err := s.Setting(t.Context(), c, Header, "x-key"); err != nil || got != "2" {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []struct {
		kind Kind
		name string
	}{{access, "x"}, {"", "x"}, {Header, ""}} {
		if err := s.PutSetting(t.Context(), c, bad.kind, bad.name, "x"); err == nil {
			t.Errorf("%v was written", bad)
		}
		if _, err := s.Setting(t.Context(), c, bad.kind, bad.name); err == nil || errors.Is(err, oauth.ErrNotFound) {
			t.Errorf("%v was read: %v", bad, err)
		}
		if err := s.DeleteSetting(t.Context(), c, bad.kind, bad.name); err == nil {
			t.Errorf("%v was deleted", bad)
		}
	}
	if err := s.PutSetting(t.Context(), c, Header, "x", oauth.Secret(strings.Repeat("x", maxSecret+1))); err == nil {
		t.Error("a secret without end was written")
	}
}

// Two handles and many goroutines count one version up: each number is given
// once.
func TestConcurrentPuts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "host.db")
	stores, c := []*Store{openAt(t, path, nil), openAt(t, path, nil)}, conn("c1", "ann")
	if err := stores[0].Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	const workers, each = 6, 8
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[int64]bool)
	for w := range workers {
		wg.Go(func() {
			for done := 0; done < each; {
				v, err := advance(t.Context(), stores[w%2], c)
				if errors.Is(err, oauth.ErrConflict) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if seen[v] {
					t.Errorf("version %d was given twice", v)
				}
				seen[v] = true
				mu.Unlock()
				done++
			}
		})
	}
	wg.Wait()
	if got, err := stores[1].Tokens(t.Context(), c); err != nil || got.Version != workers*each {
		t.Errorf("%+v, %v", got, err)
	}
}

// advance replaces tokens by the next ones, whose texts tell their version.
func advance(ctx context.Context, s *Store, c oauth.Connection) (int64, error) {
	x, err := s.Tokens(ctx, c)
	if errors.Is(err, oauth.ErrNotFound) {
		x, err = tokensOf(c), nil
	}
	if err != nil {
		return 0, err
	}
	next := fmt.Sprint(x.Version + 1)
	x.Access, x.Refresh, x.Client.Secret = oauth.Secret("access "+next), oauth.Secret("refresh "+next), oauth.Secret("client "+next)
	return s.PutTokens(ctx, x)
}

// whole checks that tokens are those of one version.
func whole(x *oauth.Tokens) error {
	v := fmt.Sprint(x.Version)
	if x.Access.Reveal() != "access "+v || x.Refresh.Reveal() != "refresh "+v || x.Client.Secret.Reveal() != "client "+v {
		return fmt.Errorf("version %s has parts of another one", v)
	}
	return nil
}

// logs keeps what is logged, of every level.
type logs struct {
	mu sync.Mutex
	bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Buffer.Write(p)
}

func (l *logs) contains(text string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.String(), text)
}

func (l *logs) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

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
