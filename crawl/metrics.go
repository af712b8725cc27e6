package crawl

import (
	"context"
	"strconv"
	"sync"
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

	classes [6]metric.AddOption // of fetches, by the status's first digit; 0 is none
	codes   sync.Map            // of outcomes: metric.AddOption by index.Code
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
	for i := range c.classes {
		class := "none"
		if i > 0 {
			class = strconv.Itoa(i) + "xx"
		}
		c.classes[i] = metric.WithAttributeSet(attribute.NewSet(attribute.String("status", class)))
	}
	return &c, err
}

// fetched counts one answer; status 0 is none.
func (c *counters) fetched(ctx context.Context, status int, took time.Duration) {
	class := status / 100
	if class < 1 || class > 5 {
		class = 0
	}
	c.fetches.Add(ctx, 1, c.classes[class])
	c.seconds.Record(ctx, took.Seconds())
}

func (c *counters) visited(ctx context.Context, v *index.Visit) {
	c.visits.Add(ctx, 1)
	for i := range v.Outcomes {
		c.outcomes.Add(ctx, 1, c.code(v.Outcomes[i].Code))
	}
}

func (c *counters) code(code index.Code) metric.AddOption {
	if o, ok := c.codes.Load(code); ok {
		return o.(metric.AddOption)
	}
	o := metric.WithAttributeSet(attribute.NewSet(attribute.String("code", string(code))))
	c.codes.Store(code, metric.AddOption(o))
	return o
}
