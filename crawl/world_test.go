package crawl

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

// What a publisher serves, for tests that write their pages in Go.

const (
	appsHost = "https://apps.example.com"
	robotsAt = appsHost + "/robots.txt"
)

// cardJSON is a usable card; more are members, each with a comma before it.
func cardJSON(name, more string) string {
	return fmt.Sprintf(`{"$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json", "name": %q, "version": "1.0.0", "description": "An app."%s, "remotes": [{"type": "streamable-http", "url": "https://apps.example.com/mcp", "supportedProtocolVersions": ["2026-07-28"]}]}`, name, more)
}

func catalogJSON(cards ...string) string {
	entries := make([]string, len(cards))
	for i, u := range cards {
		entries[i] = fmt.Sprintf(`{"identifier": "urn:air:example.com:mcp:app%d", "type": "application/mcp-server-card+json", "url": %q}`, i+1, u)
	}
	return `{"specVersion": "1.0", "entries": [` + strings.Join(entries, ", ") + `]}`
}

// page sets the answer to one URL: a head of status and header lines, which may
// be empty, and a body.
func (w *world) page(url, head, body string) {
	w.t.Helper()
	text := body
	if head != "" {
		text = head + "\n\n" + body
	}
	w.load("-- GET " + url + " --\n" + text + "\n")
}

// published sets up one listed app: a catalog at the well-known place and its
// card, both with validators.
func (w *world) published() {
	w.t.Helper()
	w.page(catURL, `ETag: "cat"`, catalogJSON(cardURL))
	w.page(cardURL, `ETag: "card"`, cardJSON("com.example/notes", ""))
	w.add("apps.example.com")
	w.settle()
	w.wantState(cardURL, "listed")
}

// outcomes gives the newest outcome of a document as "code".
func (w *world) outcome(url string) string {
	w.t.Helper()
	o, err := w.store.Outcomes(w.t.Context(), url, 1)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(o) == 0 {
		return "-"
	}
	return string(o[0].Code)
}

func (w *world) sentence(url string) string {
	w.t.Helper()
	x, err := Explain(w.t.Context(), w.store, url)
	if err != nil {
		w.t.Fatal(err)
	}
	return x.Sentence
}

func (w *world) wantSentence(url string, parts ...string) {
	w.t.Helper()
	got := w.sentence(url)
	for _, p := range parts {
		if !strings.Contains(got, p) {
			w.t.Errorf("why %s: %q does not say %q", url, got, p)
		}
	}
}

// gaps checks that requests of one origin are at least min apart. The time of
// a request is when it arrived, so answers that take time only lengthen gaps.
func (w *world) wantGaps(origin string, min time.Duration) {
	w.t.Helper()
	var last fakenet.Request
	for _, r := range w.requests(origin + "/") {
		if d := r.Time.Sub(last.Time); !last.Time.IsZero() && d < min {
			w.t.Errorf("%s came %s after %s, want at least %s", r, d, last, min)
		}
		last = r
	}
}

// rule runs f in a world with default configuration.
func rule(t *testing.T, f func(t *testing.T, w *world)) { t.Helper(); inWorld(t, nil, f) }

var results = make(map[string]bool)

// once runs what several rules rest on, the first time that one of them is
// tested; the others get its result.
func once(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	passed, known := results[name]
	if !known {
		passed = t.Run(name, f)
		results[name] = passed
	}
	if !passed {
		t.Errorf("%s failed", name)
	}
}
