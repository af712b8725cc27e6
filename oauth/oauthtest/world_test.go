package oauthtest_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/oauth/cimd"
	"github.com/openbot-build/openbot-go/oauth/oauthtest"
	"github.com/openbot-build/openbot-go/publicnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	issuer   = "https://as.example.com"
	notes    = "https://apps.example.com/mcp/notes"
	mail     = "https://apps.example.com/mcp/mail"
	clientID = "https://host.example.com/oauth/client.json"
	loopback = "http://127.0.0.1:43117/callback"
	verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk" // of RFC 7636, appendix B
)

// world is a server, a host's client document, and a way to both.
type world struct {
	*oauthtest.Server
	net     *fakenet.Net
	network *publicnet.Network
	http    *http.Client
	issuer  string
}

func newWorld(t testing.TB, change func(*oauthtest.Options)) *world {
	t.Helper()
	w := &world{net: fakenet.New()}
	t.Cleanup(w.net.Close)
	network, err := publicnet.New(&publicnet.Options{UserAgent: "test", Below: w.net.Below()})
	if err != nil {
		t.Fatal(err)
	}
	w.network = network
	w.http = network.Client()
	w.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(w.http.CloseIdleConnections)
	o := &oauthtest.Options{Issuer: issuer, Resources: []string{notes, mail}, Scopes: []string{"notes.read", "notes.write"}, Network: network}
	if change != nil {
		change(o)
	}
	if w.Server, err = oauthtest.New(o); err != nil {
		t.Fatal(err)
	}
	w.issuer = o.Issuer
	w.net.Handle("as.example.com", w.Server)
	doc, err := cimd.New(clientID, "Example Host", "http://127.0.0.1/callback", "http://[::1]/callback", "http://localhost/callback", "https://host.example.com/callback")
	if err != nil {
		t.Fatal(err)
	}
	h, err := doc.Handler()
	if err != nil {
		t.Fatal(err)
	}
	w.net.Handle("host.example.com", h)
	return w
}

func challenge() string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// with gives parameters that differ from others; "" takes one out.
func with(v url.Values, pairs ...string) url.Values {
	v = maps.Clone(v)
	for i := 0; i < len(pairs); i += 2 {
		v.Del(pairs[i])
		if pairs[i+1] != "" {
			v.Set(pairs[i], pairs[i+1])
		}
	}
	return v
}

func authorization() url.Values {
	return url.Values{
		"response_type": {"code"}, "client_id": {clientID}, "redirect_uri": {loopback}, "state": {"s-1"},
		"scope": {"notes.read"}, "resource": {notes}, "code_challenge": {challenge()}, "code_challenge_method": {"S256"},
	}
}

func (w *world) authorizeURL(v url.Values) string { return w.issuer + "/authorize?" + v.Encode() }

// approve gives the parameters of the redirect.
func (w *world) approve(t testing.TB, v url.Values) url.Values {
	t.Helper()
	to, err := w.Approve(t.Context(), nil, w.authorizeURL(v), "ada")
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

type tokens struct {
	Access      string `json:"access_token"`
	Refresh     string `json:"refresh_token"`
	Type        string `json:"token_type"`
	Expires     int    `json:"expires_in"`
	Scope       string `json:"scope"`
	Error       string `json:"error"`
	Description string `json:"error_description"`
	Active      bool   `json:"active"`
	Subject     string `json:"sub"`
	Audience    string `json:"aud"`
	Issuer      string `json:"iss"`
}

func (w *world) post(t testing.TB, endpoint string, v url.Values, user ...string) (int, tokens) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.issuer+endpoint, strings.NewReader(v.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if len(user) == 2 {
		req.SetBasicAuth(user[0], user[1])
	}
	resp, err := w.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var out tokens
	if len(body) > 0 {
		if err := json.Unmarshal(body, &out); err != nil {
			t.Fatalf("%s: %v: %s", endpoint, err, body)
		}
	}
	return resp.StatusCode, out
}

func exchange(code string) url.Values {
	return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "client_id": {clientID}, "redirect_uri": {loopback}, "code_verifier": {verifier}, "resource": {notes}}
}

func refresh(token string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {clientID}, "resource": {notes}}
}

func (w *world) signIn(t testing.TB) tokens {
	t.Helper()
	status, tok := w.post(t, "/token", exchange(w.approve(t, authorization()).Get("code")))
	if status != 200 || tok.Access == "" || tok.Refresh == "" || tok.Type != "Bearer" {
		t.Fatalf("token endpoint: %d %s %s, type %q", status, tok.Error, tok.Description, tok.Type)
	}
	return tok
}

func (w *world) introspect(t testing.TB, token string) tokens {
	t.Helper()
	access := w.Introspection()
	status, info := w.post(t, "/introspect", url.Values{"token": {token}}, access.ClientID, access.ClientSecret.Reveal())
	if status != 200 {
		t.Fatalf("introspection: %d %s", status, info.Error)
	}
	return info
}

func (w *world) get(ctx context.Context, t testing.TB, address string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := w.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}
