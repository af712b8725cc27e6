package oauth

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// sdkServer has two tools, and tells which one ran last.
func sdkServer(ran *string) http.Handler {
	s := mcp.NewServer(&mcp.Implementation{Name: "n", Version: "1"}, nil)
	for _, name := range []string{"list", "wipe"} {
		mcp.AddTool(s, &mcp.Tool{Name: name}, func(context.Context, *mcp.CallToolRequest, map[string]any) (*mcp.CallToolResult, any, error) {
			*ran = name
			return &mcp.CallToolResult{}, nil, nil
		})
	}
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s },
		&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, DisableLocalhostProtection: true})
}

// Whoever is behind the guard may read more leniently than we do, as the SDK
// does: a body that we cannot read gets no further, and its operation does not
// run for the basic scopes.
func TestAttackBodiesThatOthersRead(t *testing.T) {
	is := newGuardIssuer(t)
	var ran string
	sdk := sdkServer(&ran)
	seen := false
	g := is.guard(nil)
	h := g.Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = true
		sdk.ServeHTTP(w, r)
	}))
	call := func(arguments string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wipe","arguments":{"a":` + arguments + `}}}`
	}
	wide := func(s string) string { // UTF-16
		var b strings.Builder
		for _, c := range []byte(s) {
			b.WriteString(string([]byte{c, 0}))
		}
		return b.String()
	}
	deep := strings.Repeat("[", 70) + strings.Repeat("]", 70)
	const jsonFault, rpcFault = `"code":-32700`, `"code":-32600`
	for name, c := range map[string]struct {
		body, version, want string
		sdk                 bool // the SDK runs it
	}{
		"no UTF-8":                   {call("\"\xff\""), "2025-06-18", jsonFault, true},
		"half a pair":                {call(`"\ud800"`), "2025-06-18", jsonFault, true},
		"deep":                       {call(deep), "2025-06-18", jsonFault, true},
		"more behind it":             {call("1") + "x", "2025-06-18", jsonFault, true},
		"a zero behind it":           {call("1") + "\x00", "2025-06-18", jsonFault, true},
		"two texts":                  {call("1") + call("1"), "2025-06-18", jsonFault, true},
		"two texts, harmless first":  {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + call("1"), "2025-06-18", jsonFault, false},
		"batch, no UTF-8":            {"[" + call("\"\xff\"") + "]", "2025-03-26", jsonFault, true},
		"batch, deep":                {"[" + call(deep) + "]", "2025-03-26", jsonFault, true},
		"batch in a batch":           {"[[" + call("1") + "]]", "2025-03-26", rpcFault, false},
		"byte order mark":            {"\xef\xbb\xbf" + call("1"), "2025-06-18", jsonFault, false},
		"UTF-16":                     {wide(call("1")), "2025-06-18", jsonFault, false},
		"cut off":                    {call("1")[:40], "2025-06-18", jsonFault, false},
		"blanks":                     {"  ", "2025-06-18", jsonFault, false},
		"text":                       {`"tools/call"`, "2025-06-18", rpcFault, false},
		"new version without method": {call("\"\xff\""), "2026-07-28", jsonFault, false},
	} {
		t.Run(name, func(t *testing.T) {
			headers := []string{
				"Authorization: Bearer " + is.scoped("notes.read"), "MCP-Protocol-Version: " + c.version,
				"Content-Type: application/json", "Accept: application/json, text/event-stream",
			}
			ran, seen = "", false
			w := send(h, "POST", guardResource, c.body, headers...)
			if w.Code != 400 || w.Header().Get("Content-Type") != "application/json" || !json.Valid(w.Body.Bytes()) || !strings.Contains(w.Body.String(), c.want) {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
			if seen || ran != "" {
				t.Error("it went through the guard")
			}
			if send(sdk, "POST", guardResource, c.body, headers...); (ran == "wipe") != c.sdk {
				t.Errorf("the SDK runs it: %t", !c.sdk)
			}
		})
	}
}

// An encoded body is another text to whoever decodes it.
func TestAttackEncodedBodies(t *testing.T) {
	is := newGuardIssuer(t)
	seen := false
	h := is.guard(nil).Protect(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { seen = true }))
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(`{"method":"tools/call","params":{"name":"wipe"}}`))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	token := "Authorization: Bearer " + is.scoped("notes.read")
	const list = `{"method":"tools/list"}`
	for _, headers := range [][]string{
		{"Content-Encoding: gzip"},
		{"Content-Encoding: identity", "Content-Encoding: x-gzip"},
		{"Content-Encoding: identity, gzip"},
		{"Content-Encoding: br", "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list"},
	} {
		for _, body := range []string{packed.String(), list} {
			w := send(h, "POST", guardResource, body, append(headers, token)...)
			if w.Code != 415 || w.Header().Get("Accept-Encoding") != "identity" || seen {
				t.Errorf("%q: status %d, behind the guard %t", headers, w.Code, seen)
			}
		}
	}
	if w := send(h, "POST", guardResource, list, token, "Content-Encoding: Identity"); w.Code != 200 || !seen {
		t.Errorf("identity: status %d", w.Code)
	}
}

// Every method that may have a body is judged by it, and the others bring none.
func TestAttackOtherMethods(t *testing.T) {
	is := newGuardIssuer(t)
	body := "nothing"
	h := is.guard(nil).Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if int64(len(b)) != r.ContentLength {
			t.Errorf("content length %d", r.ContentLength)
		}
		body = string(b)
	}))
	const wipe = `{"method":"tools/call","params":{"name":"wipe"}}`
	token := "Authorization: Bearer " + is.scoped("notes.read")
	for _, method := range []string{"POST", "PUT", "PATCH", "QUERY", "post", "TRACE"} {
		expect(t, send(h, method, guardResource, wipe, token), 403, "insufficient_scope", "notes.admin", "notes.read", "notes.write")
	}
	for _, method := range []string{"GET", "HEAD", "DELETE", "OPTIONS"} {
		body = "nothing"
		if w := send(h, method, guardResource, wipe, token); w.Code != 200 || body != "" {
			t.Errorf("%s: status %d, body %q", method, w.Code, body)
		}
	}
}

// What looks like a preflight brings neither a token nor a body behind the guard.
func TestAttackPreflightBringsNothing(t *testing.T) {
	is := newGuardIssuer(t)
	h := is.guard(nil).Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b, err := io.ReadAll(r.Body); err != nil || len(b) > 0 || r.ContentLength != 0 {
			t.Errorf("body %q of %d, %v", b, r.ContentLength, err)
		}
		if r.Header["Authorization"] != nil {
			t.Error("the token went through")
		}
		if auth.TokenInfoFromContext(r.Context()) != nil {
			t.Error("there is a caller")
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	r := httptest.NewRequest("OPTIONS", guardResource, strings.NewReader("{}"))
	r.Header = http.Header{"Origin": {"https://host.example.org"}, "Access-Control-Request-Method": {"POST"}, "Authorization": {"Bearer x"}}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != 204 || r.Header["Authorization"] == nil {
		t.Errorf("status %d, or the request of the caller was changed", w.Code)
	}
}

// A second token is found wherever somebody behind us could read one.
func TestAttackSecondToken(t *testing.T) {
	is := newGuardIssuer(t)
	h := is.guard(nil).Protect(ok200)
	token := "Authorization: Bearer " + is.token(nil)
	for query, status := range map[string]int{
		"access_token=x": 400, "access_token": 400, "access_token=%zz": 400, "a=1;access_token=x": 400, "access_token=x;": 400,
		"access_token=a%": 400, "&&access_token=x": 400, "%61ccess%5ftoken=x": 400, "a=%zz&access_token=x": 400, "a=%zz;access_token=x;b": 400,
		"Access_Token=x": 200, "access_token%zz=x": 200, "x=access_token": 200, "x_access_token=1": 200, "a=%zz": 200, ";&": 200,
	} {
		t.Run(query, func(t *testing.T) {
			code := ""
			if status == 400 {
				code = "invalid_request"
			}
			expect(t, send(h, "GET", guardResource+"?"+query, "", token), status, code)
		})
	}
	for _, media := range []string{
		"application/x-www-form-urlencoded", "Application/X-WWW-Form-URLencoded ; charset=utf-8", "application/json\nContent-Type: application/x-www-form-urlencoded",
	} {
		headers := []string{token}
		for part := range strings.SplitSeq("Content-Type: "+media, "\n") {
			headers = append(headers, part)
		}
		expect(t, send(h, "POST", guardResource, "access_token=x", headers...), 415, "")
		expect(t, send(h, "POST", guardResource, "access_token=x", headers[1:]...), 401, "", "notes.read")
	}
}

// Whoever rewrites the headers of one answer changes no other one.
func TestRefusalsShareNothing(t *testing.T) {
	is := newGuardIssuer(t)
	h := is.guard(nil).Protect(ok200)
	for _, headers := range [][]string{nil, {"Authorization: Bearer"}, {"Authorization: Bearer x"}, {"Authorization: Bearer " + is.scoped("other")}} {
		w := send(h, "GET", guardResource, "", headers...)
		want := w.Header().Get("WWW-Authenticate")
		for name, values := range w.Header() {
			for i := range values {
				values[i] = "evil " + name
			}
		}
		if got := send(h, "GET", guardResource, "", headers...).Header().Get("WWW-Authenticate"); want == "" || got != want {
			t.Errorf("challenge %q, then %q", want, got)
		}
	}
}

// A client that acts for itself never gets what is a user's of the same name.
func TestAttackClientNamedLikeAUser(t *testing.T) {
	is := newGuardIssuer(t)
	answer := map[string]any{"active": true, "aud": guardResource, "client_id": "alice", "scope": "notes.read", "exp": time.Now().Unix() + 60}
	is.net.Handle("as.example.org", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(answer) }))
	var user string
	var who Identity
	h := is.guard(func(p *Protection) {
		p.Issuers[0].Introspection = &Introspection{Endpoint: "https://as.example.org/ask", ClientID: "rs", ClientSecret: "s"}
	}).Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		info := auth.TokenInfoFromContext(r.Context())
		user = info.UserID
		who, _ = IdentityFrom(info)
	}))
	users := map[string]bool{}
	for i, subject := range []any{nil, "alice", "#client alice", "client alice"} {
		if answer["sub"] = subject; subject == nil {
			delete(answer, "sub")
		}
		expect(t, callTool(h, fmt.Sprint("opaque-", i), "list"), 200, "")
		if users[user] || who.Itself != (subject == nil) || !strings.HasPrefix(user, guardIssuerURL) {
			t.Errorf("subject %v: user %q, %+v", subject, user, who)
		}
		users[user] = true
	}
}
