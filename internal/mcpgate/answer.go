package mcpgate

import (
	"bytes"
	"encoding/json"
	"maps"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// answer is a response as it goes out. Results are written as the SDK writes
// them, with three additions: the server's name in _meta (P2), a resultType in
// each (P4), and the cacheScope that the gate's options ask for (S11). The value
// that a handler returned is not changed: it may be shared (S12).
type answer struct {
	bytes.Buffer
	encoder *json.Encoder
}

func newAnswer() any {
	a := new(answer)
	a.encoder = json.NewEncoder(&a.Buffer)
	a.encoder.SetEscapeHTML(false)
	return a
}

// release gives a back for the next call.
func (g *Gate) release(a *answer) {
	if a.Cap() <= 1<<20 { // a giant would be kept for small answers
		a.Reset()
		g.buffers.Put(a)
	}
}

// The SDK's results without their methods, MarshalJSON among them. Each stands
// one level down, so that the gate's own members win over those of the same name.
type (
	callResult      struct{ *callPlain }
	promptResult    struct{ *promptPlain }
	readResult      struct{ *readPlain }
	discoverResult  struct{ *discoverPlain }
	toolsResult     struct{ *toolsPlain }
	promptsResult   struct{ *promptsPlain }
	resourcesResult struct{ *resourcesPlain }
	templatesResult struct{ *templatesPlain }

	callPlain      mcp.CallToolResult
	promptPlain    mcp.GetPromptResult
	readPlain      mcp.ReadResourceResult
	discoverPlain  mcp.DiscoverResult
	toolsPlain     mcp.ListToolsResult
	promptsPlain   mcp.ListPromptsResult
	resourcesPlain mcp.ListResourcesResult
	templatesPlain mcp.ListResourceTemplatesResult
)

// The gate's own members: of every result, of those that wait for input, and of
// those that may be kept.
type (
	every struct {
		Meta       any    `json:"_meta,omitempty"`
		ResultType string `json:"resultType"`
	}
	asks struct {
		InputRequests json.RawMessage `json:"inputRequests,omitempty"`
	}
	kept struct {
		CacheScope string `json:"cacheScope"`
	}
)

const (
	complete      = "complete"
	inputRequired = "input_required"
)

// encode writes the response to m. An error is a JSON-RPC error for the client,
// or tells that the result is no JSON.
func (a *answer) encode(g *Gate, m *message, result mcp.Result, client *mcp.ClientCapabilities) error {
	a.WriteString(`{"jsonrpc":"2.0","id":`)
	a.Write(m.ID)
	a.WriteString(`,"result":`)
	if err := a.result(g, result, client); err != nil {
		return err
	}
	return a.WriteByte('}')
}

// value writes the JSON of v.
func (a *answer) value(v any) error {
	if err := a.encoder.Encode(v); err != nil {
		return err
	}
	a.Truncate(a.Len() - 1) // the encoder's line end
	return nil
}

// open writes the object v without its end, for one more member.
func (a *answer) open(v any, name string) error {
	if err := a.value(v); err != nil {
		return err
	}
	a.Truncate(a.Len() - 1)
	a.WriteString(`,"` + name + `":`)
	return nil
}

// list writes the object v with one more member, whose text is kept.
func (a *answer) list(v any, name string, text []byte, err error) error {
	if err != nil {
		return err
	}
	if err := a.open(v, name); err != nil {
		return err
	}
	a.Write(text)
	return a.WriteByte('}')
}

func (a *answer) result(g *Gate, result mcp.Result, client *mcp.ClientCapabilities) error {
	switch r := result.(type) {
	case *mcp.CallToolResult:
		if r == nil {
			return errNoResult
		}
		empty := len(r.Content) == 0 && r.StructuredContent == nil && !r.IsError
		typ, requests, err := ask(r.NeedsInput(), r.InputRequests, r.RequestState, empty, client)
		if err != nil {
			return err
		}
		content := r.Content
		if content == nil && typ == complete {
			content = []mcp.Content{}
		}
		return a.value(struct {
			callResult
			every
			asks
			Content []mcp.Content `json:"content,omitzero"`
		}{callResult{(*callPlain)(r)}, g.every(r.Meta, typ), requests, content})
	case *mcp.GetPromptResult:
		if r == nil {
			return errNoResult
		}
		typ, requests, err := ask(r.NeedsInput(), r.InputRequests, r.RequestState, len(r.Messages) == 0, client)
		if err != nil {
			return err
		}
		return a.value(struct {
			promptResult
			every
			asks
		}{promptResult{(*promptPlain)(r)}, g.every(r.Meta, typ), requests})
	case *mcp.ReadResourceResult:
		if r == nil {
			return errNoResult
		}
		typ, requests, err := ask(r.NeedsInput(), r.InputRequests, r.RequestState, len(r.Contents) == 0, client)
		if err != nil {
			return err
		}
		if err := a.open(struct {
			readResult
			every
			asks
			kept
			Contents any `json:"contents,omitempty"`
		}{readResult{(*readPlain)(r)}, g.every(r.Meta, typ), requests, g.kept(r.CacheScope), nil}, "contents"); err != nil {
			return err
		}
		return a.contents(g, r.Contents)
	case *mcp.DiscoverResult:
		if r == nil {
			return errNoResult
		}
		return a.value(struct {
			discoverResult
			every
			kept
		}{discoverResult{(*discoverPlain)(r)}, g.every(r.Meta, complete), g.kept(r.CacheScope)})
	case *mcp.ListToolsResult:
		if r == nil {
			return errNoResult
		}
		text, err := g.tools.text(r.Tools)
		return a.list(struct {
			toolsResult
			every
			kept
			Tools any `json:"tools,omitempty"`
		}{toolsResult{(*toolsPlain)(r)}, g.every(r.Meta, complete), g.kept(r.CacheScope), nil}, "tools", text, err)
	case *mcp.ListPromptsResult:
		if r == nil {
			return errNoResult
		}
		text, err := g.prompts.text(r.Prompts)
		return a.list(struct {
			promptsResult
			every
			kept
			Prompts any `json:"prompts,omitempty"`
		}{promptsResult{(*promptsPlain)(r)}, g.every(r.Meta, complete), g.kept(r.CacheScope), nil}, "prompts", text, err)
	case *mcp.ListResourcesResult:
		if r == nil {
			return errNoResult
		}
		text, err := g.resources.text(r.Resources)
		return a.list(struct {
			resourcesResult
			every
			kept
			Resources any `json:"resources,omitempty"`
		}{resourcesResult{(*resourcesPlain)(r)}, g.every(r.Meta, complete), g.kept(r.CacheScope), nil}, "resources", text, err)
	case *mcp.ListResourceTemplatesResult:
		if r == nil {
			return errNoResult
		}
		text, err := g.templates.text(r.ResourceTemplates)
		return a.list(struct {
			templatesResult
			every
			kept
			ResourceTemplates any `json:"resourceTemplates,omitempty"`
		}{templatesResult{(*templatesPlain)(r)}, g.every(r.Meta, complete), g.kept(r.CacheScope), nil}, "resourceTemplates", text, err)
	case nil:
		return errNoResult
	}
	return a.value(result) // a type of the middleware's own: it knows what it does
}

var errNoResult = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the server gave no result"}

// every gives _meta with the server's name, unless it is there, and resultType.
func (g *Gate) every(meta mcp.Meta, resultType string) every {
	if _, there := meta[mcp.MetaKeyServerInfo]; there || g.serverInfo == nil {
		if len(meta) == 0 {
			return every{nil, resultType}
		}
		return every{meta, resultType}
	}
	if len(meta) == 0 {
		return every{g.serverMeta, resultType}
	}
	meta = maps.Clone(meta)
	meta[mcp.MetaKeyServerInfo] = g.serverInfo
	return every{meta, resultType}
}

func (g *Gate) kept(scope string) kept {
	switch {
	case g.opts.Private:
		scope = "private"
	case scope == "":
		scope = "public"
	}
	return kept{scope}
}

// contents writes the array of a resource's contents and the end of its result.
func (a *answer) contents(g *Gate, contents []*mcp.ResourceContents) error {
	a.WriteByte('[')
	for i, c := range contents {
		if i > 0 {
			a.WriteByte(',')
		}
		if c == nil || len(c.Text) < minText || c.Blob != nil {
			if err := a.value(c); err != nil {
				return err
			}
			continue
		}
		rest := *c
		rest.Text = ""
		if err := a.open(&rest, "text"); err != nil {
			return err
		}
		a.Write(g.texts.text(c.Text))
		a.WriteByte('}')
	}
	a.WriteString("]}")
	return nil
}
