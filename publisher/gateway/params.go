package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// headerParams are the input properties of a tool that its schema wants as
// Mcp-Param headers too (mcp P7).
type headerParams []headerParam

type headerParam struct {
	path []string // of properties
	name string   // behind Mcp-Param-
}

// maxSchemaDepth bounds the way down a schema.
const maxSchemaDepth = 16

// findHeaderParams reads the x-mcp-header annotations of an input schema.
func findHeaderParams(schema object) headerParams {
	if !bytes.Contains(schema["properties"], []byte("x-mcp-header")) {
		return nil
	}
	var out headerParams
	var walk func(schema object, path []string)
	walk = func(schema object, path []string) {
		properties := schema.object("properties")
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			p := properties.object(name)
			at := append(slices.Clone(path), name)
			if header := p.text("x-mcp-header"); isToken(header) {
				out = append(out, headerParam{at, header})
			}
			if len(at) < maxSchemaDepth {
				walk(p, at)
			}
		}
	}
	walk(schema, nil)
	return out
}

// isToken tells whether s can be part of a header's name (RFC 9110).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
}

// values gives the headers for a call's arguments, by name behind Mcp-Param-.
func (p headerParams) values(arguments json.RawMessage) map[string]string {
	if len(p) == 0 {
		return nil
	}
	out := map[string]string{}
	for _, param := range p {
		at := arguments
		for _, name := range param.path {
			var o object
			_ = json.Unmarshal(at, &o) // no object, no value
			at = o[name]
		}
		var text string
		switch {
		case len(at) == 0 || string(at) == "null" || at[0] == '{' || at[0] == '[':
			continue
		case at[0] == '"':
			if json.Unmarshal(at, &text) != nil {
				continue
			}
		default:
			text = string(at)
		}
		out[param.name] = text
	}
	return out
}

// check compares a client's Mcp-Param headers with its arguments (mcp P10).
func (p headerParams) check(header http.Header, arguments json.RawMessage) *jsonrpc.Error {
	want := p.values(arguments)
	for _, param := range p {
		name := "Mcp-Param-" + param.name
		given, ok := header[http.CanonicalHeaderKey(name)]
		value, wanted := want[param.name]
		if !ok && !wanted {
			continue
		}
		if len(given) == 1 && wanted {
			if plain, err := decodeValue(given[0]); err == nil && (plain == value || sameInteger(plain, value)) {
				continue
			}
		}
		return &jsonrpc.Error{
			Code:    mcp.CodeHeaderMismatch,
			Message: fmt.Sprintf("the header %s does not say what the arguments say", name),
		}
	}
	return nil
}

func sameInteger(a, b string) bool {
	x, err := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	return err == nil && err2 == nil && x == y
}

const base64Prefix, base64Suffix = "=?base64?", "?="

// headerValue encodes a value for a header (mcp P8).
func headerValue(v string) string {
	plain := strings.TrimSpace(v) == v && !strings.HasPrefix(v, base64Prefix) && !strings.ContainsFunc(v, func(r rune) bool {
		return r < 0x20 || r >= 0x7f
	})
	if plain {
		return v
	}
	return base64Prefix + base64.StdEncoding.EncodeToString([]byte(v)) + base64Suffix
}

func decodeValue(v string) (string, error) {
	inner, ok := strings.CutPrefix(v, base64Prefix)
	if !ok {
		return v, nil
	}
	if inner, ok = strings.CutSuffix(inner, base64Suffix); !ok {
		return v, nil
	}
	plain, err := base64.StdEncoding.DecodeString(inner)
	if err == nil && !utf8.Valid(plain) {
		err = fmt.Errorf("not UTF-8")
	}
	return string(plain), err
}
