package publisher

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// viewType is the media type of a view (MCP Apps 2026-01-26).
const viewType = "text/html;profile=mcp-app"

// maxView bounds a view's HTML: hosts show no larger one (D28).
const maxView = 2 << 20

// View is an interface that a host shows for a tool's result: one HTML document
// under a ui:// address, which runs in a sandbox without network unless it
// names origins. Name, URI and HTML are required.
type View struct {
	URI         string // for instance "ui://calendar/week.html"; a new one makes hosts fetch anew
	Name        string // a short name for lists
	Title       string
	Description string
	HTML        string // a whole document, at most 2 MiB; its scripts stand inline

	// Origins beyond none, each as https://host, https://*.host, or wss://host
	// for connections. A host may refuse some and shows them to the user.
	ConnectDomains  []string // fetch and web sockets
	ResourceDomains []string // pictures, styles, fonts, media
	FrameDomains    []string // inner frames
	BaseURIDomains  []string // the document's base address

	Permissions   []string // camera, microphone, geolocation, clipboardWrite
	Domain        string   // wish for an origin of its own; the host decides the form
	PrefersBorder *bool    // nil leaves it to the host
}

// Meta is the _meta of a tool whose results the view shows. visibility says who
// may call the tool, "model", "app" or both; none means both.
//
//	&mcp.Tool{Name: "plan_week", Description: "Find free time.", Meta: week.Meta()}
func (v *View) Meta(visibility ...string) mcp.Meta {
	ui := map[string]any{"resourceUri": v.URI}
	if len(visibility) > 0 {
		ui["visibility"] = slices.Clone(visibility)
	}
	return mcp.Meta{"ui": ui}
}

// AddView adds a view to a server as a resource that hosts can read. v is
// copied. The error joins every fault: an address that is not ui://, missing or
// too much HTML, and origins and permissions that hosts would drop.
//
// Source: MCP Apps 2026-01-26; D25, D28; FO-28.
func AddView(s *mcp.Server, v *View) error {
	if s == nil || v == nil {
		return errors.New("add view: server and view are required")
	}
	what := fmt.Sprintf("add view %q", v.URI)
	faults := []error{checkViewURI(v.URI)}
	if v.Name == "" {
		faults = append(faults, errors.New("has no name; give a short one for lists"))
	}
	switch {
	case strings.TrimSpace(v.HTML) == "":
		faults = append(faults, errors.New("has no HTML; give a whole document"))
	case len(v.HTML) > maxView:
		faults = append(faults, fmt.Errorf("its HTML has %d bytes; hosts show at most %d", len(v.HTML), maxView))
	}
	ui, more := v.meta()
	if err := errors.Join(append(faults, more...)...); err != nil {
		return within(what, err)
	}
	html, mime, uri := v.HTML, viewType, v.URI
	res := &mcp.Resource{URI: uri, Name: v.Name, Title: v.Title, Description: v.Description, MIMEType: mime, Size: int64(len(html))}
	return AddResource(s, res, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		content := &mcp.ResourceContents{URI: uri, MIMEType: mime, Text: html}
		if len(ui) > 0 {
			content.Meta = mcp.Meta{"ui": ui}
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}}, nil
	})
}

// meta is the content's _meta.ui, which wins over every other (D25).
func (v *View) meta() (ui map[string]any, faults []error) {
	ui, csp := map[string]any{}, map[string]any{}
	for _, list := range []struct {
		name    string
		origins []string
		sockets bool
	}{
		{"connectDomains", v.ConnectDomains, true},
		{"resourceDomains", v.ResourceDomains, false},
		{"frameDomains", v.FrameDomains, false},
		{"baseUriDomains", v.BaseURIDomains, false},
	} {
		for _, o := range list.origins {
			if !isViewOrigin(o, list.sockets) {
				faults = append(faults, fmt.Errorf("%s: hosts refuse %q; write https://host or https://*.host, without a path", list.name, o))
			}
		}
		if len(list.origins) > 0 {
			csp[list.name] = slices.Clone(list.origins)
		}
	}
	if len(csp) > 0 {
		ui["csp"] = csp
	}
	permissions := map[string]any{}
	for _, p := range v.Permissions {
		if !slices.Contains([]string{"camera", "microphone", "geolocation", "clipboardWrite"}, p) {
			faults = append(faults, fmt.Errorf("permission %q is not one of camera, microphone, geolocation, clipboardWrite", p))
		}
		permissions[p] = map[string]any{}
	}
	if len(permissions) > 0 {
		ui["permissions"] = permissions
	}
	if v.Domain != "" {
		ui["domain"] = v.Domain
	}
	if v.PrefersBorder != nil {
		ui["prefersBorder"] = *v.PrefersBorder
	}
	return ui, faults
}

// isViewOrigin reports whether a host would take o into a policy (FO-28).
func isViewOrigin(o string, sockets bool) bool {
	scheme, host, _ := strings.Cut(o, "://")
	if scheme != "https" && (scheme != "wss" || !sockets) {
		return false
	}
	host = strings.TrimPrefix(host, "*.")
	u, err := url.Parse("https://" + host)
	return err == nil && u.Host == host && u.Hostname() != "" && isASCII(host) &&
		!strings.ContainsFunc(host, func(r rune) bool {
			return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("-.:[]", r))
		})
}

// checkViewURI judges the address of a view.
func checkViewURI(uri string) error {
	if !strings.HasPrefix(uri, "ui://") || len(uri) == len("ui://") {
		return fmt.Errorf("%q is no address of a view: write ui://, a name of your app and a path", uri)
	}
	if strings.Contains(uri, "{") {
		return fmt.Errorf("%q is a template; a view has one address", uri)
	}
	return checkURI(uri)
}
