package check_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/publisher/check"
)

// mcpServer is an MCP endpoint that speaks 2026-07-28.
func mcpServer(name, version string, versions ...string) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: name, Version: version},
		&mcp.ServerOptions{Capabilities: &mcp.ServerCapabilities{}, SupportedProtocolVersions: versions})
	return serving(s)
}

// serving serves an MCP server to all but pages of other origins.
func serving(s *mcp.Server) http.Handler {
	h := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") != "" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

const (
	cardURL  = "https://apps.example.com/mcp/server-card"
	endpoint = "https://apps.example.com/mcp"
)

// serveCard puts a card without faults on net, with the given remote.
func serveCard(net *fakenet.Net, remote string) {
	if remote == "" {
		remote = `{"type":"streamable-http","url":"` + endpoint + `","supportedProtocolVersions":["2026-07-28"]}`
	}
	net.SetMethod(http.MethodOptions, cardURL, preflight)
	net.Set(cardURL, fakenet.Answer{
		Header: http.Header{"Content-Type": {card.MediaType}, "Etag": {`"1"`}, "Access-Control-Allow-Origin": {"*"}},
		Body:   `{"$schema":"` + card.SchemaURL + `","name":"com.example/a","version":"1.0.0","description":"A.","remotes":[` + remote + `]}`,
	})
}

// preflight allows a browser to read a document.
var preflight = fakenet.Answer{Status: 204, Header: http.Header{"Access-Control-Allow-Origin": {"*"}, "Access-Control-Allow-Headers": {"Content-Type, If-None-Match"}}}

// posts are the addresses that got anything but reading, with the method.
func posts(net *fakenet.Net) []string {
	var urls []string
	for _, r := range net.Requests() {
		if r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions {
			urls = append(urls, r.Method+" "+r.URL)
		}
	}
	return urls
}

func has(t *testing.T, out, want string) {
	t.Helper()
	if !strings.Contains(out, want) {
		t.Errorf("no %q in:\n%s", want, out)
	}
}

// documents W10: check compares the card with what server/discover says.
func TestRule_DocumentsW10_CheckComparesCardAndServer(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	serveCard(net, `{"type":"streamable-http","url":"`+endpoint+`","supportedProtocolVersions":["2025-11-25","2026-07-28"]}`)
	net.Handle("apps.example.com", mcpServer("com.example/a", "1.0.0", "2026-07-28", "2025-11-25"))
	out := address(t, net, cardURL)
	if strings.Contains(out, "\n  fault") {
		t.Errorf("faults in:\n%s", out)
	}
	has(t, out, "pass server/discover answers; supportedVersions 2026-07-28, 2025-11-25 [OB-51]\n")
	has(t, out, `pass name as in the card: "com.example/a" [OB-14]`)
	has(t, out, `pass version as in the card: "1.0.0"`)
	if got := posts(net); !slices.Equal(got, []string{"POST " + endpoint, "POST " + endpoint}) { // as a host, and as a foreign page
		t.Errorf("requests %q", got)
	}
	for _, r := range net.Requests() {
		if r.Method == http.MethodPost && (r.Header.Get("Mcp-Method") != "server/discover" || r.Header.Get("Mcp-Protocol-Version") != "2026-07-28") {
			t.Errorf("asked with %v", r.Header)
		}
	}
}

// documents W10: each way in which an endpoint cannot be used is a sentence
// with what to do, and costs one request.
func TestRule_DocumentsW10_EndpointsThatFail(t *testing.T) {
	header := func(kv ...string) http.Header {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i < len(kv); i += 2 {
			h.Set(kv[i], kv[i+1])
		}
		return h
	}
	result := func(versions string) string {
		return `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":` + versions + `,"capabilities":{},"ttlMs":0,"cacheScope":"public"}}`
	}
	wire := func(code int, data string) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"error":{"code":%d,"message":"no such thing"%s}}`, code, data)
	}
	tests := map[string]struct {
		answer fakenet.Answer
		want   string
	}{
		"sign-in":          {fakenet.Answer{Status: 401, Header: header("WWW-Authenticate", `Bearer resource_metadata="https://auth.example.com/x"`)}, "fact protected: sign-in needed (status 401, Bearer)"},
		"scope":            {fakenet.Answer{Status: 403, Header: header("WWW-Authenticate", `Bearer error="insufficient_scope", resource_metadata="https://auth.example.com/x"`)}, "fault /remotes/0/url: a made-up token gets status 403: answer 401"},
		"no challenge":     {fakenet.Answer{Status: 401, Header: header()}, "fault /remotes/0/url: the endpoint answers 401 without"},
		"forbidden":        {fakenet.Answer{Status: 403, Header: header()}, "fault /remotes/0/url: the endpoint refuses server/discover (403)"},
		"gone":             {fakenet.Answer{Status: 404, Header: header("Content-Type", "text/html"), Body: "<!doctype html>"}, "fault /remotes/0/url: nothing is at the endpoint (status 404)"},
		"no POST":          {fakenet.Answer{Status: 405, Header: header()}, "fault /remotes/0/url: the endpoint does not take POST"},
		"legacy session":   {fakenet.Answer{Status: 400, Header: header("Content-Type", "text/plain"), Body: "no session"}, "with status 400: it seems not to speak MCP 2026-07-28; update"},
		"broken":           {fakenet.Answer{Status: 503, Header: header()}, "fault /remotes/0/url: the endpoint fails (status 503)"},
		"busy":             {fakenet.Answer{Status: 429, Header: header()}, "advice /remotes/0/url: the endpoint answers 429"},
		"moved":            {fakenet.Answer{Status: 308, Header: header("Location", "https://other.example.com/mcp")}, `fault /remotes/0/url: the endpoint redirects (308) to "https://other.example.com/mcp"`},
		"web page":         {fakenet.Answer{Header: header("Content-Type", "text/html; charset=utf-8"), Body: "<!doctype html>"}, "fault /remotes/0/url: a web page is at the endpoint"},
		"other type":       {fakenet.Answer{Header: header("Content-Type", "text/plain"), Body: "hello"}, `fault /remotes/0/url: the endpoint's Content-Type is "text/plain"`},
		"not JSON":         {fakenet.Answer{Header: header(), Body: "hello"}, "fault /remotes/0/url: the endpoint's answer to server/discover cannot be read ("},
		"unknown method":   {fakenet.Answer{Status: 404, Header: header(), Body: wire(-32601, "")}, `does not speak MCP 2026-07-28 (error -32601, "no such thing"): update`},
		"unknown, 200":     {fakenet.Answer{Header: header(), Body: wire(-32601, "")}, `does not speak MCP 2026-07-28 (error -32601, "no such thing"): update`},
		"unknown version":  {fakenet.Answer{Status: 400, Header: header(), Body: wire(-32022, `,"data":{"supported":["2025-11-25"]}`)}, "does not speak MCP 2026-07-28 (error -32022, \"no such thing\", it names 2025-11-25): update"},
		"says it supports": {fakenet.Answer{Status: 400, Header: header(), Body: wire(-32022, `,"data":{"supported":["2026-07-28"]}`)}, "does not speak MCP 2026-07-28 (error -32022"},
		"refused":          {fakenet.Answer{Status: 400, Header: header(), Body: wire(-32602, "")}, "refuses server/discover (error -32602"},
		"older versions":   {fakenet.Answer{Header: header(), Body: result(`["2025-11-25"]`)}, "fault /remotes/0/supportedProtocolVersions: the endpoint's supportedVersions lack 2026-07-28 (2025-11-25)"},
		"no versions":      {fakenet.Answer{Header: header(), Body: result(`[]`)}, "supportedVersions lack 2026-07-28 (none)"},
		"nameless":         {fakenet.Answer{Header: header("Mcp-Session-Id", "s1"), Body: result(`["2026-07-28"]`)}, "advice /name: the endpoint does not say who it is"},
		"too large":        {fakenet.Answer{Header: header(), Body: strings.Repeat(" ", 1<<20) + result(`["2026-07-28"]`)}, "larger than 1048576 bytes"},
		"too large stream": {fakenet.Answer{Header: header("Content-Type", "text/event-stream"), Body: strings.Repeat(": x\n", 1<<19)}, "larger than 1048576 bytes"},
		"resumable stream": {fakenet.Answer{Header: header("Content-Type", "text/event-stream"), Body: "id: 1\ndata:\n\n"}, "cannot be read ("},
		"reset":            {fakenet.Answer{Fault: fakenet.Reset}, "fault /remotes/0/url: no connection to the endpoint, or it broke"},
		"cut":              {fakenet.Answer{Header: header(), Body: result(`["2026-07-28"]`), Fault: fakenet.Cut}, "fault /remotes/0/url: the endpoint's answer breaks off"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			net := fakenet.New()
			defer net.Close()
			serveCard(net, "")
			net.SetMethod(http.MethodPost, endpoint, tt.answer)
			signInAt(net, "https://auth.example.com/x", endpoint)
			out := address(t, net, cardURL)
			has(t, out, tt.want)
			wantFaults := 0
			if strings.Contains(tt.want, "fault ") || !strings.Contains(tt.want, "advice ") && !strings.Contains(tt.want, "fact ") {
				wantFaults = 1
			}
			if got := strings.Count(out, "\n  fault "); got != wantFaults {
				t.Errorf("%d faults, want %d:\n%s", got, wantFaults, out)
			}
			want := []string{"POST " + endpoint}
			switch name {
			case "nameless": // the only one that hosts could use: it is asked as a foreign page too
				want = append(want, want[0])
			case "sign-in", "scope": // with a token that is not for it, in the header and in the address
				want = append(want, want[0], want[0]+"?access_token=openbot-check")
			}
			if got := posts(net); !slices.Equal(got, want) {
				t.Errorf("requests %q", got)
			}
			for _, r := range net.Requests() {
				if r.Method == http.MethodGet && r.URL == endpoint || strings.Contains(r.URL, "other.example.com") {
					t.Errorf("asked %s", r)
				}
			}
		})
	}
}

// signInAt puts metadata without faults on net: of the resource, at address, and
// of its authorization server.
func signInAt(net *fakenet.Net, address, resource string) {
	j := http.Header{"Content-Type": {"application/json"}, "Etag": {`"1"`}, "Access-Control-Allow-Origin": {"*"}, "Access-Control-Expose-Headers": {"ETag"}}
	net.Set(address, fakenet.Answer{Header: j, Body: `{"resource":"` + resource + `","authorization_servers":["https://login.example.com/t"],"scopes_supported":["read"]}`})
	net.SetMethod(http.MethodOptions, address, fakenet.Answer{Status: 204, Header: http.Header{
		"Access-Control-Allow-Origin": {"*"}, "Access-Control-Allow-Headers": {"MCP-Protocol-Version"},
	}})
	net.Set("https://login.example.com/.well-known/oauth-authorization-server/t", fakenet.Answer{Header: j, Body: serverDocument})
}

// serverDocument is the metadata of an authorization server without faults.
const serverDocument = `{"issuer":"https://login.example.com/t","authorization_endpoint":"https://login.example.com/t/a","token_endpoint":"https://login.example.com/t/t",` +
	`"code_challenge_methods_supported":["S256"],"client_id_metadata_document_supported":true,"authorization_response_iss_parameter_supported":true}`

// documents W10: an endpoint that cannot be connected to.
func TestRule_DocumentsW10_UnreachableEndpoints(t *testing.T) {
	remote := func(url string) string {
		return `{"type":"streamable-http","url":"` + url + `","supportedProtocolVersions":["2026-07-28"]}`
	}
	for url, want := range map[string]string{
		"https://none.example.com/mcp":      "fault /remotes/0/url: the name of the endpoint cannot be looked up: create its DNS record",
		"https://down.example.com/mcp":      "fault /remotes/0/url: no connection to the endpoint",
		"https://expired.example.com/mcp":   "fault /remotes/0/url: no secure connection to the endpoint (",
		"https://inside.example.com/mcp":    "fault /remotes/0/url: the endpoint cannot be reached: ",
		"https://apps.example.com:8443/mcp": "advice /remotes/0/url: endpoint not called: hosts reach port 8443 only after their user agreed",
	} {
		net := fakenet.New()
		serveCard(net, remote(url))
		net.SetConnect("down.example.com", "refused")
		net.SetTLS("expired.example.com", "expired")
		net.SetDNS("inside.example.com", fakenet.DNS{Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}})
		has(t, address(t, net, cardURL), want)
		if got := posts(net); len(got) > 0 {
			t.Errorf("%s: requests %q", url, got)
		}
		net.Close()
	}
}

// documents W10: ten seconds, for silence and for an answer to another question.
func TestRule_DocumentsW10_EndpointTimesOut(t *testing.T) {
	for name, a := range map[string]fakenet.Answer{
		"silent":   {Fault: fakenet.Timeout},
		"slow":     {Header: http.Header{"Content-Type": {"application/json"}}, Body: strings.Repeat(" ", 100), Fault: fakenet.Slow},
		"wrong id": {Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"jsonrpc":"2.0","id":99,"result":{}}`},
		"requests": {Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"jsonrpc":"2.0","id":"x","method":"ping"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := fakenet.New()
				defer net.Close()
				serveCard(net, "")
				net.SetMethod(http.MethodPost, endpoint, a)
				begin := time.Now()
				out := address(t, net, cardURL)
				has(t, out, "fault /remotes/0/url: the endpoint did not answer server/discover within 10s")
				if took := time.Since(begin); took > 11*time.Second {
					t.Errorf("took %v", took)
				}
				if got := posts(net); len(got) != 1 {
					t.Errorf("requests %q", got)
				}
			})
		})
	}
}

// documents W10: what a person has to fill in first is not guessed.
func TestRule_DocumentsW10_SettingsAreNotGuessed(t *testing.T) {
	for remote, want := range map[string]string{
		`"url":"https://apps.example.com/{team}/mcp","variables":{"team":{"isRequired":true}}`:                `needs settings (variable "team")`,
		`"url":"https://apps.example.com/mcp","headers":[{"name":"X-Key","isRequired":true,"isSecret":true}]`: `needs settings (header "X-Key")`,
	} {
		net := fakenet.New()
		serveCard(net, `{"type":"streamable-http","supportedProtocolVersions":["2026-07-28"],`+remote+`}`)
		out := address(t, net, cardURL)
		has(t, out, "fact endpoint not called: "+want)
		if got := posts(net); len(got) > 0 || strings.Contains(out, "\n  fault") {
			t.Errorf("requests %q:\n%s", got, out)
		}
		net.Close()
	}
	// What a card may not ask for, or need not be given, keeps nothing back.
	net := fakenet.New()
	defer net.Close()
	serveCard(net, `{"type":"streamable-http","url":"`+endpoint+`","supportedProtocolVersions":["2026-07-28"],
		"headers":[{"name":"authorization","isRequired":true},{"name":"X-Color"}]}`)
	net.Handle("apps.example.com", mcpServer("com.example/a", "1.0.0"))
	has(t, address(t, net, cardURL), "pass server/discover answers")
}

// OB-14: a card that says other things than the server is not wrong, only
// outdone.
func TestRule_OB14_LiveValuesWin(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	serveCard(net, `{"type":"streamable-http","url":"`+endpoint+`","supportedProtocolVersions":["2026-07-28","2024-11-05"]}`)
	net.Handle("apps.example.com", mcpServer("com.example/b\x1b[2J\u202e", "2.0.0", "2026-07-28"))
	out := address(t, net, cardURL)
	has(t, out, `advice /name: the card says "com.example/a", the endpoint "com.example/b\x1b[2J\u202e"; live values win: make them the same [OB-14]`)
	has(t, out, `advice /version: the card says "1.0.0", the endpoint "2.0.0"; live values win: make them the same [OB-14]`)
	has(t, out, `advice /remotes/0/supportedProtocolVersions: declares "2024-11-05", which the endpoint's supportedVersions lack (2026-07-28)`)
	if strings.Contains(out, "\n  fault") {
		t.Errorf("faults in:\n%s", out)
	}
}

// The answer of an endpoint is in the JSON report, under the app.
func TestEndpointInJSON(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	serveCard(net, "")
	net.Handle("apps.example.com", mcpServer("com.example/a", "1.0.1"))
	r := report(t, net, cardURL)
	data, err := json.Marshal(r.Sections[len(r.Sections)-1])
	if err != nil {
		t.Fatal(err)
	}
	type finding struct{ Level, Rule, Pointer, Message string }
	var app struct {
		Kind     string
		Findings []finding
	}
	if err := json.Unmarshal(data, &app); err != nil {
		t.Fatal(err)
	}
	if app.Kind != "app" || !slices.ContainsFunc(app.Findings, func(f finding) bool {
		return f.Level == "pass" && f.Rule == "OB-51" && strings.HasPrefix(f.Message, "server/discover answers")
	}) || !slices.ContainsFunc(app.Findings, func(f finding) bool { return f.Level == "advice" && f.Rule == "OB-14" && f.Pointer == "/version" }) {
		t.Errorf("%s", data)
	}
}

// A few endpoints at a time are asked, and the report keeps the order of the
// catalog; the caller's end ends it.
func TestManyEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fakenet.New()
		defer net.Close()
		var now, most atomic.Int32
		var listed []string
		for i := range 9 {
			url := fmt.Sprintf("https://a%d.example.com/card", i)
			listed = append(listed, fmt.Sprintf(`{"identifier":"urn:air:a%d.example.com:mcp:a","type":"%s","url":"%s"}`, i, card.MediaType, url))
			net.Set(url, fakenet.Answer{Header: http.Header{"Content-Type": {card.MediaType}, "Etag": {`"1"`}}, Body: fmt.Sprintf(
				`{"$schema":"%s","name":"com.example/a%d","version":"1","description":"A.","remotes":[{"type":"streamable-http","url":"https://mcp%d.example.com/","supportedProtocolVersions":["2026-07-28"]}]}`, card.SchemaURL, i, i)})
			server := mcpServer(fmt.Sprintf("com.example/a%d", i), "1")
			net.Handle(fmt.Sprintf("mcp%d.example.com", i), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(time.Second)
				now.Add(-1)
				server.ServeHTTP(w, r)
			}))
		}
		net.Set("https://list.example.com/.well-known/ai-catalog.json", fakenet.Answer{
			Header: http.Header{"Content-Type": {"application/ai-catalog+json"}, "Etag": {`"1"`}},
			Body:   `{"specVersion":"1.0","entries":[` + strings.Join(listed, ",") + `]}`,
		})
		r := report(t, net, "list.example.com")
		var order []string
		for _, s := range r.Sections {
			if s.Kind == "app" {
				order = append(order, s.Name)
				if !slices.ContainsFunc(s.Findings, func(f check.Finding) bool { return f.Message == fmt.Sprintf("name as in the card: %q", s.Name) }) {
					t.Errorf("%s: %v", s.Name, s.Findings)
				}
			}
		}
		if len(order) != 9 || !slices.IsSorted(order) {
			t.Errorf("order %q", order)
		}
		if most.Load() > 4 {
			t.Errorf("%d endpoints at a time", most.Load())
		}

		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		network, err := publicnet.New(&publicnet.Options{UserAgent: "test", Below: net.Below()})
		if err != nil {
			t.Fatal(err)
		}
		client := network.Client()
		defer client.CloseIdleConnections()
		begin := time.Now()
		if _, err := check.Address(ctx, client, "list.example.com"); err == nil || time.Since(begin) > time.Second {
			t.Errorf("error %v after %v", err, time.Since(begin))
		}
	})
}
