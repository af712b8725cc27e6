package publishercmd

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// tracer sends one span for each request to a collector.
type tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	from     propagation.TextMapPropagator
}

// newTracer gives the tracer that configuration or environment asks for, or nil.
// Headers for the collector come from OTEL_EXPORTER_OTLP_HEADERS.
func newTracer(ctx context.Context, t *telemetry, getenv func(string) string, log *slog.Logger) (*tracer, error) {
	address := getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
	if address == "" {
		base := getenv("OTEL_EXPORTER_OTLP_ENDPOINT")
		if t != nil && t.OTLP != "" {
			base = t.OTLP
		}
		if base == "" {
			return nil, nil
		}
		address = strings.TrimSuffix(base, "/") + "/v1/traces"
	}
	if err := checkCollector(address); err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(address))
	if err != nil {
		return nil, fmt.Errorf("set up traces: %w", err)
	}
	share := 1.0
	if t != nil && t.Sample != nil {
		share = *t.Sample
	}
	service := getenv("OTEL_SERVICE_NAME")
	if service == "" {
		service = "openbot-publisher"
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(&quietExporter{SpanExporter: exporter, log: log}),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(share))),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", service), attribute.String("service.version", version()))),
	)
	return &tracer{provider: provider, tracer: provider.Tracer("publisher"), from: propagation.TraceContext{}}, nil
}

// begin starts the span of a request: a child of the caller's, if it sent one.
func (t *tracer) begin(r *http.Request, method string, ep *endpoint) (*http.Request, func(kind string, status int)) {
	name := r.Method
	attrs := []attribute.KeyValue{attribute.String("http.request.method", knownMethod(r.Method)), attribute.String("url.path", r.URL.EscapedPath())}
	if ep != nil {
		name = method
		attrs = append(attrs, attribute.String("openbot.app", ep.slug), attribute.String("mcp.method.name", method))
	}
	ctx, span := t.tracer.Start(t.from.Extract(r.Context(), propagation.HeaderCarrier(r.Header)), name,
		trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attrs...))
	return r.WithContext(ctx), func(kind string, status int) {
		if ep == nil {
			span.SetName(knownMethod(r.Method) + " " + kind)
		}
		span.SetAttributes(attribute.Int("http.response.status_code", status))
		if status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		span.End()
	}
}

func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodOptions, http.MethodDelete:
		return m
	}
	return "_OTHER"
}

// stop sends what is left.
func (t *tracer) stop(ctx context.Context) error { return t.provider.Shutdown(ctx) }

// quietExporter logs a failure at most once a minute. The SDK would print each
// to standard error.
type quietExporter struct {
	sdktrace.SpanExporter
	log *slog.Logger

	mu   sync.Mutex
	last time.Time
}

// ExportSpans implements sdktrace.SpanExporter.
func (q *quietExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	err := q.SpanExporter.ExportSpans(ctx, spans)
	if err == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.last) > time.Minute {
		q.last = time.Now()
		q.log.Warn("traces cannot be sent", "error", err)
	}
	return nil
}
