package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/publisher"
)

const cardPath = "/mcp/calendar/server-card"

func exampleCard() card.Card {
	return card.Card{
		Name: "com.example/calendar", Title: "Example Calendar", Version: "1.0.0",
		Description: "Look up schedules and create calendar events.",
	}
}

// cards are the two handlers that GET of a card is compared with.
type cards struct {
	ours    http.Handler
	bare200 http.Handler // writes the same headers and bytes
	bare304 http.Handler
	etag    string
}

func newCards() (*cards, error) {
	p, err := publisher.New(&publisher.Config{
		Origin: "https://apps.example.com",
		Apps:   []publisher.App{{Slug: "calendar", Card: exampleCard(), MCPURL: "https://mcp.example.com/calendar"}},
	})
	if err != nil {
		return nil, err
	}
	whole := httptest.NewRecorder()
	p.ServeHTTP(whole, cardRequest(""))
	c := &cards{ours: p, etag: whole.Header().Get("ETag")}
	unchanged := httptest.NewRecorder()
	p.ServeHTTP(unchanged, cardRequest(c.etag))
	if whole.Code != http.StatusOK || unchanged.Code != http.StatusNotModified {
		return nil, fmt.Errorf("GET %s: %d, then %d", cardPath, whole.Code, unchanged.Code)
	}
	c.bare200 = bare(http.StatusOK, whole.Header(), whole.Body.Bytes())
	c.bare304 = bare(http.StatusNotModified, unchanged.Header(), nil)
	return c, nil
}

func cardRequest(etag string) *http.Request {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, cardPath, nil)
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	return r
}

func bare(status int, header http.Header, body []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		for k, v := range header {
			h[k] = v
		}
		w.WriteHeader(status)
		if body != nil {
			_, _ = w.Write(body)
		}
	})
}

// handlers compares the handlers alone, without a server.
func handlers(context.Context, *size) ([]comparison, func(), error) {
	c, err := newCards()
	if err != nil {
		return nil, nil, err
	}
	serve := func(h http.Handler, etag string, want int) side {
		r := cardRequest(etag)
		return repeat(200_000, func() error {
			w := &sink{header: http.Header{}}
			if h.ServeHTTP(w, r); w.status != want {
				return fmt.Errorf("status %d, want %d", w.status, want)
			}
			return nil
		})
	}
	return []comparison{
		{name: "200", ours: serve(c.ours, "", 200), bases: []base{{what: "a handler that writes the same headers and bytes", side: serve(c.bare200, "", 200)}}},
		{name: "304", ours: serve(c.ours, c.etag, 304), bases: []base{{what: "the same", side: serve(c.bare304, c.etag, 304)}}},
	}, func() {}, nil
}

// sink is the cheapest ResponseWriter.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(status int) {
	if s.status == 0 {
		s.status = status
	}
}

func (s *sink) Write(b []byte) (int, error) {
	s.WriteHeader(http.StatusOK)
	return len(b), nil
}

// servers compares the same handlers behind a server of net/http in a process
// of its own, whose CPU time alone counts. This is the promise: what a request
// costs a publisher.
func servers(ctx context.Context, _ *size) ([]comparison, func(), error) {
	c, err := newCards()
	if err != nil {
		return nil, nil, err
	}
	server, err := start(ctx, roleCards, nil)
	if err != nil {
		return nil, nil, err
	}
	var where struct{ Ours, Bare200, Bare304, Used string }
	if err := server.read(&where); err != nil {
		return nil, nil, errors.Join(err, server.stop())
	}
	client := &http.Client{Transport: &http.Transport{}}
	const n = 1000
	ask := func(addr, etag string, want int) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+cardPath, nil)
		if err != nil {
			return err
		}
		r.Host = "apps.example.com"
		if etag != "" {
			r.Header.Set("If-None-Match", etag)
		}
		resp, err := client.Do(r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if resp.StatusCode != want {
			err = fmt.Errorf("status %d, want %d", resp.StatusCode, want)
		}
		return errors.Join(err, resp.Body.Close())
	}
	used := func(ctx context.Context) (time.Duration, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+where.Used, nil)
		if err != nil {
			return 0, err
		}
		resp, err := client.Do(r)
		if err != nil {
			return 0, err
		}
		text, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			return 0, err
		}
		return time.ParseDuration(string(text))
	}
	get := func(addr, etag string, want int) side {
		return func(ctx context.Context) (sample, error) {
			before, err := used(ctx)
			if err != nil {
				return sample{}, err
			}
			began := time.Now()
			for range n {
				if err := ask(addr, etag, want); err != nil {
					return sample{}, err
				}
			}
			wall := time.Since(began)
			after, err := used(ctx)
			return sample{cpu: (after - before) / n, wall: wall / n}, err
		}
	}
	done := func() { client.CloseIdleConnections(); _ = server.stop() }
	const most = 1 / 0.95
	return []comparison{
		{name: "200", slices: 10, ours: get(where.Ours, "", 200), bases: []base{{what: "a handler that writes the same headers and bytes, in the same server", side: get(where.Bare200, "", 200), ratio: most}}},
		{name: "304", slices: 10, ours: get(where.Ours, c.etag, 304), bases: []base{{what: "the same", side: get(where.Bare304, c.etag, 304), ratio: most}}},
	}, done, nil
}

// serveCards is the server process of servers.
func serveCards() error {
	c, err := newCards()
	if err != nil {
		return err
	}
	where := map[string]string{}
	for name, h := range map[string]http.Handler{
		"Ours": c.ours, "Bare200": c.bare200, "Bare304": c.bare304,
		"Used": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, cpuTime().String()) }),
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		where[name] = l.Addr().String()
		server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
		go func() { _ = server.Serve(l) }()
	}
	return tell(where)
}
