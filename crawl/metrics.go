package crawl

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/openbot-build/openbot-go/index"
)

// counters are what an operator watches.
type counters struct {
	fetches  metric.Int64Counter
	seconds  metric.Float64Histogram
	outcomes metric.Int64Counter
	visits   metric.Int64Counter
	fenced   metric.Int64Counter
	panics   metric.Int64Counter
	active   metric.Int64UpDownCounter
}

func newCounters(m metric.Meter) (*counters, error) {
	if m == nil {
		m = noop.NewMeterProvider().Meter("")
	}
	var c counters
	var err error
	set := func(e error) {
		if err == nil {
			err = e
		}
	}
	var e error
	c.fetches, e = m.Int64Counter("openbot_crawl_fetches", metric.WithDescription("Requests that were answered, by class of status; robots.txt included."))
	set(e)
	c.seconds, e = m.Float64Histogram("openbot_crawl_fetch_duration", metric.WithUnit("s"), metric.WithDescription("Time that an answer took."),
		metric.WithExplicitBucketBoundaries(0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10))
	set(e)
	c.outcomes, e = m.Int64Counter("openbot_crawl_outcomes", metric.WithDescription("Documents visited, by outcome."))
	set(e)
	c.visits, e = m.Int64Counter("openbot_crawl_visits", metric.WithDescription("Hosts visited."))
	set(e)
	c.fenced, e = m.Int64Counter("openbot_crawl_fenced", metric.WithDescription("Visits dropped because their lease was lost."))
	set(e)
	c.panics, e = m.Int64Counter("openbot_crawl_panics", metric.WithDescription("Documents whose visit ended in an internal error."))
	set(e)
	c.active, e = m.Int64UpDownCounter("openbot_crawl_active_visits", metric.WithDescription("Hosts being visited now."))
	set(e)
	return &c, err
}

// fetched counts one answer; status 0 is none.
func (c *counters) fetched(ctx context.Context, status int, took time.Duration) {
	class := "none"
	if status >= 100 && status <= 599 {
		class = string(rune('0'+status/100)) + "xx"
	}
	c.fetches.Add(ctx, 1, metric.WithAttributes(attribute.String("status", class)))
	c.seconds.Record(ctx, took.Seconds())
}

func (c *counters) visited(ctx context.Context, v *index.Visit) {
	c.visits.Add(ctx, 1)
	for i := range v.Outcomes {
		c.outcomes.Add(ctx, 1, metric.WithAttributes(attribute.String("code", string(v.Outcomes[i].Code))))
	}
}
