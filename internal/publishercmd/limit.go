package publishercmd

import (
	"container/list"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// maxClients bounds the table of clients. When it is full, the one that was
// away longest is forgotten.
const maxClients = 10_000

// party is one caller, or all callers of one app, and what it used of its quota.
type party struct {
	bucket  *rate.Limiter // nil: no limit
	most    int           // calls under way; 0: no limit
	running int
}

func newParty(q *quota) *party {
	p := &party{most: q.Concurrent}
	if q.Rate > 0 {
		burst := q.Burst
		if burst == 0 {
			burst = max(1, int(math.Ceil(q.Rate)))
		}
		p.bucket = rate.NewLimiter(rate.Limit(q.Rate), burst)
	}
	return p
}

// take counts one call. wait is not 0 when there is no room for it: how long
// until there may be.
func (p *party) take(now time.Time) (wait time.Duration) {
	if p.most > 0 && p.running >= p.most {
		return time.Second
	}
	if p.bucket != nil {
		r := p.bucket.ReserveN(now, 1)
		if d := r.DelayFrom(now); d > 0 {
			r.CancelAt(now)
			return d
		}
	}
	p.running++
	return 0
}

// clients holds a quota for each client address: an IPv4 address, or the /64
// of an IPv6 address, which is what one customer gets.
type clients struct {
	quota quota

	mu    sync.Mutex
	table map[netip.Prefix]*list.Element // of order
	order *list.List                     // of *client, the latest first
}

type client struct {
	key netip.Prefix
	party
}

func newClients(q *quota) *clients {
	return &clients{quota: *q, table: map[netip.Prefix]*list.Element{}, order: list.New()}
}

// clientKey is what counts as one client.
func clientKey(a netip.Addr) netip.Prefix {
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, _ := a.WithZone("").Prefix(bits) // the zero address gives the zero key: one client
	return p
}

func (c *clients) enter(a netip.Addr, now time.Time) (leave func(), wait time.Duration) {
	key := clientKey(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.table[key]
	if e == nil {
		if c.order.Len() >= maxClients {
			oldest := c.order.Back()
			delete(c.table, oldest.Value.(*client).key)
			c.order.Remove(oldest)
		}
		e = c.order.PushFront(&client{key: key, party: *newParty(&c.quota)})
		c.table[key] = e
	} else {
		c.order.MoveToFront(e)
	}
	one := e.Value.(*client)
	if wait = one.take(now); wait > 0 {
		return nil, wait
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		one.running--
	}, 0
}

// shared is the quota of all callers of one app.
type shared struct {
	mu sync.Mutex
	party
}

func (s *shared) enter(now time.Time) (leave func(), wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if wait = s.take(now); wait > 0 {
		return nil, wait
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running--
	}, 0
}

// endpoint is the MCP endpoint of one app, as the command sees it.
type endpoint struct {
	slug    string
	origins []string // that may call from a browser
	quota   *shared  // nil: none
	clients *clients // of this app alone; nil: the ones of all apps
	streams int      // open at one time; 0: no limit of ours
	open    atomic.Int64
	up      *upstream
	labels  *labels
}

// admits reports whether a browser's page may call. A foreign one is left to
// the gate, which refuses it before anything else counts (FO-19).
func (ep *endpoint) admits(r *http.Request) bool {
	origins := r.Header.Values("Origin")
	return len(origins) == 0 || len(origins) == 1 && slices.Contains(ep.origins, origins[0])
}

// refuse answers a call that is not looked at. A browser must be able to read
// why (FO-10).
func (ep *endpoint) refuse(w http.ResponseWriter, r *http.Request, status int, wait time.Duration, why string) {
	h := w.Header()
	h.Add("Vary", "Origin")
	if origin := r.Header.Get("Origin"); origin != "" {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", "Retry-After, WWW-Authenticate")
	}
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Type", "application/json")
	h.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(wait.Seconds())))))
	message, err := json.Marshal(why)
	if err != nil {
		message = []byte(`"try again later"`) // cannot happen: a string
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":%s}}`, message)
}
