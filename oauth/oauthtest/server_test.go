package oauthtest_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/oauth/oauthtest"
)

func (w *world) metadata(t *testing.T, address string) map[string]any {
	t.Helper()
	resp, body := w.get(t.Context(), t, address)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%s: %d, %s", address, resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRule_OauthA1_MetadataAtBothNames(t *testing.T) {
	for issuer, addresses := range map[string][]string{
		"https://as.example.com": {
			"https://as.example.com/.well-known/oauth-authorization-server", "https://as.example.com/.well-known/openid-configuration",
		},
		"https://as.example.com/tenant/1": {
			"https://as.example.com/.well-known/oauth-authorization-server/tenant/1", "https://as.example.com/.well-known/openid-configuration/tenant/1",
			"https://as.example.com/tenant/1/.well-known/openid-configuration",
		},
	} {
		w := newWorld(t, func(o *oauthtest.Options) { o.Issuer = issuer })
		for _, address := range addresses {
			m := w.metadata(t, address)
			if m["issuer"] != issuer {
				t.Errorf("%s: issuer %v", address, m["issuer"])
			}
			if got, _ := json.Marshal(m["code_challenge_methods_supported"]); string(got) != `["S256"]` {
				t.Errorf("%s: code challenge methods %s", address, got)
			}
			for name, value := range m {
				if link, ok := value.(string); ok && strings.HasSuffix(name, "_endpoint") && !strings.HasPrefix(link, issuer+"/") {
					t.Errorf("%s: %s is %s", address, name, link)
				}
			}
			if _, ok := m["registration_endpoint"]; ok {
				t.Errorf("%s offers a registration that there is not", address)
			}
		}
		w.signIn(t) // all endpoints are where the metadata says
		if resp, _ := w.get(t.Context(), t, "https://as.example.com/userinfo"); resp.StatusCode != 404 {
			t.Errorf("an endpoint that is not ours: %d", resp.StatusCode)
		}
	}
}

func TestRule_OauthA2_IssInEveryResponse(t *testing.T) {
	w := newWorld(t, nil)
	m := w.metadata(t, issuer+"/.well-known/oauth-authorization-server")
	if m["authorization_response_iss_parameter_supported"] != true || m["client_id_metadata_document_supported"] != true {
		t.Errorf("metadata: %v", m)
	}
	if back := w.approve(t, authorization()); back.Get("iss") != issuer || back.Get("code") == "" || back.Get("state") != "s-1" {
		t.Errorf("a sign-in that worked: %v", back)
	}
	to, err := w.Refuse(t.Context(), nil, w.authorizeURL(authorization()))
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(to)
	if back := u.Query(); back.Get("iss") != issuer || back.Get("error") != "access_denied" || back.Get("state") != "s-1" || back.Has("code") {
		t.Errorf("a sign-in that was refused: %v", back)
	}
	if u.Host != "127.0.0.1:43117" || u.Path != "/callback" {
		t.Errorf("the answer goes to %s", to)
	}
	for name, c := range map[string]struct {
		v    url.Values
		want string
	}{
		"scope":             {with(authorization(), "scope", "notes.delete"), "invalid_scope"},
		"openid":            {with(authorization(), "scope", "openid"), "invalid_scope"},
		"no resource":       {with(authorization(), "resource", ""), "invalid_target"},
		"unknown resource":  {with(authorization(), "resource", notes+"/"), "invalid_target"},
		"no challenge":      {with(authorization(), "code_challenge", ""), "invalid_request"},
		"plain":             {with(authorization(), "code_challenge_method", "plain"), "invalid_request"},
		"no method":         {with(authorization(), "code_challenge_method", ""), "invalid_request"},
		"short challenge":   {with(authorization(), "code_challenge", "abc"), "invalid_request"},
		"implicit":          {with(authorization(), "response_type", "token"), "unsupported_response_type"},
		"hybrid":            {with(authorization(), "response_type", "code token"), "unsupported_response_type"},
		"no response type":  {with(authorization(), "response_type", ""), "invalid_request"},
		"fragment":          {with(authorization(), "response_mode", "fragment"), "invalid_request"},
		"form_post":         {with(authorization(), "response_mode", "form_post"), "invalid_request"},
		"json":              {with(authorization(), "response_mode", "json"), "invalid_request"},
		"jwt":               {with(authorization(), "response_mode", "jwt"), "invalid_request"},
		"both wrong":        {with(authorization(), "response_mode", "fragment", "response_type", "token", "scope", "openid"), "unsupported_response_type"},
		"request object":    {with(authorization(), "request", "e30.e30."), "request_not_supported"},
		"request by name":   {with(authorization(), "request_uri", "urn:x"), "request_uri_not_supported"},
		"mode and scope":    {with(authorization(), "response_mode", "form_post", "scope", "notes.delete"), "invalid_request"},
		"without a page":    {with(authorization(), "prompt", "none"), "login_required"},
		"several resources": {url.Values{"resource": {notes, mail}}, "invalid_target"},
	} {
		v := authorization()
		for k, values := range c.v {
			v[k] = values
		}
		for k := range v {
			if !c.v.Has(k) && name != "several resources" {
				v.Del(k)
			}
		}
		to, err := w.Approve(t.Context(), nil, w.authorizeURL(v), "ada")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		u, err := url.Parse(to)
		if err != nil || u.Fragment != "" {
			t.Errorf("%s: the answer goes to %s", name, to)
			continue
		}
		if back := u.Query(); back.Get("error") != c.want || back.Get("iss") != issuer || back.Get("state") != "s-1" || back.Has("code") {
			t.Errorf("%s: %v, want %s", name, back, c.want)
		}
	}
}

func TestRule_OauthA3_OnlyRegisteredRedirects(t *testing.T) {
	w := newWorld(t, nil)
	for _, uri := range []string{"http://127.0.0.1:9/callback", "http://[::1]:9/callback", "http://localhost:9/callback", "https://host.example.com/callback"} {
		v := with(authorization(), "redirect_uri", uri)
		to, err := w.Approve(t.Context(), nil, w.authorizeURL(v), "ada")
		if err != nil || !strings.HasPrefix(to, uri+"?") {
			t.Errorf("%s: %s, %v", uri, to, err)
			continue
		}
		u, _ := url.Parse(to)
		status, tok := w.post(t, "/token", with(exchange(u.Query().Get("code")), "redirect_uri", uri))
		if status != 200 {
			t.Errorf("%s: token endpoint %d %s", uri, status, tok.Error)
		}
	}
	for _, uri := range []string{
		"http://127.0.0.1:9/other", "http://127.0.0.1:9/callback/", "http://127.0.0.2:9/callback", "https://host.example.com/callback?x=1", "https://host.example.com:444/callback",
		"http://127.0.0.1:9@evil.example/callback", "https://evil.example/callback", "javascript:alert(1)", "",
	} {
		resp, body := w.get(t.Context(), t, w.authorizeURL(with(authorization(), "redirect_uri", uri)))
		if resp.StatusCode != 400 || resp.Header.Get("Location") != "" || !strings.Contains(body, "cannot go on") {
			t.Errorf("%q: %d, Location %q", uri, resp.StatusCode, resp.Header.Get("Location"))
		}
	}
	v := authorization()
	v.Add("redirect_uri", "https://host.example.com/callback")
	if resp, _ := w.get(t.Context(), t, w.authorizeURL(v)); resp.StatusCode != 400 {
		t.Errorf("a repeated redirect_uri: %d", resp.StatusCode)
	}
	// The code is bound to the redirect URI that was asked for.
	code := w.approve(t, authorization()).Get("code")
	if status, tok := w.post(t, "/token", with(exchange(code), "redirect_uri", "http://127.0.0.1:9/callback")); status != 400 || tok.Error != "invalid_grant" {
		t.Errorf("another redirect URI at the token endpoint: %d %s", status, tok.Error)
	}
}

func TestRule_OauthA4_RefreshTokensRotateAndAReplayEndsAll(t *testing.T) {
	for _, opaque := range []bool{false, true} {
		w := newWorld(t, func(o *oauthtest.Options) { o.Opaque = opaque })
		first := w.signIn(t)
		if first.Expires != 300 {
			t.Errorf("access tokens live %d s", first.Expires)
		}
		status, second := w.post(t, "/token", refresh(first.Refresh))
		if status != 200 || second.Refresh == "" || second.Refresh == first.Refresh || second.Access == first.Access {
			t.Fatalf("refresh: %d %s", status, second.Error)
		}
		status, third := w.post(t, "/token", refresh(second.Refresh))
		if status != 200 {
			t.Fatalf("second refresh: %d %s", status, third.Error)
		}
		if !w.introspect(t, third.Access).Active {
			t.Error("the newest access token is not active")
		}
		other := w.signIn(t)
		if status, tok := w.post(t, "/token", refresh(first.Refresh)); status != 400 || tok.Error != "invalid_grant" {
			t.Errorf("replay: %d %s", status, tok.Error)
		}
		if status, tok := w.post(t, "/token", refresh(third.Refresh)); status != 400 || tok.Error != "invalid_grant" {
			t.Errorf("the newest refresh token after a replay: %d %s", status, tok.Error)
		}
		for _, token := range []string{first.Access, second.Access, third.Access} {
			if w.introspect(t, token).Active {
				t.Error("an access token outlives the replay")
			}
		}
		if status, _ := w.post(t, "/token", refresh(other.Refresh)); status != 200 {
			t.Errorf("another sign-in of the same user: %d", status)
		}
	}
}

func TestRule_OauthA5_UnknownAndBrokenClientsAreShownNotRedirected(t *testing.T) {
	w := newWorld(t, nil)
	other := "https://other.example.com/client.json"
	w.net.Set(other, fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"client_id":"` + clientID + `","client_name":"X","redirect_uris":["https://other.example.com/back"]}`})
	for name, id := range map[string]string{"another document": other, "no document": "https://host.example.org/client.json", "no address": "my-app", "none": ""} {
		v := with(authorization(), "client_id", id, "redirect_uri", "https://other.example.com/back")
		if resp, _ := w.get(t.Context(), t, w.authorizeURL(v)); resp.StatusCode != 400 || resp.Header.Get("Location") != "" {
			t.Errorf("%s: %d", name, resp.StatusCode)
		}
		if status, tok := w.post(t, "/token", with(exchange("c"), "client_id", id)); status != 401 || tok.Error != "invalid_client" {
			t.Errorf("%s at the token endpoint: %d %s", name, status, tok.Error)
		}
	}
	w.net.Reset()
	w.signIn(t)
	w.signIn(t)
	fetched := 0
	for _, r := range w.net.Requests() {
		if r.URL == clientID {
			fetched++
		}
	}
	if fetched != 1 {
		t.Errorf("the client's document was fetched %d times", fetched)
	}
}

func TestRule_OauthM3_KeysMustBeUsed(t *testing.T) {
	w := newWorld(t, nil)
	id := "https://signed.example.com/client.json"
	w.net.Set(id, fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"client_id":"` + id + `","client_name":"Signed","redirect_uris":["https://signed.example.com/back"],
		"token_endpoint_auth_method":"private_key_jwt","jwks_uri":"https://signed.example.com/keys"}`})
	w.net.Set("https://signed.example.com/keys", fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"keys":[{"kty":"EC","crv":"P-256","kid":"1","use":"sig","alg":"ES256",
		"x":"1HK0PvJ2YWx60rvJrJCCiAAXT8iKqhepI91XEiVhxj0","y":"ZJHZuNZHzrVEOqBC9RhUiA9GXmh98BdfJ9To5ofU2sU"}]}`})
	v := with(authorization(), "client_id", id, "redirect_uri", "https://signed.example.com/back")
	code := w.approve(t, v).Get("code")
	if code == "" {
		t.Fatal("no code")
	}
	if status, tok := w.post(t, "/token", with(exchange(code), "client_id", id, "redirect_uri", "https://signed.example.com/back")); status != 401 || tok.Error != "invalid_client" {
		t.Errorf("without an assertion: %d %s", status, tok.Error)
	}
}

func TestRule_OauthM8_Advertised(t *testing.T) {
	w := newWorld(t, nil)
	for _, name := range []string{"oauth-authorization-server", "openid-configuration"} {
		if m := w.metadata(t, issuer+"/.well-known/"+name); m["client_id_metadata_document_supported"] != true {
			t.Errorf("%s: %v", name, m["client_id_metadata_document_supported"])
		}
	}
}

func TestRule_OauthM9_DevelopmentKeepsTheGuard(t *testing.T) {
	// Document, server and host share one network and one test authority of
	// certificates; addresses that are not public stay out of reach all the same.
	w := newWorld(t, nil)
	w.signIn(t)
	for _, id := range []string{"https://127.0.0.1/client.json", "https://localhost/client.json", "http://127.0.0.1/client.json"} {
		if resp, _ := w.get(t.Context(), t, w.authorizeURL(with(authorization(), "client_id", id))); resp.StatusCode != 400 {
			t.Errorf("%s: %d", id, resp.StatusCode)
		}
	}
}

func TestRegistration(t *testing.T) {
	register := func(w *world, body string) (int, map[string]any) {
		t.Helper()
		resp, err := w.http.Post(issuer+"/register", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var out map[string]any
		_ = json.NewDecoder(resp.Body).Decode(&out)
		return resp.StatusCode, out
	}
	const native = `{"client_name":"R","redirect_uris":["http://127.0.0.1/callback"],"application_type":"native","token_endpoint_auth_method":"none","grant_types":["authorization_code","refresh_token"]}`
	if status, _ := register(newWorld(t, nil), native); status != 404 {
		t.Errorf("registration that is not offered: %d", status)
	}
	w := newWorld(t, func(o *oauthtest.Options) { o.Registration = true })
	if m := w.metadata(t, issuer+"/.well-known/oauth-authorization-server"); m["registration_endpoint"] != issuer+"/register" {
		t.Errorf("metadata: %v", m["registration_endpoint"])
	}
	status, out := register(w, native)
	id, _ := out["client_id"].(string)
	if status != 201 || id == "" {
		t.Fatalf("%d %v", status, out)
	}
	code := w.approve(t, with(authorization(), "client_id", id)).Get("code")
	status, tok := w.post(t, "/token", with(exchange(code), "client_id", id))
	if status != 200 || tok.Refresh == "" {
		t.Fatalf("%d %s", status, tok.Error)
	}
	if status, _ := w.post(t, "/token", with(refresh(tok.Refresh), "client_id", clientID)); status != 400 {
		t.Errorf("a refresh token used by another client: %d", status)
	}
	status, out = register(w, `{"redirect_uris":["https://host.example.com/back"],"grant_types":["authorization_code"]}`)
	id, _ = out["client_id"].(string)
	secret, _ := out["client_secret"].(string)
	if status != 201 || secret == "" || out["token_endpoint_auth_method"] != "client_secret_basic" {
		t.Fatalf("%d %v", status, out)
	}
	v := with(authorization(), "client_id", id, "redirect_uri", "https://host.example.com/back")
	code = w.approve(t, v).Get("code")
	x := with(exchange(code), "client_id", "", "redirect_uri", "https://host.example.com/back")
	if status, tok := w.post(t, "/token", x, id, "wrong"); status != 401 || tok.Error != "invalid_client" {
		t.Errorf("a wrong secret: %d %s", status, tok.Error)
	}
	if status, tok := w.post(t, "/token", x, id, secret); status != 200 || tok.Refresh != "" {
		t.Errorf("a confidential client: %d %s", status, tok.Error)
	}
	for _, bad := range []string{
		`{}`, `{"redirect_uris":[]}`, `{"redirect_uris":["http://127.0.0.1/callback"]}`, `{"redirect_uris":["http://evil.example/"],"application_type":"native"}`,
		`{"redirect_uris":["https://u@evil.example.com/cb"]}`, `{"redirect_uris":["https://h.example/","https://h;evil/cb"]}`, `{"redirect_uris":["https://h.example/cb?state=1"]}`,
		`{"redirect_uris":["com.example.app:/cb"],"application_type":"native"}`,
		`{"redirect_uris":["https://h.example/"],"jwks_uri":"https://10.0.0.1/"}`, `not json`,
	} {
		if status, _ := register(w, bad); status != 400 {
			t.Errorf("%s: %d", bad, status)
		}
	}
}

func TestFaultsAndRequests(t *testing.T) {
	w := newWorld(t, nil)
	w.Fault("/token", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.Fault("/token", nil) // once
		rw.WriteHeader(http.StatusServiceUnavailable)
	}))
	code := w.approve(t, authorization()).Get("code")
	if status, _ := w.post(t, "/token", exchange(code)); status != 503 {
		t.Errorf("a fault: %d", status)
	}
	if status, _ := w.post(t, "/token", exchange(code)); status != 200 {
		t.Errorf("after the fault: %d", status)
	}
	w.Fault("/.well-known/openid-configuration", http.NotFoundHandler())
	if resp, _ := w.get(t.Context(), t, issuer+"/.well-known/openid-configuration"); resp.StatusCode != 404 {
		t.Errorf("a fault of the metadata: %d", resp.StatusCode)
	}
	got := w.Requests()
	if got["/token"] != 2 || got["/authorize"] != 1 || got["/authorize/"] != 1 || got["/.well-known/openid-configuration"] != 1 {
		t.Errorf("requests %v", got)
	}
}

func TestBackChannelIsStrict(t *testing.T) {
	w := newWorld(t, nil)
	v := exchange(w.approve(t, authorization()).Get("code"))
	twice := with(v)
	twice["code"] = []string{"a", "b"}
	if status, tok := w.post(t, "/token", twice); status != 400 || tok.Error != "invalid_request" {
		t.Errorf("a repeated code: %d %s", status, tok.Error)
	}
	if status, tok := w.post(t, "/token?code=x", v); status != 400 || tok.Error != "invalid_request" {
		t.Errorf("a query: %d %s", status, tok.Error)
	}
	if status, tok := w.post(t, "/token", with(v, "grant_type", "client_credentials")); status == 200 || tok.Error != "unsupported_grant_type" {
		t.Errorf("another grant: %d %s", status, tok.Error)
	}
	if status, tok := w.post(t, "/token", url.Values{"x": {strings.Repeat("x", 70<<10)}}); status != 400 || tok.Error != "invalid_request" {
		t.Errorf("a large form: %d %s", status, tok.Error)
	}
	if resp, _ := w.get(t.Context(), t, issuer+"/token"); resp.StatusCode != 405 {
		t.Errorf("GET of the token endpoint: %d", resp.StatusCode)
	}
	resp, _ := w.get(t.Context(), t, issuer+"/jwks")
	if resp.StatusCode != 200 || resp.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("keys: %d %v", resp.StatusCode, resp.Header)
	}
	status, _ := w.post(t, "/token", v) // nothing of all that used the code up
	if status != 200 {
		t.Errorf("the code after all: %d", status)
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	_, err := oauthtest.New(&oauthtest.Options{Issuer: "https://as.example.com/", Resources: []string{"/mcp", "https://a.example/#x"}, Scopes: []string{"a b", ""}, AccessLifetime: time.Millisecond})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"as.example.com/", `"/mcp"`, "#x", `"a b"`, `""`, "network", "1ms"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
	if _, err := oauthtest.New(&oauthtest.Options{Issuer: "http://as.example.com"}); err == nil || !strings.Contains(err.Error(), "no resource") {
		t.Errorf("error %v", err)
	}
}
