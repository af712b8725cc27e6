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
