package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/mcpgate"
)

// Keys of _meta that belong to one hop.
const (
	metaPrefix       = "io.modelcontextprotocol/"
	metaVersion      = metaPrefix + "protocolVersion"
	metaCapabilities = metaPrefix + "clientCapabilities"
	metaClient       = metaPrefix + "clientInfo"
	metaLogLevel     = metaPrefix + "logLevel"
	metaServer       = metaPrefix + "serverInfo"
	progressToken    = "progressToken"
)

// Methods that more than one file names.
const (
	methodCall     = "tools/call"
	methodRead     = "resources/read"
	methodPrompt   = "prompts/get"
	methodComplete = "completion/complete"
	methodDiscover = "server/discover"
	methodListen   = "subscriptions/listen"
	methodElicit   = "elicitation/create"
	methodSample   = "sampling/createMessage"
	methodRoots    = "roots/list"
	noteProgress   = "notifications/progress"
	noteLog        = "notifications/message"
	noteCancelled  = "notifications/cancelled"
)

const typeInputRequired = "input_required"

// object is a JSON object whose members stay as they came.
type object map[string]json.RawMessage

func (o object) text(name string) string {
	var s string
	_ = json.Unmarshal(o[name], &s) // another type is as good as none
	return s
}

func (o object) object(name string) object {
	var m object
	_ = json.Unmarshal(o[name], &m)
	return m
}

// set stores v, which is always something that can be encoded.
func (o object) set(name string, v any) { o[name] = encode(v) }

// encode gives the JSON of a value without escaping HTML, and on one line.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err)) // values are ours, and raw ones were decoded before
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// message is any JSON-RPC message.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *jsonrpc.Error  `json:"error,omitempty"`
}

// parseMessages reads one message, or a batch of revision 2025-03-26.
func parseMessages(data []byte) ([]*message, error) {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '[' {
		var batch []*message
		if err := json.Unmarshal(data, &batch); err != nil {
			return nil, err
		}
		return slices.DeleteFunc(batch, func(m *message) bool { return m == nil }), nil
	}
	m := new(message)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, err
	}
	if m.Version != "2.0" || m.Method == "" && (len(m.ID) == 0 || m.Result == nil && m.Error == nil) {
		return nil, fmt.Errorf("not a JSON-RPC message")
	}
	return []*message{m}, nil
}

// hopMeta gives the _meta for the upstream: what the client sent, without what
// belongs to the client's hop.
func hopMeta(client object) object {
	meta := maps.Clone(client)
	if meta == nil {
		meta = object{}
	}
	for _, key := range []string{metaVersion, metaCapabilities, metaClient, metaLogLevel, metaPrefix + "subscriptionId", progressToken} {
		delete(meta, key)
	}
	return meta
}

// result carries the upstream's result through the SDK as it came.
type result struct {
	mcp.ResultBase
	body json.RawMessage
	had  bool // body has a _meta of its own
}

// newResult prepares a result for one client. Clients of 2026-07-28 get the
// members that revision asks for; an older upstream did not send them.
func (g *Gateway) newResult(method string, body json.RawMessage, modern bool) (*result, error) {
	var o object
	if err := json.Unmarshal(body, &o); err != nil || o == nil {
		return nil, unknown("the app's server answered with something that is no result")
	}
	r := &result{body: body}
	if meta := o.object("_meta"); meta != nil {
		r.had = true
		r.Meta = mcp.Meta{}
		for k, v := range meta {
			r.Meta[k] = v
		}
	}
	if !modern {
		return r, nil
	}
	if _, ok := r.Meta[metaServer]; !ok && g.info.Name != "" {
		if r.Meta == nil {
			r.Meta = mcp.Meta{}
		}
		r.Meta[metaServer] = &g.info
	}
	if _, ok := o["resultType"]; !ok {
		r.body = splice(r.body, "resultType", "complete")
	}
	if method == methodRead && o.text("resultType") != typeInputRequired {
		if _, ok := o["cacheScope"]; !ok {
			r.body = splice(r.body, "cacheScope", "private")
		}
		if _, ok := o["ttlMs"]; !ok {
			r.body = splice(r.body, "ttlMs", 0)
		}
	}
	return r, nil
}

// splice puts a member that is not there in front of an object's others.
func splice(body json.RawMessage, name string, v any) json.RawMessage {
	rest := bytes.TrimLeft(bytes.TrimSpace(body)[1:], " \t\r\n")
	out := append(encode(map[string]any{name: v}), rest...)
	at := len(out) - len(rest) - 1 // the closing brace of the new member
	if rest[0] == '}' {
		return append(out[:at], rest...)
	}
	out[at] = ','
	return out
}

// MarshalJSON gives the upstream's bytes, with the _meta that the SDK has added
// to.
func (r *result) MarshalJSON() ([]byte, error) {
	switch {
	case len(r.Meta) == 0:
		return r.body, nil
	case !r.had:
		return splice(r.body, "_meta", r.Meta), nil
	}
	var o object
	if err := json.Unmarshal(r.body, &o); err != nil {
		return nil, err
	}
	o.set("_meta", r.Meta)
	return encode(o), nil
}

// Errors for callers. Code -32603 because the protocol has none for a server
// behind the server; data.outcome says whether the call may have run (D23).

func callError(outcome, text string, args ...any) *jsonrpc.Error {
	return &jsonrpc.Error{
		Code:    jsonrpc.CodeInternalError,
		Message: fmt.Sprintf(text, args...),
		Data:    encode(map[string]string{"outcome": outcome}),
	}
}

// unknown is an error after which the call may have taken effect.
func unknown(text string, args ...any) *jsonrpc.Error {
	return callError("unknown", text+"; whether the call took effect is unknown: look before you repeat it", args...)
}

// notSent is an error of a call that the upstream has not seen.
func notSent(text string, args ...any) *jsonrpc.Error {
	return callError("not_sent", text+"; the call was not made: try again in a minute", args...)
}

func tooLarge(limit int64) *jsonrpc.Error {
	return unknown("the answer of the app's server is larger than %d bytes", limit)
}

// isModern tells the era of a version.
func isModern(version string) bool { return version >= mcpgate.Modern }

// clientInfo is what the gateway says of itself to upstreams.
var clientInfo = map[string]string{"name": "openbot-gateway", "version": "1"}

// ownMeta is the _meta of the gateway's own calls of 2026-07-28.
func ownMeta() object {
	return object{
		metaVersion:      encode(modernVersion),
		metaCapabilities: json.RawMessage("{}"),
		metaClient:       encode(clientInfo),
	}
}
