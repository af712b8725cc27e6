package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A channel moves messages between a link and the upstream.
type channel interface {
	// send delivers one message. For a call on a transport that answers each
	// POST on its own, it also reads that answer, and returns when it has ended.
	// It gives up when ctx ends.
	send(ctx context.Context, msg *message, c *call) error
	// perCall tells whether what belongs to a call arrives as part of it.
	perCall() bool
	// close ends everything that the channel has started.
	close()
}

// link is one connection to the upstream, from its handshake to its end.
type link struct {
	ch     channel
	notify func(m *message)  // notifications that belong to no call; must not block
	noise  func(line string) // of a command: the start of a line that is no message
	debug  func(msg string, args ...any)

	modern  bool // the upstream speaks 2026-07-28
	version string
	caps    mcp.ServerCapabilities
	info    mcp.Implementation
	guide   string

	done chan struct{} // closed by fail

	mu    sync.Mutex
	err   error
	next  int64
	calls map[string]*call    // under way or parked, by id
	left  map[string]departed // clients' calls that were abandoned, by id
	level string              // what the upstream was told to log; "" is nothing
	seen  time.Time           // when the last message came
}

// call is one call to the upstream.
type call struct {
	id     string
	token  bool          // progress was asked for
	events chan *message // progress, log messages and questions
	done   chan struct{} // closed once result or err is set
	cancel context.CancelFunc
	own    bool         // the gateway's, not a client's
	who    string       // the client's principal; "" for anybody
	params headerParams // of a tool, for the transport

	seen   atomic.Int64 // Unix nanoseconds of the last sign of life
	queued atomic.Int64 // bytes of what is in events
	parked bool         // waits for a client's input; guarded by link.mu
	sent   bool         // some of it may have left; guarded by link.mu

	result json.RawMessage
	err    error
	cause  error // the transport's, behind err
}

func (c *call) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *call) touch() { c.seen.Store(time.Now().UnixNano()) }

// Bounds of what waits for a slow client. Progress and log messages beyond them
// are dropped. A message that is larger by itself is taken when none waits.
const (
	maxEvents = 64
	maxQueued = 1 << 20 // bytes
)

// queue leaves a message for whoever waits for the call. It is the reader's, of
// whom there is one for a call at a time.
func (c *call) queue(m *message) bool {
	size := int64(len(m.Params))
	if waiting := c.queued.Add(size) - size; waiting > 0 && waiting+size > maxQueued {
		c.queued.Add(-size)
		return false
	}
	select {
	case c.events <- m:
		return true
	default:
		c.queued.Add(-size)
		return false
	}
}

// took notes that a message has left the queue.
func (c *call) took(m *message) *message {
	c.queued.Add(-int64(len(m.Params)))
	return m
}

func newLink(ch channel) *link {
	return &link{ch: ch, calls: map[string]*call{}, left: map[string]departed{}, done: make(chan struct{}), seen: time.Now()}
}

// start makes a call. ctx is the life of the call, not of whoever waits for it.
func (l *link) start(ctx context.Context, c *call, method string, params object) *call {
	ctx, c.cancel = context.WithCancel(ctx)
	c.events, c.done = make(chan *message, maxEvents), make(chan struct{})
	c.touch()
	l.mu.Lock()
	l.next++
	c.id = strconv.FormatInt(l.next, 10)
	down := l.err != nil
	if !down {
		l.calls[c.id] = c
	}
	l.mu.Unlock()
	if down {
		c.cancel()
		c.err = notSent("the app's server is not running at the moment")
		close(c.done)
		return c
	}
	if c.token {
		meta := params.object("_meta")
		if meta == nil {
			meta = object{}
		}
		meta[progressToken] = json.RawMessage(c.id)
		params.set("_meta", meta)
	}
	msg := &message{Version: "2.0", ID: json.RawMessage(c.id), Method: method}
	if params != nil {
		msg.Params = encode(params)
	}
	go func() {
		err := l.ch.send(ctx, msg, c)
		if err != nil {
			l.finish(c, nil, err)
		}
		c.cancel()
	}()
	return c
}

// explain makes a caller's error of a transport's. The reason itself is the
// operator's to see.
func (l *link) explain(c *call, err error) error {
	if rpc, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return rpc
	}
	l.debug("a call to the upstream failed", "error", err)
	if refused, ok := errors.AsType[*statusError](err); ok {
		return refused.explain()
	}
	if c.sent {
		return unknown("the connection to the app's server ended before it answered")
	}
	return notSent("the app's server cannot be reached")
}

// markSent notes that the upstream may have seen the call.
func (l *link) markSent(c *call) {
	if c != nil {
		l.mu.Lock()
		c.sent = true
		l.mu.Unlock()
	}
}

// finish ends a call; only the first end counts.
func (l *link) finish(c *call, res json.RawMessage, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, open := l.calls[c.id]; !open {
		return
	}
	delete(l.calls, c.id)
	c.result = res
	if err != nil {
		c.err, c.cause = l.explain(c, err), err
	}
	close(c.done)
}

// abandon tells the upstream that nobody waits for a call any more (FO-25).
func (l *link) abandon(c *call, reason string) {
	l.mu.Lock()
	_, open := l.calls[c.id]
	if open && !c.own {
		l.forget()
		l.left[c.id] = departed{c.who, time.Now()}
	}
	l.mu.Unlock()
	if !open {
		return
	}
	l.finish(c, nil, unknown("the call was cancelled: %s", reason))
	c.cancel()
	if l.modern && l.ch.perCall() {
		return // closing the request's stream, as finish does, is the cancellation
	}
	l.tell(noteCancelled, object{"requestId": json.RawMessage(c.id), "reason": encode(reason)})
}

// tell sends a notification without waiting for it.
func (l *link) tell(method string, params object) {
	m := &message{Version: "2.0", Method: method}
	if params != nil {
		m.Params = encode(params)
	}
	l.post(m)
}

// reply answers a question of the upstream.
func (l *link) reply(id, res json.RawMessage, err *jsonrpc.Error) {
	m := &message{Version: "2.0", ID: id, Result: res, Error: err}
	l.post(m)
}

// post sends what no one waits for.
func (l *link) post(m *message) {
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := l.ch.send(ctx, m, nil); err != nil {
			l.debug("a message to the upstream was lost", "method", m.Method, "error", err)
		}
	}()
}

// ask makes a call of the gateway's own and waits for it.
func (l *link) ask(ctx context.Context, method string, params object) (json.RawMessage, error) {
	if l.modern {
		if params == nil {
			params = object{}
		}
		params.set("_meta", ownMeta())
	}
	c := l.start(ctx, &call{own: true}, method, params)
	select {
	case <-c.done:
		return c.result, cmp.Or(c.cause, c.err)
	case <-ctx.Done():
		l.abandon(c, "the gateway gave up")
		return nil, ctx.Err()
	}
}

// receive takes a message from the upstream. from is the call that it arrived
// with, nil on a transport that does not say.
func (l *link) receive(m *message, from *call) {
	l.mu.Lock()
	l.seen = time.Now()
	l.mu.Unlock()
	if from != nil {
		from.touch()
	}
	switch {
	case m.Method == "":
		l.answer(m)
	case m.ID != nil:
		l.question(m, from)
	case m.Method == noteProgress || m.Method == noteLog:
		if c := l.owner(m, from); c != nil {
			c.touch()
			c.queue(m) // lost on a slow client; the next one tells more
		}
	default:
		l.notify(m)
	}
}

func (l *link) answer(m *message) {
	l.mu.Lock()
	c := l.calls[string(m.ID)]
	delete(l.left, string(m.ID))
	l.mu.Unlock()
	switch {
	case c == nil: // cancelled meanwhile, or never asked
	case m.Error != nil:
		l.finish(c, nil, m.Error)
	default:
		l.finish(c, m.Result, nil)
	}
}

// question takes a request of the upstream to its client.
func (l *link) question(m *message, from *call) {
	if m.Method == "ping" {
		l.reply(m.ID, json.RawMessage("{}"), nil)
		return
	}
	if m.Method == "initialize" || m.Method == methodDiscover { // servers do not ask this
		l.fail(fmt.Errorf("%w: it sends back what it gets", errNoServer))
		return
	}
	c := l.owner(m, from)
	if c == nil {
		l.reply(m.ID, nil, &jsonrpc.Error{
			Code:    jsonrpc.CodeInvalidRequest,
			Message: "this request cannot be tied to one call: calls of several clients are under way, or wait for an answer, or there is none",
		})
		return
	}
	if c.ended() {
		l.reply(m.ID, nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the call that this request came with has ended"})
		return
	}
	if !c.queue(m) {
		l.reply(m.ID, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "too many messages are waiting for the client"})
	}
}

func (l *link) park(c *call, parked bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c.parked = parked
}

// failed tells why the link has ended; nil while it has not.
func (l *link) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// lastSeen tells when the upstream last said anything.
func (l *link) lastSeen() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen
}

// newest is how long ago the last of the clients' calls under way began, or gave
// a sign of life; very long without one.
func (l *link) newest() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	var last int64
	for _, c := range l.calls {
		if !c.own && !c.parked {
			last = max(last, c.seen.Load())
		}
	}
	return time.Since(time.Unix(0, last))
}

// fail ends the link and every call on it.
func (l *link) fail(err error) {
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		return
	}
	l.err = err
	open := make([]*call, 0, len(l.calls))
	for _, c := range l.calls {
		open = append(open, c)
	}
	l.mu.Unlock()
	for _, c := range open {
		l.finish(c, nil, err)
		c.cancel()
	}
	close(l.done)
}
