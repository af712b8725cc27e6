package crawlercmd

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/crawl"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

// The names that dashboards are built on, each with its labels.
func TestMetricNames(t *testing.T) {
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "index.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	f := &nodeFlags{Listen: "127.0.0.1:0", Metrics: ":0"}
	b, err := f.bind(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	n, err := f.open(t.Context(), b, store, slog.New(slog.DiscardHandler), &operator{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- n.serve(ctx) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	internet := fakenet.New()
	defer internet.Close()
	c, err := crawl.New(&crawl.Config{
		Store: store, About: "https://crawler.example.com/", Contact: "crawler@example.com", Workers: 2,
		Network: &publicnet.Options{Below: internet.Below()}, Meter: n.metrics.provider.Meter("crawl"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.AddSource(ctx, time.Now(), index.NewDoc{URL: "https://nowhere.example.com/"}); err != nil {
		t.Fatal(err)
	}
	if err := c.Settle(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if status, _ := fetch(t, "http://"+b.index.Addr().String()+"/v1/apps?q=calendar"); status != http.StatusOK {
		t.Errorf("the index answers %d", status)
	}

	if at := b.metrics.Addr().String(); !strings.HasPrefix(at, "127.0.0.1:") {
		t.Errorf("metrics without a host listen at %s", at)
	}
	if status, _ := fetch(t, webAddr(b.metrics.Addr())); status != http.StatusNotFound {
		t.Errorf("another path answers %d", status)
	}
	status, body := fetch(t, webAddr(b.metrics.Addr())+"metrics")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	for _, want := range []string{
		`openbot_crawl_fetches_total{status="none"} 1`,
		`openbot_crawl_fetch_duration_seconds_bucket{le="0.25"} `,
		`openbot_crawl_outcomes_total{code="unreachable"} 1`,
		"openbot_crawl_visits_total 1",
		"openbot_crawl_active_visits 0",
		`openbot_index_entries{state="listed"} 0`,
		`openbot_index_entries{state="stale"} 0`,
		`openbot_index_entries{state="lead"} 0`,
		"openbot_index_due 0",
		"openbot_index_hosts 1",
		"openbot_index_live 0",
		"openbot_index_seq 0",
		"openbot_index_lag_seconds ",
		"openbot_api_requests_total{",
		"openbot_api_duration_seconds_bucket{",
		"openbot_search_duration_seconds_bucket{",
		"openbot_search_in_flight 0",
		"go_goroutines ",
		"process_open_fds ",
	} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("no %s", want)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, "openbot_") {
				t.Log(strings.TrimSpace(line))
			}
		}
	}
	if strings.Contains(body, "nowhere.example.com") {
		t.Error("metrics name a site")
	}
}

func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(fmt.Errorf("read %s: %w", url, err))
	}
	return resp.StatusCode, string(data)
}
