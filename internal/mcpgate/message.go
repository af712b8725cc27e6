package mcpgate

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// kind is what a message is.
type kind int

const (
	callKind kind = iota
	notificationKind
	responseKind
	batchKind
)

// message is what the gate knows of one POST. Its Request is filled as far as
// the text has it; nothing of it is judged by the rules of a revision yet.
type message struct {
	Request
	kind        kind
	params      strictjson.Value
	meta        strictjson.Value // params._meta
	metaVersion string           // its protocolVersion
	initVersion string           // params.protocolVersion, of a legacy initialize
}

// listens reports whether the message asks for notifications.
func (m *message) listens() bool { return m.Method == methodListen }

// streams reports whether the answer must be an event stream, since
// notifications may come before the result.
func (m *message) streams() bool {
	return m.listens() || m.ProgressToken != nil || m.LogLevel != ""
}

const (
	methodListen   = "subscriptions/listen"
	methodCall     = "tools/call"
	methodRead     = "resources/read"
	methodPrompt   = "prompts/get"
	methodDiscover = "server/discover"
)

// fault is a message that is refused: a JSON-RPC error and its HTTP status.
type fault struct {
	status int
	err    *jsonrpc.Error
}

func refused(status int, code int64, msg string) *fault {
	return &fault{status, &jsonrpc.Error{Code: code, Message: msg}}
}

// parse reads a POST. Members match in exact case and none occurs twice, not
// even in a tool's arguments, so that the gate, the server and an upstream
// behind it never see different values (FO-01, FO-18). Where an error is
// returned the message has its id, if that could be read.
func parse(body []byte) (*message, *fault) {
	m := &message{Request: Request{Body: body}}
	doc, err := strictjson.Parse(body)
	if err != nil {
		msg := err.Error()
		if f := (*strictjson.Error)(nil); !errors.As(err, &f) || f.NotJSON {
			msg = "the request is not JSON: " + msg
		}
		return m, refused(http.StatusBadRequest, jsonrpc.CodeParseError, msg)
	}
	invalid := func(msg string) (*message, *fault) {
		return m, refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, msg)
	}
	if doc.BOM() {
		return m, refused(http.StatusBadRequest, jsonrpc.CodeParseError, "the request begins with a byte order mark, send the JSON alone")
	}
	root := doc.Root()
	if pointer, twice := twin(root, ""); twice {
		return invalid(pointer + ": this member occurs twice")
	}
	switch root.Kind() {
	case strictjson.Object:
	case strictjson.Array:
		m.kind = batchKind
		return m, nil
	default:
		return invalid("the request is " + root.Kind().String() + " and must be a JSON-RPC object")
	}
	var id, method, version strictjson.Value
	for name, v := range root.Members() {
		switch string(name) {
		case "jsonrpc":
			version = v
		case "id":
			id = v
		case "method":
			method = v
		case "params":
			m.params = v
		}
	}
	if !validID(id) {
		return invalid("id is " + id.Kind().String() + " and must be a string or an integer")
	}
	m.ID = id.Raw()
	if version.Text() != "2.0" {
		return invalid(`jsonrpc must be "2.0"`)
	}
	switch method.Kind() {
	case strictjson.None:
		m.kind = responseKind
		if m.ID == nil {
			return invalid("method is missing")
		}
		return m, nil
	case strictjson.String:
		m.Method = method.Text()
	default:
		return invalid("method is " + method.Kind().String() + " and must be a string")
	}
	isNotification := strings.HasPrefix(m.Method, "notifications/")
	switch {
	case isNotification && m.ID != nil:
		return invalid("a notification has no id")
	case isNotification:
		m.kind = notificationKind
	case m.ID == nil:
		return invalid("id is missing")
	}
	m.readParams()
	return m, nil
}

// readParams looks up what the transport uses of params.
func (m *message) readParams() {
	m.Params = m.params.Raw()
	for name, v := range m.params.Members() {
		switch string(name) {
		case "protocolVersion":
			m.initVersion = v.Text()
		case "_meta":
			m.meta = v
		case "name":
			if m.Method == methodCall || m.Method == methodPrompt {
				m.Name = v.Text()
			}
		case "uri":
			if m.Method == methodRead {
				m.Name = v.Text()
			}
		}
	}
	for name, v := range m.meta.Members() {
		switch string(name) {
		case mcp.MetaKeyProtocolVersion:
			m.metaVersion = v.Text()
		case mcp.MetaKeyClientCapabilities:
			m.ClientCapabilities = v.Raw()
		case mcp.MetaKeyLogLevel:
			m.LogLevel = v.Text()
		case "progressToken":
			if v.Kind() != strictjson.Null {
				m.ProgressToken = v.Raw()
			}
		}
	}
}

// validID reports whether v may be a request's id, or is none.
func validID(v strictjson.Value) bool {
	switch v.Kind() {
	case strictjson.None, strictjson.String:
		return true
	case strictjson.Number:
		if _, plain := v.Int(); plain {
			return true
		}
		f, err := strconv.ParseFloat(string(v.Raw()), 64)
		return err == nil && f == math.Trunc(f)
	}
	return false
}

// twin finds a member that occurs twice in one object, anywhere below v.
func twin(v strictjson.Value, pointer string) (string, bool) {
	switch v.Kind() {
	case strictjson.Object:
		if name, twice := v.Duplicate(); twice {
			return strictjson.Member(pointer, name), true
		}
		for name, member := range v.Members() {
			if below, twice := twin(member, ""); twice {
				return strictjson.Member(pointer, string(name)) + below, true
			}
		}
	case strictjson.Array:
		for i, element := range v.Elements() {
			if below, twice := twin(element, ""); twice {
				return pointer + "/" + strconv.Itoa(i) + below, true
			}
		}
	}
	return "", false
}

// refuse answers with a JSON-RPC error.
func refuse(w http.ResponseWriter, id json.RawMessage, f *fault) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-cache, no-transform")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Del("Content-Length")
	w.WriteHeader(f.status)
	_, _ = w.Write(errorText(id, f.err)) // the client may be gone; nobody else needs to know
}

// errorText is a JSON-RPC error response.
func errorText(id json.RawMessage, e *jsonrpc.Error) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	text, err := json.Marshal(struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Error   *jsonrpc.Error  `json:"error"`
	}{"2.0", id, e})
	if err != nil { // data that a server gave is no JSON
		return errorText(id, &jsonrpc.Error{Code: e.Code, Message: e.Message})
	}
	return text
}
