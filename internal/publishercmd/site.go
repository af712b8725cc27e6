package publishercmd

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// edition is what one reading of the configuration serves. It never changes;
// a reload puts another one in its place.
type edition struct {
	*publication
	file      *configFile
	kinds     map[string]string    // escaped path -> kind of document
	endpoints map[string]*endpoint // by escaped path
	trusted   []netip.Prefix

	calls, streams atomic.Int64 // under way
}

func newEdition(file *configFile, pub *publication, m *metrics) *edition {
	e := &edition{publication: pub, file: file, kinds: map[string]string{}, endpoints: map[string]*endpoint{}, trusted: file.trusted}
	for _, f := range pub.Files() {
		switch f.Header.Get("Content-Type") {
		case card.MediaType:
			e.kinds[f.Path] = "card"
		case catalog.MediaType:
			e.kinds[f.Path] = "catalog"
		case "application/json":
			e.kinds[f.Path] = "metadata"
		default:
			e.kinds[f.Path] = "page"
		}
	}
	for n, i := range pub.apps {
		a, up := &pub.config.Apps[n], file.upstreams[i]
		if a.Server == nil && up == nil {
			continue
		}
		l := file.limits(i)
		ep := &endpoint{slug: a.Slug, origins: file.settings.Apps[i].AllowedOrigins, streams: l.Streams, up: up, labels: m.labels(a.Slug)}
		if l.App != nil {
			ep.quota = &shared{party: *newParty(l.App)}
		}
		if own := file.settings.Apps[i].Limits; own != nil && own.Client != nil {
			ep.clients = newClients(own.Client)
		}
		e.endpoints[file.endpointPath(i)] = ep
	}
	return e
}

// endpointPath is where app i is called, escaped.
func (c *configFile) endpointPath(i int) string {
	a := &c.settings.Apps[i]
	target := a.Endpoint
	if target == "" {
		target = "/mcp/" + a.Slug
	}
	if origin, err := weburl.Parse(c.settings.Origin); err == nil {
		if u, err := origin.Resolve(target); err == nil {
			return u.Target()
		}
	}
	return target
}

// site is the handler of everything: it serves the current edition, counts,
// logs and limits.
type site struct {
	log     *slog.Logger
	metrics *metrics
	tracer  *tracer // nil: no traces
	plain   bool    // no TLS here: if a proxy is named, others are refused

	current  atomic.Pointer[edition]
	clients  atomic.Pointer[clients] // nil: no quota
	stopping atomic.Bool
}

// put serves e from now on and gives what was served before.
func (s *site) put(e *edition) (old *edition) {
	var q quota
	if l := e.file.settings.Limits; l != nil && l.Client != nil {
		q = *l.Client
	}
	switch have := s.clients.Load(); {
	case q == quota{}:
		s.clients.Store(nil)
	case have == nil || have.quota != q:
		s.clients.Store(newClients(&q))
	}
	return s.current.Swap(e)
}

// enter counts a request in, at the edition that serves it.
func (s *site) enter(r *http.Request) (e *edition, ep *endpoint, count *atomic.Int64) {
	for {
		e = s.current.Load()
		ep = e.endpoints[r.URL.EscapedPath()]
		count = &e.calls
		if ep != nil && isStream(r) {
			count = &e.streams
		}
		count.Add(1)
		if s.current.Load() == e { // else it may have been retired before it was counted
			return e, ep, count
		}
		count.Add(-1)
	}
}

// isStream tells requests that stay open until somebody ends them: the listen
// streams of both eras.
func isStream(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Header.Get("Mcp-Method") == "subscriptions/listen"
}

// ServeHTTP implements http.Handler.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e, ep, count := s.enter(r)
	defer count.Add(-1)
	client := clientAddr(r, e.trusted)
	seen := &recorder{ResponseWriter: w}
	r, done := s.observe(seen, r, e, ep, client)
	defer done()
	if s.plain && len(e.trusted) > 0 {
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !contains(e.trusted, peer.Addr()) {
			http.Error(seen, "use https", http.StatusForbidden)
			return
		}
	}
	if ep == nil {
		e.ServeHTTP(seen, r)
		return
	}
	s.call(seen, r, e, ep, client)
}

// call serves an endpoint.
func (s *site) call(w *recorder, r *http.Request, e *edition, ep *endpoint, client netip.Addr) {
	if r.Method != http.MethodOptions && ep.admits(r) {
		leave, ok := s.admit(w, r, ep, client)
		if !ok {
			return
		}
		defer leave()
	}
	if ep.up != nil && ep.up.gateway == nil {
		if !ep.admits(r) {
			http.Error(w, "this origin may not call this endpoint", http.StatusForbidden)
			return
		}
		ep.refuse(w, r, http.StatusServiceUnavailable, retryLeast, "the server behind this app is down")
		return
	}
	e.ServeHTTP(w, r)
}

// admit holds a call against the limits. leave must be called if ok.
func (s *site) admit(w *recorder, r *http.Request, ep *endpoint, client netip.Addr) (leave func(), ok bool) {
	now := time.Now()
	var leaves [3]func()
	leave = func() {
		for _, l := range leaves {
			if l != nil {
				l()
			}
		}
	}
	over := func(limit string, wait time.Duration, why string) (func(), bool) {
		leave()
		s.metrics.limited(ep, limit)
		ep.refuse(w, r, http.StatusTooManyRequests, wait, why)
		return nil, false
	}
	if isStream(r) {
		open := ep.open.Add(1)
		leaves[0] = func() { ep.open.Add(-1) }
		if ep.streams > 0 && open > int64(ep.streams) {
			return over("streams", 10*time.Second, "too many streams are open")
		}
	}
	var wait time.Duration
	table := s.clients.Load()
	if ep.clients != nil {
		table = ep.clients
	}
	if table != nil {
		if leaves[1], wait = table.enter(client, now); wait > 0 {
			return over("client", wait, "too many calls from your address: slow down")
		}
	}
	if ep.quota != nil {
		if leaves[2], wait = ep.quota.enter(now); wait > 0 {
			return over("app", wait, "too many calls of this app at this time")
		}
	}
	return leave, true
}

// upstreams are those of the current edition.
func (s *site) upstreams() map[int]*upstream {
	if e := s.current.Load(); e != nil {
		return e.file.upstreams
	}
	return nil
}

// closeSessions ends what no caller ends: the streams of the current edition.
func (s *site) closeSessions() error { return s.current.Load().Close() }

// drainTime is how long a retired edition's calls may take.
const drainTime = 15 * time.Minute

// drain waits until the calls of a retired edition are done, then ends its
// streams, then closes the upstreams that nobody needs any more.
func (e *edition) drain(ctx context.Context, unused []*upstream, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	await(ctx, &e.calls)
	if err := e.Close(); err != nil {
		log.Warn("close sessions", "error", err)
	}
	ending, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	if len(unused) > 0 {
		await(ending, &e.streams)
	}
	if err := closeAll(unused); err != nil {
		log.Warn("stop upstreams", "error", err)
	}
}

// await waits until n is 0 or ctx ends.
func await(ctx context.Context, n *atomic.Int64) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n.Load() > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// notReady is for /readyz: "" when everything answers.
func (s *site) notReady() string {
	if s.stopping.Load() {
		return "stopping\n"
	}
	e := s.current.Load()
	if e == nil {
		return "starting\n"
	}
	var b strings.Builder
	for _, i := range e.apps {
		if up := e.file.upstreams[i]; up != nil {
			if err := up.ready(); err != nil {
				b.WriteString("app " + up.slug + ": the upstream is down: " + plain(err.Error()) + "\n")
			}
		}
	}
	return b.String()
}
