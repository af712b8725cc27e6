package api

import (
	"context"
	"errors"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// metrics are the measures of IX-65. No label holds a query, a path or a
// client: routes are patterns.
type metrics struct {
	requests metric.Int64Counter
	duration metric.Float64Histogram
	search   metric.Float64Histogram
	shed     metric.Int64Counter
}

func newMetrics(provider metric.MeterProvider, h *handler) (*metrics, error) {
	meter := provider.Meter("github.com/openbot-build/openbot-go/index/api")
	m := new(metrics)
	errs := make([]error, 0, 8)
	keep := func(err error) { errs = append(errs, err) }
	seconds := metric.WithUnit("s")
	var err error
	m.requests, err = meter.Int64Counter("openbot.api.requests", metric.WithDescription("Answers by route and status"))
	keep(err)
	m.duration, err = meter.Float64Histogram("openbot.api.duration", seconds, metric.WithDescription("Time to answer by route"),
		metric.WithExplicitBucketBoundaries(.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5))
	keep(err)
	m.search, err = meter.Float64Histogram("openbot.search.duration", seconds, metric.WithDescription("Time of a search by tier"),
		metric.WithExplicitBucketBoundaries(.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .5, 2))
	keep(err)
	m.shed, err = meter.Int64Counter("openbot.search.shed", metric.WithDescription("Searches refused because too many ran"))
	keep(err)
	flight, err := meter.Int64ObservableGauge("openbot.search.in_flight", metric.WithDescription("Searches that run now"))
	keep(err)
	seq, err := meter.Int64ObservableGauge("openbot.index.seq", metric.WithDescription("Change of the feed that the search index holds"))
	keep(err)
	live, err := meter.Int64ObservableGauge("openbot.index.live", metric.WithDescription("Entries that the search index holds"))
	keep(err)
	lag, err := meter.Float64ObservableGauge("openbot.index.lag", seconds, metric.WithDescription("Time since the search index was at the head of the feed"))
	keep(err)
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	_, err = meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		o.ObserveInt64(flight, int64(len(h.slots)))
		if s := h.opts.Search.Status(); s.Loaded {
			o.ObserveInt64(seq, s.Head.Seq)
			o.ObserveInt64(live, int64(s.Live))
			o.ObserveFloat64(lag, h.opts.Now().Sub(s.SyncedAt).Seconds())
		}
		return nil
	}, flight, seq, live, lag)
	return m, err
}

func (m *metrics) answered(ctx context.Context, pattern string, status int, took time.Duration) {
	if pattern == "" {
		pattern = "none"
	}
	_, path, ok := strings.Cut(pattern, " ")
	if !ok {
		path = pattern
	}
	route := attribute.String("route", path)
	m.requests.Add(ctx, 1, metric.WithAttributes(route, attribute.Int("status", status)))
	m.duration.Record(ctx, took.Seconds(), metric.WithAttributes(route))
}

func (m *metrics) searched(ctx context.Context, tier string, took time.Duration) {
	if tier == "" {
		tier = "listing"
	}
	m.search.Record(ctx, took.Seconds(), metric.WithAttributes(attribute.String("tier", tier)))
}
