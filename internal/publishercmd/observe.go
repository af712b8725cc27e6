package publishercmd

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/publisher"
)

// metrics counts requests by what was asked for. The labels are few and fixed:
// no caller can make more of them.
type metrics struct {
	registry *prometheus.Registry
	kinds    map[string]string // path -> kind of document
	requests metric.Int64Counter
	seconds  metric.Float64Histogram
	running  metric.Int64UpDownCounter
}

func newMetrics(files []publisher.File) (*metrics, error) {
	m := &metrics{registry: prometheus.NewRegistry(), kinds: map[string]string{}}
	for _, f := range files {
		switch f.Header.Get("Content-Type") {
		case card.MediaType:
			m.kinds[f.Path] = "card"
		case catalog.MediaType:
			m.kinds[f.Path] = "catalog"
		default:
			m.kinds[f.Path] = "page"
		}
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprom.New(otelprom.WithRegisterer(m.registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)).Meter("publisher")
	if m.requests, err = meter.Int64Counter("publisher.requests", metric.WithDescription("Requests answered, by kind and status.")); err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	if m.seconds, err = meter.Float64Histogram("publisher.request.duration", metric.WithUnit("s"), metric.WithDescription("Time to answer a request."),
		metric.WithExplicitBucketBoundaries(.0005, .001, .005, .01, .05, .1, .5, 1, 5, 30)); err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	if m.running, err = meter.Int64UpDownCounter("publisher.requests.running", metric.WithDescription("Requests being answered, open streams included.")); err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	return m, nil
}

// kind is what a request asked for.
func (m *metrics) kind(r *http.Request, status int) string {
	path := r.URL.EscapedPath()
	switch kind := m.kinds[path]; {
	case kind != "":
		return kind
	case status == http.StatusNotFound:
		return "unknown"
	case strings.Contains(path, "/assets/"):
		return "asset"
	}
	return "mcp"
}

// serve answers GET /metrics at addr until stop is called.
func (m *metrics) serve(ctx context.Context, addr string) (stop func(), bound string, err error) {
	if strings.HasPrefix(addr, ":") {
		addr = "127.0.0.1" + addr
	}
	listener, err := listen(ctx, "--metrics", addr)
	if err != nil {
		return nil, "", err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends with Close
	}()
	return func() {
		_ = server.Close()
		<-done
	}, listener.Addr().String(), nil
}

// observe logs and counts every request. The log has the path and never the
// query, a header or a body: those may hold secrets.
func observe(next http.Handler, log *slog.Logger, m *metrics, trusted []netip.Prefix) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		ctx := context.WithoutCancel(r.Context())
		m.running.Add(ctx, 1)
		seen := &recorder{ResponseWriter: w}
		defer func() {
			took := time.Since(start)
			m.running.Add(ctx, -1)
			status := seen.status
			if status == 0 {
				status = http.StatusOK
			}
			kind := attribute.String("kind", m.kind(r, status))
			m.requests.Add(ctx, 1, metric.WithAttributes(kind, attribute.Int("status", status)))
			m.seconds.Record(ctx, took.Seconds(), metric.WithAttributes(kind))
			log.LogAttrs(ctx, slog.LevelInfo, "request",
				slog.String("method", r.Method), slog.String("path", r.URL.EscapedPath()), slog.Int("status", status),
				slog.Int64("bytes", seen.bytes), slog.Duration("took", took), slog.String("client", clientAddr(r, trusted)))
		}()
		next.ServeHTTP(seen, r)
	})
}

// recorder notes what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	n, err := r.ResponseWriter.Write(p)
	r.bytes += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// Flush is asked for directly by event streams.
func (r *recorder) Flush() { _ = http.NewResponseController(r.ResponseWriter).Flush() }
