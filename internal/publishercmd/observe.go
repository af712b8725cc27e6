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
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
)

// metrics counts requests by what was asked for. The labels are few and fixed:
// no caller can make more of them.
type metrics struct {
	registry *prometheus.Registry
	meter    metric.Meter

	requests metric.Int64Counter
	seconds  metric.Float64Histogram
	running  metric.Int64UpDownCounter

	kinds map[string]kindLabels

	calls       metric.Int64Counter
	callSeconds metric.Float64Histogram
	refused     metric.Int64Counter
	reloads     metric.Int64Counter
}

// kindLabels are the labels of one kind of request, made once: counting what is
// usual makes none.
type kindLabels struct {
	kind     attribute.KeyValue
	plain    metric.MeasurementOption
	answered metric.MeasurementOption // with status 200
}

func newMetrics() (*metrics, error) {
	m := &metrics{registry: prometheus.NewRegistry(), kinds: map[string]kindLabels{}}
	for _, kind := range []string{"card", "catalog", "page", "metadata", "mcp", "asset", "unknown"} {
		l := kindLabels{kind: attribute.String("kind", kind)}
		l.plain = metric.WithAttributeSet(attribute.NewSet(l.kind))
		l.answered = metric.WithAttributeSet(attribute.NewSet(l.kind, attribute.Int("status", http.StatusOK)))
		m.kinds[kind] = l
	}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprom.New(otelprom.WithRegisterer(m.registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	m.meter = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)).Meter("publisher")
	counter := func(to *metric.Int64Counter, name, about string) {
		if err == nil {
			*to, err = m.meter.Int64Counter(name, metric.WithDescription(about))
		}
	}
	histogram := func(to *metric.Float64Histogram, name, about string) {
		if err == nil {
			*to, err = m.meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(about),
				metric.WithExplicitBucketBoundaries(.0005, .001, .005, .01, .05, .1, .5, 1, 5, 30))
		}
	}
	counter(&m.requests, "publisher.requests", "Requests answered, by kind and status.")
	histogram(&m.seconds, "publisher.request.duration", "Time to answer a request.")
	counter(&m.calls, "publisher.calls", "MCP messages answered, by app, method and status.")
	histogram(&m.callSeconds, "publisher.call.duration", "Time to answer an MCP message; streams are not in it.")
	counter(&m.refused, "publisher.limited", "MCP messages refused by a limit of the configuration, by app and limit.")
	counter(&m.reloads, "publisher.reloads", "Readings of a changed configuration, by result.")
	if err == nil {
		m.running, err = m.meter.Int64UpDownCounter("publisher.requests.running", metric.WithDescription("Requests being answered, open streams included."))
	}
	if err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	return m, nil
}

// watch adds what is looked up when the metrics are read: open streams and the
// state of each upstream.
func (m *metrics) watch(s *site) error {
	streams, err := m.meter.Int64ObservableGauge("publisher.streams.open", metric.WithDescription("Streams that clients keep open, by app."))
	if err != nil {
		return fmt.Errorf("set up metrics: %w", err)
	}
	up, err := m.meter.Int64ObservableGauge("publisher.upstream.up", metric.WithDescription("1 while the server behind an app answers, else 0."))
	if err != nil {
		return fmt.Errorf("set up metrics: %w", err)
	}
	_, err = m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		e := s.current.Load()
		if e == nil {
			return nil
		}
		for _, ep := range e.endpoints {
			o.ObserveInt64(streams, ep.open.Load(), metric.WithAttributes(attribute.String("app", ep.slug)))
			if ep.up != nil {
				var n int64
				if ep.up.ready() == nil {
					n = 1
				}
				o.ObserveInt64(up, n, metric.WithAttributes(attribute.String("app", ep.slug)))
			}
		}
		return nil
	}, streams, up)
	if err != nil {
		return fmt.Errorf("set up metrics: %w", err)
	}
	return nil
}

func (m *metrics) limited(ep *endpoint, limit string) {
	m.refused.Add(context.Background(), 1, metric.WithAttributes(attribute.String("app", ep.slug), attribute.String("limit", limit)))
}

func (m *metrics) reloaded(result string) {
	m.reloads.Add(context.Background(), 1, metric.WithAttributes(attribute.String("result", result)))
}

// methods are the MCP methods that have a label of their own; a caller's
// inventions are all "other", and messages of older revisions, which name their
// method in the body only, "legacy".
var methods = []string{
	"server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read",
	"prompts/list", "prompts/get", "completion/complete", "subscriptions/listen", "other", "legacy",
}

// labels are an app's labels, made once: the counting of a call makes none.
type labels struct {
	byMethod map[string]metric.MeasurementOption // without status
	answered map[string]metric.MeasurementOption // with status 200
	app      string
}

func (m *metrics) labels(app string) *labels {
	l := &labels{byMethod: map[string]metric.MeasurementOption{}, answered: map[string]metric.MeasurementOption{}, app: app}
	for _, method := range methods {
		a, b := attribute.String("app", app), attribute.String("method", method)
		l.byMethod[method] = metric.WithAttributeSet(attribute.NewSet(a, b))
		l.answered[method] = metric.WithAttributeSet(attribute.NewSet(a, b, attribute.Int("status", http.StatusOK)))
	}
	return l
}

// methodOf is the label of the method that a request names.
func (l *labels) methodOf(r *http.Request) string {
	name := r.Header.Get("Mcp-Method")
	if name == "" {
		return "legacy"
	}
	if _, known := l.byMethod[name]; known {
		return name
	}
	return "other"
}

func (m *metrics) request(ctx context.Context, kind string, status int, took time.Duration) {
	l := m.kinds[kind]
	if status == http.StatusOK {
		m.requests.Add(ctx, 1, l.answered)
	} else {
		m.requests.Add(ctx, 1, metric.WithAttributes(l.kind, attribute.Int("status", status)))
	}
	m.seconds.Record(ctx, took.Seconds(), l.plain)
}

func (m *metrics) call(ctx context.Context, l *labels, method string, status int, took time.Duration, stream bool) {
	if status == http.StatusOK {
		m.calls.Add(ctx, 1, l.answered[method])
	} else {
		m.calls.Add(ctx, 1, metric.WithAttributes(attribute.String("app", l.app), attribute.String("method", method), attribute.Int("status", status)))
	}
	if !stream {
		m.callSeconds.Record(ctx, took.Seconds(), l.byMethod[method])
	}
}

// kind is what a request asked for.
func (e *edition) kind(path string, ep *endpoint, status int) string {
	switch kind := e.kinds[path]; {
	case kind != "":
		return kind
	case ep != nil:
		return "mcp"
	case status == http.StatusNotFound || !strings.Contains(path, "/assets/"):
		return "unknown"
	}
	return "asset"
}

// observe counts, logs and traces a request once done is called. The log and
// the trace have the path and never the query, a header or a body: those may
// hold secrets.
func (s *site) observe(seen *recorder, r *http.Request, e *edition, ep *endpoint, client netip.Addr) (_ *http.Request, done func()) {
	start := time.Now()
	path := r.URL.EscapedPath()
	ctx := context.WithoutCancel(r.Context())
	s.metrics.running.Add(ctx, 1)
	method := ""
	if ep != nil {
		method = ep.labels.methodOf(r)
	}
	var end func(kind string, status int)
	if s.tracer != nil {
		r, end = s.tracer.begin(r, method, ep)
	}
	return r, func() {
		took := time.Since(start)
		s.metrics.running.Add(ctx, -1)
		status := seen.status
		if status == 0 {
			status = http.StatusOK
		}
		kind := e.kind(path, ep, status)
		s.metrics.request(ctx, kind, status, took)
		if ep != nil {
			s.metrics.call(ctx, ep.labels, method, status, took, isStream(r))
		}
		if end != nil {
			end(kind, status)
		}
		from := ""
		if client.IsValid() {
			from = client.String()
		}
		s.log.LogAttrs(ctx, slog.LevelInfo, "request",
			slog.String("method", r.Method), slog.String("path", path), slog.Int("status", status),
			slog.Int64("bytes", seen.bytes), slog.Duration("took", took), slog.String("client", from))
	}
}

// recorder notes what was answered.
type recorder struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
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
