package publishercmd

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/openbot-build/openbot-go/publisher/check"
)

// kinds holds a file against the form of settings, so that every value of the
// wrong kind is found at once and named in words of the file. What is wrong is
// taken out of the tree: the rest can be read and judged.
type kinds struct {
	name    string // of the file
	faults  faultList
	spoiled []string // paths that were taken out
}

// samples show the kind of a member where the kind alone may not tell.
var samples = map[string]string{ //nolint:gosec // names of variables, no secrets
	"lang": "en", "origin": "https://apps.example.com", "version": `"1.10"`, "slug": "calendar", "name": "com.example/calendar",
	"endpoint": "https://mcp.example.net/calendar", "sizes": "[48x48]", "trusted": "[10.0.0.0/8]", "choices": "[small, large]",
	"allowed_origins": `["https://host.example.com"]`, "last_modified": "2026-11-30", "etag": `'"v1"'`, "builtin": "echo",
	"command": `[npx, -y, "@modelcontextprotocol/server-everything"]`, "env": `{API_KEY: "${API_KEY}"}`, "headers": `{Authorization: "Bearer ${TOKEN}"}`,
	"algorithms": "[ES256]", "basic": "[notes.read]", "tools": "{add_note: [notes.write]}", "methods": "{resources/read: [notes.read]}",
	"implies": "{notes.write: [notes.read]}", "client_secret": `"${INTROSPECTION_SECRET}"`, "leeway": "30s",
	"start_timeout": "30s", "call_timeout": "5m", "max_result": "16MiB", "body": "1MiB", "otlp": "http://127.0.0.1:4318", "directory": letsEncrypt,
}

func (k *kinds) fault(path string, node ast.Node, message string) {
	f := fault{Finding: check.Finding{Level: check.Fault, Where: k.name, Pointer: path, Message: message}}
	if t := node.GetToken(); t != nil && t.Position != nil {
		f.line = startLine(node)
		f.Where = fmt.Sprintf("%s:%d", k.name, f.line)
	}
	k.faults = append(k.faults, f)
}

// fits reports whether node can be read into want, which is of a member, and
// looks at everything below it.
func (k *kinds) fits(node ast.Node, want reflect.Type, member, path string) bool {
	node = plainNode(node)
	switch node.(type) {
	case nil, *ast.NullNode:
		if member == "auth" && node != nil { // what is left of a block whose lines became comments must not open the app
			k.fault(path, node, "is empty: write issuers: and scopes: below it, or remove the line to let everybody in")
			k.spoiled = append(k.spoiled, path)
			return false
		}
		return true // as if it were not there
	}
	if want.Kind() == reflect.Pointer {
		want = want.Elem()
	}
	var ok bool
	var write string
	switch want.Kind() {
	case reflect.Struct:
		pairs, is := mapping(node)
		if ok = is; ok {
			k.members(node, pairs, want, path)
		}
		write = "write its members below it, for instance " + firstMember(want) + ":"
	case reflect.Slice:
		list, is := node.(*ast.SequenceNode)
		if ok = is; ok {
			for i, v := range list.Values {
				at := fmt.Sprintf("%s[%d]", path, i)
				if !k.fits(v, want.Elem(), "", at) {
					list.Values[i] = ast.Null(v.GetToken())
				}
			}
		}
		write = "write a list"
		if want.Elem().Kind() == reflect.Struct {
			write += ", each entry with a hyphen: - " + firstMember(want.Elem()) + ": …"
		}
	case reflect.Bool:
		_, ok = node.(*ast.BoolNode)
		write = "write true or false"
	case reflect.Int:
		_, ok = node.(*ast.IntegerNode)
		write = "write a whole number"
	case reflect.Float64:
		switch node.(type) {
		case *ast.IntegerNode, *ast.FloatNode:
			ok = true
		}
		write = "write a number"
	case reflect.Map:
		pairs, is := mapping(node)
		if ok = is; ok {
			for _, p := range pairs {
				name := p.Key.GetToken().Value
				if !k.fits(p.Value, want.Elem(), "", path+"."+name) {
					p.Value = ast.Null(p.Value.GetToken())
				}
			}
		}
		write = "write names with their values below it"
	default:
		switch node.(type) {
		case *ast.StringNode, *ast.LiteralNode, *ast.IntegerNode, *ast.FloatNode:
			ok = true
		}
		write = "write one text"
	}
	if ok {
		return true
	}
	if sample := samples[member]; sample != "" {
		write += ", for instance " + sample
	}
	k.fault(path, node, write)
	k.spoiled = append(k.spoiled, path)
	return false
}

// members looks at the members of a mapping, and takes out what does not belong.
func (k *kinds) members(node ast.Node, pairs []*ast.MappingValueNode, want reflect.Type, path string) {
	known := map[string]reflect.Type{}
	for i := range want.NumField() {
		known[want.Field(i).Tag.Get("yaml")] = want.Field(i).Type
	}
	kept := pairs[:0:0]
	for _, p := range pairs {
		if p.Key.IsMergeKey() {
			if k.fits(p.Value, want, "", path) {
				kept = append(kept, p)
			}
			continue
		}
		name := p.Key.GetToken().Value
		t, is := known[name]
		if !is {
			k.fault(path, p, fmt.Sprintf("unknown field %q", name))
			continue
		}
		at := name
		if path != "" {
			at = path + "." + name
		}
		if !k.fits(p.Value, t, name, at) {
			p.Value = ast.Null(p.Value.GetToken())
		}
		kept = append(kept, p)
	}
	if m, ok := node.(*ast.MappingNode); ok {
		m.Values = kept
	} else if len(kept) == 0 {
		pairs[0].Value = ast.Null(pairs[0].Value.GetToken()) // the only one, and unknown: read without strictness
	}
}

// plainNode is what stands behind an anchor, an alias or a tag.
func plainNode(node ast.Node) ast.Node {
	for {
		switch n := node.(type) {
		case *ast.AnchorNode:
			node = n.Value
		case *ast.AliasNode:
			return nil // was looked at where its anchor stands
		case *ast.TagNode:
			node = n.Value
		default:
			return node
		}
	}
}

func mapping(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// firstMember is one to begin with.
func firstMember(t reflect.Type) string {
	if _, ok := t.FieldByName("Slug"); ok {
		return "slug"
	}
	return t.Field(0).Tag.Get("yaml")
}

// invented reports whether the fault at a path only follows from something else
// that could not be read.
func (c *configFile) invented(path string) bool {
	for _, s := range c.spoiled {
		if path == s || strings.HasPrefix(path, s+".") || strings.HasPrefix(path, s+"[") {
			return true
		}
		app, member, _ := strings.Cut(s, ".")
		switch {
		case !strings.HasPrefix(path, app+"."):
		case member == "hosted": // no member of an app is missing then
			return true
		case (member == "builtin" || member == "upstream" || strings.HasPrefix(member, "upstream.")) && path == app+".endpoint",
			(member == "card" || member == "upstream") && (path == app+".name" || path == app+".version" || path == app+".description" || path == app+".endpoint"):
			return true
		}
	}
	return false
}
