package cimd

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Bounds of a Resolver; ours.
const (
	fetchTimeout    = 5 * time.Second
	defaultLifetime = 5 * time.Minute // of an answer that says nothing
	maxLifetime     = 24 * time.Hour
	maxDocuments    = 1000
)

// Resolver reads documents of strangers and keeps good ones for a while: as
// long as HTTP allows, at most a day, and at most 1000 of them. Failures are
// never kept. Callers that ask for one document at the same time share one
// request. It is safe for concurrent use and keeps no connection open.
type Resolver struct {
	network *publicnet.Network

	mu    sync.Mutex
	known map[string]*list.Element // of *kept, by client_id
	order list.List                // the one used last in front
	calls map[string]*call
}

type kept struct {
	id      string
	doc     *Document
	expires time.Time
}

// call is one request and all who wait for it.
type call struct {
	done    chan struct{}
	waiting int
	cancel  context.CancelFunc
	doc     *Document
	err     error
}

// NewResolver gives a Resolver that reads through network, whose guard keeps it
// off addresses that are not public.
func NewResolver(network *publicnet.Network) *Resolver {
	return &Resolver{network: network, known: map[string]*list.Element{}, calls: map[string]*call{}}
}

// Resolve gives the document at id. It is shared: do not change it. Errors wrap
// those of publicnet when the document could not be read.
func (r *Resolver) Resolve(ctx context.Context, id string) (*Document, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	r.mu.Lock()
	if e, ok := r.known[id]; ok {
		if k := e.Value.(*kept); time.Now().Before(k.expires) {
			r.order.MoveToFront(e)
			r.mu.Unlock()
			return k.doc, nil
		}
		r.forget(e)
	}
	c, ok := r.calls[id]
	if !ok {
		// The request outlives the caller that began it while others wait for
		// it, and ends when nobody does.
		own, cancel := context.WithCancel(context.WithoutCancel(ctx))
		c = &call{done: make(chan struct{}), cancel: cancel}
		r.calls[id] = c
		go r.run(own, id, c)
	}
	c.waiting++
	r.mu.Unlock()

	select {
	case <-c.done:
		return c.doc, c.err
	case <-ctx.Done():
	}
	r.mu.Lock()
	if c.waiting--; c.waiting == 0 {
		c.cancel()
		if r.calls[id] == c {
			delete(r.calls, id) // whoever comes now must not get our cancellation
		}
	}
	r.mu.Unlock()
	return nil, fmt.Errorf("read client document %s: %w", strictjson.Quote(id), ctx.Err())
}

func (r *Resolver) run(ctx context.Context, id string, c *call) {
	defer c.cancel()
	var lifetime time.Duration
	c.doc, lifetime, c.err = r.fetch(ctx, id)
	r.mu.Lock()
	if r.calls[id] == c {
		delete(r.calls, id)
	}
	if c.err == nil && lifetime > 0 {
		if e, ok := r.known[id]; ok {
			r.forget(e)
		}
		r.known[id] = r.order.PushFront(&kept{id, c.doc, time.Now().Add(lifetime)})
		if r.order.Len() > maxDocuments {
			r.forget(r.order.Back())
		}
	}
	r.mu.Unlock()
	close(c.done)
}

func (r *Resolver) forget(e *list.Element) {
	delete(r.known, e.Value.(*kept).id)
	r.order.Remove(e)
}

// fetch reads one document (oauth M4). Its errors name the document once.
func (r *Resolver) fetch(ctx context.Context, id string) (*Document, time.Duration, error) {
	status, header, body, err := r.get(ctx, id)
	if err != nil {
		return nil, 0, fmt.Errorf("read client document %s: %w", strictjson.Quote(id), err)
	}
	d, err := Parse(id, status, header.Get("Content-Type"), body)
	if err != nil {
		return nil, 0, err
	}
	for name, link := range map[string]string{"client_uri": d.ClientURI, "logo_uri": d.LogoURI, "jwks_uri": d.JWKSURI} {
		if link == "" {
			continue
		}
		if err := r.network.CheckURL(link); err != nil {
			return nil, 0, fmt.Errorf("read client document %s: %s: %w", strictjson.Quote(id), name, err)
		}
	}
	return d, lifetime(header, time.Now()), nil
}

func (r *Resolver) get(ctx context.Context, id string) (int, http.Header, []byte, error) {
	if err := r.network.CheckURL(id); err != nil {
		return 0, nil, nil, err
	}
	ctx, _ = publicnet.WithLimits(ctx, publicnet.Limits{MaxBytes: MaxBytes, Timeout: fetchTimeout})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, id, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Accept", "application/json")
	client := r.network.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, resp.Header, nil, nil
	}
	body, err := io.ReadAll(resp.Body)
	if errors.Is(err, publicnet.ErrTooLarge) {
		err = fmt.Errorf("is larger than %d octets: %w", MaxBytes, err)
	}
	return resp.StatusCode, resp.Header, body, err
}

// lifetime is how long an answer may be kept: what a shared cache may do
// (RFC 9111), within our bounds. 0 is not at all.
func lifetime(h http.Header, now time.Time) time.Duration {
	if strings.Contains(h.Get("Vary"), "*") {
		return 0
	}
	age := time.Duration(-1)
	shared := false
	for part := range strings.SplitSeq(strings.Join(h.Values("Cache-Control"), ","), ",") {
		name, value, _ := strings.Cut(strings.ToLower(strings.TrimSpace(part)), "=")
		switch strings.TrimSpace(name) {
		case "no-store", "no-cache", "private":
			return 0
		case "max-age", "s-maxage":
			if shared && name == "max-age" {
				continue
			}
			shared = name == "s-maxage"
			seconds, err := strconv.ParseUint(strings.Trim(value, `" `), 10, 31)
			if err != nil {
				return 0 // what cannot be read is stale
			}
			age = time.Duration(seconds) * time.Second
		}
	}
	if age < 0 {
		age = defaultLifetime
		if v := h.Get("Expires"); v != "" {
			at, err := http.ParseTime(v)
			if err != nil {
				return 0
			}
			date, err := http.ParseTime(h.Get("Date"))
			if err != nil {
				date = now
			}
			age = at.Sub(date)
		}
	}
	if seconds, err := strconv.ParseUint(h.Get("Age"), 10, 31); err == nil {
		age -= time.Duration(seconds) * time.Second
	}
	return min(max(age, 0), maxLifetime)
}
