package mcpgate

import (
	"context"
	"encoding/json"
)

// Request is what the gate has read of a request of revision 2026-07-28. The
// byte slices are parts of the body and must not be changed.
type Request struct {
	ID     json.RawMessage // as sent; nil for a notification
	Method string
	Name   string          // params.name or params.uri, of methods that have one
	Params json.RawMessage // as sent
	Body   []byte          // the whole message

	ProgressToken      json.RawMessage // nil for none
	LogLevel           string          // "" for none
	ClientCapabilities json.RawMessage
}

type requestKey struct{}

// RequestFrom gives the request that passed the gate to Options.Modern.
func RequestFrom(ctx context.Context) (*Request, bool) {
	r, ok := ctx.Value(requestKey{}).(*Request)
	return r, ok
}
