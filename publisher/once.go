package publisher

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// ErrOutcomeUnknown means that a write may or may not have happened (OB-55,
// OB-56). [Once] gives it for a key whose first run did not tell how it ended; a
// run that cannot tell wraps it in its own error.
var ErrOutcomeUnknown = errors.New("the outcome of an earlier call with this idempotency key is unknown; look whether it was carried out before writing again")

// Limits of Once.
const (
	maxKey     = 256
	runLimit   = 5 * time.Minute
	storeLimit = 10 * time.Second // to write down how a run ended
)

// OnceStore remembers for [Once] which writes were made and what they gave. It
// belongs to one app. [MemoryStore] is one for a single process; with several
// replicas, or where a restart must not forget, keep it beside what the writes
// change, best in the same database.
//
// id is opaque text of 43 characters. A record is never empty and is given back
// as it came. Methods may be called concurrently.
type OnceStore interface {
	// Claim asks for the run that id names. While another caller holds id it
	// waits until that one ends, or ctx does. A nil record means that id is
	// held by this caller, who will call Done or Free. Else the record is what
	// Done was given.
	//
	// A claim that nobody ended is a run whose process died: a store that
	// outlives processes gives ErrOutcomeUnknown for it once it is older than
	// any run (5 minutes), and never claims it anew before it forgets it.
	Claim(ctx context.Context, id string) (record []byte, err error)

	// Done ends a claim and keeps record for as long as repeats may come, a day
	// at least.
	Done(ctx context.Context, id string, record []byte) error

	// Free ends a claim whose run did nothing: the next Claim may have it.
	Free(ctx context.Context, id string) error
}

// Once makes a write of a tool happen once, however often it is called: the
// first call with a key runs it, and a later one with the same key gets the
// first one's result. A call that comes while the first is running waits for it.
//
// key is an argument of the tool, so that whoever repeats a call with the same
// arguments repeats the key; at most 256 bytes. Without one (""), run runs each
// time. A key counts for one user (by access token) and one tool; in an app
// without sign-in all callers share their keys, so ask for random ones, such as a
// UUID. The same key with other arguments is an error.
//
//	note, err := publisher.Once(ctx, store, r, in.Key, func(ctx context.Context) (Note, error) {
//		return notes.Add(ctx, in.Text)
//	})
//
// How run ends decides what is remembered:
//
//   - no error: its value, as JSON;
//   - an error: nothing. The write did not happen, and the next call runs it;
//   - an error that wraps ErrOutcomeUnknown, a panic, or an error after the time
//     limit: that nobody knows. Later calls get ErrOutcomeUnknown.
//
// The run outlives a caller who goes away, since that caller is the one who
// will ask again: its context is not cancelled with ctx, and ends after five
// minutes. If the store cannot write down that a run succeeded, the caller
// still gets the result, and later calls whatever the store makes of a claim
// without an end.
//
// After a crash a MemoryStore is empty, and a repeated write is made again. A
// store that outlives the process gives ErrOutcomeUnknown for what was running.
//
// Source: OpenBot App Protocol V1.1, OB-54 and OB-55.
func Once[T any](ctx context.Context, store OnceStore, r *mcp.CallToolRequest, key string, run func(context.Context) (T, error)) (T, error) {
	var zero T
	if key == "" {
		return run(ctx)
	}
	if len(key) > maxKey {
		return zero, fmt.Errorf("the idempotency key has %d bytes; %d are the limit", len(key), maxKey)
	}
	c, err := callerOf(r)
	if err != nil {
		return zero, err
	}
	id := digestOf(c.principal, c.name, key)
	data, err := store.Claim(ctx, id)
	if err != nil {
		return zero, fmt.Errorf("look up the idempotency key: %w", err)
	}
	if data != nil {
		return again[T](data, c.digest)
	}
	return first(ctx, store, id, c.digest, run)
}

// record is what a store keeps.
type record struct {
	Call    string          `json:"c"` // digest of tool and arguments
	Unknown bool            `json:"u,omitempty"`
	Value   json.RawMessage `json:"v,omitempty"`
}

// again gives the first run's result.
func again[T any](data []byte, call string) (out T, err error) {
	var rec record
	if err := json.Unmarshal(data, &rec); err != nil {
		return out, fmt.Errorf("read the first result: %w", err)
	}
	switch {
	case rec.Call != call:
		return out, errors.New("this idempotency key was used with other arguments; take a new one for a new write")
	case rec.Unknown:
		return out, ErrOutcomeUnknown
	}
	if err := json.Unmarshal(rec.Value, &out); err != nil {
		return out, fmt.Errorf("read the first result: %w", err)
	}
	return out, nil
}

// first runs a write whose claim is held, and ends the claim.
func first[T any](ctx context.Context, store OnceStore, id, call string, run func(context.Context) (T, error)) (out T, err error) {
	ctx = context.WithoutCancel(ctx)
	end := func(rec *record) {
		ctx, cancel := context.WithTimeout(ctx, storeLimit)
		defer cancel()
		if rec == nil {
			_ = store.Free(ctx, id)
			return
		}
		if data, err := json.Marshal(rec); err == nil {
			_ = store.Done(ctx, id, data)
		}
	}
	unknown := &record{Call: call, Unknown: true}
	returned := false
	defer func() {
		if !returned { // a panic goes on
			end(unknown)
		}
	}()
	limited, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	out, err = run(limited)
	returned = true
	switch {
	case err == nil:
		value, encodeErr := json.Marshal(out)
		if encodeErr != nil {
			end(unknown) // it happened, but what it gave cannot be told again
			return out, nil
		}
		end(&record{Call: call, Value: value})
	case errors.Is(err, ErrOutcomeUnknown):
		end(unknown)
	case limited.Err() != nil:
		end(unknown)
		err = fmt.Errorf("%w (%w)", ErrOutcomeUnknown, err)
	default:
		end(nil)
	}
	return out, err
}

// Bounds of a MemoryStore that sets none.
const (
	defaultMaxBytes = 16 << 20
	defaultMaxAge   = 24 * time.Hour
)

// MemoryStore is a [OnceStore] in memory, for one process. The zero value is
// ready for use; it must not be copied. When the process ends all is forgotten.
//
// What it forgets too early makes a repeated write happen again: let MaxBytes
// hold the results of MaxAge.
type MemoryStore struct {
	MaxBytes int           // of all records; the oldest are forgotten first. 0 is 16 MiB
	MaxAge   time.Duration // of one record; 0 is 24 hours

	mu     sync.Mutex
	claims map[string]*claim
	ended  list.List // of *claim, oldest first
	bytes  int
}

// claim is one id, running or ended.
type claim struct {
	id     string
	end    chan struct{} // closed by Done and Free
	record []byte        // nil while running
	at     time.Time     // of its end
}

// claimBytes is about what a claim costs beside its record.
const claimBytes = 256

func (c *claim) size() int { return len(c.record) + claimBytes }

// Claim implements OnceStore.
func (m *MemoryStore) Claim(ctx context.Context, id string) ([]byte, error) {
	for {
		m.mu.Lock()
		m.forget()
		c := m.claims[id]
		if c == nil {
			if m.claims == nil {
				m.claims = map[string]*claim{}
			}
			m.claims[id] = &claim{id: id, end: make(chan struct{})}
			m.mu.Unlock()
			return nil, nil
		}
		record := c.record
		m.mu.Unlock()
		if record != nil {
			return record, nil
		}
		select {
		case <-c.end:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Done implements OnceStore.
func (m *MemoryStore) Done(_ context.Context, id string, record []byte) error {
	return m.finish(id, func(c *claim) {
		c.record, c.at = record, time.Now()
		m.ended.PushBack(c)
		m.bytes += c.size()
	})
}

// Free implements OnceStore.
func (m *MemoryStore) Free(_ context.Context, id string) error {
	return m.finish(id, func(c *claim) { delete(m.claims, c.id) })
}

// finish ends the running claim of id.
func (m *MemoryStore) finish(id string, how func(*claim)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.claims[id]
	if c == nil || c.record != nil {
		return fmt.Errorf("end the claim %q: it is not running", id)
	}
	how(c)
	close(c.end)
	m.forget()
	return nil
}

// forget keeps to the bounds. The newest record stays, whatever its size.
func (m *MemoryStore) forget() {
	maxBytes, maxAge := m.MaxBytes, m.MaxAge
	if maxBytes <= 0 {
		maxBytes = defaultMaxBytes
	}
	if maxAge <= 0 {
		maxAge = defaultMaxAge
	}
	for e := m.ended.Front(); e != nil; e = m.ended.Front() {
		c := e.Value.(*claim)
		if time.Since(c.at) < maxAge && (m.bytes <= maxBytes || m.ended.Len() == 1) {
			return
		}
		m.ended.Remove(e)
		m.bytes -= c.size()
		delete(m.claims, c.id)
	}
}
