package search

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/openbot-build/openbot-go/index"
)

// feed is a store's reading half in memory.
type feed struct {
	mu      sync.Mutex
	epoch   string
	seq     int64
	compact int64 // tombstones up to here were dropped
	last    map[string]index.Change
	fail    error
	hint    chan struct{} // nil: no hints
	loads   int
	asked   int
}

func newFeed() *feed { return &feed{epoch: "one", last: make(map[string]index.Change)} }

func (f *feed) put(t testing.TB, apps ...app) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range apps {
		f.seq++
		e := a.entry(t)
		e.Seq = f.seq
		f.last[e.ID] = index.Change{Seq: f.seq, Op: index.Upsert, ID: e.ID, Entry: e, At: time.Now()}
	}
}

func (f *feed) drop(a app) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	id := index.ID(a.URL)
	f.last[id] = index.Change{Seq: f.seq, Op: index.Delete, ID: id, Reason: index.ReasonDelisted, At: time.Now()}
}

func (f *feed) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *feed) Snapshot(ctx context.Context, fn func(*index.Entry) error) (index.Head, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loads++
	if f.fail != nil {
		return index.Head{}, f.fail
	}
	for _, c := range f.last {
		if c.Entry != nil {
			if err := fn(c.Entry); err != nil {
				return index.Head{}, err
			}
		}
	}
	return index.Head{Epoch: f.epoch, Seq: f.seq}, nil
}

func (f *feed) Changes(ctx context.Context, after int64, n int) ([]index.Change, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		return nil, f.fail
	}
	if after != 0 && after < f.compact {
		return nil, fmt.Errorf("changes: %w", index.ErrCompact)
	}
	var out []index.Change
	for _, c := range f.last {
		if c.Seq > after {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b index.Change) int { return int(a.Seq - b.Seq) })
	return out[:min(n, len(out))], nil
}

func (f *feed) Head(ctx context.Context) (index.Head, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return index.Head{Epoch: f.epoch, Seq: f.seq}, f.fail
}

func (f *feed) Watch(ctx context.Context) <-chan struct{} {
	if f.hint == nil {
		c := make(chan struct{})
		close(c)
		return c
	}
	return f.hint
}

// following runs Follow in a bubble of fake time.
func following(t *testing.T, f *feed, story func(x *Index)) {
	synctest.Test(t, func(t *testing.T) {
		x := New(nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- x.Follow(ctx, f) }()
		synctest.Wait()
		story(x)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Follow ended with %v", err)
		}
		goleak.VerifyNone(t, goleak.IgnoreCurrent())
	})
}

func TestFollow_pollsAndFollowsHints(t *testing.T) {
	f := newFeed()
	f.put(t, simple("a.example", "Chess", ""))
	following(t, f, func(x *Index) {
		want(t, find(t, x, "chess", 5), "a.example")
		s := x.Status()
		if !s.Loaded || s.Head.Seq != 1 || s.Live != 1 || s.SyncedAt != time.Now() || s.Problem != "" {
			t.Errorf("status %+v", s)
		}
		f.put(t, simple("b.example", "Go", ""))
		f.drop(simple("a.example", "", ""))
		want(t, find(t, x, "go", 5))
		time.Sleep(pollInterval)
		synctest.Wait()
		want(t, find(t, x, "go", 5), "b.example")
		want(t, find(t, x, "chess", 5))
		if s := x.Status(); s.Head.Seq != 3 || s.Live != 1 {
			t.Errorf("status %+v", s)
		}
	})
	f = newFeed()
	hint := make(chan struct{}, 1)
	following(t, f, func(x *Index) {}) // an empty store is a loaded index
	f.hint = hint
	synctest.Test(t, func(t *testing.T) {
		f.hint = make(chan struct{}, 1) // of this bubble
		x := New(nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go x.Follow(ctx, f)
		synctest.Wait()
		f.put(t, simple("c.example", "Tide", ""))
		f.hint <- struct{}{}
		time.Sleep(gather)
		synctest.Wait()
		want(t, find(t, x, "tide", 5), "c.example")
		cancel()
		synctest.Wait()
	})
}

func TestFollow_manyChanges(t *testing.T) {
	f := newFeed()
	following(t, f, func(x *Index) {
		for i := range feedPage + 200 {
			f.put(t, simple(fmt.Sprintf("h%d.example", i), "Chess", ""))
		}
		time.Sleep(pollInterval)
		synctest.Wait()
		if s := x.Status(); s.Live != feedPage+200 || s.Head.Seq != int64(feedPage+200) {
			t.Errorf("status %+v", s)
		}
	})
}

// A node that has lost the store answers from what it holds, says so, and asks
// less and less often (IX-4).
func TestRule_IX4_LostStore(t *testing.T) {
	f := newFeed()
	f.put(t, simple("a.example", "Chess", ""))
	following(t, f, func(x *Index) {
		synced := x.Status().SyncedAt
		f.set(func() { f.fail = errors.New("the store is away"); f.asked = 0 })
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		want(t, find(t, x, "chess", 5), "a.example")
		s := x.Status()
		if s.Problem == "" || s.SyncedAt.After(synced.Add(pollInterval)) {
			t.Errorf("status %+v", s)
		}
		if f.asked < 8 || f.asked > 20 {
			t.Errorf("asked %d times in five minutes", f.asked)
		}
		f.set(func() { f.fail = nil })
		f.put(t, simple("b.example", "Chess", ""))
		time.Sleep(maxBackoff)
		synctest.Wait()
		if s := x.Status(); s.Problem != "" || s.Live != 2 {
			t.Errorf("status %+v", s)
		}
	})
}

func TestRule_IX17_NewEpochAndCompactionReload(t *testing.T) {
	for name, turn := range map[string]func(f *feed){
		"epoch":      func(f *feed) { f.epoch = "two" },
		"ahead":      func(f *feed) { f.seq = 1 },
		"compaction": func(f *feed) { f.seq += 5; f.compact = f.seq },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFeed()
			gone, kept := simple("a.example", "Chess", ""), simple("b.example", "Chess", "")
			f.put(t, gone, kept)
			following(t, f, func(x *Index) {
				f.set(func() {
					// The row is away without a change that says so.
					delete(f.last, index.ID(gone.URL))
					turn(f)
				})
				time.Sleep(pollInterval)
				synctest.Wait()
				want(t, find(t, x, "chess", 5), "b.example")
				if f.loads != 2 || x.Status().Head.Epoch != f.epoch {
					t.Errorf("%d loads, status %+v", f.loads, x.Status())
				}
			})
		})
	}
}

func TestRule_IX13_NotLoadedWhileTheStoreFails(t *testing.T) {
	f := newFeed()
	f.fail = errors.New("the database is locked")
	following(t, f, func(x *Index) {
		if s := x.Status(); s.Loaded || s.Problem == "" {
			t.Errorf("status %+v", s)
		}
		if _, err := x.Search(t.Context(), Query{Text: "x", Limit: 1}); !errors.Is(err, ErrNotLoaded) {
			t.Errorf("search: %v", err)
		}
		if _, ok := x.Entry("x"); ok {
			t.Error("an entry of an empty index")
		}
	})
}

// Hidden and removed entries leave, and come back with the same id (IX-9).
func TestRule_IX9_DeleteAndReturn(t *testing.T) {
	a := simple("a.example", "Chess", "")
	f := newFeed()
	f.put(t, a)
	following(t, f, func(x *Index) {
		f.drop(a)
		time.Sleep(pollInterval)
		synctest.Wait()
		if _, ok := x.Entry(index.ID(a.URL)); ok {
			t.Error("still there")
		}
		f.put(t, a)
		time.Sleep(pollInterval)
		synctest.Wait()
		if e, ok := x.Entry(index.ID(a.URL)); !ok || e.CardURL != a.URL {
			t.Error("not back")
		}
	})
}

// IX-1: a store has no search. What it offers readers is entries, a snapshot
// and the feed, and that is all that search is made from.
func TestRule_IX1_SearchIsApartFromStorage(t *testing.T) {
	store := reflect.TypeFor[index.Store]()
	for m := range store.Methods() {
		for in := range m.Type.Ins() {
			if in == reflect.TypeFor[Query]() || strings.Contains(strings.ToLower(m.Name), "search") {
				t.Errorf("index.Store.%s searches", m.Name)
			}
		}
	}
	source := reflect.TypeFor[Source]()
	if !store.Implements(source) {
		t.Error("a store cannot be followed")
	}
	f := newFeed()
	f.put(t, app{URL: "https://a.example.com/c", Name: "com.example/calendar", Title: "Calendar"})
	x := New(nil)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { _ = x.Follow(ctx, f) }()
	for !x.Status().Loaded {
		time.Sleep(time.Millisecond)
	}
	if page, err := x.Search(ctx, Query{Text: "calendar", Limit: 10}); err != nil || len(page.Hits) != 1 {
		t.Errorf("made from the snapshot alone, search finds %v, %v", page, err)
	}
}
