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
		"redirect": func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "https://evil.example.net/", http.StatusTemporaryRedirect)
		},
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
