package gateway

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// corrector makes lists that every host takes from an upstream's. What it makes
// of an item depends on that item's own name, so that it is the same after a
// restart, and whatever else the upstream offers.
type corrector struct {
	server  string // the upstream's name, for descriptions
	items   map[string][]object
	tools   map[string]offer
	asked   map[string]string
	offered map[string]string
	found   []Correction
}

func newCorrector(server string) *corrector {
	if server == "" {
		server = "the app's server"
	}
	return &corrector{
		server: server, items: map[string][]object{}, tools: map[string]offer{},
		asked: map[string]string{}, offered: map[string]string{},
	}
}

func (c *corrector) report(kind, from, to, why string, args ...any) {
	c.found = append(c.found, Correction{Kind: kind, From: from, To: to, Why: fmt.Sprintf(why, args...)})
}

// apply corrects all lists. Addresses go first: tools refer to them.
func (c *corrector) apply(raw map[string][]object) {
	taken := map[string]bool{}
	for _, item := range raw["resource"] {
		taken[item.text("uri")] = true
	}
	for _, item := range raw["resource"] {
		c.resource(item, taken)
	}
	for _, item := range raw["template"] {
		c.template(item)
	}
	addresses := c.found
	c.found = nil

	names := map[string]bool{}
	for _, item := range raw["tool"] {
		names[item.text("name")] = true
	}
	for _, item := range raw["tool"] {
		c.tool(item, names)
	}
	for _, item := range raw["prompt"] {
		c.prompt(item)
	}
	c.found = append(c.found, addresses...)
	for _, item := range c.items["tool"] {
		c.view(item, taken)
	}
}

func (c *corrector) keep(kind string, item object) { c.items[kind] = append(c.items[kind], item) }

// toolName is what the protocol takes as a tool's name.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

var notInName = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// correctName gives the name that a tool is offered under. The digest of the
// whole name keeps it apart from others.
func correctName(name string, taken map[string]bool) string {
	if toolName.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	base := strings.Trim(notInName.ReplaceAllString(name, "_"), "_")
	if base == "" {
		base = "tool"
	}
	base = base[:min(len(base), 100)]
	to := base + "_" + hex.EncodeToString(sum[:4])
	if taken[to] { // somebody has built this name on purpose
		to = base[:min(len(base), 60)] + "_" + hex.EncodeToString(sum[:])
	}
	return to
}

func (c *corrector) tool(item object, names map[string]bool) {
	from := item.text("name")
	if item.object("execution").text("taskSupport") == "required" {
		c.report("tool", from, "", "it runs as a task of revision 2025-11-25 only, and 2026-07-28 has none")
		return
	}
	to := correctName(from, names)
	if to != from {
		item.set("name", to)
		c.report("tool", from, to, "a tool's name has letters, digits, '_', '.' and '-' only, at most 128")
	}
	if strings.TrimSpace(item.text("description")) == "" {
		item.set("description", fmt.Sprintf("The tool %s of %s.", title(item, from), c.server))
		c.report("tool", from, to, "it has no description: hosts and models need one, so a plain sentence stands in")
	}
	schema := item.object("inputSchema")
	if schema.text("type") != "object" {
		if schema == nil {
			schema = object{}
		}
		schema.set("type", "object")
		item.set("inputSchema", schema)
		c.report("tool", from, to, "its input schema is not that of an object: it is offered as one")
	}
	if view, ok := item.object("_meta").object("ui")["resourceUri"]; ok {
		var uri string
		if json.Unmarshal(view, &uri) == nil && c.offered[uri] != "" {
			meta := item.object("_meta")
			ui := meta.object("ui")
			ui.set("resourceUri", c.offered[uri])
			meta.set("ui", ui)
			item.set("_meta", meta)
		}
	}
	c.tools[to] = offer{from, findHeaderParams(schema)}
	c.keep("tool", item)
}

// title gives what people call an item.
func title(item object, name string) string {
	if t := item.text("title"); t != "" {
		return t
	}
	if t := item.object("annotations").text("title"); t != "" {
		return t
	}
	return name
}

func (c *corrector) prompt(item object) {
	name := item.text("name")
	if strings.TrimSpace(item.text("description")) == "" {
		item.set("description", fmt.Sprintf("The prompt %s of %s.", title(item, name), c.server))
		c.report("prompt", name, name, "it has no description: hosts need one, so a plain sentence stands in")
	}
	c.keep("prompt", item)
}

func (c *corrector) resource(item object, taken map[string]bool) {
	from := item.text("uri")
	if to := escapeURI(from, ""); to != from {
		if taken[to] {
			c.report("resource", from, "", "its address is not ASCII, and percent-encoded it is that of another resource")
			return
		}
		taken[to] = true
		c.asked[to], c.offered[from] = from, to
		item.set("uri", to)
		c.report("resource", from, to, "an address is ASCII: other characters are percent-encoded")
	}
	c.keep("resource", item)
}

// template corrects what stands outside the expressions: expanding a template
// percent-encodes it anyway (RFC 6570), so reads need no way back.
func (c *corrector) template(item object) {
	from := item.text("uriTemplate")
	to := escapeURI(from, "{}|^")
	for _, expression := range regexp.MustCompile(`\{[^}]*\}`).FindAllString(from, -1) {
		if escapeURI(expression, "{}|^") != expression {
			c.report("template", from, "", "the names of its variables are not ASCII")
			return
		}
	}
	if to != from {
		item.set("uriTemplate", to)
		c.report("template", from, to, "an address is ASCII: other characters are percent-encoded")
	}
	c.keep("template", item)
}

// view lists the resource that shows a tool's result, if the upstream does not
// (MCP Apps 2026-01-26 lets it): publishers and hosts look for it.
func (c *corrector) view(tool object, taken map[string]bool) {
	meta := tool.object("_meta")
	uri := meta.object("ui").text("resourceUri")
	if uri == "" {
		uri = meta.text("ui/resourceUri")
	}
	if !strings.HasPrefix(uri, "ui://") || escapeURI(uri, "") != uri || taken[uri] {
		return
	}
	taken[uri] = true
	c.keep("resource", object{
		"uri": encode(uri), "name": encode(tool.text("name")), "mimeType": encode("text/html;profile=mcp-app"),
	})
	c.report("resource", uri, uri, "it is the view of the tool %q, which the upstream does not list", tool.text("name"))
}

// escapeURI percent-encodes what RFC 3986 has no place for, except the
// characters in allowed.
func escapeURI(uri, allowed string) string {
	const never = " \"<>\\^`{|}"
	var b strings.Builder
	for i := range len(uri) {
		switch ch := uri[i]; {
		case ch > 0x20 && ch < 0x7f && (!strings.ContainsRune(never, rune(ch)) || strings.ContainsRune(allowed, rune(ch))):
			b.WriteByte(ch)
		default:
			fmt.Fprintf(&b, "%%%02X", ch)
		}
	}
	return b.String()
}
