// Package api owns the HTTP surfaces of an index: the reading API and the
// submissions under /v1, health, the OpenAPI description, and a search page
// that needs no scripts. Reads are answered from the search index in memory;
// the store is asked for what is not in it, removed entries for instance.
//
// Everything in an answer that came from a document is untrusted text: it is
// cleaned of invisible characters, never HTML, and stands beside the true
// origin and the evidence of its entry (OB-90, D18).
package api

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/search"
)

// Store is what the surfaces need of an index.Store.
type Store interface {
	AddSource(ctx context.Context, now time.Time, docs ...index.NewDoc) (capped []index.NewDoc, err error)
	Get(ctx context.Context, id string) (*index.Entry, error)
	Stats(ctx context.Context, now time.Time) (*index.Stats, error)
	Head(ctx context.Context) (index.Head, error)
}

// Options configure a handler. Store and Search are required.
type Options struct {
	Store  Store
	Search *search.Index

	Log   *slog.Logger         // nil logs nothing; no query, path or client address is ever logged (OB-144)
	Meter metric.MeterProvider // nil measures nothing

	// CursorKey signs cursors; at least 16 bytes. All nodes of one index share
	// it. Empty: a random one, so that cursors end with the process.
	CursorKey []byte
	// TrustedProxies are the peers whose X-Forwarded-For names the client.
	TrustedProxies []netip.Prefix
	// Rates are requests a minute and client.
	Rates Rates
	// MaxLag is how old the search index may be while /readyz says 200; 0: 10 min.
	MaxLag time.Duration
	// MaxSearches at once; one more is answered 503. 0: 4 for each processor (IX-41).
	MaxSearches int
	// Contact, a URL or a mailbox, and About, an https URL, are shown on the
	// search page and in the API description; may be empty.
	Contact string
	About   string
	// Version of the program, for the API description.
	Version string

	Now func() time.Time // nil: time.Now
}

// Rates are requests a minute for one client, an IPv4 address or an IPv6 /64
// (IX-63). 0 is the default, a negative number is no limit.
type Rates struct {
	Search int // 120
	Read   int // 600
	Submit int // 10; also for one target host, whoever submits
}

// Limits of one request.
const (
	searchDeadline = 2 * time.Second        // IX-41; the making of items included
	storeDeadline  = 3 * time.Second        // one call of the store
	readyDeadline  = 500 * time.Millisecond // likewise of /readyz: whoever probes waits a second, and a lost store takes no node out (IX-13)
	defaultLimit   = 20
	maxCursor      = 2 << 10  // IX-39
	maxBody        = 16 << 10 // IX-39
)

type handler struct {
	opts     Options
	log      *slog.Logger
	cursors  cursors
	slots    chan struct{}
	items    items
	stats    statsCache
	metrics  *metrics
	clients  limits
	targets  *limiter
	page     map[string]*pages // by language
	describe []byte            // /openapi.json
}

// New gives the handler of all surfaces. It does no I/O. Errors name the
// option that cannot be used.
//
// Timeouts of connections and the limit of header bytes are the server's:
// ReadHeaderTimeout, ReadTimeout, WriteTimeout of at least 10 s, IdleTimeout,
// MaxHeaderBytes 16 KiB.
func New(opts *Options) (http.Handler, error) {
	if opts == nil || opts.Store == nil || opts.Search == nil {
		return nil, errors.New("make index API: Store and Search are required")
	}
	h := &handler{opts: *opts, log: opts.Log}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	if h.opts.Now == nil {
		h.opts.Now = time.Now
	}
	if h.opts.MaxLag == 0 {
		h.opts.MaxLag = 10 * time.Minute
	}
	if h.opts.MaxSearches == 0 {
		h.opts.MaxSearches = 4 * runtime.GOMAXPROCS(0)
	}
	if h.opts.Version == "" {
		h.opts.Version = "0.0.0"
	}
	if h.opts.Meter == nil {
		h.opts.Meter = noop.NewMeterProvider()
	}
	switch key := opts.CursorKey; {
	case len(key) == 0:
		h.cursors.key = make([]byte, 32)
		if _, err := rand.Read(h.cursors.key); err != nil {
			return nil, fmt.Errorf("make index API: make cursor key: %w", err)
		}
	case len(key) < 16:
		return nil, fmt.Errorf("make index API: CursorKey has %d bytes, at least 16 are needed", len(key))
	default:
		h.cursors.key = append([]byte(nil), key...)
	}
	h.slots = make(chan struct{}, h.opts.MaxSearches)
	h.clients = newLimits(h.opts.Rates)
	h.targets = newLimiter(rateOr(h.opts.Rates.Submit, defaultSubmit))
	var err error
	if h.metrics, err = newMetrics(h.opts.Meter, h); err != nil {
		return nil, fmt.Errorf("make index API: %w", err)
	}
	if h.page, err = newPages(); err != nil {
		return nil, fmt.Errorf("make index API: %w", err)
	}

	mux := http.NewServeMux()
	if err := h.install(mux); err != nil {
		return nil, fmt.Errorf("make index API: %w", err)
	}
	h.installPages(mux)
	compress, err := gzhttp.NewWrapper(gzhttp.MinSize(1<<10), gzhttp.CompressionLevel(1), gzhttp.EnableZstd(false))
	if err != nil {
		return nil, fmt.Errorf("make index API: %w", err)
	}
	return h.outer(mux, compress(h.routed(mux))), nil
}
