package oauth

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

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

// A server that cannot take back an access token has revoked all that it can.
func TestRule_OauthC19_AccessTokenThatCannotBeRevoked(t *testing.T) {
	for kind, fails := range map[string]bool{"access_token": false, "refresh_token": true} {
		w := newWorld(t)
		w.signIn()
		w.as.set(func(s *fakeServer) {
			s.revoke = func(rw http.ResponseWriter, r *http.Request) {
				if r.FormValue("token_type_hint") != kind {
					return
				}
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(http.StatusBadRequest)
				_, _ = io.WriteString(rw, `{"error":"unsupported_token_type"}`)
			}
		})
		if err := w.client.Revoke(t.Context(), w.conn); errors.Is(err, ErrNotRevoked) != fails {
			t.Errorf("%s: %v", kind, err)
		}
	}
}
