package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

const rootPRM = "https://apps.example.com/.well-known/oauth-protected-resource"

func answerJSON(v any) fakenet.Answer {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: string(b)}
}

func query(t *testing.T, address string) url.Values {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	return u.Query()
}

func TestRule_OauthC1_ProbesInTheirOrder(t *testing.T) {
	w := newWorld(t)
	w.app.metadata = nil
	at := "https://apps.example.com/elsewhere/prm.json"
	_, err := w.client.Begin(t.Context(), w.conn, &BeginOptions{Challenge: &Challenge{Present: true, ResourceMetadata: at}})
	var asked []string
	for _, r := range w.net.Requests() {
		asked = append(asked, r.URL)
		if !strings.Contains(err.Error(), r.URL) {
			t.Errorf("the error does not tell of %s: %v", r.URL, err)
		}
	}
	if want := []string{at, testPRM, rootPRM}; !slices.Equal(asked, want) {
		t.Errorf("asked %q, want %q", asked, want)
	}
}

func TestRule_OauthC1_EachFormHasItsOwnResource(t *testing.T) {
	for name, c := range map[string]struct {
		url, resource string
		challenged    bool
		ok            bool
	}{
		"path form, endpoint":  {testPRM, testEndpoint, false, true},
		"path form, origin":    {testPRM, "https://apps.example.com", false, false},
		"root form, origin":    {rootPRM, "https://apps.example.com", false, true},
		"root form, slash":     {rootPRM, "https://apps.example.com/", false, false},
		"root form, endpoint":  {rootPRM, testEndpoint, false, false},
		"challenged, endpoint": {rootPRM, testEndpoint, true, true},
		"challenged, origin":   {rootPRM, "https://apps.example.com", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.app.metadata = nil
			w.net.Set(c.url, answerJSON(map[string]any{"resource": c.resource, "authorization_servers": []string{testIssuer}}))
			o := &BeginOptions{Challenge: &Challenge{}}
			if c.challenged {
				o.Challenge.ResourceMetadata = c.url
			}
			s, err := w.client.Begin(t.Context(), w.conn, o)
			if c.ok != (err == nil) {
				t.Fatalf("error %v", err)
			}
			if c.ok && (s.Resource != c.resource || query(t, s.URL).Get("resource") != c.resource) {
				t.Errorf("resource %q", s.Resource)
			}
		})
	}
}

func TestRule_OauthC1_ForeignMetadataNeedsAReview(t *testing.T) {
	w := newWorld(t)
	at := "https://evil.example.net/prm"
	w.net.Set(at, answerJSON(w.app.metadata))
	w.app.metadata = nil
	o := &BeginOptions{Challenge: &Challenge{ResourceMetadata: at}}
	if _, err := w.client.Begin(t.Context(), w.conn, o); err == nil || !strings.Contains(err.Error(), "review") {
		t.Errorf("want an error about a review, got %v", err)
	}
	if w.asked(at) != 0 {
		t.Error("it was asked without a review")
	}
	o.ForeignMetadata = true
	if _, err := w.client.Begin(t.Context(), w.conn, o); err != nil {
		t.Error(err)
	}
}

func TestRule_OauthC2_ChallengeWithoutHeaderStillLeadsToASignIn(t *testing.T) {
	w := newWorld(t)
	req, resp := refused(401)
	r := wantRequired(t, w.client.Handler(w.conn).Authorize(t.Context(), req, resp))
	if r.Challenge.Present || r.Challenge.Status != 401 {
		t.Errorf("challenge %+v", r.Challenge)
	}
	w.begin(&BeginOptions{Challenge: &r.Challenge})
}

func TestRule_OauthC3_ChallengedScopesAreTakenAsTheyAre(t *testing.T) {
	w := newWorld(t)
	if got := w.begin(&BeginOptions{Challenge: &Challenge{Scope: []string{"other"}}}).Scopes; !slices.Equal(got, []string{"other"}) {
		t.Errorf("scopes %q", got)
	}
}

func TestRule_OauthC4_ScopesOfChallengeElseMetadataElseNone(t *testing.T) {
	w := newWorld(t)
	if got := w.begin(nil).Scopes; !slices.Equal(got, []string{"notes.read"}) {
		t.Errorf("scopes of the metadata: %q", got)
	}
	w = newWorld(t)
	delete(w.app.metadata, "scopes_supported")
	if s := w.begin(nil); len(s.Scopes) != 0 || query(t, s.URL).Has("scope") {
		t.Errorf("scopes from nowhere: %q in %s", s.Scopes, s.URL)
	}
	w = newWorld(t)
	w.as.metadata["scopes_supported"] = []string{"notes.read", "offline_access"}
	s := w.begin(nil)
	if !slices.Equal(s.Scopes, []string{"notes.read", "offline_access"}) || query(t, s.URL).Get("prompt") != "consent" {
		t.Errorf("offline_access that is listed: %q in %s", s.Scopes, s.URL)
	}
}

func TestRule_OauthC5_StepUpIsANewAuthorizationForTheUnion(t *testing.T) {
	w := newWorld(t)
	w.as.sendNoScope = true
	w.signIn()
	s := w.begin(&BeginOptions{Challenge: &Challenge{Status: 403, Error: "insufficient_scope", Scope: []string{"notes.write"}}})
	if want := []string{"notes.read", "notes.write"}; !slices.Equal(s.Scopes, want) {
		t.Fatalf("scopes %q", s.Scopes)
	}
	before := w.tokens()
	if _, err := w.client.Finish(t.Context(), "alice", w.as.approve(t, s.URL)); err != nil {
		t.Fatal(err)
	}
	after := w.tokens()
	if after.Version == before.Version || !slices.Equal(after.Requested, s.Scopes) || !slices.Equal(after.Scopes, s.Scopes) {
		t.Errorf("tokens %+v", after)
	}
	for _, f := range w.as.sent("/token") {
		if f.Get("grant_type") != "authorization_code" {
			t.Errorf("a step-up by %s", f.Get("grant_type"))
		}
	}
}

func TestRule_OauthC6_ServerMetadataInTheFixedOrder(t *testing.T) {
	for issuer, want := range map[string][]string{
		testIssuer: {testIssuer + wellKnownServer, testIssuer + wellKnownOpenID},
		testIssuer + "/t/": {
			testIssuer + wellKnownServer + "/t", testIssuer + wellKnownOpenID + "/t", testIssuer + "/t" + wellKnownOpenID,
		},
	} {
		w := newWorld(t)
		w.as.metadata = nil
		client := w.opts.Network.Client()
		defer client.CloseIdleConnections()
		if _, err := discoverServer(t.Context(), client, issuer); err == nil {
			t.Fatal("metadata from nowhere")
		}
		var asked []string
		for _, r := range w.net.Requests() {
			asked = append(asked, r.URL)
		}
		if !slices.Equal(asked, want) {
			t.Errorf("%s: asked %q, want %q", issuer, asked, want)
		}
		w.net.Set(want[len(want)-1], answerJSON(map[string]any{"issuer": issuer, "introspection_endpoint": issuer + "i", "jwks_uri": testIssuer + "/keys"}))
		m, err := discoverServer(t.Context(), client, issuer)
		if err != nil || m.JWKSURI != testIssuer+"/keys" || m.IntrospectionEndpoint != issuer+"i" {
			t.Errorf("%+v, %v", m, err)
		}
	}
}

func TestRule_OauthC7_DocumentOfAnotherIssuerIsNotUsed(t *testing.T) {
	w := newWorld(t)
	w.net.Set(testIssuer+wellKnownServer, answerJSON(map[string]any{"issuer": "https://other.example.com"}))
	w.net.Set(testIssuer+wellKnownOpenID, answerJSON(w.as.metadata))
	w.begin(nil) // the next form has the right one
	w.net.Set(testIssuer+wellKnownOpenID, answerJSON(map[string]any{"issuer": testIssuer + "/"}))
	_, err := w.client.Begin(t.Context(), w.conn, &BeginOptions{Issuer: testIssuer})
	for _, s := range []string{"https://other.example.com", testIssuer + "/", testIssuer} {
		if err == nil || !strings.Contains(err.Error(), `"`+s+`"`) {
			t.Errorf("want an error with %q, got %v", s, err)
		}
	}
}

func TestRule_OauthC8_CredentialsStayWithTheirIssuer(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.opts.ClientID = ""
		w.opts.Registered = []Registration{{Issuer: testIssuer + "/", ClientID: "x", Secret: "SECRET-client"}}
	})
	_, err := w.client.Begin(t.Context(), w.conn, nil)
	if !errors.Is(err, ErrNoClient) || !strings.Contains(err.Error(), "byte for byte") {
		t.Errorf("want ErrNoClient that tells of the near miss, got %v", err)
	}
	// Dynamic registrations are kept one an issuer.
	w = newWorld(t, func(w *world) {
		w.opts.ClientID, w.opts.Dynamic = "", &DynamicRegistration{ClientName: "Host"}
	})
	registering(w, nil)
	w.signIn()
	if r, err := w.store.Registration(t.Context(), testIssuer); err != nil || r.Issuer != testIssuer || r.ClientID != "dyn-1" {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := w.store.Registration(t.Context(), testIssuer+"/"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is there under another issuer too: %v", err)
	}
	w.client = w.another()
	w.signIn()
	if n := len(w.as.sent("/register")); n != 1 {
		t.Errorf("registered %d times", n)
	}
}

// registering makes the server offer dynamic registration.
func registering(w *world, answer http.HandlerFunc) {
	w.as.metadata["registration_endpoint"] = testIssuer + "/register"
	w.as.metadata["client_id_metadata_document_supported"] = false
	w.as.register = answer
	if answer == nil {
		w.as.register = func(rw http.ResponseWriter, _ *http.Request) {
			writeJSON(rw, 201, map[string]any{"client_id": "dyn-1", "client_secret": "SECRET-dyn", "client_secret_expires_at": 0})
		}
	}
}

func TestRule_OauthC9_OrderOfClients(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*world)
		id     string // "" is ErrNoClient
	}{
		"by hand before the document": {func(w *world) { w.opts.Registered = []Registration{{Issuer: testIssuer, ClientID: "hand"}} }, "hand"},
		"the document":                {func(*world) {}, testClientID},
		"the document before dynamic": {func(w *world) {
			registering(w, nil)
			w.as.metadata["client_id_metadata_document_supported"] = true
			w.opts.Dynamic = &DynamicRegistration{}
		}, testClientID},
		"dynamic if allowed":     {func(w *world) { registering(w, nil); w.opts.Dynamic = &DynamicRegistration{} }, "dyn-1"},
		"dynamic if not allowed": {func(w *world) { registering(w, nil) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.change)
			s, err := w.client.Begin(t.Context(), w.conn, nil)
			if c.id == "" {
				if !errors.Is(err, ErrNoClient) || !strings.Contains(err.Error(), "register the host there by hand") || !strings.Contains(err.Error(), "dynamic") {
					t.Errorf("want ErrNoClient that tells what to do, got %v", err)
				}
				return
			}
			if err != nil || query(t, s.URL).Get("client_id") != c.id {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

func TestRule_OauthC10_RegistrationTellsItsApplicationType(t *testing.T) {
	for redirect, kind := range map[string]string{testRedirect: "web", "http://127.0.0.1:8137/cb": "native", "http://localhost/cb": "native", "http://[::1]/cb": "native"} {
		w := newWorld(t, func(w *world) {
			w.opts.ClientID, w.opts.RedirectURI, w.opts.Dynamic = "", redirect, &DynamicRegistration{ClientName: "Host"}
		})
		registering(w, nil)
		w.begin(nil)
		var sent map[string]any
		if err := json.Unmarshal([]byte(w.as.sent("/register")[0].Get("body")), &sent); err != nil {
			t.Fatal(err)
		}
		if sent["application_type"] != kind || sent["client_name"] != "Host" || sent["token_endpoint_auth_method"] != "none" {
			t.Errorf("%s: sent %v", redirect, sent)
		}
	}
}

func TestRule_OauthC10_RefusedRegistrationIsToldAndNotKept(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"refused": func(rw http.ResponseWriter, _ *http.Request) {
			writeJSON(rw, 400, map[string]any{"error": "invalid_redirect_uri", "error_description": "no loopback"})
		},
		"redirect":     func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "https://evil.example.net/", 307) },
		"no client id": func(rw http.ResponseWriter, _ *http.Request) { writeJSON(rw, 201, map[string]any{}) },
		"odd method": func(rw http.ResponseWriter, _ *http.Request) {
			writeJSON(rw, 201, map[string]any{"client_id": "x", "token_endpoint_auth_method": "private_key_jwt"})
		},
		"a page": func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("<html>")) },
		"outage": func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(502) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(w *world) { w.opts.ClientID, w.opts.Dynamic = "", &DynamicRegistration{} })
			registering(w, answer)
			_, err := w.client.Begin(t.Context(), w.conn, nil)
			if err == nil {
				t.Fatal("no error")
			}
			if got := errors.Is(err, ErrUnavailable); got != (name == "outage") {
				t.Errorf("unavailable is %t: %v", got, err)
			}
			if name == "refused" && (!errors.Is(err, ErrNoClient) || !strings.Contains(err.Error(), "invalid_redirect_uri")) {
				t.Errorf("want ErrNoClient with the server's code, got %v", err)
			}
			if _, err := w.store.Registration(t.Context(), testIssuer); !errors.Is(err, ErrNotFound) {
				t.Errorf("something was kept: %v", err)
			}
		})
	}
}

func TestRule_OauthC8_ParallelSignInsRegisterOnce(t *testing.T) {
	w := newWorld(t, func(w *world) { w.opts.ClientID, w.opts.Dynamic = "", &DynamicRegistration{} })
	registering(w, nil)
	var wg sync.WaitGroup
	for i := range 5 {
		conn := w.conn
		conn.ID = fmt.Sprint("user-", i)
		if err := w.store.Add(t.Context(), conn); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			if _, err := w.client.Begin(t.Context(), conn, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := len(w.as.sent("/register")); n != 1 {
		t.Errorf("registered %d times", n)
	}
}

// A client that its server has forgotten, or whose secret ended, is registered
// anew by the next sign-in.
func TestRule_OauthC10_LostRegistrationIsReplaced(t *testing.T) {
	w := newWorld(t, func(w *world) { w.opts.ClientID, w.opts.Dynamic = "", &DynamicRegistration{} })
	registering(w, nil)
	s := w.begin(nil)
	w.as.set(func(s *fakeServer) {
		s.token = func(rw http.ResponseWriter, _ *http.Request) {
			writeJSON(rw, 401, map[string]any{"error": "invalid_client"})
		}
	})
	if _, err := w.client.Finish(t.Context(), "alice", w.as.approve(t, s.URL)); err == nil {
		t.Fatal("no error")
	}
	w.as.set(func(s *fakeServer) { s.token = nil })
	w.signIn()
	if n := len(w.as.sent("/register")); n != 2 {
		t.Errorf("registered %d times", n)
	}
}

func TestRule_OauthC11_IssuerOfTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		advertised bool
		change     func(url.Values)
		ok         bool
	}{
		"promised and equal":         {true, func(url.Values) {}, true},
		"promised and absent":        {true, func(q url.Values) { q.Del("iss") }, false},
		"promised and another":       {true, func(q url.Values) { q.Set("iss", "https://evil.example.net") }, false},
		"promised, slash":            {true, func(q url.Values) { q.Set("iss", testIssuer+"/") }, false},
		"not promised and equal":     {false, func(url.Values) {}, true},
		"not promised and absent":    {false, func(q url.Values) { q.Del("iss") }, true},
		"not promised and another":   {false, func(q url.Values) { q.Set("iss", "https://evil.example.net") }, false},
		"a parameter twice":          {true, func(q url.Values) { q.Add("code", "x") }, false},
		"another parameter twice":    {true, func(q url.Values) { q["session"] = []string{"1", "2"} }, false},
		"state twice":                {true, func(q url.Values) { q.Add("state", q.Get("state")) }, false},
		"an empty iss not promised":  {false, func(q url.Values) { q.Set("iss", "") }, false},
		"an error of somebody else":  {true, func(q url.Values) { q.Set("error", "x"); q.Set("iss", "https://evil.example.net") }, false},
		"an error without promise's": {true, func(q url.Values) { q.Set("error", "access_denied"); q.Del("iss") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.as.metadata["authorization_response_iss_parameter_supported"] = c.advertised
			q, _ := url.ParseQuery(w.as.approve(t, w.begin(nil).URL))
			c.change(q)
			_, err := w.client.Finish(t.Context(), "alice", q.Encode())
			if c.ok != (err == nil) {
				t.Errorf("error %v", err)
			}
			if !c.ok && (len(w.as.sent("/token")) != 0 || errors.Is(err, ErrDenied)) {
				t.Errorf("it was acted on: %v", err)
			}
		})
	}
}

func TestRule_OauthC12_ResourceInEveryRequest(t *testing.T) {
	w := newWorld(t)
	s := w.begin(nil)
	if got := query(t, s.URL)["resource"]; !slices.Equal(got, []string{testEndpoint}) {
		t.Errorf("authorization request: %q", got)
	}
	if _, err := w.client.Finish(t.Context(), "alice", w.as.approve(t, s.URL)); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Refresh(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	forms := w.as.sent("/token")
	for i, kind := range []string{"authorization_code", "refresh_token"} {
		if f := forms[i]; f.Get("grant_type") != kind || !slices.Equal(f["resource"], []string{testEndpoint}) {
			t.Errorf("token request %v", f)
		}
	}
	w.conn.Endpoint += "#x"
	if _, err := w.client.Begin(t.Context(), w.conn, nil); err == nil {
		t.Error("an endpoint with a fragment")
	}
}

func TestRule_OauthC13_TokenGoesToItsEndpointOnly(t *testing.T) {
	w := newWorld(t)
	var got []string
	next := roundTrip(func(r *http.Request) (*http.Response, error) {
		got = append(got, r.URL.String())
		return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}, nil
	})
	for _, to := range []string{testEndpoint, testEndpoint + "/", testEndpoint + "?x", "https://apps.example.com/mcp/other", "https://evil.example.net/mcp/notes", "http://apps.example.com/mcp/notes"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, to, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer SECRET-x")
		_, err = w.client.Transport(w.conn, next).RoundTrip(req)
		if (err == nil) != (to == testEndpoint) {
			t.Errorf("%s: %v", to, err)
		}
	}
	if !slices.Equal(got, []string{testEndpoint}) {
		t.Errorf("the token went to %q", got)
	}
	// How net/http writes an endpoint is no difference.
	w.conn.Endpoint = "https://apps.example.com/mcp/notizb\u00fccher"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.conn.Endpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer SECRET-x")
	if _, err := w.client.Transport(w.conn, next).RoundTrip(req); err != nil {
		t.Error(err)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestRule_OauthC14_S256OrNothing(t *testing.T) {
	for _, methods := range []any{nil, []string{}, []string{"plain"}, []string{"s256"}} {
		w := newWorld(t)
		w.as.metadata["code_challenge_methods_supported"] = methods
		if _, err := w.client.Begin(t.Context(), w.conn, nil); err == nil || !strings.Contains(err.Error(), "S256") {
			t.Errorf("%v: %v", methods, err)
		}
	}
	w := newWorld(t)
	a, b := w.begin(nil), w.begin(&BeginOptions{Issuer: testIssuer})
	if q := query(t, a.URL); q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || q.Get("code_challenge") == query(t, b.URL).Get("code_challenge") {
		t.Errorf("challenges %q", q["code_challenge"])
	}
}

func TestRule_OauthC15_StateIsUsedOnce(t *testing.T) {
	w := newWorld(t)
	q := w.as.approve(t, w.begin(nil).URL)
	if _, err := w.client.Finish(t.Context(), "alice", "?"+q); err != nil { // the question mark does no harm
		t.Fatal(err)
	}
	if _, err := w.client.Finish(t.Context(), "alice", q); !errors.Is(err, ErrNotFound) {
		t.Errorf("the second time: %v", err)
	}
	if n := len(w.as.sent("/token")); n != 1 {
		t.Errorf("%d token requests", n)
	}
	for uri, ok := range map[string]bool{
		testRedirect: true, "http://127.0.0.1:9/cb": true, "http://[::1]/cb": true, "http://localhost:1/": true, "http://host.example.com/cb": false,
		"app://cb": false, "": false, "https://host.example.com/cb#x": false, "http://127.0.0.1.evil.example/": false, "javascript:alert(1)": false, "http://127.0.0.1@evil.example/": false,
	} {
		o := w.opts
		o.RedirectURI = uri
		if _, err := NewClient(&o); (err == nil) != ok {
			t.Errorf("redirect %q: %v", uri, err)
		}
	}
}

func TestRule_OauthC16_RefreshTokensAreNotExpected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.as.noRefresh = true
		w.signIn()
		if _, err := w.client.Token(t.Context(), w.conn); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		_, err := w.client.Token(t.Context(), w.conn)
		wantRequired(t, err)
	})
}

// C17, C18 and C12: every address is https and on the public Internet, at every
// hop. Addresses of metadata are in TestRule_OauthG15.
func TestRule_OauthC17_EveryHopIsChecked(t *testing.T) {
	hop := func(to string) fakenet.Answer {
		return fakenet.Answer{Status: 302, Header: http.Header{"Location": {to}}}
	}
	for _, to := range []string{"http://apps.example.com/prm", "https://10.0.0.1/prm", "https://localhost/prm", "https://inside.example.net/prm"} {
		w := newWorld(t)
		w.net.SetDNS("inside.example.net", fakenet.DNS{Addrs: addrs("10.1.2.3")})
		w.net.Set(testPRM, hop(to))
		if _, err := w.client.Begin(t.Context(), w.conn, nil); err == nil {
			t.Errorf("%s was followed", to)
		}
		for _, d := range w.net.Dials() {
			if d.Addr().IsPrivate() || d.Addr().IsLoopback() {
				t.Errorf("%s: dialled %s", to, d)
			}
		}
	}
	for _, endpoint := range []string{"http://apps.example.com/mcp", "https://127.0.0.1/mcp", "https://apps.internal/mcp"} {
		w := newWorld(t)
		w.conn.Endpoint = endpoint
		if _, err := w.client.Begin(t.Context(), w.conn, nil); err == nil || len(w.net.Requests()) != 0 {
			t.Errorf("endpoint %s: %v", endpoint, err)
		}
	}
}

func TestRule_OauthC18_AddressForTheBrowserIsHTTPS(t *testing.T) {
	for _, bad := range []string{"javascript:alert(1)//https://as.example.com", "data:text/html,x", "file:///etc/passwd", "http://as.example.com/a", "https://as.example.com/a\n", "-https://as.example.com", "https://u@as.example.com/a"} {
		w := newWorld(t)
		w.as.metadata["authorization_endpoint"] = bad
		if s, err := w.client.Begin(t.Context(), w.conn, nil); err == nil {
			t.Errorf("%q gave %s", bad, s.URL)
		}
	}
	w := newWorld(t)
	w.as.metadata["authorization_endpoint"] = testIssuer + "/authorize?tenant=7"
	if s := w.begin(nil); !strings.HasPrefix(s.URL, testIssuer+"/authorize?tenant=7&") {
		t.Errorf("the query of the endpoint is lost: %s", s.URL)
	}
}

func TestRule_OauthC19_OldRefreshTokenStaysAndRevokingHasAnOrder(t *testing.T) {
	w := newWorld(t)
	w.signIn()
	first := w.tokens()
	w.as.set(func(s *fakeServer) { s.noRefresh = true })
	if err := w.client.Refresh(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	if now := w.tokens(); now.Refresh != first.Refresh || now.Access == first.Access {
		t.Error("the old refresh token is gone, or the access token is the old one")
	}
	last := w.tokens()
	if err := w.client.Revoke(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	sent := w.as.sent("/revoke")
	if len(sent) != 2 || sent[0].Get("token") != last.Refresh.Reveal() || sent[1].Get("token") != last.Access.Reveal() ||
		sent[0].Get("token_type_hint") != "refresh_token" || sent[0].Get("client_id") != testClientID {
		t.Errorf("sent %v", sent)
	}
}
