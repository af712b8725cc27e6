package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// kind is one of the four lists.
type kind struct {
	name   string // of a Correction
	method string
	member string // of the result
	key    string // member of an item that tells it from others
}

var kinds = []kind{
	{"tool", "tools/list", "tools", "name"},
	{"prompt", "prompts/list", "prompts", "name"},
	{"resource", "resources/list", "resources", "uri"},
	{"template", "resources/templates/list", "resourceTemplates", "uriTemplate"},
}

// listPage is how many items one answer of ours has.
const listPage = 1000

// lists are the upstream's, as clients see them. They do not change.
type lists struct {
	pages       map[string][]json.RawMessage // by method: results, encoded once
	tools       map[string]offer             // by offered name
	asked       map[string]string            // offered URI -> the upstream's, where they differ
	offered     map[string]string            // the other way round
	corrections []Correction
}

// offer is what a call of a tool needs to know of it.
type offer struct {
	from   string
	params headerParams
}

func (s *lists) uri(offered string) string {
	if from, ok := s.asked[offered]; ok {
		return from
	}
	return offered
}

// page answers a list request.
func (s *lists) page(method, cursor string) (json.RawMessage, error) {
	n := 0
	if cursor != "" {
		var err error
		if n, err = strconv.Atoi(cursor); err != nil || n < 0 || n >= len(s.pages[method]) {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "this cursor is not one of this list"}
		}
	}
	return s.pages[method][n], nil
}

// load reads the upstream's lists and corrects them.
func (g *Gateway) load(ctx context.Context, l *link) (*lists, error) {
	has := map[string]bool{
		"tool": l.caps.Tools != nil, "prompt": l.caps.Prompts != nil,
		"resource": l.caps.Resources != nil, "template": l.caps.Resources != nil,
	}
	raw := map[string][]object{}
	hints := map[string]object{}
	for _, k := range kinds {
		if !has[k.name] {
			continue
		}
		items, hint, err := g.fetch(ctx, l, k)
		if err != nil {
			return nil, err
		}
		raw[k.name], hints[k.name] = items, hint
	}
	c := newCorrector(l.info.Name)
	c.apply(raw)
	s := &lists{
		pages: map[string][]json.RawMessage{}, tools: c.tools, asked: c.asked, offered: c.offered, corrections: c.found,
	}
	for _, k := range kinds {
		s.pages[k.method] = g.encodePages(k, c.items[k.name], hints[k.name], &l.info)
	}
	return s, nil
}

// fetch reads one list of the upstream to its end, or to a cap (FO-22). Items
// that came before are left out. hint is what the first page says of caching.
func (g *Gateway) fetch(ctx context.Context, l *link, k kind) (items []object, hint object, err error) {
	seen := map[string]bool{}
	params := object{}
	size := int64(0)
	for page := 0; ; page++ {
		body, err := l.ask(ctx, k.method, params)
		if refused := (*jsonrpc.Error)(nil); errors.As(err, &refused) && refused.Code == jsonrpc.CodeMethodNotFound {
			return items, hint, nil // declared, but not there
		}
		if err != nil {
			return nil, nil, err
		}
		var result object
		var found []object
		if err := json.Unmarshal(g.secrets.result(body), &result); err == nil {
			_ = json.Unmarshal(result[k.member], &found) // of another type: no items
		}
		if page == 0 {
			hint = result
		}
		for _, item := range found {
			key := item.text(k.key)
			if item == nil || seen[key] {
				continue
			}
			seen[key] = true
			items = append(items, item)
		}
		cursor, more := result["nextCursor"]
		if !more || string(cursor) == "null" {
			return items, hint, nil
		}
		size += int64(len(body))
		if page+1 >= maxPages || len(items) >= maxItems || size > g.opts.MaxResult {
			g.opts.Log.Warn("the upstream's list has no end: what came so far is served", "list", k.method, "items", len(items))
			return items[:min(len(items), maxItems)], hint, nil
		}
		params = object{"cursor": cursor}
	}
}

// encodePages makes the results that clients get.
func (g *Gateway) encodePages(k kind, items []object, hint object, info *mcp.Implementation) []json.RawMessage {
	var out []json.RawMessage
	chunks := slices.Collect(slices.Chunk(items, listPage))
	if len(chunks) == 0 {
		chunks = [][]object{{}} // a list without items is a list
	}
	for i, chunk := range chunks {
		result := object{
			k.member: encode(chunk), "resultType": encode("complete"),
			"ttlMs": encode(60_000), "cacheScope": encode("private"), "_meta": encode(map[string]any{metaServer: info}),
		}
		if v, ok := hint["ttlMs"]; ok {
			result["ttlMs"] = v
		}
		if v, ok := hint["cacheScope"]; ok && !g.opts.Private {
			result["cacheScope"] = v
		}
		if i+1 < len(chunks) {
			result.set("nextCursor", strconv.Itoa(i+1))
		}
		out = append(out, encode(result))
	}
	return out
}

// publish puts lists in the place of former ones, and tells clients which have
// changed.
func (g *Gateway) publish(s *lists) {
	was := g.lists.Swap(s)
	differ := func(methods ...string) bool {
		return slices.ContainsFunc(methods, func(m string) bool {
			return !slices.EqualFunc(was.pages[m], s.pages[m], func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
		})
	}
	// The SDK announces a change when something is added. What is added here is
	// never listed: the lists that are served are ours.
	if differ("tools/list") {
		g.server.AddTool(&mcp.Tool{Name: "changed", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	}
	if differ("prompts/list") {
		g.server.AddPrompt(&mcp.Prompt{Name: "changed"}, nil)
	}
	if differ("resources/list", "resources/templates/list") {
		g.server.AddResource(&mcp.Resource{Name: "changed", URI: "gateway:changed"}, nil)
	}
}
