package publisher_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
)

// Progress reaches who asked for it, in order, at a bounded rate, and costs the
// others nothing.
func TestProgress(t *testing.T) {
	const steps = 500
	eachEra(t, func(t *testing.T, s *mcp.Server) {
		addTool(t, s, "copy", func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			report := publisher.Progress(r)
			for i := range steps {
				report(ctx, float64(i), steps, fmt.Sprintf("file %d", i))
				report(ctx, float64(i)-1, steps, "back") // no progress
				if i%50 == 0 {
					time.Sleep(10 * time.Millisecond)
				}
			}
			report(ctx, steps, steps, "done")
			report(ctx, steps, steps, "twice")
			return publisher.Text("Copied."), nil, nil
		})
	}, func(t *testing.T, app *testApp) {
		var mu sync.Mutex
		var got []float64
		var last string
		cs := app.connect("", &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			mu.Lock()
			defer mu.Unlock()
			got, last = append(got, r.Params.Progress), r.Params.Message
			if r.Params.Total != steps || r.Params.ProgressToken != "p" {
				t.Errorf("notification %+v", r.Params)
			}
		}})
		seen := func() int { mu.Lock(); defer mu.Unlock(); return len(got) }
		if res := call(t, cs, "copy", nil); textOf(res) != "Copied." || seen() != 0 {
			t.Errorf("without a token: %s, %d notifications", asJSON(t, res), seen())
		}
		params := &mcp.CallToolParams{Name: "copy"}
		params.SetProgressToken("p")
		start := time.Now()
		if res, err := cs.CallTool(t.Context(), params); err != nil || textOf(res) != "Copied." {
			t.Errorf("%v, %v", res, err)
		}
		most := int(time.Since(start)/(100*time.Millisecond)) + 3 // the first, the last, and one in each tenth of a second
		for range 100 {                                           // the client hands them out beside the answer
			if mu.Lock(); last == "done" {
				mu.Unlock()
				break
			}
			mu.Unlock()
			time.Sleep(10 * time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(got) < 2 || len(got) > most || got[0] != 0 || got[len(got)-1] != steps || last != "done" || !slices.IsSorted(got) {
			t.Errorf("%d notifications, %d are the limit: %v, last %q", len(got), most, got, last)
		}
	})
}

// A caller who goes away ends the handler's context (mcp P9).
func TestRule_McpP9_CancellationReachesTheHandler(t *testing.T) {
	started, ended := make(chan bool, 1), make(chan error, 1)
	eachEra(t, func(t *testing.T, s *mcp.Server) {
		addTool(t, s, "wait", func(ctx context.Context, _ *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			started <- true
			<-ctx.Done()
			ended <- ctx.Err()
			return nil, nil, ctx.Err()
		})
	}, func(t *testing.T, app *testApp) {
		cs := app.connect("", nil)
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-started
			cancel()
		}()
		if _, err := cs.CallTool(ctx, &mcp.CallToolParams{Name: "wait"}); err == nil {
			t.Error("an answer to a cancelled call")
		}
		select {
		case <-ended:
		case <-time.After(5 * time.Second):
			t.Fatal("the handler was not told")
		}
	})
}
