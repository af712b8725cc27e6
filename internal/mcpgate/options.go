package mcpgate

import (
	"log/slog"
	"net/http"
	"slices"
	"time"
)

// Limits of a Gate that sets none.
const (
	DefaultMaxBody        = 1 << 20
	DefaultSessionTimeout = 10 * time.Minute
	DefaultMaxSessions    = 1000
	DefaultMaxListens     = 1000
	DefaultKeepAlive      = 15 * time.Second
	DefaultWriteTimeout   = 10 * time.Second
)

// defaultGrace is how long a call may be silent before its event stream is
// opened. An error that comes sooner has its own HTTP status.
const defaultGrace = 250 * time.Millisecond

// Options configure a Gate. The zero value serves both eras to callers that are
// no browser.
type Options struct {
	// Origins are the browser origins that may call: scheme, host and port,
	// for instance "https://host.example.com". A request that carries any other
	// Origin, "null" included, is refused before anything else is looked at. A
	// request without the header is no browser's and passes.
	Origins []string

	// Hosts are host names under which the endpoint is reached although the
	// listener is on loopback: behind a proxy on the same machine, for
	// instance. On loopback every other name that is not itself loopback is
	// refused, so that DNS rebinding gets nowhere. A port in the request's Host
	// is not looked at.
	Hosts []string

	// Modern answers requests of revision 2026-07-28 that passed the gate, in
	// place of the server. RequestFrom gives it what the gate has read; the
	// request's body can be read again. It may answer in one piece or with an
	// event stream, which the gate keeps alive; its context ends when the
	// client leaves or the gate closes. Mcp-Param-* headers are compared by the
	// schemas of the server's tools. nil is the server.
	Modern http.Handler

	// Protect puts a check of the caller, such as auth.RequireBearerToken,
	// between the preflight and all that follows. It has the headers to go by;
	// the body is not read before it. What it refuses can be read by the page
	// that called (FO-10). nil lets everybody in.
	Protect func(http.Handler) http.Handler

	// Private marks every result that a client may keep as one user's own,
	// whatever the server says: for apps that ask who is calling (mcp S11).
	Private bool

	ModernOnly     bool          // refuse revisions older than 2026-07-28
	MaxBody        int64         // bytes of one request; 0 is DefaultMaxBody
	SessionTimeout time.Duration // idle time of a legacy session; 0 is DefaultSessionTimeout
	MaxSessions    int           // legacy sessions at one time; 0 is DefaultMaxSessions
	MaxListens     int           // subscriptions/listen streams at one time; 0 is DefaultMaxListens
	KeepAlive      time.Duration // silence of an event stream before a comment; 0 is DefaultKeepAlive, negative is never
	WriteTimeout   time.Duration // for 64 KiB of an answer to a client that does not read; 0 is DefaultWriteTimeout, negative is none
	Log            *slog.Logger  // nil logs nothing

	grace   time.Duration // for tests; 0 is defaultGrace
	sdkOnly bool          // for tests: no call goes around the SDK's HTTP handler
}

func (o *Options) setDefaults() {
	o.Origins = slices.Clone(o.Origins)
	o.Hosts = slices.Clone(o.Hosts)
	if o.MaxBody == 0 {
		o.MaxBody = DefaultMaxBody
	}
	if o.SessionTimeout == 0 {
		o.SessionTimeout = DefaultSessionTimeout
	}
	if o.MaxSessions == 0 {
		o.MaxSessions = DefaultMaxSessions
	}
	if o.MaxListens == 0 {
		o.MaxListens = DefaultMaxListens
	}
	if o.KeepAlive == 0 {
		o.KeepAlive = DefaultKeepAlive
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = DefaultWriteTimeout
	}
	if o.grace == 0 {
		o.grace = defaultGrace
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
}
