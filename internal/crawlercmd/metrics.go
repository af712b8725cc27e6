package crawlercmd

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

// metrics are this process's own, on a listener that is not the index's.
type metrics struct {
	registry *prometheus.Registry
	provider *sdkmetric.MeterProvider
	server   *http.Server // nil without --metrics
}

func newMetrics(store *sqlite.Store) (*metrics, error) {
	m := &metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprom.New(otelprom.WithRegisterer(m.registry), otelprom.WithoutScopeInfo(), otelprom.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	m.provider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	if err := m.watch(store); err != nil {
		return nil, fmt.Errorf("set up metrics: %w", err)
	}
	return m, nil
}

// watch shows what the store holds, asked for at each scrape.
func (m *metrics) watch(store *sqlite.Store) error {
	meter := m.provider.Meter("index")
	entries, err := meter.Int64ObservableGauge("openbot_index_entries", metric.WithDescription("Entries, by state; leads are cards without one."))
	if err != nil {
		return err
	}
	due, err := meter.Int64ObservableGauge("openbot_index_due", metric.WithDescription("Documents whose visit is due."))
	if err != nil {
		return err
	}
	hosts, err := meter.Int64ObservableGauge("openbot_index_hosts", metric.WithDescription("Hosts known."))
	if err != nil {
		return err
	}
	_, err = meter.RegisterCallback(func(ctx context.Context, o metric.Observer) error {
		stats, err := store.Stats(ctx, time.Now())
		if err != nil {
			return err
		}
		for _, state := range []index.State{index.Lead, index.Listed, index.Stale, index.Hidden, index.Removed, index.Blocked} {
			o.ObserveInt64(entries, stats.Entries[state], metric.WithAttributes(attribute.String("state", string(state))))
		}
		o.ObserveInt64(due, stats.Due)
		o.ObserveInt64(hosts, stats.Hosts)
		return nil
	}, entries, due, hosts)
	return err
}

// serve answers GET /metrics on l until close.
func (m *metrics) serve(l net.Listener, log *slog.Logger) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	m.server = newServer(mux, log)
	go func() { _ = m.server.Serve(l) }() // ends with close
	log.Info("metrics", "url", webAddr(l.Addr())+"metrics")
}

func (m *metrics) close() {
	if m.server != nil {
		_ = m.server.Close()
	}
}
