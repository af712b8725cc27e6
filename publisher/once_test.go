package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
)

type writeIn struct {
	Text string `json:"text"`
	Key  string `json:"key,omitempty" jsonschema:"a new UUID for each note; the same one when a call is repeated"`
}

type written struct {
	ID int32 `json:"id"`
}

// writer is a tool that writes, and what it does when asked to.
type writer struct {
	store publisher.OnceStore
	runs  atomic.Int32
	do    func(ctx context.Context, id int32) error // nil does nothing more
}

func (w *writer) add(t *testing.T, s *mcp.Server, name string) {
	t.Helper()
	addTool(t, s, name, func(ctx context.Context, r *mcp.CallToolRequest, in writeIn) (*mcp.CallToolResult, written, error) {
		out, err := publisher.Once(ctx, w.store, r, in.Key, func(ctx context.Context) (written, error) {
			id := w.runs.Add(1)
			if w.do != nil {
				if err := w.do(ctx, id); err != nil {
					return written{}, err
				}
			}
			return written{id}, nil
		})
		if err != nil {
			return nil, written{}, err
		}
		return publisher.Text(fmt.Sprintf("Note %d.", out.ID)), out, nil
	})
}

// OB-54: a write that is repeated with its key gives the first result.
func TestRule_OB54_RepeatedWriteGivesTheFirstResult(t *testing.T) {
	for _, version := range eras {
		w := &writer{store: &publisher.MemoryStore{}}
		app := newTestApp(t, func(t *testing.T, s *mcp.Server) {
			w.add(t, s, "write")
			w.add(t, s, "other")
		})
		app.version = version
		ada, bob := app.connect("ada", nil), app.connect("bob", nil)
		for i, step := range []struct {
			cs        *mcp.ClientSession
			tool      string
			text, key string
			want      string
		}{
			{ada, "write", "a", "k1", "Note 1."},
			{ada, "write", "a", "k1", "Note 1."},
			{ada, "write", "b", "k1", "this idempotency key was used with other arguments; take a new one for a new write"},
			{ada, "write", "a", "k2", "Note 2."},
			{ada, "other", "a", "k1", "Note 3."}, // a key is for one tool
			{bob, "write", "a", "k1", "Note 4."}, // and one user
			{bob, "write", "a", "k1", "Note 4."},
			{ada, "write", "a", "k1", "Note 1."},
			{ada, "write", "a", "", "Note 5."}, // without a key nothing is remembered
			{ada, "write", "a", "", "Note 6."},
			{ada, "write", "a", strings.Repeat("k", 257), "the idempotency key has 257 bytes; 256 are the limit"},
		} {
			args := map[string]any{"text": step.text}
			if step.key != "" {
				args["key"] = step.key
			}
			res := call(t, step.cs, step.tool, args)
			if textOf(res) != step.want || res.IsError == strings.HasPrefix(step.want, "Note") {
				t.Errorf("step %d: %s", i+1, asJSON(t, res))
			}
		}
		again := call(t, ada, "write", map[string]any{"text": "a", "key": "k1"})
		if !sameJSON(t, asJSON(t, again.StructuredContent), `{"id":1}`) {
			t.Errorf("value %s", asJSON(t, again))
		}
	}
}

// Calls that come at the same time run once, and all get the one result.
func TestRule_OB54_ConcurrentCallsRunOnce(t *testing.T) {
	w := &writer{store: &publisher.MemoryStore{}, do: func(context.Context, int32) error { time.Sleep(50 * time.Millisecond); return nil }}
	app := newTestApp(t, func(t *testing.T, s *mcp.Server) { w.add(t, s, "write") })
	var wg sync.WaitGroup
	for range 8 {
		cs := app.connect("", nil)
		wg.Go(func() {
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "write", Arguments: map[string]any{"text": "a", "key": "k"}})
			if err != nil || textOf(res) != "Note 1." {
				t.Errorf("%v, %v", res, err)
			}
		})
	}
	wg.Wait()
	if w.runs.Load() != 1 {
		t.Errorf("%d runs", w.runs.Load())
	}
}

// A run that failed is not remembered as done; one that cannot tell is
// remembered as that.
func TestRule_OB54_FailuresAreNotRemembered(t *testing.T) {
	w := &writer{store: &publisher.MemoryStore{}}
	app := newTestApp(t, func(t *testing.T, s *mcp.Server) { w.add(t, s, "write") })
	cs := app.connect("", nil)
	var fail error
	w.do = func(context.Context, int32) error { return fail }
	write := func(key, want string) {
		t.Helper()
		res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "write", Arguments: map[string]any{"text": "a", "key": key}})
		if want == "" {
			wantCode(t, err, 4711, "of our own")
			return
		}
		if err != nil || !strings.Contains(textOf(res), want) {
			t.Errorf("%v, %v", res, err)
		}
	}
	fail = errors.New("disk is full")
	write("k", "disk is full")
	fail = &jsonrpc.Error{Code: 4711, Message: "of our own"}
	write("k", "")
	fail = nil
	write("k", "Note 3.")
	fail = errors.New("disk is full")
	write("k", "Note 3.")

	fail = fmt.Errorf("the bank did not answer: %w", publisher.ErrOutcomeUnknown)
	write("bank", "the bank did not answer: the outcome of an earlier call")
	fail = nil
	runs := w.runs.Load()
	write("bank", "the outcome of an earlier call with this idempotency key is unknown; look whether")
	if w.runs.Load() != runs {
		t.Error("a write of unknown outcome ran again")
	}
}

// OB-55: a caller who goes away does not cut a write in two; it is done, and
// told when they ask again.
func TestRule_OB55_AWriteOutlivesItsCaller(t *testing.T) {
	started, release := make(chan bool, 1), make(chan bool)
	w := &writer{store: &publisher.MemoryStore{}, do: func(ctx context.Context, _ int32) error {
		started <- true
		<-release
		return ctx.Err()
	}}
	for _, version := range eras {
		w.runs.Store(0)
		app := newTestApp(t, func(t *testing.T, s *mcp.Server) { w.add(t, s, "write") })
		app.version = version
		ctx, cancel := context.WithCancel(t.Context())
		args := map[string]any{"text": "a", "key": version}
		cs := app.connect("", nil)
		done := make(chan error, 1)
		go func() {
			_, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "write", Arguments: args})
			done <- err
		}()
		<-started
		cancel()
		if err := <-done; err == nil {
			t.Error("the caller did not go away")
		}
		waiting, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
		if _, err := app.connect("", nil).CallTool(waiting, &mcp.CallToolParams{Name: "write", Arguments: args}); err == nil {
			t.Error("an answer before the first run ended")
		}
		stop()
		release <- true
		if got := textOf(call(t, app.connect("", nil), "write", args)); got != "Note 1." || w.runs.Load() != 1 {
			t.Errorf("%s: %q after %d runs", version, got, w.runs.Load())
		}
	}
}

// toolRequest is a request as a handler gets it.
func toolRequest(name, args string) *mcp.CallToolRequest {
	return &mcp.CallToolRequest{Params: &mcp.CallToolParamsRaw{Name: name, Arguments: []byte(args)}, Extra: &mcp.RequestExtra{}}
}

// A run that does not end is cut off after five minutes, and a panic leaves no
// claim behind that others would wait for: both are unknown outcomes.
func TestRule_OB54_RunsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, r := &publisher.MemoryStore{}, toolRequest("write", `{}`)
		start := time.Now()
		hang := func(ctx context.Context) (written, error) { <-ctx.Done(); return written{}, ctx.Err() }
		_, err := publisher.Once(t.Context(), store, r, "slow", hang)
		if !errors.Is(err, publisher.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 5*time.Minute {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if _, err := publisher.Once(t.Context(), store, r, "slow", hang); !errors.Is(err, publisher.ErrOutcomeUnknown) {
			t.Errorf("again: %v", err)
		}

		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic is gone")
				}
			}()
			_, _ = publisher.Once(t.Context(), store, r, "panic", func(context.Context) (written, error) { panic("x") })
		}()
		if _, err := publisher.Once(t.Context(), store, r, "panic", hang); !errors.Is(err, publisher.ErrOutcomeUnknown) {
			t.Errorf("after the panic: %v", err)
		}

		// A value that cannot be told again was written all the same.
		odd := func(context.Context) (any, error) { return make(chan int), nil }
		if out, err := publisher.Once(t.Context(), store, r, "odd", odd); err != nil || out == nil {
			t.Errorf("%v, %v", out, err)
		}
		if _, err := publisher.Once(t.Context(), store, r, "odd", odd); !errors.Is(err, publisher.ErrOutcomeUnknown) {
			t.Errorf("again: %v", err)
		}
	})
}

// brokenStore fails where it is told to.
type brokenStore struct {
	publisher.MemoryStore
	claim, done, free error
}

func (b *brokenStore) Claim(ctx context.Context, id string) ([]byte, error) {
	if b.claim != nil {
		return nil, b.claim
	}
	return b.MemoryStore.Claim(ctx, id)
}

func (b *brokenStore) Done(ctx context.Context, id string, record []byte) error {
	if b.done != nil {
		return b.done
	}
	return b.MemoryStore.Done(ctx, id, record)
}

func (b *brokenStore) Free(ctx context.Context, id string) error {
	return errors.Join(b.free, b.MemoryStore.Free(ctx, id))
}

// What a store cannot do: without a claim nothing runs; what was done is told
// even when it cannot be written down.
func TestOnceWithABrokenStore(t *testing.T) {
	down := errors.New("the store is down")
	runs := 0
	run := func(context.Context) (written, error) { runs++; return written{7}, nil }
	r := toolRequest("write", `{}`)
	if _, err := publisher.Once(t.Context(), &brokenStore{claim: down}, r, "k", run); !errors.Is(err, down) || runs != 0 {
		t.Errorf("%v after %d runs", err, runs)
	}
	if _, err := publisher.Once(t.Context(), &brokenStore{claim: publisher.ErrOutcomeUnknown}, r, "k", run); !errors.Is(err, publisher.ErrOutcomeUnknown) {
		t.Errorf("error %v", err)
	}
	if out, err := publisher.Once(t.Context(), &brokenStore{done: down}, r, "k", run); err != nil || out.ID != 7 || runs != 1 {
		t.Errorf("%v, %v after %d runs", out, err, runs)
	}
	failed := errors.New("failed")
	if _, err := publisher.Once(t.Context(), &brokenStore{free: down}, r, "k", func(context.Context) (written, error) { return written{}, failed }); !errors.Is(err, failed) {
		t.Errorf("error %v", err)
	}
	if _, err := publisher.Once(t.Context(), &publisher.MemoryStore{}, toolRequest("write", `{`), "k", run); err == nil {
		t.Error("arguments that are no JSON have no digest")
	}
	garbage := &publisher.MemoryStore{}
	if _, err := publisher.Once(t.Context(), &garbled{garbage}, r, "k", run); err == nil || !strings.Contains(err.Error(), "read the first result") {
		t.Errorf("error %v", err)
	}
}

// garbled gives back something else.
type garbled struct{ *publisher.MemoryStore }

func (garbled) Claim(context.Context, string) ([]byte, error) { return []byte("?"), nil }

// The memory store keeps to its bounds, and forgets the oldest first.
func TestMemoryStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		m := &publisher.MemoryStore{MaxBytes: 3000, MaxAge: time.Hour}
		put := func(id string, n int) {
			t.Helper()
			if got, err := m.Claim(ctx, id); got != nil || err != nil {
				t.Fatalf("claim %s: %q, %v", id, got, err)
			}
			if err := m.Done(ctx, id, make([]byte, n)); err != nil {
				t.Fatal(err)
			}
		}
		has := func(id string) bool {
			t.Helper()
			got, err := m.Claim(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if got == nil {
				if err := m.Free(ctx, id); err != nil {
					t.Fatal(err)
				}
			}
			return got != nil
		}
		put("a", 700)
		put("b", 700)
		put("c", 700)
		if !has("a") || !has("b") || !has("c") {
			t.Error("forgot too early")
		}
		put("d", 700)
		if has("a") || !has("b") || !has("d") {
			t.Error("the oldest is forgotten first, and alone")
		}
		put("large", 10_000) // the newest stays
		if has("d") || !has("large") {
			t.Error("the newest stays")
		}
		time.Sleep(59 * time.Minute)
		put("e", 1)
		time.Sleep(2 * time.Minute)
		if has("large") || !has("e") {
			t.Error("an hour is an hour")
		}

		if m.Done(ctx, "nobody's", []byte("x")) == nil || m.Free(ctx, "e") == nil {
			t.Error("only a running claim ends")
		}
		// A freed claim goes to one of those who wait.
		if _, err := m.Claim(ctx, "w"); err != nil {
			t.Fatal(err)
		}
		got := make(chan []byte, 2)
		for range 2 {
			go func() {
				record, _ := m.Claim(ctx, "w")
				got <- record
				if record == nil {
					_ = m.Done(ctx, "w", []byte("done"))
				}
			}()
		}
		synctest.Wait()
		if err := m.Free(ctx, "w"); err != nil {
			t.Fatal(err)
		}
		if one, two := string(<-got), string(<-got); one+two != "done" {
			t.Errorf("got %q and %q", one, two)
		}
	})
}
