package check_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/publisher"
	"github.com/openbot-build/openbot-go/publisher/check"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func published(t *testing.T) *publisher.Publisher {
	t.Helper()
	p, err := publisher.New(&publisher.Config{Origin: "https://apps.example.com", Apps: []publisher.App{
		{Slug: "calendar", MCPURL: "https://mcp.example.net/c", Card: card.Card{Name: "com.example/calendar", Title: "Calendar", Version: "1.0.0", Description: "Plan."}},
		{Slug: "notes", MCPURL: "https://mcp.example.net/n", Card: card.Card{Name: "com.example/notes", Title: "笔记", Version: "1.0.0", Description: "记录。"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// publish puts the published apps and their endpoints on net.
func publish(t *testing.T, net *fakenet.Net, apps http.Handler) {
	t.Helper()
	net.Handle("apps.example.com", apps)
	endpoints := http.NewServeMux()
	endpoints.Handle("/c", mcpServer("com.example/calendar", "1.0.0"))
	endpoints.Handle("/n", mcpServer("com.example/notes", "1.0.0"))
	net.Handle("mcp.example.net", endpoints)
}

// address checks an address and gives the report in lines.
func address(t *testing.T, net *fakenet.Net, target string) string {
	t.Helper()
	return lines(report(t, net, target))
}

func report(t *testing.T, net *fakenet.Net, target string) *check.Report {
	t.Helper()
	network, err := publicnet.New(&publicnet.Options{UserAgent: "test", Below: net.Below()})
	if err != nil {
		t.Fatal(err)
	}
	client := network.Client()
	defer client.CloseIdleConnections()
	r, err := check.Address(t.Context(), client, target)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func lines(r *check.Report) string {
	var b strings.Builder
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "%s %s\n", s.Kind, s.Name)
		for _, f := range s.Facts {
			fmt.Fprintf(&b, "  fact %s\n", f)
		}
		for _, f := range s.Findings {
			fmt.Fprintf(&b, "  %s %s\n", f.Level, f)
		}
	}
	return b.String()
}

// What the publisher package serves has no faults, from each of the four inputs
// (OB-30).
func TestPublishedAppsPass(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	publish(t, net, published(t))
	for _, target := range []string{
		"apps.example.com", "https://apps.example.com/apps/calendar",
		"https://apps.example.com/apps/notes/catalog.json", "https://apps.example.com/mcp/calendar/server-card",
	} {
		out := address(t, net, target)
		if strings.Contains(out, "\n  fault") || strings.Contains(out, "\n  advice") || !strings.Contains(out, "pass publisher confirmed") {
			t.Errorf("%s:\n%s", target, out)
		}
	}
}

// plainHost serves the publisher's documents as a careless static host does.
func plainHost(p http.Handler, change func(http.Header)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("If-None-Match")
		p.ServeHTTP(&headerEditor{ResponseWriter: w, change: change}, r)
	})
}

type headerEditor struct {
	http.ResponseWriter
	change func(http.Header)
	done   bool
}

func (e *headerEditor) WriteHeader(status int) {
	if !e.done {
		e.done = true
		e.change(e.Header())
	}
	e.ResponseWriter.WriteHeader(status)
}

func (e *headerEditor) Write(p []byte) (int, error) {
	if !e.done {
		e.WriteHeader(http.StatusOK)
	}
	return e.ResponseWriter.Write(p)
}

func TestCheckFindsFaultsOfHosts(t *testing.T) {
	tests := []struct {
		name   string
		change func(http.Header)
		want   []string
	}{
		{"types", func(h http.Header) { h.Set("Content-Type", "application/octet-stream") }, []string{"fault Content-Type is \"application/octet-stream\": serve it as " + catalog.MediaType, "serve it as " + card.MediaType}},
		{"no validators", func(h http.Header) { h.Del("ETag") }, []string{"fault neither ETag nor Last-Modified"}},
		{"no 304", func(http.Header) {}, []string{"fault a conditional request for the unchanged document got status 200: answer 304"}},
		{"no CORS", func(h http.Header) {
			for name := range h {
				if strings.HasPrefix(name, "Access-Control") {
					h.Del(name)
				}
			}
		}, []string{"fault Access-Control-Allow-Origin is missing", "advice Access-Control-Allow-Origin is missing"}},
		{"no cache", func(h http.Header) { h.Del("Cache-Control") }, []string{"advice no Cache-Control"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			net := fakenet.New()
			defer net.Close()
			publish(t, net, plainHost(published(t), tt.change))
			out := address(t, net, "apps.example.com")
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q in:\n%s", want, out)
				}
			}
		})
	}
}

// A card that nobody lists works, and no crawler takes it.
func TestUnlistedCard(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	net.Set("https://a.example.com/card", fakenet.Answer{
		Header: http.Header{"Content-Type": {card.MediaType}, "Etag": {`"1"`}, "Access-Control-Allow-Origin": {"*"}},
		Body: `{"$schema":"` + card.SchemaURL + `","name":"com.example/a","version":"1","description":"A.",
			"remotes":[{"type":"streamable-http","url":"https://a.example.com/mcp","supportedProtocolVersions":["2026-07-28"]}]}`,
	})
	net.SetMethod(http.MethodOptions, "https://a.example.com/card", preflight)
	net.Handle("a.example.com", mcpServer("com.example/a", "1"))
	out := address(t, net, "https://a.example.com/card")
	if strings.Contains(out, "\n  fault") || !strings.Contains(out, "advice a crawler cannot confirm") {
		t.Error(out)
	}
}

// A card of an older draft gets its whole list, and no request to an address in
// it (FO-06).
func TestOldCard(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	net.Set("https://old.example.com/card", fakenet.Answer{
		Header: http.Header{"Content-Type": {card.MediaType}},
		Body:   `{"serverInfo":{"name":"notes"},"transport":{"type":"streamable-http","endpoint":"https://old.example.com/mcp"}}`,
	})
	out := address(t, net, "https://old.example.com/card")
	for _, want := range []string{"fault /$schema", "fault /name", "fault /version", "fault /description", "fault /remotes", "fault neither ETag"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	for _, r := range net.Requests() {
		if strings.HasSuffix(r.URL, "/mcp") {
			t.Errorf("asked %s", r.URL)
		}
	}
}

func TestDocument(t *testing.T) {
	for text, want := range map[string]string{
		`{"specVersion":"1.0","entries":[null]}`: "fault /entries/0",
		`{"specVersion":"1.0","entries":[]}`:     "advice /entries: valid catalog, no MCP App listed",
		`{"specVersion":"2.0","entries":[]}`:     "fault /specVersion",
		`{"entries":[]}`:                         "fault /specVersion",
		`{"name":"x"}`:                           "fault /version",
		`<!doctype html>`:                        "fault ",
		`{}`:                                     "fault neither a catalog",
		`[]`:                                     "fault neither a catalog",
		`{"specVersion":"1.0","entries":[],"entries":[{}]}`: "fault /entries",
	} {
		r := &check.Report{}
		check.Document(r, "file.json", []byte(text))
		if out := lines(r); !strings.Contains(out, want) {
			t.Errorf("%s: no %q in\n%s", text, want, out)
		}
	}
}
