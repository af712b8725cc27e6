package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// The tests of this file set the SDK beside ours. Where the SDK's half fails
// after an upgrade, the SDK has changed and our part may have become needless.

// sdkHandler is the SDK's own handler in the same world.
func sdkHandler(t *testing.T, w *world, change func(*auth.AuthorizationCodeHandlerConfig)) *auth.AuthorizationCodeHandler {
	t.Helper()
	client := w.opts.Network.Client()
	t.Cleanup(client.CloseIdleConnections)
	cfg := &auth.AuthorizationCodeHandlerConfig{
		ClientIDMetadataDocumentConfig: &auth.ClientIDMetadataDocumentConfig{URL: testClientID}, RedirectURL: testRedirect, Client: client,
		AuthorizationCodeFetcher: func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			q, err := url.ParseQuery(w.as.approve(t, args.URL))
			if err != nil {
				return nil, err
			}
			return &auth.AuthorizationResult{Code: q.Get("code"), State: q.Get("state"), Iss: q.Get("iss")}, nil
		},
	}
	if change != nil {
		change(cfg)
	}
	h, err := auth.NewAuthorizationCodeHandler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// refused is an answer of the app as its client sees it.
func refused(status int, challenges ...string) (*http.Request, *http.Response) {
	req := httptest.NewRequest(http.MethodPost, testEndpoint, nil)
	return req, &http.Response{StatusCode: status, Header: http.Header{"Www-Authenticate": challenges}, Body: http.NoBody, Request: req}
}

func sdkAuthorize(t *testing.T, w *world, change func(*auth.AuthorizationCodeHandlerConfig)) error {
	t.Helper()
	req, resp := refused(401)
	return sdkHandler(t, w, change).Authorize(t.Context(), req, resp)
}

// ours runs our whole sign-in.
func ours(t *testing.T, w *world) error {
	t.Helper()
	s, err := w.client.Begin(t.Context(), w.conn, nil)
	if err != nil {
		return err
	}
	_, err = w.client.Finish(t.Context(), w.conn.User, w.as.approve(t, s.URL))
	return err
}

func TestRule_OauthG1_ScopeWithoutErrorIsAStepUp(t *testing.T) {
	w := newWorld(t)
	w.signIn()
	challenge := `Bearer scope="notes.write", resource_metadata="` + testPRM + `"`
	req, resp := refused(403, challenge)
	if err := sdkHandler(t, w, nil).Authorize(t.Context(), req, resp); err != nil {
		t.Errorf("the SDK steps up now: %v", err)
	}
	req, resp = refused(403, challenge)
	if r := wantRequired(t, w.client.Handler(w.conn).Authorize(t.Context(), req, resp)); !r.StepUp {
		t.Errorf("no step-up: %+v", r)
	}
}

func TestRule_OauthG2_IssuerWithSlashHasOneSlashInItsAddress(t *testing.T) {
	w := newWorld(t)
	issuer := testIssuer + "/"
	w.as.metadata["issuer"] = issuer
	client := w.opts.Network.Client()
	defer client.CloseIdleConnections()
	if _, err := auth.GetAuthServerMetadata(t.Context(), issuer, client); err != nil {
		t.Fatal(err)
	}
	if w.asked(testIssuer+"//.well-known/") == 0 {
		t.Error("the SDK builds the address without a second slash now")
	}
	w.net.Reset()
	if m, err := discoverServer(t.Context(), client, issuer); err != nil || m.Issuer != issuer {
		t.Fatalf("%+v, %v", m, err)
	}
	if got := w.net.Requests()[0].URL; got != testIssuer+wellKnownServer {
		t.Errorf("asked %s", got)
	}
}

func TestRule_OauthG3_IssuersAreComparedWithTheirSlash(t *testing.T) {
	w := newWorld(t)
	w.as.metadata["issuer"] = testIssuer + "/"
	if err := sdkAuthorize(t, w, func(c *auth.AuthorizationCodeHandlerConfig) { c.AcceptUnadvertisedIss = true }); err != nil && strings.Contains(err.Error(), "metadata") {
		t.Errorf("the SDK compares the slash now: %v", err)
	}
	err := ours(t, w)
	if err == nil || !strings.Contains(err.Error(), `"`+testIssuer+`/"`) || !strings.Contains(err.Error(), `"`+testIssuer+`"`) {
		t.Errorf("want an error with both strings, got %v", err)
	}
}

func TestRule_OauthG4_EqualIssuerIsTakenThoughNotPromised(t *testing.T) {
	w := newWorld(t)
	delete(w.as.metadata, "authorization_response_iss_parameter_supported")
	if err := sdkAuthorize(t, w, nil); err == nil {
		t.Error("the SDK takes it now")
	}
	if err := ours(t, w); err != nil {
		t.Error(err)
	}
}

func TestRule_OauthG5_WrongResourceStops(t *testing.T) {
	w := newWorld(t)
	w.app.metadata["resource"] = testEndpoint + "/"
	_ = sdkAuthorize(t, w, nil)
	if w.asked("https://apps.example.com/.well-known/oauth-authorization-server") == 0 {
		t.Error("the SDK does not take the app for its authorization server any more")
	}
	w.net.Reset()
	err := ours(t, w)
	if err == nil || !strings.Contains(err.Error(), `"`+testEndpoint+`/"`) || !strings.Contains(err.Error(), `"`+testEndpoint+`"`) {
		t.Errorf("want an error with both strings, got %v", err)
	}
	for _, r := range w.net.Requests() {
		if r.URL != testPRM {
			t.Errorf("asked %s after the wrong resource", r.URL)
		}
	}
}

func TestRule_OauthG6_EndpointsAreNeverInvented(t *testing.T) {
	w := newWorld(t)
	w.as.metadata = nil
	opened := ""
	_ = sdkAuthorize(t, w, func(c *auth.AuthorizationCodeHandlerConfig) {
		c.ClientIDMetadataDocumentConfig = nil
		c.PreregisteredClient = &oauthex.ClientCredentials{ClientID: "x"}
		c.AuthorizationCodeFetcher = func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			opened = args.URL
			return nil, errors.New("stop")
		}
	})
	if !strings.HasPrefix(opened, testIssuer+"/authorize") {
		t.Error("the SDK invents no endpoint any more")
	}
	if err := ours(t, w); err == nil {
		t.Error("a sign-in without metadata")
	}
}

func TestRule_OauthG7_PlainIsNoProofOfPossession(t *testing.T) {
	w := newWorld(t)
	w.as.metadata["code_challenge_methods_supported"] = []string{"plain"}
	if err := sdkAuthorize(t, w, nil); err != nil {
		t.Errorf("the SDK refuses plain now: %v", err)
	}
	if err := ours(t, w); err == nil || !strings.Contains(err.Error(), "S256") {
		t.Errorf("want an error about S256, got %v", err)
	}
}

func TestRule_OauthG8_PublicClientSendsItsIDInTheForm(t *testing.T) {
	w := newWorld(t)
	if err := sdkAuthorize(t, w, nil); err != nil {
		t.Fatal(err)
	}
	if h := w.as.headers["/token"][0]; h.Get("Authorization") == "" {
		t.Error("the SDK does not begin with Basic any more")
	}
	w.as.set(func(s *fakeServer) { s.headers["/token"], s.forms["/token"] = nil, nil })
	if err := ours(t, w); err != nil {
		t.Fatal(err)
	}
	if h := w.as.headers["/token"]; len(h) != 1 || h[0].Get("Authorization") != "" || w.as.sent("/token")[0].Get("client_id") != testClientID {
		t.Errorf("sent %v", w.as.sent("/token"))
	}
}

func TestRule_OauthG9_RefreshSendsTheResource(t *testing.T) {
	w := newWorld(t)
	w.as.lifetime = 1 // x/oauth2 refreshes at once
	h := sdkHandler(t, w, nil)
	req, resp := refused(401)
	if err := h.Authorize(t.Context(), req, resp); err != nil {
		t.Fatal(err)
	}
	forms := w.as.sent("/token")
	if last := forms[len(forms)-1]; last.Get("grant_type") == "refresh_token" && last.Has("resource") {
		t.Error("the SDK sends the resource now")
	}
	w.signIn()
	if err := w.client.Refresh(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	forms = w.as.sent("/token")
	if last := forms[len(forms)-1]; last.Get("grant_type") != "refresh_token" || last.Get("resource") != testEndpoint {
		t.Errorf("refreshed with %v", last)
	}
}

func TestRule_OauthG10_RegisteredByHandComesFirst(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.opts.Registered = []Registration{{Issuer: testIssuer, ClientID: "by-hand", Secret: "SECRET-client"}}
	})
	opened := ""
	_ = sdkAuthorize(t, w, func(c *auth.AuthorizationCodeHandlerConfig) {
		c.PreregisteredClient = &oauthex.ClientCredentials{ClientID: "by-hand"}
		c.AuthorizationCodeFetcher = func(_ context.Context, args *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			opened = args.URL
			return nil, errors.New("stop")
		}
	})
	if !strings.Contains(opened, url.QueryEscape(testClientID)) {
		t.Error("the SDK takes the registered client first now")
	}
	if u, _ := url.Parse(w.begin(nil).URL); u.Query().Get("client_id") != "by-hand" {
		t.Errorf("the client is %q", u.Query().Get("client_id"))
	}
}

func TestRule_OauthG11_TokenRequestFollowsNoRedirect(t *testing.T) {
	w := newWorld(t)
	got := make(chan string, 10)
	w.net.Handle("evil.example.net", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		got <- r.Form.Get("code")
	}))
	w.as.token = func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "https://evil.example.net/t", http.StatusTemporaryRedirect)
	}
	_ = sdkAuthorize(t, w, nil)
	if len(got) == 0 || <-got == "" {
		t.Error("the SDK does not carry the code along a redirect any more")
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		testTokenRedirect(t, status, "https://evil.example.net/t")
	}
}

func TestRule_OauthG13_ChallengesThatTheSDKCannotRead(t *testing.T) {
	metadata := `resource_metadata="` + testPRM + `"`
	for name, header := range map[string]string{
		"token68":       "Negotiate abc=, Bearer " + metadata,
		"empty realm":   `Bearer realm="", ` + metadata,
		"spaces around": `Bearer error="invalid_token" , resource_metadata ="` + testPRM + `"`,
		"tab":           "Bearer\t" + metadata,
	} {
		t.Run(name, func(t *testing.T) {
			sdk, err := oauthex.ParseWWWAuthenticate([]string{header})
			if err == nil && slices.ContainsFunc(sdk, func(c oauthex.Challenge) bool { return c.Params["resource_metadata"] == testPRM }) {
				t.Errorf("the SDK reads %q now", header)
			}
			if got := ParseChallenge(http.Header{"Www-Authenticate": {header}}); got.ResourceMetadata != testPRM {
				t.Errorf("%q gave %+v", header, got)
			}
		})
	}
}

func TestRule_OauthG14_BrokenProbeIsPassedOver(t *testing.T) {
	for name, first := range map[string]http.HandlerFunc{
		"a page": func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			_, _ = rw.Write([]byte("<!doctype html><title>Welcome</title>"))
		},
		"500":      func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) },
		"no JSON":  func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("{")) },
		"an array": func(rw http.ResponseWriter, _ *http.Request) { writeJSON(rw, 200, []int{}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.net.Handle("as.example.com", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case wellKnownServer:
					first(rw, r)
				case wellKnownOpenID:
					writeJSON(rw, 200, w.as.metadata)
				default:
					w.as.ServeHTTP(rw, r)
				}
			}))
			if name != "an array" {
				client := w.opts.Network.Client()
				defer client.CloseIdleConnections()
				if m, err := auth.GetAuthServerMetadata(t.Context(), testIssuer, client); m != nil || err == nil {
					t.Error("the SDK passes it over now")
				}
			}
			if err := ours(t, w); err != nil {
				t.Error(err)
			}
			w.as.metadata = nil
			_, err := w.client.Begin(t.Context(), w.conn, &BeginOptions{Issuer: testIssuer})
			if err == nil || !strings.Contains(err.Error(), wellKnownServer) || !strings.Contains(err.Error(), wellKnownOpenID) {
				t.Errorf("want an error that names each probe, got %v", err)
			}
		})
	}
}

func TestRule_OauthG15_EveryAddressInMetadataIsHTTPS(t *testing.T) {
	for _, member := range []string{"jwks_uri", "revocation_endpoint", "authorization_endpoint", "token_endpoint", "introspection_endpoint", "registration_endpoint"} {
		for _, bad := range []string{"http://as.example.com/x", "http://localhost/x", "evil://localhost/x", "https://127.0.0.1/x", "https://printer.local/x", "https://as.example.com/x#y"} {
			w := newWorld(t)
			w.as.metadata[member] = bad
			if _, err := w.client.Begin(t.Context(), w.conn, nil); err == nil || !strings.Contains(err.Error(), member) {
				t.Errorf("%s = %s: %v", member, bad, err)
			}
		}
	}
	w := newWorld(t)
	w.as.metadata["jwks_uri"], w.as.metadata["revocation_endpoint"] = "http://as.example.com/x", "http://as.example.com/x"
	if err := sdkAuthorize(t, w, nil); err != nil {
		t.Errorf("the SDK refuses http now: %v", err)
	}
}

func TestRule_OauthG18_ScopesSortedServersChosenTokensJudged(t *testing.T) {
	w := newWorld(t)
	w.app.metadata["scopes_supported"] = []string{"z", "a", "m", "a"}
	if got := w.begin(nil).Scopes; !slices.Equal(got, []string{"a", "m", "z"}) {
		t.Errorf("scopes %q", got)
	}
	// The first server is out of order: the second one serves; the SDK stops.
	w = newWorld(t)
	w.app.metadata["authorization_servers"] = []string{"https://down.example.com", testIssuer}
	if err := sdkAuthorize(t, w, nil); err == nil {
		t.Error("the SDK looks at the second server now")
	}
	if err := ours(t, w); err != nil {
		t.Error(err)
	}
	w = newWorld(t)
	w.as.token = func(rw http.ResponseWriter, _ *http.Request) {
		writeJSON(rw, 200, map[string]any{"access_token": "SECRET-a", "token_type": "DPoP"})
	}
	if err := sdkAuthorize(t, w, nil); err != nil {
		t.Errorf("the SDK judges token_type now: %v", err)
	}
	if err := ours(t, w); err == nil || !strings.Contains(err.Error(), "token_type") {
		t.Errorf("want an error about token_type, got %v", err)
	}
}

// The SDK's handler opens a flow for each of five refusals; see
// TestRule_OauthG12 for ours.
func TestRule_OauthG12_SDKOpensAFlowForEachRefusal(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	flows := 0
	h := sdkHandler(t, w, func(c *auth.AuthorizationCodeHandlerConfig) {
		c.AuthorizationCodeFetcher = func(context.Context, *auth.AuthorizationArgs) (*auth.AuthorizationResult, error) {
			mu.Lock()
			defer mu.Unlock()
			flows++
			return nil, errors.New("stop")
		}
	})
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			req, resp := refused(401)
			_ = h.Authorize(t.Context(), req, resp)
		})
	}
	wg.Wait()
	if flows != 5 {
		t.Errorf("the SDK opened %d flows", flows)
	}
}
