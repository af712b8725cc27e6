package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/search"
)

// day is when the tests happen.
var day = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// memory is a store in memory: what the API needs and the search index reads.
type memory struct {
	mu      sync.Mutex
	epoch   string
	seq     int64
	entries map[string]*index.Entry
	added   []index.NewDoc
	capped  bool
	fail    error
	watch   chan struct{}
}

func newMemory() *memory {
	return &memory{epoch: "e1", entries: make(map[string]*index.Entry), watch: make(chan struct{}, 1)}
}

func (m *memory) put(entries ...*index.Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range entries {
		m.seq++
		e.Seq, e.UpdatedAt = m.seq, day
		m.entries[e.ID] = e
	}
	select {
	case m.watch <- struct{}{}:
	default:
	}
}

func (m *memory) AddSource(_ context.Context, _ time.Time, docs ...index.NewDoc) ([]index.NewDoc, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	if m.capped {
		return docs, nil
	}
	m.added = append(m.added, docs...)
	return nil, nil
}

func (m *memory) Get(_ context.Context, id string) (*index.Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	e, ok := m.entries[id]
	if !ok {
		return nil, fmt.Errorf("get entry: %w", index.ErrNotFound)
	}
	return e, nil
}

func (m *memory) Stats(context.Context, time.Time) (*index.Stats, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return nil, m.fail
	}
	s := &index.Stats{Head: index.Head{Epoch: m.epoch, Seq: m.seq, UpdatedAt: day}, Entries: make(map[index.State]int64), Hosts: 3, Documents: 7}
	for _, e := range m.entries {
		s.Entries[e.State]++
	}
	return s, nil
}

func (m *memory) Head(context.Context) (index.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return index.Head{Epoch: m.epoch, Seq: m.seq, UpdatedAt: day}, m.fail
}

func (m *memory) Snapshot(_ context.Context, fn func(*index.Entry) error) (index.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return index.Head{}, m.fail
	}
	for _, e := range m.entries {
		if e.State.Searchable() {
			if err := fn(e); err != nil {
				return index.Head{}, err
			}
		}
	}
	return index.Head{Epoch: m.epoch, Seq: m.seq, UpdatedAt: day}, nil
}

func (m *memory) Changes(_ context.Context, after int64, n int) ([]index.Change, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []index.Change
	for _, e := range m.entries {
		if e.Seq <= after {
			continue
		}
		c := index.Change{Seq: e.Seq, Op: index.Upsert, ID: e.ID, CardURL: e.CardURL, At: day, Entry: e}
		if !e.State.Searchable() {
			c.Op, c.Entry = index.Delete, nil
		}
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b index.Change) int { return int(a.Seq - b.Seq) })
	return out[:min(n, len(out))], m.fail
}

func (m *memory) Watch(context.Context) <-chan struct{} { return m.watch }

// entryFor gives an entry with a card of its own.
func entryFor(t testing.TB, cardURL, title, description string, change ...func(*index.Entry, *card.Card)) *index.Entry {
	t.Helper()
	u, err := url.Parse(cardURL)
	if err != nil {
		t.Fatal(err)
	}
	c := &card.Card{
		Schema: card.SchemaURL, Name: "com.example/app", Version: "1.2.0", Title: title, Description: description,
		WebsiteURL: "https://" + u.Host + "/about",
		Remotes:    []card.Remote{{Type: "streamable-http", URL: "https://" + u.Host + "/mcp", Versions: []string{card.ProtocolVersion}}},
	}
	e := &index.Entry{
		ID: index.ID(cardURL), CardURL: cardURL, FinalURL: cardURL, Version: "1.2.0", State: index.Listed,
		FirstSeen: day.AddDate(0, -1, 0), CheckedAt: day.Add(-time.Hour),
		Evidence: &catalog.Evidence{Kind: catalog.WellKnown, CatalogURL: "https://" + u.Host + catalog.WellKnownPath, CheckedAt: day.Add(-time.Hour)},
	}
	for _, fn := range change {
		fn(e, c)
	}
	e.Name = c.Name
	if e.Document == nil {
		if e.Document, err = c.Encode(); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// removed gives what is left of a removed entry.
func removed(cardURL string, state index.State, reason index.Reason) *index.Entry {
	return &index.Entry{ID: index.ID(cardURL), CardURL: cardURL, Name: "com.example/old", Version: "0.9.0", State: state, Reason: reason}
}

// site is a handler over a store whose entries are in its search index.
type site struct {
	http.Handler
	store  *memory
	search *search.Index
}

// open makes a site; change, may be nil, sets options.
func open(t testing.TB, store *memory, change func(*Options)) *site {
	t.Helper()
	x := search.New(nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := x.Follow(ctx, store); !errors.Is(err, context.Canceled) {
			t.Errorf("follow: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	opts := &Options{
		Store: store, Search: x, CursorKey: []byte("0123456789abcdef"), Now: func() time.Time { return day },
		Rates: Rates{Search: -1, Read: -1, Submit: -1},
	}
	if change != nil {
		change(opts)
	}
	s := &site{store: store, search: x}
	var err error
	if s.Handler, err = New(opts); err != nil {
		t.Fatal(err)
	}
	if store.fail == nil {
		s.sync(t)
	}
	return s
}

// sync waits for the search index to hold what the store does.
func (s *site) sync(t testing.TB) {
	t.Helper()
	for range 500 {
		if head, _ := s.store.Head(t.Context()); s.search.Status().Loaded && s.search.Status().Head.Seq == head.Seq {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the search index does not come up")
}

func (s *site) cursors() cursors { return cursors{[]byte("0123456789abcdef")} }

// do sends a request; header holds pairs of names and values.
func (s *site) do(method, target, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.RemoteAddr = "198.51.100.7:4000"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

func (s *site) get(target string, header ...string) *httptest.ResponseRecorder {
	return s.do(http.MethodGet, target, "", header...)
}

// object decodes an answer.
func object(t testing.TB, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.NewDecoder(w.Body).Decode(&v); err != nil && !errors.Is(err, io.EOF) {
		t.Fatalf("%d %s: %v", w.Code, w.Header().Get("Content-Type"), err)
	}
	return v
}

// hostsOf gives the hosts of the items of a page, in order.
func hostsOf(v map[string]any) []string {
	out := []string{}
	items, _ := v["items"].([]any)
	for _, it := range items {
		origin, _ := it.(map[string]any)["origin"].(string)
		out = append(out, strings.TrimPrefix(origin, "https://"))
	}
	return out
}

// refused checks a problem document.
func refused(t testing.TB, w *httptest.ResponseRecorder, status int, words ...string) {
	t.Helper()
	body := w.Body.String()
	if w.Code != status || w.Header().Get("Content-Type") != problemType {
		t.Errorf("%d %s, want a problem %d: %s", w.Code, w.Header().Get("Content-Type"), status, body)
	}
	var p struct {
		Title, Detail string
		Status        int
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil || p.Status != status || p.Title != http.StatusText(status) || p.Detail == "" {
		t.Errorf("problem %s: %v", body, err)
	}
	for _, word := range words {
		if !strings.Contains(p.Detail, word) {
			t.Errorf("detail %q does not say %q", p.Detail, word)
		}
	}
}
