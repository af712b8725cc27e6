package check

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of a walk through an endpoint's lists (FO-22).
const (
	maxPages = 20
	maxItems = 2000
	listTime = 30 * time.Second // for all of them
)

// lists are what an endpoint offers, as far as it was read.
type lists struct {
	tools     []*mcp.Tool
	prompts   []*mcp.Prompt
	resources []*mcp.Resource
	templates []*mcp.ResourceTemplate
	asked     []string // methods
	cut       []string // methods whose list was not read to its end
	failed    map[string]error
}

// readLists asks for every list that the endpoint says it has. No tool is run,
// no resource read.
func readLists(ctx context.Context, session *mcp.ClientSession, has *mcp.ServerCapabilities) *lists {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	l := &lists{failed: map[string]error{}}
	if has == nil {
		return l
	}
	if has.Tools != nil {
		l.tools = pages(l, "tools/list", func(cursor string) ([]*mcp.Tool, string, error) {
			r, err := session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			return r.Tools, r.NextCursor, nil
		})
	}
	if has.Prompts != nil {
		l.prompts = pages(l, "prompts/list", func(cursor string) ([]*mcp.Prompt, string, error) {
			r, err := session.ListPrompts(ctx, &mcp.ListPromptsParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			return r.Prompts, r.NextCursor, nil
		})
	}
	if has.Resources != nil {
		l.resources = pages(l, "resources/list", func(cursor string) ([]*mcp.Resource, string, error) {
			r, err := session.ListResources(ctx, &mcp.ListResourcesParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			return r.Resources, r.NextCursor, nil
		})
		l.templates = pages(l, "resources/templates/list", func(cursor string) ([]*mcp.ResourceTemplate, string, error) {
			r, err := session.ListResourceTemplates(ctx, &mcp.ListResourceTemplatesParams{Cursor: cursor})
			if err != nil {
				return nil, "", err
			}
			return r.ResourceTemplates, r.NextCursor, nil
		})
	}
	return l
}

// pages follows cursors and never compares them.
func pages[T any](l *lists, method string, page func(cursor string) ([]T, string, error)) (items []T) {
	l.asked = append(l.asked, method)
	cursor := ""
	for range maxPages {
		more, next, err := page(cursor)
		if err != nil {
			l.failed[method] = err
			return items
		}
		items = append(items, more...)
		if next == "" {
			return items
		}
		if len(items) >= maxItems {
			break
		}
		cursor = next
	}
	l.cut = append(l.cut, method)
	return items[:min(len(items), maxItems)]
}

// toolName is what every host takes as a tool's name.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// judge says what hosts make of the lists of an endpoint.
func (l *lists) judge(s *Section, at string) {
	for _, method := range l.asked {
		switch err := l.failed[method]; {
		case err != nil:
			s.fault("OB-51", at, "%s fails (%s): hosts ask for it after adding the app", method, clip(oneLine(err)))
		case slices.Contains(l.cut, method):
			s.fault("OB-51", at, "%s does not end within %d pages and %d items: hosts stop there and show an incomplete list; leave nextCursor out on the last page", method, maxPages, maxItems)
		}
	}
	if len(l.failed)+len(l.cut) == 0 {
		s.pass("OB-51", "lists read: tools %d, prompts %d, resources %d, templates %d", len(l.tools), len(l.prompts), len(l.resources), len(l.templates))
	}
	before := len(s.Findings)
	l.judgeTools(s)
	seen := map[string]bool{}
	for _, p := range l.prompts {
		at := fmt.Sprintf("prompt %q", clip(p.Name))
		if seen[p.Name] {
			s.fault("OB-53", at, "stands in the list twice")
		}
		seen[p.Name] = true
		if strings.TrimSpace(p.Description) == "" {
			s.advise("OB-53", at, "has no description: say what it is for")
		}
	}
	for _, r := range l.resources {
		if !ascii(r.URI) {
			s.fault("OB-53", fmt.Sprintf("resource %q", clip(r.URI)), "percent-encode what is not ASCII in its URI: hosts send it in the header Mcp-Name")
		}
	}
	for _, t := range l.templates {
		if !ascii(t.URITemplate) {
			s.fault("OB-53", fmt.Sprintf("template %q", clip(t.URITemplate)), "percent-encode what is not ASCII in it")
		}
	}
	if len(s.Findings) == before && len(l.tools)+len(l.prompts)+len(l.resources)+len(l.templates) > 0 {
		s.pass("OB-53", "names, descriptions and addresses are such as hosts take")
	}
}

func (l *lists) judgeTools(s *Section) {
	seen := map[string]bool{}
	has := map[string]bool{}
	for _, r := range l.resources {
		has[r.URI] = true
	}
	// A list that was not read in full may hold what seems to be missing.
	whole := l.failed["resources/list"] == nil && l.failed["resources/templates/list"] == nil && len(l.cut) == 0
	for _, t := range l.tools {
		at := fmt.Sprintf("tool %q", clip(t.Name))
		if !toolName.MatchString(t.Name) {
			s.fault("OB-53", at, "name it with letters, digits, '_', '.' and '-', at most 128: hosts refuse other names")
		}
		if seen[t.Name] {
			s.fault("OB-53", at, "stands in the list twice: hosts call one of them")
		}
		seen[t.Name] = true
		if strings.TrimSpace(t.Description) == "" {
			s.fault("OB-53", at, "has no description: say what it does, a model chooses by it")
		}
		if uri := viewOf(t); uri != "" && whole && !has[uri] && !slices.ContainsFunc(l.templates, func(r *mcp.ResourceTemplate) bool {
			literal, _, _ := strings.Cut(r.URITemplate, "{")
			return strings.HasPrefix(uri, literal)
		}) {
			s.fault("OB-53", at, "its view is the resource %q, which the server does not list", clip(uri))
		}
		if a := t.Annotations; a != nil && !a.ReadOnlyHint && a.DestructiveHint != nil && *a.DestructiveHint {
			s.advise("OB-54", at, "says that it may destroy something, and anybody may call it: protect the endpoint with sign-in, and take a business idempotency key")
		}
	}
}

// viewOf gives the URI of a tool's view (MCP Apps), "" for none.
func viewOf(t *mcp.Tool) string {
	ui, _ := t.Meta["ui"].(map[string]any)
	uri, ok := ui["resourceUri"].(string)
	if !ok {
		uri, _ = t.Meta["ui/resourceUri"].(string)
	}
	return uri
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
