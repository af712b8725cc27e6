package publishercmd

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
)

// What the command adds to a document: counting, logging, finding the edition.
func BenchmarkSiteDocument(b *testing.B) {
	m, err := newMetrics()
	if err != nil {
		b.Fatal(err)
	}
	file, err := parseConfig("c.yaml", ".", []byte(echoConfig))
	if err != nil {
		b.Fatal(err)
	}
	s := &site{log: slog.New(slog.DiscardHandler), metrics: m}
	r := &reloader{getenv: func(string) string { return "" }, log: s.log, site: s}
	if err := r.first(b.Context(), file); err != nil {
		b.Fatal(err)
	}
	for name, h := range map[string]http.Handler{"command": s, "publisher": s.current.Load().publication} {
		b.Run(name, func(b *testing.B) {
			req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "https://apps.example.com/mcp/hello/server-card", nil)
			b.ReportAllocs()
			for b.Loop() {
				h.ServeHTTP(httptest.NewRecorder(), req)
			}
		})
	}
}
