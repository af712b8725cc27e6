package cimd

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Bounds of a Resolver; ours.
const (
	fetchTimeout    = 5 * time.Second
	defaultLifetime = 5 * time.Minute // of an answer that says nothing
	maxLifetime     = 24 * time.Hour
	maxDocuments    = 1000
	maxRequests     = 16 // at a time
	maxKeys         = 64 << 10
)

// Resolver reads documents of strangers and keeps good ones for a while: as
// long as HTTP allows, at most a day, and at most 1000 of them. Failures are
// never kept. Callers that ask for one document at the same time share one
// request, and 16 requests at most run at a time; the others wait. It is safe for
// concurrent use and keeps no connection open.
type Resolver struct {
	network *publicnet.Network
	slots   chan struct{} // filled by the requests that run

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
	return &Resolver{network: network, slots: make(chan struct{}, maxRequests), known: map[string]*list.Element{}, calls: map[string]*call{}}
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

// Keys gives the JWK Set of a document that Resolve or Parse gave: the one in it,
// or the one at its jwks_uri, which is read anew each time (64 KiB at most). It
// has at least one key and none that is private or symmetric (oauth M3).
func (r *Resolver) Keys(ctx context.Context, d *Document) ([]byte, error) {
	if d.JWKSURI == "" {
		if len(d.JWKS) == 0 {
			return nil, fmt.Errorf("read keys of %s: the document has none", strictjson.Quote(d.ClientID))
		}
		return d.JWKS, nil
	}
	keys, err := r.fetchKeys(ctx, d.JWKSURI)
	if err != nil {
		return nil, fmt.Errorf("read keys of %s at %s: %w", strictjson.Quote(d.ClientID), strictjson.Quote(d.JWKSURI), err)
	}
	return keys, nil
}

func (r *Resolver) fetchKeys(ctx context.Context, address string) ([]byte, error) {
	status, _, body, err := r.get(ctx, address, "application/jwk-set+json, application/json", maxKeys)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("the answer has status %d, only 200 will do", status)
	}
	switch n, err := checkKeys(body); {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, errors.New("has no key")
	}
	return body, nil
}

// fetch reads one document (oauth M4). Its errors name the document once.
func (r *Resolver) fetch(ctx context.Context, id string) (*Document, time.Duration, error) {
	status, header, body, err := r.get(ctx, id, "application/json", MaxBytes)
	if err != nil {
		return nil, 0, fmt.Errorf("read client document %s: %w", strictjson.Quote(id), err)
	}
	d, err := Parse(id, status, header.Get("Content-Type"), body)
	if err != nil {
		return nil, 0, err
	}
	if err := r.checkLinks(d); err != nil {
		return nil, 0, fmt.Errorf("read client document %s: %w", strictjson.Quote(id), err)
	}
	return d, lifetime(header, time.Now()), nil
}

// checkLinks adds to Parse the names that no public host has. A link for people
// may have any port, for we do not follow it.
func (r *Resolver) checkLinks(d *Document) error {
	if d.JWKSURI != "" {
		if err := r.network.CheckURL(d.JWKSURI); err != nil {
			return fmt.Errorf("jwks_uri: %w", err)
		}
	}
	for name, link := range d.shown() {
		u, err := weburl.Parse(*link)
		if err == nil {
			err = r.network.CheckURL("https://" + u.Host() + "/")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// get reads an address of a stranger, of at most limit octets; redirects are
// answers like others. It waits for its turn as long as ctx lets it.
func (r *Resolver) get(ctx context.Context, address, accept string, limit int64) (int, http.Header, []byte, error) {
	if err := r.network.CheckURL(address); err != nil {
		return 0, nil, nil, err
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		return 0, nil, nil, ctx.Err()
	}
	ctx, _ = publicnet.WithLimits(ctx, publicnet.Limits{MaxBytes: limit, Timeout: fetchTimeout})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	req.Header.Set("Accept", accept)
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
		err = fmt.Errorf("is larger than %d octets: %w", limit, err)
	}
	return resp.StatusCode, resp.Header, body, err
}
