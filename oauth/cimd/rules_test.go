package cimd

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/internal/webtest"
)

const testID = "https://host.example.com/oauth/client.json"

// body is a good document with some members put in or replaced.
func body(members ...string) []byte {
	m := []string{`"client_id":"` + testID + `"`, `"client_name":"Host"`, `"redirect_uris":["https://host.example.com/back"]`}
	for _, extra := range members {
		name, _, _ := strings.Cut(extra, ":")
		m = slices.DeleteFunc(m, func(old string) bool { return strings.HasPrefix(old, name+":") })
		if !strings.HasSuffix(extra, ":") {
			m = append(m, extra)
		}
	}
	return []byte("{" + strings.Join(m, ",") + "}")
}

func accept(t *testing.T, b []byte, want bool) {
	t.Helper()
	if _, err := Parse(testID, 200, "application/json", b); (err == nil) != want {
		t.Errorf("%s: %v, want accepted: %v", b, err, want)
	}
}

// refusal gives the error's text.
func refusal(t *testing.T, b []byte) string {
	t.Helper()
	_, err := Parse(testID, 200, "application/json", b)
	if err == nil {
		t.Fatalf("%s was accepted", b)
	}
	return err.Error()
}

func TestRule_OauthM1_ClientIDIsAnHTTPSAddressWithAPath(t *testing.T) {
	for id, want := range map[string]bool{
		testID: true, "https://host.example.com:8443/c": true, "https://host.example.com/c?v=1": true, "https://host.example.com/": true,
		"http://host.example.com/c": false, "https://host.example.com": false, "https://host.example.com/a/../c": false,
		"https://host.example.com/a/%2E%2e/c": false, "https://host.example.com/c#f": false, "https://u:p@host.example.com/c": false,
		"https://host.example.com/c d": false, "HTTPS://host.example.com/c": false, "https://host.example.com:/c": false,
		"https://host.example.com/" + strings.Repeat("a", maxID): false,
		"https://host.example.com:65535/c":                       true, "https://127.0.0.1:8443/c": true, "https://[::1]:8443/c": true, "https://xn--bcher-kva.example/c": true,
		"https://host.example.com:0/c": false, "https://host.example.com:65536/c": false, "https://host.example.com:+1/c": false, "https://host.example.com:1:2/c": false,
		"https://[fe80::1%25eth0]/c": false, "https://[::1/c": false, "https://[::1]x/c": false, "https://[::1]:/c": false, "https://[127.0.0.1]/c": false, "https://256.0.0.1/c": false,
		"https://a,b/c": false, "https://-/c": false, "https://*.example.com/c": false, "https://b%C3%BCcher.example/c": false, "https://h;evil/c": false, "https:///c": false,
	} {
		if err := CheckID(id); (err == nil) != want {
			t.Errorf("CheckID(%.80q) = %v, want accepted: %v", id, err, want)
		}
	}
}

func TestRule_OauthM2_DocumentNamesItselfAndWhatMCPRequires(t *testing.T) {
	accept(t, body(), true)
	accept(t, body(`"future":[1,{"a":null}]`), true)
	for _, b := range []string{
		`"client_id":"https://host.example.com/oauth/client.json/"`, `"client_id":"https://HOST.example.com/oauth/client.json"`, `"client_id":5`, `"client_id":`,
		`"client_name":`, `"client_name":" "`, `"redirect_uris":`, `"redirect_uris":[]`, `"redirect_uris":"https://host.example.com/back"`, `"redirect_uris":[null]`,
		`"redirect_uris":["/back"]`, `"redirect_uris":["http://host.example.com/back"]`, `"redirect_uris":["https://host.example.com/back#x"]`,
		`"redirect_uris":["com.example.app:/back"]`, `"redirect_uris":["https://u@host.example.com/back"]`, `"redirect_uris":["https://host.example.com/ba ck"]`,
		`"redirect_uris":["https://host.example.com:/back"]`, `"redirect_uris":["HTTPS://host.example.com/back"]`, `"redirect_uris":["https://host.example.com/back?state=1"]`,
	} {
		accept(t, body(b), false)
	}
	for media, want := range map[string]bool{
		"application/json": true, "Application/JSON; charset=UTF-8": true, "application/cimd+json": true, "application/json;;": true,
		"": false, "text/html": false, "application/+json": false, "application/json5": false, "image/svg+json": false, "application/xml": false,
	} {
		if _, err := Parse(testID, 200, media, body()); (err == nil) != want {
			t.Errorf("media type %q: %v, want accepted: %v", media, err, want)
		}
	}
	if text := refusal(t, []byte(`{"client_id":"https://evil.example/c"}`)); !strings.Contains(text, "https://evil.example/c") || !strings.Contains(text, "client_name") || !strings.Contains(text, "redirect_uris") {
		t.Errorf("the error does not name every fault: %s", text)
	}
}

func TestRule_OauthM3_NoSecretsAndNoPrivateKeys(t *testing.T) {
	key := func(member string) string {
		return `"jwks":{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"` + member + `}]}`
	}
	signed := `"token_endpoint_auth_method":"private_key_jwt"`
	accept(t, body(signed, key("")), true)
	accept(t, body(signed, `"jwks_uri":"https://host.example.com/keys"`), true)
	for _, b := range [][]byte{
		body(`"client_secret":""`), body(`"client_secret":null`), body(`"client_secret_expires_at":0`), body(`"\u0063lient_secret":"x"`),
		body(`"token_endpoint_auth_method":"client_secret_basic"`), body(`"token_endpoint_auth_method":"client_secret_post"`), body(`"token_endpoint_auth_method":"client_secret_jwt"`),
		body(signed), body(signed, key(""), `"jwks_uri":"https://host.example.com/keys"`),
		body(signed, key(`,"d":"AA"`)), body(signed, key(`,"d":""`)), body(signed, key(`,"k":"AA"`)), body(signed, key(`,"p":"AA"`)),
		body(signed, `"jwks":{"keys":[{"kty":"oct"}]}`), body(signed, `"jwks":{}`), body(signed, `"jwks":[]`), body(signed, `"jwks":{"keys":[5]}`),
		body(key(`,"d":"AA"`)), // unused, and published all the same
		body(signed, `"jwks":{"keys":[],"keys":[{"kty":"EC","d":"AA"}]}`),
	} {
		accept(t, b, false)
	}
	// Keys mean private_key_jwt where nothing else is said.
	for _, keys := range []string{key(""), `"jwks_uri":"https://host.example.com/keys"`} {
		d, err := Parse(testID, 200, "application/json", body(keys))
		if err != nil || d.TokenEndpointAuthMethod != "private_key_jwt" {
			t.Errorf("%s: %+v, %v", keys, d, err)
		}
		ours := Document{ClientID: testID, ClientName: "H", RedirectURIs: []string{"https://h.example/"}, JWKSURI: "https://host.example.com/keys"}
		if _, err := ours.Encode(); err == nil {
			t.Error("a document of our own is published with keys and no method")
		}
	}
	accept(t, body(`"jwks":{"keys":[]}`), false)
	accept(t, body(signed, `"jwks":{"keys":[]}`), false)
	accept(t, body(`"token_endpoint_auth_method":"none"`, `"jwks":{"keys":[]}`), true)
	if text := refusal(t, body(`"client_secret":"hunter2"`)); strings.Contains(text, "hunter2") {
		t.Errorf("the error shows the secret: %s", text)
	}
}

func TestRule_OauthM4_Only200OfAtMost5KBWithPublicAddresses(t *testing.T) {
	for _, status := range []int{0, 201, 204, 206, 301, 302, 304, 307, 404, 500} {
		if _, err := Parse(testID, status, "application/json", body()); err == nil {
			t.Errorf("status %d was accepted", status)
		}
	}
	pad := func(size int) []byte {
		b := body(`"pad":""`)
		return body(fmt.Sprintf(`"pad":"%s"`, strings.Repeat("x", size-len(b))))
	}
	accept(t, pad(MaxBytes), true)
	accept(t, pad(MaxBytes+1), false)
	for _, name := range []string{"client_uri", "logo_uri", "jwks_uri", "tos_uri", "policy_uri"} {
		accept(t, body(`"`+name+`":"https://host.example.com/x"`), true)
		for _, link := range []string{`"https://127.0.0.1/x"`, `"http://127.0.0.1/x"`, `"https://[::1]/x"`, `"https://10.0.0.1/x"`, `"https://localhost/x"`, `"http://a.LOCALHOST./x"`, `"https://169.254.169.254:81/x"`, `5`, `null`} {
			accept(t, body(`"`+name+`":`+link), false)
		}
		for _, link := range []string{`"http://host.example.com/x"`, `"file:///etc/passwd"`, `"/x"`, `"data:image/png;base64,AAAA"`, `"javascript:alert(1)"`, `"https://1.1.1.1/x"`, `"https://2130706433/x"`} {
			accept(t, body(`"`+name+`":`+link), name != "jwks_uri")
		}
	}
}

// What people are shown besides is left out when it is no https link, and does
// not cost the client its document.
func TestLinksForPeople(t *testing.T) {
	read := func(link string) [4]string {
		t.Helper()
		d, err := Parse(testID, 200, "application/json", body(`"client_uri":"`+link+`"`, `"logo_uri":"`+link+`"`, `"tos_uri":"`+link+`"`, `"policy_uri":"`+link+`"`))
		if err != nil {
			t.Fatal(err)
		}
		return [4]string{d.ClientURI, d.LogoURI, d.TOSURI, d.PolicyURI}
	}
	const good = "https://host.example.com:8443/x"
	if got := read(good); got != [4]string{good, good, good, good} {
		t.Errorf("links %q", got)
	}
	for _, link := range []string{"data:image/png;base64,AAAA", "http://host.example.com/x", "javascript:alert(1)", "https://u@host.example.com/x"} {
		if got := read(link); got != [4]string{} {
			t.Errorf("%s: links %q", link, got)
		}
	}
	d, err := New(testID, "H", "https://h.example/")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range []*string{&d.ClientURI, &d.LogoURI, &d.TOSURI, &d.PolicyURI} {
		*link = "http://host.example.com/x"
		if _, err := d.Encode(); err == nil {
			t.Errorf("a document of our own is published with %s", *link)
		}
		*link = ""
	}
}

func TestRule_OauthM6_RedirectsMatchExactlyButForTheLoopbackPort(t *testing.T) {
	registered := []string{"https://host.example.com/back", "http://127.0.0.1/back", "http://[::1]/back", "http://localhost/back"}
	for _, uri := range append(slices.Clone(registered), "http://127.0.0.1:1/back", "http://[::1]:65535/back", "http://localhost:8080/back") {
		if !MatchRedirect(registered, uri) {
			t.Errorf("%s does not match", uri)
		}
	}
	for _, uri := range []string{
		"https://host.example.com/back/", "https://host.example.com/Back", "https://HOST.example.com/back", "https://host.example.com/back?x", "https://host.example.com:443/back",
		"http://127.0.0.2/back", "http://127.0.0.1:1/other", "http://127.0.0.1:1/back#x", "http://127.0.0.1@evil.example/back", "http://127.0.0.1:1@evil.example/back",
		"http://127.0.0.1\\@evil.example/back", "http://127.0.0.1:1\\back", "http://[::1].evil.example/back", "http://localhost:/back", "http://localhost:-1/back", "http://localhost:+1/back",
		"HTTP://localhost/back", "http://LOCALHOST/back", "http://localhost:1 /back", "//localhost/back", "",
	} {
		if MatchRedirect(registered, uri) {
			t.Errorf("%s matches", uri)
		}
	}
}

func TestCheckRedirect(t *testing.T) {
	for _, uri := range []string{
		"https://host.example.com/back", "https://host.example.com", "https://HOST.example.com:8443/back", "https://host.example.com/back?a=1;b=2", "https://host.example.com?x=%zz&y", "https://10.0.0.1/back",
		"http://127.0.0.1/back", "http://[::1]:65535/back", "http://localhost:1/back?codes=1", "https://host.example.com/back?",
	} {
		if err := CheckRedirect(uri); err != nil {
			t.Errorf("%s: %v", uri, err)
		}
	}
	for _, uri := range []string{
		"", "/back", "https:/back", "https:back", "https://", "https:///back", "https:///", "HTTPS://h.example/back", "HTTP://127.0.0.1/back", "http://h.example/back", "com.example.app:/back", "javascript:alert(1)",
		"https://h.example/back#", "https://u@evil.example.com/cb", "https://@evil.example.com/cb", "https://h.example/ba\\ck", "https://h.example/b\u00fc",
		"https://h:/cb", "https://h;evil/cb", "https://h:0/cb", "https://h:65536/cb", "https://h:x/cb", "https://[fe80::1%25eth0]/cb", "https://a,b/cb", "https://-/cb", "https://*.example/cb", "https://b%C3%BC.example/cb",
		"http://127.0.0.1:0/cb", "http://127.0.0.1:65536/cb", "http://127.0.0.1:/cb", "http://127.0.0.2/cb", "http://a.localhost/cb",
		"https://h.example/cb?code=1", "https://h.example/cb?a&state", "https://h.example/cb?%69ss=x", "https://h.example/cb?error=",
	} {
		if CheckRedirect(uri) == nil {
			t.Errorf("%s is accepted", uri)
		}
	}
}

func TestRule_OauthA3_LocalRedirects(t *testing.T) {
	for _, uri := range []string{
		"http://127.0.0.1/cb", "https://127.0.0.1:8/cb", "https://127.9.9.9/cb", "http://[::1]/cb", "https://[::ffff:127.0.0.1]/cb", "https://0.0.0.0/cb",
		"http://localhost/cb", "https://localhost/cb", "https://LocalHost.:1/cb", "https://a.b.localhost/cb",
	} {
		if d := (Document{RedirectURIs: []string{uri}}); !IsLocal(uri) || !d.LoopbackOnly() {
			t.Errorf("%s is not local", uri)
		}
	}
	for _, uri := range []string{"https://host.example.com/cb", "https://localhost.example.com/cb", "https://notlocalhost/cb", "https://127.0.0.1.example.com/cb", "https://1.1.1.1/cb", "", "https://%zz/"} {
		if d := (Document{RedirectURIs: []string{"http://localhost/cb", uri}}); IsLocal(uri) || d.LoopbackOnly() {
			t.Errorf("%s is local", uri)
		}
	}
	if (&Document{}).LoopbackOnly() {
		t.Error("a document without redirect URIs has only local ones")
	}
}

// A port that a host registers stays as it is written, and is free all the same.
func TestNewKeepsRedirectsAsWritten(t *testing.T) {
	const uri = "http://127.0.0.1:4000/callback"
	d, err := New(testID, "H", uri)
	if err != nil || d.RedirectURIs[0] != uri || d.ApplicationType != "native" {
		t.Fatalf("%+v, %v", d, err)
	}
	if !MatchRedirect(d.RedirectURIs, "http://127.0.0.1:5000/callback") {
		t.Error("the port is not free")
	}
}

func TestRule_OauthM10_OurDocument(t *testing.T) {
	d, err := New(testID, "My Host", "http://127.0.0.1/callback", "http://[::1]/callback")
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse(testID, 200, "application/json", b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Document{
		ClientID: testID, ClientName: "My Host", RedirectURIs: []string{"http://127.0.0.1/callback", "http://[::1]/callback"},
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"}, TokenEndpointAuthMethod: "none", ApplicationType: "native",
	}, back); diff != "" {
		t.Error(diff)
	}
	if !d.LoopbackOnly() {
		t.Error("a document with loopback redirects only does not say so")
	}
	if web, err := New(testID, "My Host", "https://host.example.com/back"); err != nil || web.ApplicationType != "web" || web.LoopbackOnly() {
		t.Errorf("a web host: %+v, %v", web, err)
	}
	for _, c := range []struct {
		id, name  string
		redirects []string
		want      string
	}{
		{"https://host.example.com/", "H", []string{"https://h.example/"}, "root of its host"},
		{"http://host.example.com/c", "H", []string{"https://h.example/"}, "https://"},
		{testID, "", []string{"https://h.example/"}, "client_name"},
		{testID, "H\u202e", []string{"https://h.example/"}, "do not print"},
		{testID, "H", nil, "redirect_uris"},
		{testID, "H", []string{"http://h.example/"}, "neither https nor http on loopback"},
	} {
		if _, err := New(c.id, c.name, c.redirects...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%q, %q, %q): %v, want %q", c.id, c.name, c.redirects, err, c.want)
		}
	}
	large := *d
	large.ClientName = strings.Repeat("x", maxEncoded)
	if _, err := large.Encode(); err == nil {
		t.Error("a document over 2 KiB is encoded")
	}
	if _, err := large.Handler(); err == nil {
		t.Error("a document over 2 KiB is served")
	}
}

func TestHandler(t *testing.T) {
	d, err := New(testID, "My Host", "http://127.0.0.1/callback")
	if err != nil {
		t.Fatal(err)
	}
	h, err := d.Handler()
	if err != nil {
		t.Fatal(err)
	}
	webtest.RunScript(t, h, "document", `
GET /oauth/client.json
-> 200, Content-Type: application/json, ETag ~ ^"[\w-]{16}"$, Access-Control-Allow-Origin: *
-> Cache-Control: public, max-age=3600, X-Content-Type-Options: nosniff
-> json /client_name = "My Host", json /client_id = "https://host.example.com/oauth/client.json"
-> $etag = ETag

HEAD /oauth/client.json
-> 200, ETag: $etag, no body

GET /oauth/client.json
If-None-Match: "other", W/$etag
-> 304, no body, ETag: $etag, Access-Control-Allow-Origin: *

OPTIONS /oauth/client.json
-> 204, Access-Control-Allow-Methods: GET, HEAD, OPTIONS

POST /oauth/client.json
-> 405, Allow: GET, HEAD, OPTIONS
`)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, testID, nil))
	if _, err := Parse(testID, rec.Code, rec.Header().Get("Content-Type"), rec.Body.Bytes()); err != nil {
		t.Error(err)
	}
}
