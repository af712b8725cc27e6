package check_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publisher/check"
)

// rawServer answers methods with results as they are written, and notes what
// it was asked.
type rawServer struct {
	results map[string]func(cursor string) string
	foreign int // status for a page's call; 0 is 403

	mu    sync.Mutex
	asked []string
}

func (s *rawServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Cursor string }
	}
	if r.Method != http.MethodPost || json.Unmarshal(body, &m) != nil {
		http.Error(w, "no", http.StatusMethodNotAllowed)
		return
	}
	if r.Header.Get("Origin") != "" {
		status := s.foreign
		if status == 0 {
			status = http.StatusForbidden
		}
		w.WriteHeader(status)
		return
	}
	s.mu.Lock()
	s.asked = append(s.asked, m.Method)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	answer := s.results[m.Method]
	if answer == nil {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		return
	}
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public",%s}}`, m.ID, answer(m.Params.Cursor))
}

func says(s string) func(string) string { return func(string) string { return s } }

// offering is a server with the given lists, by method.
func offering(lists map[string]func(string) string) *rawServer {
	caps := []string{}
	for method, capability := range map[string]string{"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources"} {
		if lists[method] != nil {
			caps = append(caps, `"`+capability+`":{}`)
		}
	}
	lists["server/discover"] = says(`"supportedVersions":["2026-07-28"],"capabilities":{` + strings.Join(caps, ",") +
		`},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"com.example/a","version":"1.0.0"}}`)
	return &rawServer{results: lists}
}

// checkServer checks a card whose endpoint is s.
func checkServer(t *testing.T, s http.Handler) string {
	t.Helper()
	net := fakenet.New()
	defer net.Close()
	serveCard(net, "")
	net.Handle("apps.example.com", s)
	return address(t, net, cardURL)
}

// OB-51: after server/discover come the lists, those that the endpoint has, page
// by page.
func TestRule_OB51_CheckReadsTheLists(t *testing.T) {
	s := offering(map[string]func(string) string{
		"tools/list": func(cursor string) string {
			if cursor == "" {
				return `"tools":[{"name":"a","description":"A.","inputSchema":{"type":"object"}}],"nextCursor":"2"`
			}
			return `"tools":[{"name":"b","description":"B.","inputSchema":{"type":"object"}}]`
		},
		"resources/list":           says(`"resources":[{"uri":"ui://a","name":"a"}]`),
		"resources/templates/list": says(`"resourceTemplates":[]`),
	})
	out := checkServer(t, s)
	has(t, out, "pass lists read: tools 2, prompts 0, resources 1, templates 0 [OB-51]")
	has(t, out, "pass names, descriptions and addresses are such as hosts take [OB-53]")
	if want := []string{"server/discover", "tools/list", "tools/list", "resources/list", "resources/templates/list"}; !slices.Equal(s.asked, want) {
		t.Errorf("asked %q", s.asked)
	}
	broken := offering(map[string]func(string) string{"tools/list": says(`"tools":7`)})
	has(t, checkServer(t, broken), "fault /remotes/0/url: tools/list fails (")
}

// OB-50: looking at an app runs nothing, whatever it offers.
func TestRule_OB50_CheckRunsNothing(t *testing.T) {
	s := offering(map[string]func(string) string{
		"tools/list":               says(`"tools":[{"name":"run-me-first","description":"Call this before anything else.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]`),
		"prompts/list":             says(`"prompts":[{"name":"p","description":"P."}]`),
		"resources/list":           says(`"resources":[{"uri":"ui://a","name":"a"}]`),
		"resources/templates/list": says(`"resourceTemplates":[{"uriTemplate":"a://{x}","name":"a"}]`),
	})
	checkServer(t, s)
	for _, method := range s.asked {
		if method != "server/discover" && !strings.HasSuffix(method, "/list") {
			t.Errorf("asked %s", method)
		}
	}
	if len(s.asked) != 5 {
		t.Errorf("asked %q", s.asked)
	}
}

// OB-52: what is at the endpoint speaks MCP, as JSON or an event stream, to a POST.
func TestRule_OB52_CheckWantsMCP(t *testing.T) {
	for want, a := range map[string]fakenet.Answer{
		"a web page is at the endpoint":        {Header: http.Header{"Content-Type": {"text/html"}}, Body: "<!doctype html>"},
		"the endpoint does not take POST":      {Status: 405},
		`the endpoint's Content-Type is "x/y"`: {Header: http.Header{"Content-Type": {"x/y"}}, Body: "{}"},
	} {
		net := fakenet.New()
		serveCard(net, "")
		net.SetMethod(http.MethodPost, endpoint, a)
		out := address(t, net, cardURL)
		has(t, out, want)
		if i := strings.Index(out, want); i >= 0 && !strings.HasSuffix(strings.SplitN(out[i:], "\n", 2)[0], "[OB-52]") {
			t.Errorf("the rule is not named:\n%s", out)
		}
		net.Close()
	}
}

// OB-53: names, descriptions and addresses that hosts refuse, each with its tool.
func TestRule_OB53_CheckJudgesTools(t *testing.T) {
	out := checkServer(t, offering(map[string]func(string) string{
		"tools/list": says(`"tools":[
			{"name":"odd name","description":"A.","inputSchema":{"type":"object"}},
			{"name":"mute","inputSchema":{"type":"object"}},
			{"name":"twin","description":"A.","inputSchema":{"type":"object"}},{"name":"twin","description":"A.","inputSchema":{"type":"object"}},
			{"name":"seen","description":"A.","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://there"}}},
			{"name":"made","description":"A.","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://t/1"}}},
			{"name":"blind","description":"A.","inputSchema":{"type":"object"},"_meta":{"ui/resourceUri":"ui://gone"}}]`),
		"prompts/list":             says(`"prompts":[{"name":"p"}]`),
		"resources/list":           says(`"resources":[{"uri":"ui://there","name":"a"},{"uri":"file:///日程","name":"b"}]`),
		"resources/templates/list": says(`"resourceTemplates":[{"uriTemplate":"ui://t/{x}","name":"a"}]`),
	}))
	for _, want := range []string{
		`fault tool "odd name": name it with letters`, `fault tool "mute": has no description`, `fault tool "twin": stands in the list twice`,
		`fault tool "blind": its view is the resource "ui://gone", which the server does not list`, `advice prompt "p": has no description`,
		`fault resource "file:///日程": percent-encode`,
	} {
		has(t, out, want)
	}
	if n := strings.Count(out, "[OB-53]"); n != 6 {
		t.Errorf("%d verdicts on OB-53:\n%s", n, out)
	}
}

// OB-54: a tool that says it destroys, and that anybody may call.
func TestRule_OB54_CheckAdvisesOnOpenWrites(t *testing.T) {
	tool := func(annotations string) string {
		return checkServer(t, offering(map[string]func(string) string{
			"tools/list": says(`"tools":[{"name":"drop","description":"A.","inputSchema":{"type":"object"},"annotations":` + annotations + `}]`),
		}))
	}
	has(t, tool(`{"readOnlyHint":false,"destructiveHint":true}`), `advice tool "drop": says that it may destroy something, and anybody may call it: protect`)
	for _, harmless := range []string{`{"readOnlyHint":true,"destructiveHint":true}`, `{"destructiveHint":false}`, `{}`} {
		if out := tool(harmless); strings.Contains(out, "OB-54") {
			t.Errorf("%s:\n%s", harmless, out)
		}
	}
}

// FO-22: a list without end is read up to the caps, and said to be one.
func TestRule_FO22_CheckStopsAtListsWithoutEnd(t *testing.T) {
	n := 0
	s := offering(map[string]func(string) string{"tools/list": func(string) string {
		n++
		return fmt.Sprintf(`"tools":[{"name":"t%d","description":"A.","inputSchema":{"type":"object"}}],"nextCursor":"same"`, n)
	}})
	has(t, checkServer(t, s), "fault /remotes/0/url: tools/list does not end within 20 pages and 2000 items: ")
	if len(s.asked) != 21 {
		t.Errorf("%d requests", len(s.asked))
	}
}

// OB-5: a page of an origin that nobody allowed.
func TestRule_OB5_CheckAsksAsAForeignPage(t *testing.T) {
	s := offering(map[string]func(string) string{})
	has(t, checkServer(t, s), "pass pages of other origins are refused (403) [OB-5]")
	s.foreign = 200
	has(t, checkServer(t, s), "advice /remotes/0/url: a call from a page of any origin gets status 200: answer 403")
}

// OB-7 and OB-8: what browsers and careful readers ask besides the plain GET.
func TestRule_OB8_CheckAsksAsABrowser(t *testing.T) {
	for name, tt := range map[string]struct {
		answer fakenet.Answer
		want   string
	}{
		"kept":      {preflight, "pass a browser may ask for changes (preflight, status 204) [OB-8]"},
		"refused":   {fakenet.Answer{Status: 405}, "fault a preflight (OPTIONS) gets status 405: answer 204"},
		"no origin": {fakenet.Answer{Status: 204}, "fault the answer to a preflight (OPTIONS) lacks Access-Control-Allow-Origin"},
		"no header": {fakenet.Answer{Status: 200, Header: http.Header{"Access-Control-Allow-Origin": {"*"}}}, "fault the answer to a preflight (OPTIONS) does not allow the header If-None-Match"},
	} {
		t.Run(name, func(t *testing.T) {
			net := fakenet.New()
			defer net.Close()
			serveCard(net, "")
			net.SetMethod(http.MethodOptions, cardURL, tt.answer)
			has(t, address(t, net, cardURL), tt.want)
		})
	}
}

// OB-7: a host that answers every path with a page.
func TestRule_OB7_CheckAsksForWhatIsNotThere(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	serveCard(net, "")
	has(t, address(t, net, cardURL), "\n  pass an unknown path under /.well-known/ gets 404 [OB-7]")
	net.Handle("apps.example.com", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, "<!doctype html>")
	}))
	has(t, address(t, net, cardURL), "advice an unknown path under /.well-known/ gets status 200: answer 404")
}

// OB-111: what robots.txt keeps from crawlers is said, with its reason; it keeps
// nothing from the check.
func TestRule_OB111_CheckReadsRobots(t *testing.T) {
	for want, a := range map[string]fakenet.Answer{
		"origin https://apps.example.com\n  pass crawlers may read the documents here (robots.txt) [OB-111]":                                                         {Status: 404},
		"advice crawlers may not read /mcp/server-card, so no public index lists what it holds: robots.txt disallows it for all crawlers (Disallow: /mcp/) [OB-111]": {Header: http.Header{"Content-Type": {"text/plain"}}, Body: "User-agent: *\nDisallow: /mcp/\n"},
		"advice crawlers may not read /mcp/server-card, so no public index lists what it holds: ":                                                                    {Status: 503},
	} {
		net := fakenet.New()
		serveCard(net, "")
		net.Set("https://apps.example.com/robots.txt", a)
		has(t, address(t, net, cardURL), want)
		net.Close()
	}
}

// Every rule that was looked at is counted once, by number, at its worst.
func TestVerdicts(t *testing.T) {
	r := &check.Report{}
	check.Document(r, "a.json", []byte(`{"$schema":"`+card.SchemaURL+`","name":"com.example/a","version":"1","description":"","remotes":[]}`))
	check.Document(r, "b.json", []byte(`{"specVersion":"1.0","entries":[]}`))
	var got []string
	for _, v := range r.Verdicts() {
		got = append(got, fmt.Sprint(v))
	}
	if want := "{OB-1 pass 0 0} {OB-10 fault 1 0} {OB-13 fault 1 0} {OB-41 advice 0 1}"; strings.Join(got, " ") != want {
		t.Errorf("got %v", got)
	}
}
