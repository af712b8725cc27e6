// Package crawl is the engine that checks and indexes public apps: it leases
// hosts from the frontier, reads their documents under robots.txt and
// politeness, looks for publisher evidence, judges each card, and hands the
// whole visit to the store in one piece.
//
// A [Crawler] works without user data. It needs a store, the address of a page
// that tells about it, and the mailbox of whoever answers for it. [Crawler.Run]
// works until its context ends; [Explain] says in one sentence why an address
// is or is not in the index.
//
// How one document is read, and who waits for whom:
//
//   - A visit asks one host only, the one it holds the lease of. Whatever lies
//     elsewhere (the target of a redirect, a catalog or page that a card names)
//     is a document of its own on that host's visit. Until it has been read, the
//     judgement waits; its news wakes every document that needs it (P4).
//   - Nothing is removed while something is waited for, or because something
//     could not be read (D14, D15). The judgement is one function, judge.
//   - Each visit ends with one [index.Visit]; a store writes it whole or, when
//     its lease was lost, not at all (D35).
//
// Source: OpenBot App Protocol V1.1, public indexing; RFC 9309.
package crawl

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	mathrand "math/rand/v2"
	"net/mail"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"go.opentelemetry.io/otel/metric"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/robots"
)

// Defaults of a Config.
const (
	DefaultWorkers  = 256
	DefaultMaxPerIP = 2
)

// Config configures a Crawler. It is copied.
type Config struct {
	// Store keeps the frontier and the index. Required.
	Store index.Store

	// About is the https address of the page that tells what the crawler does,
	// how to refuse it and how to reach its operator. Required (U1).
	About string
	// Contact is a mailbox that is read, sent in the From header. Required (U3).
	Contact string
	// Version is the crawler's own, for its User-Agent; "" is "dev".
	Version string

	// Network is how the public Internet is reached; nil is the defaults.
	// UserAgent, From and Acquire are set by the crawler.
	Network *publicnet.Options

	// Owner names this process in leases; "" is a random name.
	Owner string
	// Workers is how many hosts are visited at a time; 0 is DefaultWorkers.
	Workers int
	// MaxPerIP is how many requests may be under way at one address, an IPv4
	// address or an IPv6 /64; 0 is DefaultMaxPerIP (P3).
	MaxPerIP int

	// Seed makes the spread of recheck times repeatable; 0 is random.
	Seed uint64
	// Log gets what an operator should see; nil logs nothing.
	Log *slog.Logger
	// Meter gets counts and durations; nil keeps none.
	Meter metric.Meter
	// Visited, when set, is called after each visit that was written, with what
	// came of it. Calls come one at a time and must be quick.
	Visited func(v *index.Visit)
}

// Crawler is safe for concurrent use, but Run and Settle are to be called one
// at a time.
type Crawler struct {
	store   index.Store
	network *publicnet.Network
	timeout time.Duration // of one document
	owner   string
	workers int
	log     *slog.Logger
	count   *counters
	visited func(v *index.Visit)

	origins   *places[string]       // one request at a time each, with its gap
	addresses *places[netip.Prefix] // MaxPerIP each
	room      *room                 // for what visits keep
	desk      *room                 // for documents that are being taken apart
	cache     *room                 // for catalogs that visits have read
	seed      uint64
}

var versionForm = regexp.MustCompile(`^[0-9A-Za-z.+-]{1,64}$`)

// ConfigError is a field of a Config that cannot be used.
type ConfigError struct {
	Field   string // as in Config
	Message string // what is wrong with it and what to write
}

func (e *ConfigError) Error() string { return e.Field + ": " + e.Message }

// Validate checks what New would check, but does not ask for a Store: a command
// can do it before it opens one. The error is *ConfigError.
func (cfg *Config) Validate() error {
	if _, err := weburl.Parse(cfg.About); err != nil {
		return &ConfigError{"About", "give the https address of a page that tells what the crawler does, how to refuse it and how to reach you: " + err.Error()}
	}
	if box, err := mail.ParseAddress(cfg.Contact); err != nil || box.Address != cfg.Contact {
		return &ConfigError{"Contact", fmt.Sprintf("%q is no mailbox; give one that you read, such as crawler@your.domain", cfg.Contact)}
	}
	switch {
	case cfg.Version != "" && !versionForm.MatchString(cfg.Version):
		return &ConfigError{"Version", fmt.Sprintf("%q holds more than letters, digits, dots, plus signs and hyphens", cfg.Version)}
	case cfg.Workers < 0:
		return &ConfigError{"Workers", "it must not be negative"}
	case cfg.MaxPerIP < 0:
		return &ConfigError{"MaxPerIP", "it must not be negative"}
	}
	return nil
}

// New checks cfg. It does no I/O. Errors name the field at fault.
func New(cfg *Config) (*Crawler, error) {
	if cfg == nil || cfg.Store == nil {
		return nil, fmt.Errorf("make crawler: %w", &ConfigError{"Store", "it is required"})
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("make crawler: %w", err)
	}
	about, err := weburl.Parse(cfg.About)
	if err != nil {
		return nil, fmt.Errorf("make crawler: %w", err)
	}
	version := cfg.Version
	if version == "" {
		version = "dev"
	}
	c := &Crawler{
		store: cfg.Store, owner: cfg.Owner, workers: cfg.Workers, log: cfg.Log, visited: cfg.Visited,
		origins: newPlaces[string](1), room: newRoom(roomBytes), desk: newRoom(deskBytes), cache: newRoom(cacheBytes),
	}
	if c.owner == "" {
		c.owner = randomName()
	}
	if c.workers == 0 {
		c.workers = DefaultWorkers
	}
	perIP := cfg.MaxPerIP
	if perIP == 0 {
		perIP = DefaultMaxPerIP
	}
	c.addresses = newPlaces[netip.Prefix](perIP)
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if c.count, err = newCounters(cfg.Meter); err != nil {
		return nil, fmt.Errorf("make crawler: %w", err)
	}
	if c.seed = cfg.Seed; c.seed == 0 {
		c.seed = mathrand.Uint64() //nolint:gosec // spreads load, protects nothing
	}

	var opts publicnet.Options
	if cfg.Network != nil {
		opts = *cfg.Network
	}
	opts.UserAgent = fmt.Sprintf("%s/%s (+%s)", robots.Token, version, about)
	opts.From = cfg.Contact
	opts.Acquire = c.acquire
	c.timeout = publicnet.DefaultTimeout
	if c.network, err = publicnet.New(&opts); err != nil {
		return nil, fmt.Errorf("make crawler: %w", err)
	}
	return c, nil
}

// acquire keeps the limit of requests at one address (P3).
func (c *Crawler) acquire(ctx context.Context, addr netip.Addr) (release func(), err error) {
	// One address may serve 100,000 hosts: a visit does not wait long for its
	// turn, or all workers would stand here.
	key, startBy := addressKey(addr), time.Now().Add(crowdWait)
	d, ok := ctx.Value(dialledKey{}).(*dialled)
	if ok && d.startBy.Before(startBy) {
		startBy = d.startBy
	}
	err = c.addresses.take(ctx, key, startBy)
	if ok {
		d.note(key.String(), err)
	}
	if err != nil {
		return nil, err
	}
	return func() { c.addresses.done(key, time.Time{}) }, nil
}

// spread is d give or take a tenth (D17), 7 days at most, always the same for
// one address and time, so that a judgement made anew does not move the next
// visit.
func (c *Crawler) spread(d time.Duration, url string, at time.Time) time.Duration {
	h := fnv.New64a()
	var mixed [16]byte
	binary.LittleEndian.PutUint64(mixed[:], c.seed)
	binary.LittleEndian.PutUint64(mixed[8:], uint64(at.UnixMicro()))
	_, _ = h.Write(mixed[:])
	_, _ = h.Write([]byte(url))
	r := mathrand.New(mathrand.NewPCG(h.Sum64(), 1)).Float64() //nolint:gosec // spreads load, protects nothing
	return min(jitter(d, r), maxInterval).Truncate(time.Microsecond)
}

// AddSource makes an address known and due at once, as a person's wish: a
// domain, or the https address of an app page, catalog or card. It gives the
// normal form of the address that will be visited.
func AddSource(input string) (index.NewDoc, error) {
	input = strings.TrimSpace(input)
	if input == "" {
		return index.NewDoc{}, errors.New("the address is empty; give a domain such as apps.example.com, or an address that begins with https://")
	}
	doc := index.NewDoc{Kind: index.Any, Class: index.ClassUser, Now: true}
	if !strings.ContainsAny(input, "/:") {
		host, ok := weburl.Domain(input)
		if !ok {
			return index.NewDoc{}, fmt.Errorf("%.200q is no domain; give a domain such as apps.example.com, or an address that begins with https://", input)
		}
		doc.URL, doc.Kind = "https://"+host+wellKnownPath, index.CatalogDoc
		return doc, nil
	}
	u, err := weburl.Parse(input)
	if err != nil {
		return index.NewDoc{}, err
	}
	doc.URL = u.String()
	if u.Target() == wellKnownPath {
		doc.Kind = index.CatalogDoc
	}
	return doc, nil
}

func randomName() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return "crawler-" + hex.EncodeToString(b[:])
}
