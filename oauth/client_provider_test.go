package oauth

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

// stepUpFor is a challenge for more.
func stepUpFor(scopes ...string) *Challenge {
	return &Challenge{Present: true, Status: http.StatusForbidden, Error: "insufficient_scope", Scope: scopes}
}

// otherServer is a second authorization server.
func otherServer(w *world) *fakeServer {
	s := newFakeServer("https://as2.example.com")
	w.net.Handle("as2.example.com", s)
	return s
}

// A new provider is told until the user has signed in there, however often and
// with what accidents the sign-in begins; then the old tokens are revoked.
func TestRule_OauthO4_FormerIssuerIsToldUntilTheNewOneIsUsed(t *testing.T) {
	w := newWorld(t)
	other := otherServer(w)
	w.signIn()
	old := w.tokens()
	w.app.metadata["authorization_servers"] = []string{other.issuer}
	metadata := other.metadata
	w.net.Set(other.issuer+wellKnownServer, fakenet.Answer{Status: 503})
	if _, err := w.client.Begin(t.Context(), w.conn, nil); !errors.Is(err, ErrUnavailable) {
		t.Fatalf("error %v", err)
	}
	if _, err := w.client.Token(t.Context(), w.conn); err != nil {
		t.Errorf("signed out for a provider that cannot be used: %v", err)
	}
	w.net.Set(other.issuer+wellKnownServer, answerJSON(metadata))
	var s *SignIn
	for i, c := range []*Client{w.client, w.client, w.another()} {
		var err error
		if s, err = c.Begin(t.Context(), w.conn, &BeginOptions{Challenge: &Challenge{Scope: []string{"s" + string(rune('0'+i))}}}); err != nil {
			t.Fatal(err)
		}
		if s.Issuer != other.issuer || s.FormerIssuer != testIssuer {
			t.Errorf("time %d: issuer %s, former %q", i, s.Issuer, s.FormerIssuer)
		}
		_, err = w.client.Token(t.Context(), w.conn)
		wantRequired(t, err)
		wantRequired(t, w.client.Refresh(t.Context(), w.conn))
	}
	if n := len(w.as.sent("/revoke")); n != 0 {
		t.Errorf("%d revocations before the user signed in", n)
	}
	if _, err := w.client.Finish(t.Context(), "alice", other.approve(t, s.URL)); err != nil {
		t.Fatal(err)
	}
	if now := w.tokens(); now.Client.Issuer != other.issuer || now.retired() {
		t.Errorf("tokens %v", now)
	}
	var revoked []string
	for _, f := range w.as.sent("/revoke") {
		revoked = append(revoked, f.Get("token"))
	}
	if !slices.Equal(revoked, []string{old.Refresh.Reveal(), old.Access.Reveal()}) || len(other.sent("/revoke")) != 0 {
		t.Errorf("%d tokens revoked", len(revoked))
	}
	if s := w.begin(nil); s.FormerIssuer != "" {
		t.Errorf("former %q at the same provider", s.FormerIssuer)
	}
}

// Tokens that wait to be replaced are revoked when the connection is deleted.
func TestRule_OauthO5_TokensOfAFormerIssuerAreRevokedToo(t *testing.T) {
	w := newWorld(t)
	w.signIn()
	w.app.metadata["authorization_servers"] = []string{otherServer(w).issuer}
	w.begin(nil)
	if err := w.client.Revoke(t.Context(), w.conn); err != nil || len(w.as.sent("/revoke")) != 2 {
		t.Errorf("%d revocations, %v", len(w.as.sent("/revoke")), err)
	}
}

// A connection stays with its provider while the app names it, in whatever order.
func TestRule_OauthO4_ConnectionStaysWithItsIssuer(t *testing.T) {
	w := newWorld(t)
	other := otherServer(w)
	w.signIn()
	w.app.metadata["authorization_servers"] = []string{other.issuer, testIssuer}
	s := w.begin(&BeginOptions{Challenge: stepUpFor("notes.write")})
	if s.Issuer != testIssuer || s.FormerIssuer != "" || !slices.Equal(s.Scopes, []string{"notes.read", "notes.write"}) {
		t.Errorf("%+v", s)
	}
	// By the user's choice it changes, told, and without what was asked for before.
	s = w.begin(&BeginOptions{Challenge: stepUpFor("notes.write"), Issuer: other.issuer})
	if s.Issuer != other.issuer || s.FormerIssuer != testIssuer || !slices.Equal(s.Scopes, []string{"notes.write"}) {
		t.Errorf("%+v", s)
	}
	if _, err := w.client.Token(t.Context(), w.conn); err != nil {
		t.Errorf("the old provider is still named: %v", err)
	}
	// An outage is no reason to move.
	w.net.Set(testIssuer+wellKnownServer, fakenet.Answer{Status: 503})
	if s, err := w.client.Begin(t.Context(), w.conn, &BeginOptions{Challenge: stepUpFor("x")}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("moved on an outage: %+v, %v", s, err)
	}
}

// The client of a registration that was renewed for another user's sign-in is no
// reason to sign everybody out.
func TestRule_OauthC8_EndedRegistrationSignsNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(w *world) { w.opts.ClientID, w.opts.Dynamic = "", &DynamicRegistration{ClientName: "Host"} })
		var n atomic.Int32
		registering(w, func(rw http.ResponseWriter, _ *http.Request) {
			writeJSON(rw, 201, map[string]any{"client_id": "dyn-" + string(rune('0'+n.Add(1))), "client_secret": "SECRET-dyn", "client_secret_expires_at": time.Now().Add(time.Minute).Unix()})
		})
		w.signIn()
		bob := w.conn
		bob.ID, bob.User = "c2", "bob"
		if err := w.store.Add(t.Context(), bob); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		if _, err := w.client.Begin(t.Context(), bob, nil); err != nil || n.Load() != 2 {
			t.Fatalf("%d registrations, %v", n.Load(), err)
		}
		if _, err := w.client.Token(t.Context(), w.conn); err != nil {
			t.Errorf("alice was signed out: %v", err)
		}
		time.Sleep(5 * time.Minute) // now it would need the client that is gone
		_, err := w.client.Token(t.Context(), w.conn)
		wantRequired(t, err)
		if n := len(w.as.sent("/token")); n != 1 {
			t.Errorf("%d token requests", n)
		}
	})
}

func TestRule_OauthC10_UnusableClientIsNotKept(t *testing.T) {
	for name, answer := range map[string]map[string]any{
		"long id":     {"client_id": strings.Repeat("x", 9000)},
		"line break":  {"client_id": "c\r\nx"},
		"odd secrets": {"client_id": "c", "client_secret": "SECRET\n"},
	} {
		w := newWorld(t, func(w *world) { w.opts.ClientID, w.opts.Dynamic = "", &DynamicRegistration{ClientName: "Host"} })
		registering(w, func(rw http.ResponseWriter, _ *http.Request) { writeJSON(rw, 201, answer) })
		if _, err := w.client.Begin(t.Context(), w.conn, nil); err == nil || strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := w.store.Registration(t.Context(), testIssuer); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: it is kept: %v", name, err)
		}
	}
}

func TestRule_OauthC18_EndpointThatSetsOurParameters(t *testing.T) {
	for _, query := range []string{
		"client_id=evil", "redirect_uri=https://evil.example.net/", "code_challenge_method=plain", "code_challenge=x", "state=x", "request=x", "request_uri=urn:x",
		"response_mode=fragment", "response_type=token", "resource=https://evil.example.net/", "x=1&scope=admin", "%73tate=x", "STATE=x", "a=%zz", "a;b",
	} {
		w := newWorld(t)
		w.as.metadata["authorization_endpoint"] = testIssuer + "/authorize?" + query
		if s, err := w.client.Begin(t.Context(), w.conn, nil); err == nil {
			t.Errorf("%s: %s", query, s.URL)
		}
	}
	w := newWorld(t)
	w.as.metadata["authorization_endpoint"] = testIssuer + "/authorize?tenant=a"
	if s := w.begin(nil); !strings.HasPrefix(s.URL, testIssuer+"/authorize?tenant=a&") {
		t.Errorf("%s", s.URL)
	}
}

func TestRule_OauthC1_RedirectToForeignMetadataNeedsAReview(t *testing.T) {
	w := newWorld(t)
	metadata := w.app.metadata
	w.app.metadata = nil
	w.app.mcp = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "https://other.example.net/metadata?key=SECRET", http.StatusFound)
	})
	w.net.Handle("other.example.net", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { writeJSON(rw, 200, metadata) }))
	o := &BeginOptions{Challenge: &Challenge{Present: true, Status: 401, ResourceMetadata: "https://apps.example.com/open-redirect"}}
	_, err := w.client.Begin(t.Context(), w.conn, o)
	if err == nil || !strings.Contains(err.Error(), "needs a review") || strings.Contains(err.Error(), "SECRET") {
		t.Errorf("error %v", err)
	}
	o.ForeignMetadata = true
	w.begin(o)
}

// What another user of the host asks for under an ID that he should not know
// does not touch its owner's tokens (D22).
func TestRule_OauthO6_AnotherUserSignsNobodyOut(t *testing.T) {
	w := newWorld(t)
	w.signIn()
	bob := w.conn
	bob.User = "bob"
	_, tokenErr := w.client.Token(t.Context(), bob)
	_, beginErr := w.client.Begin(t.Context(), bob, nil)
	for name, err := range map[string]error{
		"token": tokenErr, "begin": beginErr, "refresh": w.client.Refresh(t.Context(), bob), "revoke": w.client.Revoke(t.Context(), bob),
		"401": w.client.after401(t.Context(), bob, "x", Challenge{}),
	} {
		if !errors.Is(err, ErrReview) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.client.Token(t.Context(), w.conn); err != nil {
		t.Errorf("alice: %v", err)
	}
}

// FO-39 and oauth.md section 11: a key in an endpoint's query is nobody's.
func TestRule_FO39_QueryOfAnEndpointIsNotTold(t *testing.T) {
	w := newWorld(t)
	c := Connection{ID: "c3", User: "alice", CardURL: w.conn.CardURL, Endpoint: testEndpoint + "?api_key=SECRET"}
	if err := w.store.Add(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	tell := func(err error) {
		if err == nil {
			t.Error("no error")
			return
		}
		told.WriteString(err.Error() + "\n")
	}
	_, err := w.client.Token(t.Context(), c)
	tell(err)
	_, err = w.client.Begin(t.Context(), c, nil) // the metadata is of another endpoint
	tell(err)
	w.app.metadata = nil
	_, err = w.client.Begin(t.Context(), c, &BeginOptions{Challenge: &Challenge{Scope: []string{"x"}}})
	tell(err)
	tell(w.client.after403(t.Context(), c, Challenge{Status: 403}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, testEndpoint+"?api_key=SECRET2", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.client.Transport(c, http.DefaultTransport).RoundTrip(req)
	tell(err)
	if err := w.client.Revoke(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	_, err = w.client.Token(t.Context(), c)
	tell(err)
	if all := told.String() + w.log.String(); strings.Contains(all, "SECRET") || !strings.Contains(all, testEndpoint) {
		t.Errorf("told:\n%s", all)
	}
}

// Of two processes one has finished a sign-in that the other has begun: it gives
// it again for some seconds only.
func TestBegin_SignInFinishedElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := w.begin(nil)
		if _, err := w.another().Finish(t.Context(), "alice", "state="+s.State+"&error=access_denied&iss="+testIssuer); !errors.Is(err, ErrDenied) {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Second)
		if w.begin(nil).State == s.State {
			t.Error("a sign-in that is used up")
		}
	})
}

func TestRevoke_IssuerWithoutAWayIsLoggedAsSuch(t *testing.T) {
	w := newWorld(t)
	delete(w.as.metadata, "revocation_endpoint")
	w.signIn()
	if err := w.client.Revoke(t.Context(), w.conn); err != nil {
		t.Error(err)
	}
	if log := w.log.String(); strings.Contains(log, "revoked=true") || strings.Contains(log, "revoked=yes") || !strings.Contains(log, "has no way") {
		t.Errorf("log:\n%s", log)
	}
}
