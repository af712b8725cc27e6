// Package gateway puts a publisher in front of an MCP server that exists
// already: a command that speaks over its standard input and output, or an HTTP
// endpoint of any revision.
//
//	g, err := gateway.New(ctx, &gateway.Options{Command: []string{"uvx", "mcp-server-time"}})
//	if err != nil {
//		return err
//	}
//	defer g.Close()
//	app := publisher.App{Server: g.Server(), Modern: g.Modern()}
//
// Calls, results, errors, progress, log messages, list changes, resource
// updates and _meta pass through as they are, in raw JSON; only what belongs to
// one hop (ids, progress tokens, the transport's _meta keys and headers) is
// made anew. Names and addresses that MCP 2026-07-28 refuses are offered under
// corrected ones, see Correction.
//
// All clients share one connection to the upstream, so what it remembers of
// "its client" it remembers of everybody. A message that a command, or a server
// over HTTP+SSE, ties to no call is handed to the only call that it can be of;
// while others are under way, wait for an answer, or were cancelled less than 30
// seconds ago, a question is refused and a log message dropped, because a wrong
// guess would show one user's data to another. An app that asks questions had
// better speak Streamable HTTP.
//
// Questions of older upstreams (elicitation/create, sampling/createMessage)
// reach older clients as such; for clients of 2026-07-28 they become input
// requests, and the upstream's call waits in this process: a publisher that
// runs several replicas must send a client's rounds to the same one.
//
// The upstream is the operator's choice: unlike everything else that this module
// connects to it may have a private address.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Limits of a Gateway that sets none, and those that are fixed.
const (
	DefaultStartTimeout = 30 * time.Second
	DefaultCallTimeout  = 5 * time.Minute
	DefaultMaxResult    = 16 << 20
	DefaultMaxCalls     = 100

	maxPages   = 100    // of one list
	maxItems   = 10_000 // of one list
	maxWaiting = 100    // calls that wait for a client's input
	maxOfOne   = 10     // those of one principal
)

// Options describe one upstream. Exactly one of Command and URL is set.
type Options struct {
	// Command is a program and its arguments. It is started by New, restarted
	// with growing pauses when it ends, and stopped by Close with all that it
	// started: its input is closed, then its process group gets SIGTERM, then
	// SIGKILL.
	Command []string
	Dir     string // its working directory; "" is the publisher's

	// Env is added to the few variables that a command gets (PATH, HOME, LANG,
	// TMPDIR and their like; nothing else of the publisher's environment). The
	// values of variables whose names tell a secret, such as API_KEY, are cut
	// out of whatever the upstream answers, where they stand in plain text.
	Env map[string]string

	// URL is a Streamable HTTP endpoint, or an older HTTP+SSE one. http and
	// private addresses are allowed.
	URL string
	// Header is sent to the upstream with each request; its credentials. The
	// transport's own headers cannot be set. The values are cut out of whatever
	// the upstream answers, like those of Env.
	Header http.Header
	// Client is used for all requests to URL; a Client.Timeout would cut event
	// streams. nil is a client that follows redirects on URL's origin only.
	Client *http.Client

	StartTimeout time.Duration // until the upstream answers for the first time; 0 is DefaultStartTimeout
	CallTimeout  time.Duration // without a sign of life, or of a client's input; 0 is DefaultCallTimeout
	MaxResult    int64         // bytes of one message from the upstream; 0 is DefaultMaxResult
	MaxCalls     int           // calls under way at one time; 0 is DefaultMaxCalls

	// Roots lets the upstream ask clients for their roots. Off, because a server
	// that takes one client's roots as its own does so for all clients.
	Roots bool

	// Private says that the publisher lets only some callers in: what clients may
	// keep is then one user's own, whatever the upstream says (mcp S11).
	Private bool

	// FailFast makes New give up at once where waiting is not likely to help: a
	// connection, a name, a certificate or a credential is refused, or what
	// answers is no MCP server.
	FailFast bool

	Stderr io.Writer    // what a command writes there, line by line as well as to Log; nil is nowhere
	Log    *slog.Logger // nil logs nothing

	pause time.Duration // the first one before a restart; 0 is 1 s
	grace time.Duration // between the steps that stop a command; 0 is 3 s
	check time.Duration // between two looks whether the upstream answers; 0 is 30 s
}

// Gateway is one upstream behind a publisher. It is safe for concurrent use.
type Gateway struct {
	opts    Options
	secrets scrubber
	server  *mcp.Server // set once, by the first connection
	modern  http.Handler
	info    mcp.Implementation
	guide   string // instructions
	caps    []byte // capabilities, in JSON

	stop  context.CancelFunc
	ended chan struct{} // closed when run has returned
	slots chan struct{} // one for each call under way

	link    atomic.Pointer[link] // nil while there is no connection
	lists   atomic.Pointer[lists]
	waiting waiting
	subs    subscriptions
	levels  sessionLevels

	mu    sync.Mutex
	fault error  // why the upstream does not answer; nil when it does
	noise string // the first line of a command that is no message, while it has sent none
}

// Correction is one name, description or address of the upstream that the
// protocol or a publisher refuses, and what is offered in its place.
type Correction struct {
	Kind string // "tool", "prompt", "resource", "template"
	From string // as the upstream has it
	To   string // as clients see it; "" when it is left out
	Why  string // one sentence
}

// New connects to the upstream, reads its lists, and keeps both up to date
// until Close; ctx bounds New alone. An upstream that is down is tried again
// until StartTimeout is over, see Options.FailFast. A command that cannot be
// started, ends before it has answered, or is no MCP server is an error at once,
// which has the last that it wrote to its standard error.
func New(ctx context.Context, opts *Options) (*Gateway, error) {
	if opts == nil {
		opts = &Options{}
	}
	g := &Gateway{opts: *opts, ended: make(chan struct{})}
	o := &g.opts
	o.Command, o.Env, o.Header = slices.Clone(o.Command), maps.Clone(o.Env), o.Header.Clone()
	o.StartTimeout = cmp.Or(o.StartTimeout, DefaultStartTimeout)
	o.CallTimeout = cmp.Or(o.CallTimeout, DefaultCallTimeout)
	o.MaxResult = cmp.Or(o.MaxResult, DefaultMaxResult)
	o.MaxCalls = cmp.Or(o.MaxCalls, DefaultMaxCalls)
	o.pause, o.grace, o.check = cmp.Or(o.pause, time.Second), cmp.Or(o.grace, 3*time.Second), cmp.Or(o.check, 30*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	g.secrets = newScrubber(o)
	g.slots = make(chan struct{}, o.MaxCalls)

	life, stop := context.WithCancel(context.Background())
	g.stop = stop
	ready := make(chan error, 1)
	go g.run(life, ready)
	late := time.NewTimer(o.StartTimeout)
	defer late.Stop()
	var err error
	select {
	case err = <-ready:
	case <-late.C:
		err = fmt.Errorf("the upstream did not answer within %v", o.StartTimeout)
		if why := g.Ready(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		} else if line := g.heard(); line != "" {
			err = fmt.Errorf("%w: it is no MCP server, or does not keep its output to messages; it wrote %q", err, line)
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		_ = g.Close() // the first fault says more
		return nil, fmt.Errorf("connect to upstream: %w", err)
	}
	return g, nil
}

// Server is for publisher.App.Server: the upstream's tools, resources and
// prompts, as clients of every revision see them. Lists follow the upstream; its
// capabilities, instructions, name and version are those of the first connection,
// and others at a later one are logged.
func (g *Gateway) Server() *mcp.Server { return g.server }

// Modern is for publisher.App.Modern: requests of 2026-07-28 go to an upstream
// of that revision without being encoded anew. nil when the upstream is older or
// a command.
func (g *Gateway) Modern() http.Handler { return g.modern }

// Info is what the upstream says of itself.
func (g *Gateway) Info() (impl mcp.Implementation, instructions string) { return g.info, g.guide }

// Ready is nil while the upstream answers, else why it does not. The text is
// for the operator; it has no credentials in it.
func (g *Gateway) Ready() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.fault
}

func (g *Gateway) setFault(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && g.fault == nil {
		g.opts.Log.Warn("the upstream does not answer", "error", err)
	}
	g.fault = err
}

// hear keeps the first line that is no message; "" is a message.
func (g *Gateway) hear(line string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if line == "" || g.noise == "" {
		g.noise = line
	}
}

func (g *Gateway) heard() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.noise
}

// Corrections are listed in the order of the upstream's lists: tools, prompts,
// resources, templates.
func (g *Gateway) Corrections() []Correction {
	return slices.Clone(g.lists.Load().corrections)
}

// Close stops the upstream's process or connection, and returns when it is
// gone. Calls under way end with an error.
func (g *Gateway) Close() error {
	g.stop()
	<-g.ended
	g.waiting.clear()
	return nil
}

func (o *Options) validate() error {
	switch {
	case len(o.Command) == 0 && o.URL == "":
		return errors.New("gateway needs a Command or a URL")
	case len(o.Command) > 0 && o.URL != "":
		return errors.New("gateway takes a Command or a URL, not both")
	case len(o.Command) > 0:
		return nil
	}
	return checkHTTP(o)
}
