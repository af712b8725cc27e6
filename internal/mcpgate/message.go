package mcpgate

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// Headers of the transport.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerName    = "Mcp-Name"
	headerSession = "Mcp-Session-Id"
)

// JSON-RPC codes that a Gate answers with by itself.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeInternal       = -32603
	codeHeaderMismatch = mcp.CodeHeaderMismatch
)

// metaPrefix begins the _meta keys of the transport.
const metaPrefix = "io.modelcontextprotocol/"

// message is what the gate needs to know of a request to choose its handler.
type message struct {
	id          json.RawMessage
	method      string
	metaVersion string // params._meta protocolVersion
	initVersion string // params.protocolVersion, of a legacy initialize
	streams     bool   // the answer must be an event stream
	batch       bool
}

// peek reads the few members that decide where a message goes, in exact case
// and none of them twice, so that the gate and the server never see different
// names (FO-01). Errors are *strictjson.Error; a message of another shape than
// JSON-RPC's is the SDK's to refuse.
func peek(body []byte) (*message, error) {
	doc, err := strictjson.Parse(body)
	if err != nil {
		return nil, err
	}
	root := doc.Root()
	m := &message{batch: root.Kind() == strictjson.Array}
	var params, meta strictjson.Value
	if err := members(root, "", func(name string, v strictjson.Value) {
		switch name {
		case "id":
			m.id = v.Raw()
		case "method":
			m.method = v.Text()
		case "params":
			params = v
		}
	}); err != nil {
		return nil, err
	}
	if err := members(params, "/params", func(name string, v strictjson.Value) {
		switch name {
		case "protocolVersion":
			m.initVersion = v.Text()
		case "_meta":
			meta = v
		}
	}); err != nil {
		return nil, err
	}
	m.streams = m.method == "subscriptions/listen"
	return m, members(meta, "/params/_meta", func(name string, v strictjson.Value) {
		switch name {
		case metaPrefix + "protocolVersion":
			m.metaVersion = v.Text()
		case "progressToken", metaPrefix + "logLevel":
			m.streams = true
		}
	})
}

// members visits the members of an object; a name that occurs twice is an
// error.
func members(v strictjson.Value, pointer string, visit func(name string, v strictjson.Value)) error {
	if name, twice := v.Duplicate(); twice {
		return &strictjson.Error{Pointer: strictjson.Member(pointer, name), Message: "this member occurs twice"}
	}
	for name, member := range v.Members() {
		visit(string(name), member)
	}
	return nil
}

// decodeHeader undoes the Base64 form of a header value (mcp P8). Other values
// are given back as they are.
func decodeHeader(v string) (string, error) {
	const prefix, suffix = "=?base64?", "?="
	if !strings.HasPrefix(v, prefix) || !strings.HasSuffix(v, suffix) || len(v) < len(prefix)+len(suffix) {
		return v, nil
	}
	plain, err := base64.StdEncoding.DecodeString(v[len(prefix) : len(v)-len(suffix)])
	if err != nil {
		return "", fmt.Errorf("decode header: %w", err)
	}
	if !utf8.Valid(plain) {
		return "", errors.New("decode header: not UTF-8")
	}
	return string(plain), nil
}

// refuse answers with a JSON-RPC error.
func refuse(w http.ResponseWriter, status int, id json.RawMessage, code int64, msg string, data any) {
	if len(id) == 0 {
		id = json.RawMessage("null")
	}
	type rpcError struct {
		Code    int64  `json:"code"`
		Message string `json:"message"`
		Data    any    `json:"data,omitempty"`
	}
	body, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   rpcError        `json:"error"`
	}{"2.0", id, rpcError{code, msg, data}})
	if err != nil { // cannot happen: id is valid JSON, data is ours
		http.Error(w, msg, status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone; nobody else needs to know
}
