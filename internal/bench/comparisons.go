package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/temoto/robotstxt"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/publisher"
	"github.com/openbot-build/openbot-go/robots"
)

// comparisons sets every line of the table up.
func comparisons() ([]comparison, error) {
	var list []comparison
	docs, err := documents()
	if err != nil {
		return nil, fmt.Errorf("set up documents: %w", err)
	}
	list = append(list, docs...)
	read, err := reading()
	if err != nil {
		return nil, fmt.Errorf("set up reading: %w", err)
	}
	return append(list, read...), nil
}

const cardPath = "/mcp/calendar/server-card"

func exampleCard() card.Card {
	return card.Card{
		Name: "com.example/calendar", Title: "Example Calendar", Version: "1.0.0",
		Description: "Look up schedules and create calendar events.",
	}
}

// documents compares a card's GET and 304 with a handler that writes the same
// headers and bytes and does nothing else.
func documents() ([]comparison, error) {
	p, err := publisher.New(&publisher.Config{
		Origin: "https://apps.example.com",
		Apps:   []publisher.App{{Slug: "calendar", Card: exampleCard(), MCPURL: "https://mcp.example.com/calendar"}},
	})
	if err != nil {
		return nil, err
	}
	path := cardPath
	first := httptest.NewRecorder()
	p.ServeHTTP(first, httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil))
	if first.Code != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %d", path, first.Code)
	}
	header, body := first.Header(), first.Body.Bytes()
	etag := header.Get("ETag")
	second := httptest.NewRecorder()
	conditional := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
	conditional.Header.Set("If-None-Match", etag)
	p.ServeHTTP(second, conditional)
	bare := func(status int, header http.Header) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			h := w.Header()
			for k, v := range header {
				h[k] = v
			}
			w.WriteHeader(status)
			if status == http.StatusOK {
				_, _ = w.Write(body)
			}
		})
	}
	serve := func(h http.Handler, etag string, want int) func(int) error {
		return func(n int) error {
			r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
			if etag != "" {
				r.Header.Set("If-None-Match", etag)
			}
			for range n {
				w := &sink{header: http.Header{}}
				h.ServeHTTP(w, r)
				if w.status != want {
					return fmt.Errorf("status %d, want %d", w.status, want)
				}
			}
			return nil
		}
	}
	return []comparison{
		{"card GET 200, handler", "a handler that writes the same headers and bytes", 200_000, serve(p, "", 200), serve(bare(200, header), "", 200)},
		{"card GET 304, handler", "a handler that writes the same headers", 200_000, serve(p, etag, 304), serve(bare(304, second.Header()), etag, 304)},
	}, nil
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

// reading compares the readers of documents with peers.
func reading() ([]comparison, error) {
	c := exampleCard()
	c.Schema = card.SchemaURL
	c.Remotes = []card.Remote{{Type: "streamable-http", URL: "https://apps.example.com/mcp/calendar", Versions: []string{card.ProtocolVersion}}}
	doc, err := c.Encode()
	if err != nil {
		return nil, err
	}
	var items []catalog.Item
	for i := range 1000 {
		items = append(items, catalog.Item{
			Identifier:  fmt.Sprintf("urn:air:apps.example.com:mcp:app-%d", i),
			DisplayName: fmt.Sprintf("App %d", i),
			URL:         fmt.Sprintf("https://apps.example.com/mcp/app-%d/server-card", i),
		})
	}
	list, err := catalog.Build(nil, items)
	if err != nil {
		return nil, err
	}
	file := robotsFile()
	return []comparison{
		{
			"strict JSON, card", "encoding/json into the same struct", 50_000,
			repeat(func() error { var v card.Card; return strictjson.Unmarshal(doc, &v) }),
			repeat(func() error { var v card.Card; return json.Unmarshal(doc, &v) }),
		},
		{"card.Parse", "parse and validate, alone", 50_000, repeat(func() error { _, err := card.Parse(doc); return err }), nil},
		{
			"catalog.Parse, 1000 entries", "encoding/json into a map", 50,
			repeat(func() error {
				_, err := catalog.Parse(list, "https://apps.example.com/.well-known/ai-catalog.json")
				return err
			}),
			repeat(func() error { var v map[string]any; return json.Unmarshal(list, &v) }),
		},
		{
			"robots 2 KB, parse and match", "temoto/robotstxt", 5_000,
			repeat(func() error { robots.Parse(file, robots.Token).Allowed("/mcp/calendar/server-card"); return nil }),
			repeat(func() error {
				r, err := robotstxt.FromBytes(file)
				if err == nil {
					r.TestAgent("/mcp/calendar/server-card", robots.Token)
				}
				return err
			}),
		},
	}, nil
}

func repeat(f func() error) func(int) error {
	return func(n int) error {
		for range n {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
}

// robotsFile is an ordinary file of 2 KB.
func robotsFile() []byte {
	var b bytes.Buffer
	b.WriteString("# an ordinary site\nUser-agent: *\nDisallow: /admin/\nAllow: /admin/help\n")
	for i := 0; b.Len() < 1900; i++ {
		fmt.Fprintf(&b, "Disallow: /private/%d/*.html$\n", i)
	}
	b.WriteString("User-agent: OpenBot\nDisallow: " + strings.Repeat("/deep", 5) + "\n")
	return b.Bytes()
}
