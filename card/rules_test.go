package card

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/internal/webtest"
)

// The published examples of the card schema.
func TestVectors_serverCardExamples(t *testing.T) {
	for _, file := range webtest.VectorFiles(t, "server-card-examples/*.json") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse(data)
		switch valid := strings.HasPrefix(filepath.Base(file), "valid-"); {
		case valid && err != nil:
			t.Errorf("%s: %v", file, err)
		case !valid && err == nil:
			t.Errorf("%s was read", file)
		case valid:
			if _, _, err := c.Usable(); err == nil { // D10
				t.Errorf("%s is a usable app", file)
			}
		}
	}
}

func TestRule_OB10_UsableEndpoint(t *testing.T) {
	type remotes = string
	remote := func(kind, url, versions string) string {
		return fmt.Sprintf(`{"type":%q,"url":%q%s}`, kind, url, versions)
	}
	const declares = `,"supportedProtocolVersions":["2025-11-25","2026-07-28"]`
	ok := remote("streamable-http", "https://apps.example.com/mcp", declares)
	undeclared := remote("streamable-http", "https://apps.example.com/probe", "")
	tests := []struct {
		name    string
		remotes remotes
		url     string // of the remote that is used, "" for none
		probe   string
	}{
		{"one", ok, "https://apps.example.com/mcp", ""},
		{"first of two", remote("sse", "https://apps.example.com/sse", declares) + "," + ok + "," + ok, "https://apps.example.com/mcp", ""},
		{"template in path and query", remote("streamable-http", "https://apps.example.com/{t}/mcp?x={y}", declares), "https://apps.example.com/{t}/mcp?x={y}", ""},
		{"template in the host", remote("streamable-http", "https://{tenant}.example.com/mcp", declares), "", ""},
		{"template in the port", remote("streamable-http", "https://apps.example.com:{p}/mcp", declares), "", ""},
		{"template is the base", remote("streamable-http", "{base}/mcp", declares), "", ""},
		{"template ends the host", remote("streamable-http", "https://apps.example.com{path}", declares), "", ""},
		{"http", remote("streamable-http", "http://apps.example.com/mcp", declares), "", ""},
		{"sse", remote("sse", "https://apps.example.com/mcp", declares), "", ""},
		{"user-info", remote("streamable-http", "https://u:p@apps.example.com/mcp", declares), "", ""},
		{"address", remote("streamable-http", "https://127.0.0.1/mcp", declares), "", ""},
		{"other revision", remote("streamable-http", "https://apps.example.com/mcp", `,"supportedProtocolVersions":["2025-11-25"]`), "", ""},
		{"longer word", remote("streamable-http", "https://apps.example.com/mcp", `,"supportedProtocolVersions":["2026-07-28-rc"]`), "", ""},
		{"undeclared", undeclared, "", "https://apps.example.com/probe"},
		{"empty list", remote("streamable-http", "https://apps.example.com/probe", `,"supportedProtocolVersions":[]`), "", "https://apps.example.com/probe"},
		{"undeclared sse", remote("sse", "https://apps.example.com/probe", ""), "", ""},
		{"undeclared, variable host", remote("streamable-http", "https://{h}/probe", ""), "", ""},
		{"both", undeclared + "," + ok, "https://apps.example.com/mcp", "https://apps.example.com/probe"},
		{"none", "", "", ""},
	}
	for _, tt := range tests {
		c := mustParse(t, with(t, map[string]string{"remotes": "[" + tt.remotes + "]"}))
		used, probe, err := c.Usable()
		if (err == nil) != (tt.url != "") || used != nil && used.URL != tt.url || used == nil && tt.url != "" {
			t.Errorf("%s: Usable = %v, %v", tt.name, used, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "/remotes: no https endpoint that declares 2026-07-28") {
			t.Errorf("%s: %v", tt.name, err)
		}
		if (probe != nil) != (tt.probe != "") || probe != nil && probe.URL != tt.probe {
			t.Errorf("%s: probe = %v", tt.name, probe)
		}
		if used != nil && tt.name == "one" && used != &c.Remotes[0] {
			t.Error("remote does not point into the card")
		}
	}
}

func TestRule_D10_UsableEndpoint(t *testing.T) { TestRule_OB10_UsableEndpoint(t) }

// Valid v1 card and usable app are two verdicts.
func TestRule_DocumentsV1_TwoVerdicts(t *testing.T) {
	c := mustParse(t, with(t, map[string]string{"remotes": ""}))
	if _, _, err := c.Usable(); err == nil {
		t.Error("a card without remotes is usable")
	}
	TestRule_OB10_UsableEndpoint(t)
}

func TestOrigin(t *testing.T) {
	for url, want := range map[string]string{
		"https://apps.example.com/mcp":       "https://apps.example.com",
		"https://Apps.Example.com:443/{t}":   "https://apps.example.com",
		"https://apps.example.com:8443?x":    "https://apps.example.com:8443",
		"https://apps.example.com":           "https://apps.example.com",
		"":                                   "",
		"https://apps.example.com\\@{h}/mcp": "",
		"https://":                           "",
	} {
		got, err := (&Remote{URL: url}).Origin()
		if got != want || (err == nil) != (want != "") {
			t.Errorf("Origin of %q = %q, %v", url, got, err)
		}
	}
}

func TestRule_OB11_HeadersThatACardMayNotSet(t *testing.T) {
	for name, want := range map[string]bool{
		"Accept": true, "authorization": true, "CONTENT-TYPE": true, "Host": true,
		"Mcp-Session-Id": true, "mcp-": true, "MCP-Protocol-Version": true, " Host ": true,
		"X-Key": false, "Accept-Language": false, "X-Mcp-Key": false, "Mcp": false, "": false,
	} {
		if got := (&Header{Name: name}).Forbidden(); got != want {
			t.Errorf("Forbidden(%q) = %v", name, got)
		}
	}
	// Settings of a card are read, with what is secret.
	c := mustParse(t, with(t, map[string]string{"remotes": `[{"type":"streamable-http","url":"https://apps.example.com/{t}","supportedProtocolVersions":["2026-07-28"],
		"headers":[{"name":"X-Key","isSecret":true},{"name":"Authorization"}],"variables":{"t":{"isSecret":true}}}]`}))
	r := c.Remotes[0]
	if !r.Headers[0].IsSecret || !r.Variables["t"].IsSecret {
		t.Error("isSecret was lost")
	}
	found := findings(Findings(c)).text()
	if !strings.Contains(found, `/remotes/0/headers/1/name: is "Authorization", a header that a card may not set`) {
		t.Errorf("findings:\n%s", found)
	}
}

// A forbidden header is no fault of the card.
func TestRule_DocumentsV6_ForbiddenHeaders(t *testing.T) {
	TestRule_OB11_HeadersThatACardMayNotSet(t)
}

func (f findings) text() string { return Errors(f).Error() }

// A card without icons, or with icons that nobody can show, is a card.
func TestRule_OB12_IconsNeverHideAnApp(t *testing.T) {
	for _, icons := range []string{"", `[]`, `[{"src":"https://apps.example.com/i.svg","mimeType":"image/svg+xml"}]`, `[{"src":"http://x.example.com/i","mimeType":"image/x-icon","sizes":["huge"]}]`} {
		c := mustParse(t, with(t, map[string]string{"icons": icons}))
		if _, _, err := c.Usable(); err != nil {
			t.Errorf("icons %s: %v", icons, err)
		}
	}
}

func TestRule_DocumentsV8_IconFindings(t *testing.T) {
	c := mustParse(t, with(t, map[string]string{"icons": `[
		{"src":"http://x.example.com/i","mimeType":"image/x-icon","sizes":["huge","48x048","x","any","48x48"]},
		{"src":"data:image/svg+xml,x","mimeType":"Image/SVG+xml"}]`}))
	wantFaults(t, Errors(Findings(c)),
		"/icons/0/src: is neither https nor a data: address",
		`/icons/0/mimeType: is "image/x-icon"`,
		`/icons/0/sizes/0: is "huge"`, `/icons/0/sizes/1: is "48x048"`, `/icons/0/sizes/2: is "x"`,
		"/icons: holds neither a PNG nor a JPEG")
	c = mustParse(t, with(t, map[string]string{"icons": `[{"src":"HTTPS://x.example.com/i.png","mimeType":"image/PNG"},{"src":"https://x.example.com/i"}]`}))
	wantFaults(t, Errors(Findings(c)))
	TestRule_OB12_IconsNeverHideAnApp(t)
}

func TestRule_OB13_Bounds(t *testing.T) {
	long := func(n int) string { return strings.Repeat("日", n) }
	tests := []struct {
		member, value string
		fault         string
	}{
		{"$schema", SchemaURL, ""},
		{"$schema", SchemaURL + "#", "/$schema: is "},
		{"$schema", strings.ToUpper(SchemaURL), "/$schema: is "},
		{"name", "a/b", ""},
		{"name", "com.example-1/b_c.d-e", ""},
		{"name", "a/" + strings.Repeat("b", 198), ""},
		{"name", "a/" + strings.Repeat("b", 199), "/name: is 201 characters; at most 200 are allowed, shorten it by 1"},
		{"name", "a/", "/name: "},
		{"name", "/b", "/name: "},
		{"name", "ab", "/name: "},
		{"name", "a/b/c", "/name: "},
		{"name", "a_b/c", "/name: "},
		{"name", "a/日", "/name: "},
		{"name", "a/b c", "/name: "},
		{"name", "a/b\n", "/name: "},
		{"description", "d", ""},
		{"description", "", "/description: is empty; write 1 to 100 characters"},
		{"description", long(100), ""},
		{"description", long(104), "/description: is 104 characters; at most 100 are allowed, shorten it by 4"},
		{"title", "t", ""},
		{"title", "", "/title: is empty"},
		{"title", long(100), ""},
		{"title", long(101), "/title: is 101 characters"},
		{"version", "v", ""},
		{"version", "", "/version: is empty"},
		{"version", strings.Repeat("1", 255), ""},
		{"version", strings.Repeat("1", 256), "/version: is 256 characters; at most 255 are allowed, shorten it by 1"},
		{"websiteUrl", "https://example.com", ""},
		{"websiteUrl", "http://example.com/", ""},
		{"websiteUrl", "", "/websiteUrl: "},
		{"websiteUrl", "example.com", "/websiteUrl: "},
		{"websiteUrl", "//example.com/", "/websiteUrl: "},
		{"websiteUrl", "https:///x", "/websiteUrl: "},
		{"websiteUrl", "https://example.com/a b", "/websiteUrl: "},
		{"websiteUrl", "https://exa mple.com/", "/websiteUrl: "},
	}
	for _, tt := range tests {
		_, err := Parse(with(t, map[string]string{tt.member: quoted(tt.value)}))
		if tt.fault == "" {
			wantFaults(t, err)
		} else {
			wantFaults(t, err, tt.fault)
		}
	}
}

func TestRule_DocumentsV2_ExactVersions(t *testing.T) {
	for version, exact := range map[string]bool{
		"1.0.0": true, "release 2026": true, "1.0.0+build.x": true, "1.0.0-x": true, "2024-01-05": true,
		"v1": true, "latest": true, "1.0.0-*": true, "xx": true, "1.x2": true, "a - b": false, "1-2": true, "1 -2": true,
		"^1.2.3": false, "~1.2": false, ">=1": false, "<2": false, "=1.0": false, "1.0 - 2.0": false, "1 || 2": false, "1||2": false,
		"1.x": false, "1.X": false, "1.*": false, "*": false, "x": false, "1.x.0-beta": false, "1.*+b": false, "x.1": false,
	} {
		_, err := Parse(with(t, map[string]string{"version": quoted(version)}))
		if (err == nil) != exact {
			t.Errorf("version %q: %v", version, err)
		}
		if err != nil {
			wantFaults(t, err, "/version: is "+strconv.Quote(version)+", a range of versions")
		}
	}
}

// A card that an older draft shaped is refused with all that it lacks, and no
// address of it is read.
func TestRule_DocumentsV3_EverythingMissingIsListed(t *testing.T) {
	_, err := Parse([]byte(`{"serverInfo":{"name":"notes","version":"2.0.0"},"transport":{"type":"streamable-http","endpoint":"https://n.example/mcp"},"capabilities":{"tools":true}}`))
	wantFaults(t, err, "/$schema: is missing", "/name: is missing", "/version: is missing", "/description: is missing",
		"/remotes: no https endpoint that declares 2026-07-28")
	if strings.Contains(err.Error(), "n.example") {
		t.Errorf("an address of another member shows up: %v", err)
	}
	_, err = Parse(with(t, map[string]string{"$schema": `"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"`}))
	wantFaults(t, err, "/$schema: is ")
	if !strings.Contains(err.Error(), "registry's server.json") {
		t.Error(err)
	}
}

func TestRule_FO06_CardDialects(t *testing.T) { TestRule_DocumentsV3_EverythingMissingIsListed(t) }

// Only v1 members are read, whatever else the card holds.
func TestRule_OB16_OnlyV1Members(t *testing.T) {
	c := mustParse(t, with(t, map[string]string{
		"endpoint": `"https://other.example.com/mcp"`, "url": `"https://other.example.com/"`,
		"transport": `{"endpoint":"https://other.example.com/mcp"}`, "Remotes": `[]`, "TITLE": `1`,
	}))
	remote, _, err := c.Usable()
	if err != nil || len(c.Remotes) != 1 || remote.URL != "https://apps.example.com/mcp" {
		t.Errorf("Usable = %v, %v", remote, err)
	}
	if !strings.Contains(string(c.Raw), "other.example.com") {
		t.Error("unknown members are kept in the bytes")
	}
}

// A card cannot hide what it publishes.
func TestRule_DocumentsV4_NoCredentials(t *testing.T) {
	c := mustParse(t, with(t, map[string]string{"remotes": `[{"type":"streamable-http","url":"https://apps.example.com/{t}","supportedProtocolVersions":["2026-07-28"],
		"headers":[{"name":"X-Key","isSecret":true,"value":"12345"},{"name":"X-Ok","isSecret":true,"value":"k={t}"}],"variables":{"t":{"isSecret":true,"default":"abc"}}}]`}))
	wantFaults(t, Errors(Findings(c)),
		"/remotes/0/headers/0/value: publishes a value that is marked as secret",
		"/remotes/0/variables/t/default: publishes a value that is marked as secret")
}

func TestRule_DocumentsV5_TemplateFindings(t *testing.T) {
	c := mustParse(t, with(t, map[string]string{
		"title": "", "websiteUrl": `"http://apps.example.com/"`,
		"_meta": `{"dev.mcp/x":1,"mcp.dev/x":1,"com.modelcontextprotocol.x/y":1,"mcp/x":1,"openbot/presentation":{"version":"2","examples":[]}}`,
		"remotes": `[{"type":"streamable-http","url":"https://apps.example.com/{t}/{no}/{t}{{u}{1}{","supportedProtocolVersions":["2026-07-28"],
		"headers":[
			{"name":"X-A","value":"{t} {v} {w}","variables":{"v":{"default":"x","choices":["a","b"]},"idle":{}}},
			{"name":"bad name","value":"x","choices":["y"]},
			{"name":"X-B","value":"a","choices":["a"],"default":"a"}],
		"variables":{"t":{},"u":{},"left":{}}},
		{"type":"sse","url":"{base}/x","variables":{"base":{}}}]`,
	}))
	wantFaults(t, Errors(Findings(c)),
		`/title: is missing; people will see the name "com.example/calendar"`,
		"/websiteUrl: is not https",
		"/remotes/0/url: uses {no}",
		"/remotes/0/headers/0/value: uses {w}",
		"/remotes/0/headers/0/variables/idle: is declared, but nothing uses {idle}",
		"/remotes/0/headers/0/variables/v/default: is not one of the choices",
		`/remotes/0/headers/1/name: is "bad name"`,
		"/remotes/0/headers/1/value: is not one of the choices",
		"/remotes/0/variables/left: is declared, but nothing uses {left}",
		`/remotes/1/type: is "sse"`,
		`/remotes/1/url: is "{base}/x", whose scheme and host are variable`,
		"/_meta/com.modelcontextprotocol.x~1y: has a prefix that is reserved",
		"/_meta/mcp.dev~1x: has a prefix that is reserved",
		"/_meta/openbot~1presentation/version: is \"2\"",
		"/_meta/openbot~1presentation/examples: is empty",
	)
	wantFaults(t, Errors(Findings(mustParse(t, []byte(good)))))
}

func TestRule_OB15_StrictCard(t *testing.T) {
	for name, text := range map[string]string{
		"/name":                     `{"name":"a/b","name":"c/d"}`,
		"/remotes/0/url":            `{"remotes":[{"url":"https://a.example/","url":"https://b.example/"}]}`,
		"/remotes/0/headers/0/name": `{"remotes":[{"headers":[{"name":"A","name":"B"}]}]}`,
		"/remotes/0/variables/t":    `{"remotes":[{"variables":{"t":{},"t":{}}}]}`,
		"/icons/0/src":              `{"icons":[{"src":"https://a.example/","src":"https://b.example/"}]}`,
		"/repository/url":           `{"repository":{"url":"https://a.example/","url":"https://b.example/"}}`,
		"/_meta/a~1b":               `{"_meta":{"a/b":1,"a/b":2}}`,
		"/x":                        `{"x":1,"x":2}`,
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+name+": is given more than once; keep one") {
			t.Errorf("%s: %v", text, err)
		}
	}
	// Case: Name is another member.
	c := mustParse(t, with(t, map[string]string{"Name": `"other/app"`, "$SCHEMA": `1`, "title": "", "Title": `"T"`}))
	if c.Name != "com.example/calendar" || c.Title != "" {
		t.Errorf("name %q, title %q", c.Name, c.Title)
	}
	// A byte order mark is tolerated, with a warning, and stays in Raw.
	c = mustParse(t, []byte("\ufeff"+good))
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "byte order mark") || !strings.HasPrefix(string(c.Raw), "\ufeff") {
		t.Errorf("warnings %q", c.Warnings)
	}
	// Nobody looks into other members of _meta.
	mustParse(t, with(t, map[string]string{"_meta": `{"a":{"x":1,"x":2}}`, "more": `{"x":1,"x":2}`}))
	for _, text := range []string{`"\udc00"`, `NaN`, `/**/1`, strings.Repeat("[", 64) + strings.Repeat("]", 64)} {
		doc := strings.TrimSuffix(good, "}") + `,"x":` + text + "}"
		if _, err := Parse([]byte(doc)); !IsNotJSON(err) {
			t.Errorf("x: %.20s: %v", text, err)
		}
	}
}

func TestRule_D9_StrictCard(t *testing.T) { TestRule_OB15_StrictCard(t) }

func TestRule_FO01_CardMembers(t *testing.T) { TestRule_OB15_StrictCard(t) }

func TestMetaKeys(t *testing.T) {
	for key, ok := range map[string]bool{
		"": true, "a": true, "1": true, "a_b-c.d": true, "a/": true, "com.example/": true, "com.ex-ample/x": true, "a1/b": true,
		"openbot/presentation": true,
		"/a":                   false, "a./b": false, ".a/b": false, "1a/b": false, "a-/b": false, "a_b/c": false, "-a": false, "a-": false, "a b": false, "a/b/c": false, "é": false,
	} {
		if reason := checkMetaKey(key); (reason == "") != ok {
			t.Errorf("key %q: %q", key, reason)
		}
	}
}
