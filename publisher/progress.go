package publisher

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// progressGap is the least time between two progress notifications of a call.
const progressGap = 100 * time.Millisecond

// Progress gives a function that tells the caller of r how far its call is:
// done of total steps, 0 for an unknown total, and what is happening in words.
//
//	report := publisher.Progress(r)
//	for i, file := range files {
//		report(ctx, float64(i), float64(len(files)), file.Name)
//
// It sends nothing to a caller that did not ask, nothing that is no progress
// (done must grow), and at most ten notifications a second; the first one and
// the one that reaches total are sent in any case. So call it as often as you
// like. It may be used by several goroutines, until the handler returns. A
// caller that is gone is told by ctx, not by report.
//
// Source: MCP 2026-07-28, progress.
func Progress(r mcp.Request) (report func(ctx context.Context, done, total float64, message string)) {
	session, _ := r.GetSession().(*mcp.ServerSession)
	params, _ := r.GetParams().(mcp.RequestParams)
	if session == nil || params == nil || params.GetProgressToken() == nil {
		return func(context.Context, float64, float64, string) {}
	}
	token := params.GetProgressToken()
	var mu sync.Mutex
	var last time.Time // zero before the first
	var reached float64
	return func(ctx context.Context, done, total float64, message string) {
		mu.Lock()
		defer mu.Unlock() // held while sending: notifications must not overtake each other
		now := time.Now()
		final := total > 0 && done >= total
		if !last.IsZero() && (done <= reached || now.Sub(last) < progressGap && !final) || ctx.Err() != nil {
			return
		}
		last, reached = now, done
		// A failure means that the caller is gone; the handler learns it from ctx.
		_ = session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{
			ProgressToken: token, Progress: done, Total: total, Message: message,
		})
	}
}
