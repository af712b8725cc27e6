package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// signals collect what an upstream tells on its own.
type signals struct {
	changed chan struct{} // a list has changed
	updated chan string   // a resource has, by the upstream's address
	work    sync.WaitGroup
}

func newSignals() *signals {
	return &signals{changed: make(chan struct{}, 1), updated: make(chan string, 256)}
}

func (s *signals) wait() { s.work.Wait() }

// notify takes a notification. It does not block the reader.
func (s *signals) notify(m *message, log *slog.Logger) {
	switch m.Method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
		"notifications/subscriptions/acknowledged": // what changed before is told to nobody
		nudge(s.changed)
	case "notifications/resources/updated":
		var p object
		_ = json.Unmarshal(m.Params, &p) // no address, no update
		select {
		case s.updated <- p.text("uri"):
		default:
			log.Warn("the upstream updates resources faster than clients can be told")
		}
	}
}

// nudge leaves a signal; nil takes none.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is known already
	}
}

// settle is how long list changes are gathered before the lists are read.
const settle = 50 * time.Millisecond

// refresh is how often the lists of an upstream that does not tell of changes
// are read, in checks.
const refresh = 10

// watch keeps lists, subscriptions and readiness up to date until the link
// ends.
func (g *Gateway) watch(ctx context.Context, l *link, s *signals) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.work.Go(func() { g.tellUpdates(ctx, s) })
	s.work.Go(func() { g.keepSubscriptions(ctx, l) })
	tick := time.NewTicker(g.opts.check)
	defer tick.Stop()
	for checks := 1; ; {
		var reload bool
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-l.done:
			return l.err
		case <-s.changed:
			select {
			case <-time.After(settle):
			case <-ctx.Done():
			}
			reload = true
		case <-tick.C:
			was := g.Ready()
			if err := g.ping(ctx, l); err != nil {
				return err
			}
			reload = was != nil && g.Ready() == nil || checks%refresh == 0 && !tellsChanges(&l.caps)
			checks++
		}
		if !reload {
			continue
		}
		reading, done := context.WithTimeout(ctx, g.opts.StartTimeout)
		found, err := g.load(reading, l)
		done()
		if err != nil { // the lists last seen stay
			g.opts.Log.Warn("the upstream's lists could not be read", "error", g.clean(err))
			continue
		}
		g.publish(found)
	}
}

func tellsChanges(caps *mcp.ServerCapabilities) bool {
	return (caps.Tools == nil || caps.Tools.ListChanged) && (caps.Prompts == nil || caps.Prompts.ListChanged) &&
		(caps.Resources == nil || caps.Resources.ListChanged)
}

// ping looks whether the upstream answers. An error means that the link is of no
// use: an HTTP upstream speaks another revision now, or a command has said
// nothing for the time that a call may take, and does not answer now.
func (g *Gateway) ping(ctx context.Context, l *link) error {
	limit, cancel := context.WithTimeout(ctx, min(10*time.Second, g.opts.check))
	defer cancel()
	var err error
	if l.modern {
		var h hello
		if h, err = askDiscover(limit, l); err == nil && !slices.Contains(h.SupportedVersions, modernVersion) || err != nil && isOlder(err) {
			return fmt.Errorf("%w any more", errNotModern)
		}
	} else if _, err = l.ask(limit, "ping", nil); err != nil {
		if refused, ok := errors.AsType[*jsonrpc.Error](err); ok && refused.Code == jsonrpc.CodeMethodNotFound {
			err = nil // an answer
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.Is(err, context.DeadlineExceeded):
		silent := time.Since(l.lastSeen())
		err = fmt.Errorf("the upstream has not answered for %v", silent.Round(time.Second))
		// The newest call has its time too, but not one after another for ever.
		over := l.newest() > g.opts.CallTimeout || silent > 2*g.opts.CallTimeout
		if silent > g.opts.CallTimeout && over && len(g.opts.Command) > 0 {
			return err
		}
		if silent < g.opts.check {
			return nil // it is busy, not silent
		}
	}
	g.setFault(g.clean(err))
	return nil
}

// tellUpdates passes resource updates on to subscribers. The SDK tells them one
// after another, and one that is stuck holds up the rest for 10 s at most.
func (g *Gateway) tellUpdates(ctx context.Context, s *signals) {
	for {
		select {
		case uri := <-s.updated:
			if to, ok := g.lists.Load().offered[uri]; ok {
				uri = to
			}
			_ = g.server.ResourceUpdated(ctx, &mcp.ResourceUpdatedNotificationParams{URI: uri}) // it logs by itself
		case <-ctx.Done():
			return
		}
	}
}

// Bounds of the resources that clients follow.
const (
	maxSubscriptions = 1000
	maxOfSession     = 100
)

// subscriptions are the resources that clients follow, by the upstream's
// address.
type subscriptions struct {
	mu      sync.Mutex
	by      map[string]map[*mcp.ServerSession]bool
	changed chan struct{} // of the link's listener; nil without one
}

var errTooManyFollowed = callError("not_sent", "too many resources are followed")

// add tells whether nobody has followed uri before. Older clients leave without
// a word: when there are too many subscriptions, theirs are dropped.
func (s *subscriptions) add(uri string, session *mcp.ServerSession, alive func() []*mcp.ServerSession) (first bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by == nil {
		s.by = map[string]map[*mcp.ServerSession]bool{}
	}
	if s.by[uri] == nil && len(s.by) >= maxSubscriptions {
		open := alive()
		for u, sessions := range s.by {
			maps.DeleteFunc(sessions, func(who *mcp.ServerSession, _ bool) bool { return !slices.Contains(open, who) })
			if len(sessions) == 0 {
				delete(s.by, u)
			}
		}
	}
	own := 0
	for _, sessions := range s.by {
		if sessions[session] {
			own++
		}
	}
	if s.by[uri] == nil && len(s.by) >= maxSubscriptions || own >= maxOfSession {
		return false, errTooManyFollowed
	}
	if first = s.by[uri] == nil; first {
		s.by[uri] = map[*mcp.ServerSession]bool{}
		nudge(s.changed)
	}
	s.by[uri][session] = true
	return first, nil
}

// remove tells whether nobody follows uri any more.
func (s *subscriptions) remove(uri string, session *mcp.ServerSession) (last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.by[uri], session)
	if len(s.by[uri]) > 0 {
		return false
	}
	delete(s.by, uri)
	nudge(s.changed)
	return true
}

func (s *subscriptions) list(changed chan struct{}) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = changed
	return slices.Sorted(maps.Keys(s.by))
}

func (g *Gateway) subscribe(ctx context.Context, req *mcp.SubscribeRequest) error {
	uri := g.lists.Load().uri(req.Params.URI)
	first, err := g.subs.add(uri, req.Session, func() []*mcp.ServerSession { return slices.Collect(g.server.Sessions()) })
	l := g.link.Load()
	if err != nil || !first || l == nil || l.modern {
		return err
	}
	if _, err := l.ask(ctx, "resources/subscribe", object{"uri": encode(uri)}); err != nil {
		g.subs.remove(uri, req.Session)
		return g.callerError(err, true)
	}
	return nil
}

func (g *Gateway) unsubscribe(_ context.Context, req *mcp.UnsubscribeRequest) error {
	uri := g.lists.Load().uri(req.Params.URI)
	l := g.link.Load()
	if g.subs.remove(uri, req.Session) && l != nil && !l.modern {
		// A client that has left is not to wait for this, and has no context for it.
		l.post(&message{Version: "2.0", ID: encode("unsubscribe"), Method: "resources/unsubscribe", Params: encode(object{"uri": encode(uri)})})
	}
	return nil
}

// keepSubscriptions brings subscriptions to a new connection. For an upstream of
// 2026-07-28 it keeps one listen stream for all clients.
func (g *Gateway) keepSubscriptions(ctx context.Context, l *link) {
	if !l.modern {
		for _, uri := range g.subs.list(nil) {
			if _, err := l.ask(ctx, "resources/subscribe", object{"uri": encode(uri)}); err != nil {
				l.debug("a subscription was lost", "error", err)
			}
		}
		return
	}
	changed := make(chan struct{}, 1)
	defer g.subs.list(nil)
	for {
		uris := g.subs.list(changed)
		want := map[string]any{
			"toolsListChanged":     l.caps.Tools != nil && l.caps.Tools.ListChanged,
			"promptsListChanged":   l.caps.Prompts != nil && l.caps.Prompts.ListChanged,
			"resourcesListChanged": l.caps.Resources != nil && l.caps.Resources.ListChanged,
		}
		if len(uris) > 0 {
			want["resourceSubscriptions"] = uris
		}
		if len(uris) == 0 && !slices.Contains(slices.Collect(maps.Values(want)), any(true)) {
			select {
			case <-changed:
				continue
			case <-ctx.Done():
				return
			}
		}
		c := l.start(ctx, &call{own: true}, methodListen, object{"notifications": encode(want), "_meta": encode(ownMeta())})
		select {
		case <-ctx.Done():
			l.abandon(c, "the gateway stops")
			return
		case <-changed:
			l.abandon(c, "the subscriptions have changed")
			continue
		case <-c.done: // the stream ended; an upstream that has none ends it each time
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-time.After(g.opts.check):
		}
	}
}
