package publisher

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/mcpgate"
)

// toolName is what every host takes as a tool's name.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// checkTime bounds the look at a server's lists; they are in memory.
const checkTime = 5 * time.Second

// addServer makes the endpoint of an app.
func (b *builder) addServer(a *app) {
	b.claimURL(a.field+".MCPURL", a.mcpURL)
	var err error
	if a.gate, err = newGate(b.cfg, a); err != nil {
		b.faultErr(a.field+".AllowedOrigins", err)
	}
	found, err := checkServer(a.Server)
	if err != nil {
		b.faultErr(a.field+".Server", err)
	}
	b.checkScopes(a, found)
	if a.Protection != nil && a.protected == nil && len(b.faults) == 0 { // nothing ever opens by mistake
		b.fault(a.field+".Protection", "does not fit the app's endpoint")
	}
	a.open = a.protected != nil && !found.guarded
}

// newGate is the endpoint of one app.
func newGate(cfg *Config, a *app) (*mcpgate.Gate, error) {
	o := &mcpgate.Options{
		Origins:    a.AllowedOrigins,
		Hosts:      []string{a.mcpURL.Host()},
		ModernOnly: a.ModernOnly,
		Modern:     a.protected.modern(a.Modern),
		Private:    a.Private || a.protected != nil,
		MaxBody:    a.MaxBody,
		MaxListens: a.MaxListens,
		Log:        cfg.Log,
	}
	if a.protected != nil {
		o.Protect = a.protected.gate
	}
	return mcpgate.New(a.Server, o)
}

// look is what was found at a look at a server.
type look struct {
	tools    []string // names
	allTools bool     // the list was shown in full
	guarded  bool     // the server has the middleware of a protected app
}

type lookKey struct{} // of the context of the server's end; it holds a *look

// checkServer refuses what hosts could not use, before anybody meets it: a tool
// or prompt without a description, a tool name or an address of another form, a
// tool whose view is not there (mcp section 4). The SDK keeps the lists to itself, so the server is asked
// over a connection in memory, by revision 2026-07-28, which opens no session.
// A server that does not show its lists to strangers is not judged.
func checkServer(s *mcp.Server) (*look, error) {
	found := &look{}
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	near, far := mcp.NewInMemoryTransports()
	served, err := s.Connect(context.WithValue(ctx, lookKey{}, found), far, nil)
	if err != nil {
		return found, fmt.Errorf("look at the server: %w", err)
	}
	defer served.Close()
	client := mcp.NewClient(&mcp.Implementation{Name: "publisher", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, near, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err != nil {
		return found, fmt.Errorf("the server does not speak MCP 2026-07-28: %w", err)
	}
	defer session.Close()

	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	tools, all := shown(session.Tools(ctx, nil))
	found.allTools = all
	for _, tool := range tools {
		found.tools = append(found.tools, tool.Name)
		for _, err := range checkTool(tool) {
			fault("tool %q: %w", tool.Name, err)
		}
	}
	prompts, _ := shown(session.Prompts(ctx, nil))
	for _, prompt := range prompts {
		if prompt.Description == "" {
			fault("prompt %q: has no description; say what it is for", prompt.Name)
		}
	}
	has := map[string]bool{} // resources by URI
	resources, allResources := shown(session.Resources(ctx, nil))
	for _, resource := range resources {
		has[resource.URI] = true
		if !isASCII(resource.URI) {
			fault("resource %q: percent-encode what is not ASCII in its URI", resource.URI)
		}
	}
	templates, allTemplates := shown(session.ResourceTemplates(ctx, nil))
	for _, template := range templates {
		if !isASCII(template.URITemplate) {
			fault("resource template %q: percent-encode what is not ASCII in it", template.URITemplate)
		}
	}
	for _, tool := range tools {
		uri, err := viewOf(tool)
		switch {
		case err != nil:
			fault("tool %q: %w", tool.Name, err)
		case uri == "" || has[uri] || !allResources || !allTemplates || slices.ContainsFunc(templates, mayGive(uri)):
		default:
			fault("tool %q: its view is the resource %q, which the server does not have; add it, or remove the tool's resourceUri", tool.Name, uri)
		}
	}
	return found, errors.Join(faults...)
}

// shown gives the items of a list up to its first error: a capability that is
// not there, or a list that is not for strangers. all is whether there was none.
func shown[T any](list iter.Seq2[T, error]) (items []T, all bool) {
	for item, err := range list {
		if err != nil {
			return items, false
		}
		items = append(items, item)
	}
	return items, true
}

// viewOf gives the URI of a tool's view (MCP Apps 2026-01-26): ui.resourceUri
// in its _meta, or the older ui/resourceUri where that is absent. "" is none.
func viewOf(tool *mcp.Tool) (uri string, err error) {
	at := "_meta.ui.resourceUri"
	ui, _ := tool.Meta["ui"].(map[string]any)
	value, given := ui["resourceUri"]
	if !given {
		at = "_meta ui/resourceUri"
		if value, given = tool.Meta["ui/resourceUri"]; !given {
			return "", nil
		}
	}
	if uri, _ = value.(string); uri == "" {
		return "", fmt.Errorf("%s is no URI; name the resource that shows the tool's result", at)
	}
	return uri, nil
}

// mayGive reports for a template whether it might give the URI: what it has
// before its first expression fits. Only reading would tell for sure, and a
// look runs nothing.
func mayGive(uri string) func(*mcp.ResourceTemplate) bool {
	return func(t *mcp.ResourceTemplate) bool {
		literal, _, _ := strings.Cut(t.URITemplate, "{")
		return strings.HasPrefix(uri, literal)
	}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
