package mcpgate

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// Headers of the transport, as net/http writes them.
const (
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"
	headerSession = "Mcp-Session-Id"
	headerEventID = "Last-Event-Id"
	paramPrefix   = "Mcp-Param-"
)

func mismatch(format string, args ...any) *fault {
	return refused(http.StatusBadRequest, mcp.CodeHeaderMismatch, fmt.Sprintf(format, args...))
}

func invalidParams(format string, args ...any) *fault {
	return refused(http.StatusBadRequest, jsonrpc.CodeInvalidParams, fmt.Sprintf(format, args...))
}

// checkMedia judges Content-Type and Accept (P6, FO-17): both answer types are
// wanted, in any order and form.
func checkMedia(h http.Header) *fault {
	if media, _, err := mime.ParseMediaType(h.Get("Content-Type")); err != nil || media != "application/json" {
		return refused(http.StatusUnsupportedMediaType, jsonrpc.CodeInvalidRequest, "Content-Type must be application/json")
	}
	var object, events bool
	for _, line := range h.Values("Accept") {
		for item := range strings.SplitSeq(line, ",") {
			media, _, _ := strings.Cut(item, ";")
			switch strings.ToLower(strings.TrimSpace(media)) {
			case "application/json", "application/*":
				object = true
			case "text/event-stream", "text/*":
				events = true
			case "*/*":
				object, events = true, true
			}
		}
	}
	if !object || !events {
		return refused(http.StatusBadRequest, jsonrpc.CodeInvalidRequest, "Accept must list application/json and text/event-stream")
	}
	return nil
}

// checkHeaders compares the headers of a message of revision 2026-07-28 with its
// body (P7, P8, P10) and undoes the Base64 form of Mcp-Name, so that policy on
// headers sees what will run. A header line that occurs twice is refused: two
// readers might take different ones.
func checkHeaders(h http.Header, m *message) *fault {
	for name, values := range h {
		if len(values) > 1 && (name == headerVersion || name == headerMethod || name == headerName || strings.HasPrefix(name, paramPrefix)) {
			return mismatch("the header %s occurs more than once", name)
		}
	}
	if m.kind == callKind {
		switch version := h.Get(headerVersion); {
		case version == "":
			return mismatch("the header MCP-Protocol-Version is missing")
		case m.params.Kind() != strictjson.Object:
			return invalidParams("params must be an object with _meta")
		case m.metaVersion == "":
			return invalidParams("params._meta needs %s, a string", mcp.MetaKeyProtocolVersion)
		case version != m.metaVersion:
			return mismatch("the header MCP-Protocol-Version is %q, _meta says %q", version, m.metaVersion)
		}
	}
	if method := h.Get(headerMethod); method == "" {
		return mismatch("the header Mcp-Method is missing")
	} else if method != m.Method {
		return mismatch("the header Mcp-Method is %q, the body says %q", method, m.Method)
	}
	if !named(m.Method) {
		return nil
	}
	sent := h.Get(headerName)
	if sent == "" {
		return mismatch("the header Mcp-Name is missing")
	}
	name, err := decodeHeader(sent)
	if err != nil {
		return mismatch("the header Mcp-Name is not valid Base64")
	}
	if m.Name == "" {
		return invalidParams("params of %s must name what is meant, with a string", m.Method)
	}
	if name != m.Name {
		return mismatch("the header Mcp-Name is %q, the body says %q", name, m.Name)
	}
	if name != sent {
		h.Set(headerName, name)
	}
	return nil
}

// named reports whether Mcp-Name goes with the method.
func named(method string) bool {
	return method == methodCall || method == methodRead || method == methodPrompt
}

// logLevels are those of RFC 5424, least severe first.
var logLevels = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// checkMeta judges the _meta of a call and gives the client that it describes
// (P2).
func checkMeta(m *message) (*mcp.InitializeParams, *fault) {
	client := &mcp.InitializeParams{ProtocolVersion: m.metaVersion}
	for name, v := range m.meta.Members() {
		switch string(name) {
		case mcp.MetaKeyClientCapabilities:
			if v.Kind() != strictjson.Object {
				continue // reported below
			}
			client.Capabilities = new(mcp.ClientCapabilities)
			if err := v.Decode(client.Capabilities); err != nil {
				return nil, invalidParams("params._meta: %s%v", mcp.MetaKeyClientCapabilities, err)
			}
			for capability, settings := range v.Members() {
				if string(capability) == "roots" && settings.Kind() == strictjson.Object {
					roots := mcp.RootCapabilities(client.Capabilities.Roots) //nolint:staticcheck // where the SDK puts what it reads
					client.Capabilities.RootsV2 = &roots
				}
			}
		case mcp.MetaKeyClientInfo:
			client.ClientInfo = new(mcp.Implementation)
			if err := v.Decode(client.ClientInfo); err != nil || v.Kind() != strictjson.Object {
				return nil, invalidParams("params._meta: %s is not valid", mcp.MetaKeyClientInfo)
			}
		case mcp.MetaKeyLogLevel:
			if !slices.Contains(logLevels, v.Text()) {
				return nil, invalidParams("params._meta: %s must be one of %s", mcp.MetaKeyLogLevel, strings.Join(logLevels, ", "))
			}
		}
	}
	if client.Capabilities == nil {
		return nil, invalidParams("params._meta needs %s, an object", mcp.MetaKeyClientCapabilities)
	}
	return client, nil
}

// decodeHeader undoes the Base64 form of a header value (P8). Other values are
// given back as they are.
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

// binding is an input property whose value also travels in a header.
type binding struct {
	path   []string // member names from the arguments down
	header string
}

// checkParams compares the Mcp-Param-* headers of a call with its arguments.
func checkParams(h http.Header, m *message, bindings []binding) *fault {
	var arguments strictjson.Value
	for name, v := range m.params.Members() {
		if string(name) == "arguments" {
			arguments = v
		}
	}
	for _, b := range bindings {
		value := arguments
		for _, name := range b.path {
			value = member(value, name)
		}
		path, sent := strings.Join(b.path, "."), h.Get(b.header)
		if value.Kind() == strictjson.None || value.Kind() == strictjson.Null {
			if sent != "" {
				return mismatch("the header %s is sent, and the body has no %q", b.header, path)
			}
			continue
		}
		if len(h.Values(b.header)) == 0 {
			return mismatch("the header %s is missing, and the body has %q", b.header, path)
		}
		plain, err := decodeHeader(sent)
		if err != nil {
			return mismatch("the header %s is not valid Base64", b.header)
		}
		if !sameValue(plain, value) {
			return mismatch("the header %s does not have the value of %q in the body", b.header, path)
		}
	}
	return nil
}

func member(v strictjson.Value, name string) strictjson.Value {
	for have, value := range v.Members() {
		if string(have) == name {
			return value
		}
	}
	return strictjson.Value{}
}

// sameValue compares a header with a string, a boolean or an integer of the
// body. Integers compare as numbers, 42 is 42.0 and 4.2e1 (P8).
func sameValue(header string, v strictjson.Value) bool {
	switch v.Kind() {
	case strictjson.String:
		return header == v.Text()
	case strictjson.Bool:
		return header == string(v.Raw())
	case strictjson.Number:
		a, ok1 := integer(header)
		b, ok2 := integer(string(v.Raw()))
		return ok1 && ok2 && a == b
	}
	return false
}

// integer reads a number without a fraction, of the size that every JSON reader
// keeps exactly.
func integer(s string) (int64, bool) {
	const most = 1<<53 - 1
	if strings.Trim(s, "0123456789+-.eE") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || f != math.Trunc(f) || f < -most || f > most {
		return 0, false
	}
	return int64(f), true
}
