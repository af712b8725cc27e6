package crawlercmd

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

// databaseOf makes a database that lists n apps.
func databaseOf(t *testing.T, n int) string {
	t.Helper()
	ctx, now := t.Context(), time.Now().UTC()
	file := filepath.Join(t.TempDir(), "index.db")
	store, err := sqlite.Open(ctx, file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.AddSource(ctx, now, index.NewDoc{URL: "https://door.example.org/", Now: true}); err != nil {
		t.Fatal(err)
	}
	leases, err := store.Lease(ctx, index.LeaseRequest{Owner: "test", Now: now, Hosts: 1})
	if err != nil || len(leases) != 1 {
		t.Fatal(leases, err)
	}
	v := index.Visit{Host: leases[0].Host.Name, Owner: leases[0].Owner, No: leases[0].No, At: now}
	for _, d := range leases[0].Docs {
		d.CheckedAt, d.NextAt = now, now.Add(time.Hour)
		v.Docs = append(v.Docs, d)
	}
	for i := range n {
		url := fmt.Sprintf("https://app%d.example.com/card", i)
		doc, err := (&card.Card{Schema: card.SchemaURL, Name: "com.example/app", Version: "1.0.0", Title: "Chess", Description: "Text."}).Encode()
		if err != nil {
			t.Fatal(err)
		}
		v.Entries = append(v.Entries, index.Entry{
			ID: index.ID(url), CardURL: url, FinalURL: url, Document: doc, Hash: index.ID(string(doc)), Name: "com.example/app", Version: "1.0.0",
			Evidence: &catalog.Evidence{Kind: catalog.WellKnown, CatalogURL: fmt.Sprintf("https://app%d.example.com%s", i, catalog.WellKnownPath), CheckedAt: now},
			State:    index.Listed, FirstSeen: now, CheckedAt: now,
		})
	}
	if _, err := store.Apply(ctx, v); err != nil {
		t.Fatal(err)
	}
	return file
}

// openNode opens a node as the command line args says, and gives its handler
// once its search index is loaded.
func openNode(t *testing.T, args ...string) http.Handler {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cmd, _, err := parse(args, &Env{Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	var f *nodeFlags
	switch c := cmd.(type) {
	case *runCommand:
		f = &c.nodeFlags
	case *serveCommand:
		f = &c.nodeFlags
	}
	store, err := sqlite.Open(ctx, f.DB, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := f.bind(ctx)
	if err != nil {
		t.Fatal(err)
	}
	n, err := f.open(ctx, b, store, slog.New(slog.DiscardHandler), &operator{})
	if err != nil {
		t.Fatal(err)
	}
	var follower sync.WaitGroup
	follower.Go(func() { _ = n.index.Follow(ctx, store) })
	t.Cleanup(func() {
		cancel()
		follower.Wait()
		n.close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	for deadline := time.Now().Add(20 * time.Second); !n.index.Status().Loaded; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the search index does not come up")
		}
	}
	return n.server.Handler
}

// A cursor survives a restart, and run and serve on one database share it.
func TestServe_CursorsOutliveTheProcess(t *testing.T) {
	file := databaseOf(t, 5)
	ask := func(h http.Handler, path string) (status int, next string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		var page struct{ NextCursor string }
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		return w.Code, page.NextCursor
	}
	serve := []string{"serve", "--db", file, "--listen", "127.0.0.1:0"}
	_, next := ask(openNode(t, serve...), "/v1/apps?q=chess&limit=2")
	if next == "" {
		t.Fatal("no cursor")
	}
	run := []string{"run", "--db", file, "--listen", "127.0.0.1:0", "--about", "https://h.example.com/", "--contact", "c@example.com"}
	for _, args := range [][]string{serve, run} {
		if status, _ := ask(openNode(t, args...), "/v1/apps?cursor="+next); status != http.StatusOK {
			t.Errorf("%s: %d", args[0], status)
		}
	}
}

// Behind a proxy that is named, each client has limits of its own.
func TestServe_TrustedProxy(t *testing.T) {
	file := databaseOf(t, 1)
	for flag, want := range map[string]int{"--trusted-proxy=10.0.0.0/8, 192.0.2.1": http.StatusOK, "--trusted-proxy=10.9.0.0/16": http.StatusTooManyRequests} {
		h := openNode(t, "serve", "--db", file, "--listen", "127.0.0.1:0", flag)
		last := 0
		for i := range 130 { // one more than a client has in a minute, and some
			r := httptest.NewRequest(http.MethodGet, "/v1/apps?q=chess", nil)
			r.RemoteAddr = "192.0.2.1:4000"
			r.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", i))
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			last = w.Code
		}
		if last != want {
			t.Errorf("%s: %d, want %d", flag, last, want)
		}
	}
	_, _, err := parse([]string{"serve", "--db", file, "--listen", ":0", "--trusted-proxy", "10.0.0.0/8,nginx"}, &Env{Getenv: func(string) string { return "" }})
	if err == nil || !strings.Contains(err.Error(), "nginx") || !strings.Contains(err.Error(), "--trusted-proxy") {
		t.Errorf("%v", err)
	}
	cmd, _, err := parse([]string{"serve"}, &Env{Getenv: func(name string) string {
		return map[string]string{"OPENBOT_DB": "x", "OPENBOT_LISTEN": ":0", "OPENBOT_TRUSTED_PROXY": "::1,10.1.2.3/8"}[name]
	}})
	if err != nil || fmt.Sprint(cmd.(*serveCommand).TrustedProxy) != "[::1/128 10.0.0.0/8]" {
		t.Errorf("%v %v", cmd, err)
	}
}
