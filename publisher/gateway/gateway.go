// Package gateway puts a publisher in front of an MCP server that exists
// already: a command that speaks over its standard input and output, or an HTTP
// endpoint of any revision.
package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Options describe one upstream. Exactly one of Command and URL is set.
type Options struct {
	// Command is a program and its arguments. It is started by New, restarted
	// with growing pauses when it ends, and stopped by Close.
	Command []string
	Dir     string            // its working directory; "" is the publisher's
	Env     map[string]string // added to the few variables a command gets

	// URL is a Streamable HTTP endpoint, or an older HTTP+SSE one.
	URL    string
	Header http.Header  // sent to the upstream with each request; its credentials
	Client *http.Client // nil is a client with the gateway's limits

	StartTimeout time.Duration // until the upstream answers for the first time; 0 is 30 s
	CallTimeout  time.Duration // without a sign of life; 0 is 5 minutes
	MaxResult    int64         // bytes of one message from the upstream; 0 is 16 MiB
	Stderr       io.Writer     // what a command writes there, line by line as well as to Log; nil is nowhere
	Log          *slog.Logger  // nil logs nothing
}

// Gateway is one upstream behind a publisher.
type Gateway struct{}

// Correction is one name, description or address of the upstream that the
// protocol refuses, and what is offered in its place.
type Correction struct {
	Kind string // "tool", "prompt", "resource", "template"
	From string // as the upstream has it
	To   string // as clients see it; "" when it is left out
	Why  string // one sentence
}

// New connects to the upstream, reads its lists, and keeps both up to date
// until Close. An upstream that is down is an error at the first start only if
// it does not answer in StartTimeout.
func New(ctx context.Context, opts *Options) (*Gateway, error) {
	return nil, errors.New("not built yet")
}

// Server is for publisher.App.Server: the upstream's tools, resources and
// prompts, as clients of every revision see them.
func (g *Gateway) Server() *mcp.Server { panic("not built yet") }

// Modern is for publisher.App.Modern: requests of 2026-07-28 go to an upstream
// of that revision without being encoded anew. nil when the upstream is older or
// a command.
func (g *Gateway) Modern() http.Handler { panic("not built yet") }

// Info is what the upstream says of itself.
func (g *Gateway) Info() (impl mcp.Implementation, instructions string) { panic("not built yet") }

// Ready is nil while the upstream answers, else why it does not.
func (g *Gateway) Ready() error { panic("not built yet") }

// Corrections are listed in the order of the upstream's lists.
func (g *Gateway) Corrections() []Correction { panic("not built yet") }

// Close stops the upstream's process or connection. Calls under way end with an
// error.
func (g *Gateway) Close() error { panic("not built yet") }
