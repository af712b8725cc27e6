package check_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/publisher"
)

const metadataURL = "https://apps.example.com/.well-known/oauth-protected-resource/mcp"

// OB-60, OB-61, OB-62, OB-64: a challenge is followed to where a host would sign
// in, and nobody signs in.
func TestRule_OB60_CheckFollowsTheChallenge(t *testing.T) {
	challenged := func(challenge string, change func(*fakenet.Net)) string {
		net := fakenet.New()
		defer net.Close()
		serveCard(net, "")
		net.SetMethod(http.MethodPost, endpoint, fakenet.Answer{Status: 401, Header: http.Header{"Www-Authenticate": {challenge}}})
		signInAt(net, metadataURL, endpoint)
		change(net)
		out := address(t, net, cardURL)
		if got := posts(net); len(got) != 3 {
			t.Errorf("requests %q", got)
		}
		return out
	}
	nothing := func(*fakenet.Net) {}
	asJSON := http.Header{"Content-Type": {"application/json"}}
	named := `Bearer resource_metadata="` + metadataURL + `", scope="read"`

	out := challenged(named, nothing)
	for _, want := range []string{
		"fact protected: sign-in needed (status 401, Bearer)", "pass the challenge leads to the resource metadata " + metadataURL + " [OB-60]",
		"pass the metadata is of this resource: " + endpoint + " [OB-62]", "pass authorization server https://login.example.com/t [OB-64]",
		"pass PKCE with S256 [OB-62]", "pass takes a client id metadata document [OB-61]",
	} {
		has(t, out, want)
	}
	if strings.Contains(out, "\n  fault") {
		t.Errorf("faults in:\n%s", out)
	}
	has(t, challenged("Bearer", nothing), "advice /remotes/0/url: the challenge names no resource_metadata: hosts found it at "+metadataURL)
	has(t, challenged("Basic", nothing), `fault /remotes/0/url: the challenge is of the scheme "Basic"`)
	for want, change := range map[string]func(*fakenet.Net){
		"fault /remotes/0/url: hosts cannot find where to sign in: " + metadataURL + " gets status 404": func(n *fakenet.Net) {
			n.Set(metadataURL, fakenet.Answer{Status: 404})
		},
		`fault /remotes/0/url: the resource metadata is of "https://apps.example.com/mcp/", the endpoint in the card is "https://apps.example.com/mcp"`: func(n *fakenet.Net) {
			signInAt(n, metadataURL, endpoint+"/")
		},
		"fault /remotes/0/url: the resource metadata names no authorization_servers": func(n *fakenet.Net) {
			n.Set(metadataURL, fakenet.Answer{Header: asJSON, Body: `{"resource":"` + endpoint + `"}`})
		},
		"is not the metadata that it should be": func(n *fakenet.Net) { n.Set(metadataURL, fakenet.Answer{Header: asJSON, Body: `<html>`}) },
		`fault /remotes/0/url: the authorization server calls itself "https://login.example.com"`: func(n *fakenet.Net) {
			n.Set("https://login.example.com/.well-known/oauth-authorization-server/t", fakenet.Answer{Header: asJSON, Body: `{"issuer":"https://login.example.com"}`})
		},
		"does not offer PKCE with S256": func(n *fakenet.Net) {
			n.Set("https://login.example.com/.well-known/oauth-authorization-server/t", fakenet.Answer{Header: asJSON, Body: `{"issuer":"https://login.example.com/t","code_challenge_methods_supported":["plain"]}`})
		},
		"does not take client id metadata documents": func(n *fakenet.Net) {
			n.Set("https://login.example.com/.well-known/oauth-authorization-server/t", fakenet.Answer{Header: asJSON, Body: `{"issuer":"https://login.example.com/t","code_challenge_methods_supported":["S256"]}`})
		},
		"no metadata of the authorization server https://login.example.com/t: ": func(n *fakenet.Net) {
			n.Set("https://login.example.com/.well-known/oauth-authorization-server/t", fakenet.Answer{Status: 500})
		},
	} {
		has(t, challenged(named, change), want)
	}
	// The other form of the address counts too.
	out = challenged(named, func(n *fakenet.Net) {
		n.Set("https://login.example.com/.well-known/oauth-authorization-server/t", fakenet.Answer{Status: 404})
		n.Set("https://login.example.com/t/.well-known/openid-configuration", fakenet.Answer{Header: asJSON, Body: serverDocument})
	})
	has(t, out, "pass authorization server https://login.example.com/t [OB-64]")
}

// guardedServer is a protected endpoint whose every answer can be spoiled.
type guardedServer struct {
	none, made, query fakenet.Answer // to a call without a token, with a made-up one, with one in the address
	options           fakenet.Answer

	token string // the made-up one
}

// newGuardedServer makes no mistake.
func newGuardedServer() *guardedServer {
	challenge := func(more string) fakenet.Answer {
		return fakenet.Answer{Status: 401, Header: http.Header{"Www-Authenticate": {`Bearer resource_metadata="` + metadataURL + `", scope="read"` + more}}}
	}
	return &guardedServer{
		none: challenge(""), made: challenge(`, error="invalid_token"`), query: challenge(""),
		options: fakenet.Answer{Status: 204, Header: http.Header{
			"Access-Control-Allow-Origin":  {"https://openbot-check.invalid"},
			"Access-Control-Allow-Headers": {"Authorization, Content-Type, MCP-Protocol-Version, Mcp-Method, Mcp-Name"},
		}},
	}
}

func (s *guardedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := s.none
	switch {
	case r.Method == http.MethodOptions:
		a = s.options
	case r.URL.RawQuery != "":
		a = s.query
	case r.Header.Get("Authorization") != "":
		s.token = r.Header.Get("Authorization")
		a = s.made
	}
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	if a.Status == 0 {
		a.Status = 200
	}
	w.WriteHeader(a.Status)
}

// checkGuarded checks a card whose endpoint is s. change may spoil what stands
// around it.
func checkGuarded(t *testing.T, s *guardedServer, change func(*fakenet.Net)) string {
	t.Helper()
	net := fakenet.New()
	defer net.Close()
	net.Handle("apps.example.com", s)
	serveCard(net, "")
	signInAt(net, metadataURL, endpoint)
	root := strings.TrimSuffix(metadataURL, "/mcp")
	net.Set(root, fakenet.Answer{Status: 404})
	if change != nil {
		change(net)
	}
	return address(t, net, cardURL)
}

// OB-60: each way in which a protected endpoint keeps hosts from signing in, or
// lets in whom it should not, is a sentence.
func TestRule_OB60_CheckJudgesTheProtection(t *testing.T) {
	out := checkGuarded(t, newGuardedServer(), nil)
	for _, want := range []string{
		"pass the card is read without signing in [OB-60]",
		"pass a preflight needs no token (status 204) [OB-60]",
		"pass a made-up token is refused (401, invalid_token) [OB-60]",
		"pass a token in the address opens nothing (status 401) [OB-60]",
		"pass the metadata names the scopes read [OB-60]",
		"pass browsers can read the metadata (CORS, preflight, HEAD, ETag) [OB-60]",
		"pass hosts find the metadata without the challenge too [OB-64]",
		"pass says in its answers who it is (iss) [OB-64]",
	} {
		has(t, out, want)
	}
	if strings.Contains(out, "\n  fault") || strings.Contains(out, "advice /remotes") {
		t.Errorf("faults in:\n%s", out)
	}
	status := func(n int) fakenet.Answer { return fakenet.Answer{Status: n} }
	for want, spoil := range map[string]func(*guardedServer){
		`advice /remotes/0/url: a call without a token gets the error "invalid_token"`: func(s *guardedServer) { s.none = s.made },
		`advice /remotes/0/url: the challenge asks for the scope offline_access`: func(s *guardedServer) {
			s.none.Header = http.Header{"Www-Authenticate": {`Bearer scope="read offline_access", resource_metadata="` + metadataURL + `"`}}
		},
		`fault /remotes/0/url: a preflight (OPTIONS) gets status 401: answer OPTIONS without`: func(s *guardedServer) { s.options = status(401) },
		`advice /remotes/0/url: a preflight (OPTIONS) gets status 405`:                        func(s *guardedServer) { s.options = status(405) },
		`fault /remotes/0/url: the answer to a preflight (OPTIONS) does not allow the headers authorization, mcp-name, which`: func(s *guardedServer) {
			s.options.Header = http.Header{"Access-Control-Allow-Origin": {"*"}, "Access-Control-Allow-Headers": {"content-type, mcp-protocol-version", "Mcp-Method"}}
		},
		`pass a preflight needs no token (status 200) [OB-60]`:                                                     func(s *guardedServer) { s.options = status(200) },
		`pass a page of another origin gets no further than its preflight (403) [OB-5]`:                            func(s *guardedServer) { s.options = status(403) },
		`fault /remotes/0/url: a made-up token, of an issuer that does not exist, opens the endpoint (status 200)`: func(s *guardedServer) { s.made = status(200) },
		`fault /remotes/0/url: a made-up token gets status 500: answer 401`:                                        func(s *guardedServer) { s.made = status(500) },
		`advice /remotes/0/url: a made-up token gets 401 (without an error): name the error`:                       func(s *guardedServer) { s.made = s.none },
		`fault /remotes/0/url: a made-up token in the address (access_token=) gets status 200`:                     func(s *guardedServer) { s.query = status(200) },
		`advice /remotes/0/url: a token is read from the address (access_token=)`:                                  func(s *guardedServer) { s.query = s.made },
		`pass a token in the address opens nothing (status 400) [OB-60]`:                                           func(s *guardedServer) { s.query = status(400) },
	} {
		s := newGuardedServer()
		spoil(s)
		has(t, checkGuarded(t, s, nil), want)
	}
}

// OB-60, OB-64: the resource metadata is complete, can be read by browsers, and
// stands at each place for its own resource.
func TestRule_OB64_CheckLooksWhereHostsDo(t *testing.T) {
	root := strings.TrimSuffix(metadataURL, "/mcp")
	asJSON := http.Header{"Content-Type": {"application/json"}}
	document := func(resource, scopes string) string {
		return `{"resource":"` + resource + `","authorization_servers":["https://login.example.com/t"]` + scopes + `}`
	}
	elsewhere := newGuardedServer()
	elsewhere.none.Header = http.Header{"Www-Authenticate": {`Bearer resource_metadata="https://apps.example.com/meta"`}}
	for want, test := range map[string]struct {
		server *guardedServer
		change func(*fakenet.Net)
	}{
		`fault /remotes/0/url: the metadata at ` + root + ` is of "` + endpoint + `": at the root it can only be of the origin "https://apps.example.com"`: {nil, func(n *fakenet.Net) {
			n.Set(root, fakenet.Answer{Header: asJSON, Body: document(endpoint, "")})
		}},
		`fault /remotes/0/url: the metadata at ` + metadataURL + ` is of "https://apps.example.com/other", and hosts expect`: {elsewhere, func(n *fakenet.Net) {
			signInAt(n, "https://apps.example.com/meta", endpoint)
			n.Set(metadataURL, fakenet.Answer{Header: asJSON, Body: document("https://apps.example.com/other", "")})
		}},
		`advice /remotes/0/url: hosts that did not see the challenge find no metadata: ` + metadataURL + ` gets status 404`: {elsewhere, func(n *fakenet.Net) {
			signInAt(n, "https://apps.example.com/meta", endpoint)
			n.Set(metadataURL, fakenet.Answer{Status: 404})
		}},
		`fault /remotes/0/url: the resource metadata names no scopes_supported`: {nil, func(n *fakenet.Net) {
			n.Set(metadataURL, fakenet.Answer{Header: asJSON, Body: document(endpoint, "")})
		}},
		`advice /remotes/0/url: scopes_supported holds offline_access`: {nil, func(n *fakenet.Net) {
			n.Set(metadataURL, fakenet.Answer{Header: asJSON, Body: document(endpoint, `,"scopes_supported":["read","offline_access"]`)})
		}},
		`advice /remotes/0/url: the resource metadata lacks Access-Control-Allow-Origin: *, an ETag, an answer to a preflight (OPTIONS)`: {nil, func(n *fakenet.Net) {
			n.Set(metadataURL, fakenet.Answer{Header: asJSON, Body: document(endpoint, `,"scopes_supported":["read"]`)})
			n.SetMethod(http.MethodOptions, metadataURL, fakenet.Answer{Status: 405})
		}},
		`fault /remotes/0/url: the authorization server https://login.example.com/t names no https address as its token_endpoint`: {nil, func(n *fakenet.Net) {
			n.Set("https://login.example.com/.well-known/oauth-authorization-server/t", fakenet.Answer{Header: asJSON, Body: strings.Replace(serverDocument, "https://login.example.com/t/t", "http://login.example.com/t/t", 1)})
		}},
		`advice /remotes/0/url: the authorization server https://login.example.com/t does not say in its answers who it is`: {nil, func(n *fakenet.Net) {
			n.Set("https://login.example.com/.well-known/oauth-authorization-server/t", fakenet.Answer{Header: asJSON, Body: strings.Replace(serverDocument, `,"authorization_response_iss_parameter_supported":true`, "", 1)})
		}},
	} {
		server := test.server
		if server == nil {
			server = newGuardedServer()
		}
		has(t, checkGuarded(t, server, test.change), want)
	}
}

// The token that is tried is a whole one, for this endpoint, of an issuer that
// nobody can own.
func TestStrangersToken(t *testing.T) {
	s := newGuardedServer()
	checkGuarded(t, s, nil)
	parts := strings.Split(strings.TrimPrefix(s.token, "Bearer "), ".")
	if len(parts) != 3 {
		t.Fatal("no JWT was sent")
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Iss, Aud string
		Exp, Iat int64
	}
	if err := json.Unmarshal(claims, &c); err != nil {
		t.Fatal(err)
	}
	if c.Iss != "https://openbot-check.invalid" || c.Aud != endpoint || c.Exp <= c.Iat {
		t.Errorf("claims %+v", c)
	}
	if signature, err := base64.RawURLEncoding.DecodeString(parts[2]); err != nil || len(signature) != 64 {
		t.Errorf("a signature of %d bytes, %v", len(signature), err)
	}
}

// An app that a publisher protects keeps every rule that is looked at.
func TestCheckPassesAProtectedPublisher(t *testing.T) {
	net := fakenet.New()
	defer net.Close()
	network, err := publicnet.New(&publicnet.Options{UserAgent: "test", Below: net.Below()})
	if err != nil {
		t.Fatal(err)
	}
	c := card.Card{Name: "com.example/notes", Title: "Notes", Version: "1.0.0", Description: "Notes of one person."}
	server, err := publisher.NewServer(&c, nil)
	if err != nil {
		t.Fatal(err)
	}
	server.AddTool(&mcp.Tool{Name: "add", Description: "Add a note.", InputSchema: json.RawMessage(`{"type":"object"}`)}, nil)
	p, err := publisher.New(&publisher.Config{Origin: "https://apps.example.com", Apps: []publisher.App{{
		Slug: "notes", Card: c, Server: server, AllowedOrigins: []string{"https://openbot-check.invalid"},
		Protection: &oauth.Protection{
			Issuers: []oauth.Issuer{{URL: "https://login.example.com/t", JWKS: "https://login.example.com/keys"}},
			Scopes:  oauth.Scopes{Basic: []string{"read"}}, Network: network,
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	net.Handle("apps.example.com", p)
	net.Set("https://login.example.com/.well-known/oauth-authorization-server/t", fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: serverDocument})
	out := address(t, net, "apps.example.com")
	has(t, out, "fact protected: sign-in needed (status 401, Bearer)")
	has(t, out, "pass a made-up token is refused (401, invalid_token) [OB-60]")
	has(t, out, "pass a preflight needs no token (status 204) [OB-60]")
	has(t, out, "pass browsers can read the metadata (CORS, preflight, HEAD, ETag) [OB-60]")
	if strings.Contains(out, "\n  fault") || strings.Contains(out, "advice /remotes") {
		t.Error(out)
	}
}

// spoiledServer checks a protected app whose authorization server says something
// else in one place.
func spoiledServer(t *testing.T, from, to string) string {
	t.Helper()
	if !strings.Contains(serverDocument, from) {
		t.Fatalf("no %s to spoil", from)
	}
	return checkGuarded(t, newGuardedServer(), func(n *fakenet.Net) {
		n.Set("https://login.example.com/.well-known/oauth-authorization-server/t", fakenet.Answer{
			Header: http.Header{"Content-Type": {"application/json"}}, Body: strings.Replace(serverDocument, from, to, 1),
		})
	})
}

// OB-61: an authorization server that takes no client documents keeps every host
// out that was not registered by hand.
func TestRule_OB61_CheckWantsClientDocuments(t *testing.T) {
	has(t, checkGuarded(t, newGuardedServer(), nil), "pass takes a client id metadata document [OB-61]")
	has(t, spoiledServer(t, `"client_id_metadata_document_supported":true`, `"client_id_metadata_document_supported":false`),
		"fault /remotes/0/url: the authorization server https://login.example.com/t does not take client id metadata documents")
}

// OB-62: S256 has to be offered, and the resource is the endpoint, octet for
// octet.
func TestRule_OB62_CheckWantsS256AndTheExactResource(t *testing.T) {
	out := checkGuarded(t, newGuardedServer(), nil)
	has(t, out, "pass PKCE with S256 [OB-62]")
	has(t, out, "pass the metadata is of this resource: "+endpoint+" [OB-62]")
	for _, methods := range []string{`["plain"]`, `[]`, `["s256"]`} {
		has(t, spoiledServer(t, `["S256"]`, methods), "fault /remotes/0/url: the authorization server https://login.example.com/t does not offer PKCE with S256")
	}
	for _, resource := range []string{endpoint + "/", "https://apps.example.com", "https://apps.example.com:443/mcp", "https://Apps.example.com/mcp"} {
		out := checkGuarded(t, newGuardedServer(), func(n *fakenet.Net) { signInAt(n, metadataURL, resource) })
		has(t, out, `fault /remotes/0/url: the resource metadata is of "`+resource+`", the endpoint in the card is "`+endpoint+`"`)
	}
}
