package oauth

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// refreshWorld is a connection with an access token that has expired.
func refreshWorld(t *testing.T, refresh string) *world {
	w := newWorld(t)
	_, err := w.store.PutTokens(t.Context(), &Tokens{
		Connection: w.conn, Client: Registration{Issuer: testIssuer, ClientID: testClientID, AuthMethod: "none"}, Access: "A1", Expires: time.Now(),
		Refresh: Secret(refresh), Scopes: []string{"notes.read"}, Requested: []string{"notes.read"}, Resource: testEndpoint,
		TokenEndpoint: testIssuer + "/token", RevocationEndpoint: testIssuer + "/revoke",
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func vectorRefresh(t *testing.T, v clientVector) {
	var in struct {
		Refresh   string `json:"stored_refresh"`
		Response  json.RawMessage
		Processes int
	}
	var want struct {
		Access   string  `json:"stored_access"`
		Refresh  string  `json:"stored_refresh"`
		Login    *bool   `json:"login_needed"`
		After    *string `json:"store_after"`
		Both     string  `json:"both_end_with"`
		Requests int     `json:"token_requests"`
	}
	v.in(t, &in, &want)
	synctest.Test(t, func(t *testing.T) {
		w := refreshWorld(t, in.Refresh)
		if in.Processes > 1 {
			testProcesses(t, w, in.Processes, in.Refresh, want.Both)
			if n := len(w.as.sent("/token")); n != want.Requests {
				t.Errorf("%d token requests, want %d", n, want.Requests)
			}
			return
		}
		status, body := 200, map[string]any{}
		if json.Unmarshal(in.Response, &status) != nil {
			if err := json.Unmarshal(in.Response, &body); err != nil {
				t.Fatal(err)
			}
			if body["error"] != nil {
				status = 400
			}
			if body["token_type"] == nil { // the cases write only what they are about
				body["token_type"] = "Bearer"
			}
		}
		w.as.set(func(s *fakeServer) {
			s.token = func(rw http.ResponseWriter, _ *http.Request) { writeJSON(rw, status, body) }
		})
		err := w.client.Refresh(t.Context(), w.conn)
		var required *SignInRequired
		if login := errors.As(err, &required); want.Login != nil && login != *want.Login {
			t.Errorf("%s: login needed is %t: %v", v.Why, login, err)
		}
		tokens, _ := w.store.Tokens(t.Context(), w.conn)
		if tokens == nil {
			tokens = &Tokens{}
		}
		if want.Access != "" && tokens.Access.Reveal() != want.Access || want.Refresh != "" && tokens.Refresh.Reveal() != want.Refresh {
			t.Errorf("%s: stored %q and %q", v.Why, tokens.Access.Reveal(), tokens.Refresh.Reveal())
		}
		if want.After != nil && tokens.Refresh.Reveal() != *want.After || want.Login != nil && *want.Login && tokens.Refresh != "" {
			t.Errorf("%s: stored afterwards %q", v.Why, tokens.Refresh.Reveal())
		}
	})
}

// testProcesses lets several processes refresh at once at a server that ends all
// tokens when a refresh token comes twice.
func testProcesses(t *testing.T, w *world, n int, before, after string) {
	used := map[string]bool{}
	var mu sync.Mutex
	w.as.set(func(s *fakeServer) {
		s.token = func(rw http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			time.Sleep(time.Second)
			forms := s.sent("/token")
			if sent := forms[len(forms)-1].Get("refresh_token"); used[sent] || sent != before {
				writeJSON(rw, 400, map[string]any{"error": "invalid_grant"})
				return
			}
			used[before] = true
			writeJSON(rw, 200, map[string]any{"access_token": "A2", "refresh_token": after, "token_type": "Bearer", "expires_in": 60})
		}
	})
	var wg sync.WaitGroup
	for range n {
		c := w.another()
		for range 3 {
			wg.Go(func() {
				token, err := c.Token(t.Context(), w.conn)
				if err != nil || token.Reveal() != "A2" {
					t.Errorf("token %q, %v", token.Reveal(), err)
				}
			})
		}
	}
	wg.Wait()
	if got := w.tokens().Refresh.Reveal(); got != after {
		t.Errorf("ends with %q, want %q", got, after)
	}
}

func vectorBinding(t *testing.T, v clientVector) {
	var in struct {
		Bound   string `json:"bound_resource"`
		Now     string `json:"card_remote_now"`
		Answers string `json:"token_endpoint_answers"`
	}
	var want struct {
		Review *bool `json:"needs_review"`
		Send   *bool `json:"send_old_token"`
		Follow *bool
	}
	v.in(t, &in, &want)
	if in.Answers != "" {
		code, to, _ := strings.Cut(in.Answers, " to ")
		testTokenRedirect(t, map[string]int{"301": 301, "302": 302, "303": 303, "307": 307, "308": 308}[code], to)
		return
	}
	if in.Bound == "" || want.Review == nil || want.Send == nil {
		t.Fatalf("a case of another form: %s", v.Input)
	}
	w := newWorld(t)
	bound := w.conn
	bound.ID, bound.Endpoint = "c2", in.Bound
	if err := w.store.Add(t.Context(), bound); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.PutTokens(t.Context(), &Tokens{Connection: bound, Client: Registration{Issuer: testIssuer, ClientID: testClientID}, Access: "A1", TokenEndpoint: testIssuer + "/token"}); err != nil {
		t.Fatal(err)
	}
	now := bound
	now.Endpoint = in.Now
	token, err := w.client.Token(t.Context(), now)
	if got := errors.Is(err, ErrReview); got != *want.Review {
		t.Errorf("%s: needs review is %t: %v", v.Why, got, err)
	}
	if got := token != ""; got != *want.Send {
		t.Errorf("%s: the old token is sent: %t", v.Why, got)
	}
	if _, err := w.client.Token(t.Context(), bound); *want.Review && err == nil {
		t.Error("the old token is still there")
	}
}

// testTokenRedirect signs in at a server whose token endpoint redirects.
func testTokenRedirect(t *testing.T, status int, to string) {
	t.Helper()
	w := newWorld(t)
	u, err := url.Parse(to)
	if err != nil || status == 0 {
		t.Fatalf("%d to %q: %v", status, to, err)
	}
	w.net.Handle(u.Host, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	w.as.set(func(s *fakeServer) {
		s.token = func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, to, status) }
	})
	_, err = w.client.Finish(t.Context(), "alice", w.as.approve(t, w.begin(nil).URL))
	if err == nil || !strings.Contains(err.Error(), "redirect") {
		t.Errorf("want an error about a redirect, got %v", err)
	}
	if n := w.asked(u.Scheme + "://" + u.Host); n != 0 {
		t.Errorf("%d requests went to the redirect's target", n)
	}
}

func vectorDelete(t *testing.T, v clientVector) {
	var in struct {
		Endpoint string `json:"revocation_endpoint"`
	}
	var want struct {
		Stop   bool `json:"calls_stop"`
		Erased bool `json:"secrets_erased"`
	}
	v.in(t, &in, &want)
	w := newWorld(t)
	w.signIn()
	fails := !strings.HasSuffix(in.Endpoint, "200")
	if fails {
		w.as.set(func(s *fakeServer) { s.revoke = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) } })
	}
	if err := w.client.Revoke(t.Context(), w.conn); errors.Is(err, ErrNotRevoked) != fails || (err != nil) != fails {
		t.Errorf("%s: revoking says %v", v.Why, err)
	}
	var order []string
	for _, f := range w.as.sent("/revoke") {
		order = append(order, f.Get("token_type_hint"))
	}
	if !slices.Equal(order, []string{"refresh_token", "access_token"}) {
		t.Errorf("revoked in the order %q", order)
	}
	if _, err := w.client.Token(t.Context(), w.conn); want.Stop && !errors.Is(err, ErrGone) {
		t.Errorf("calls go on: %v", err)
	}
	if left, err := w.store.Kill(t.Context(), w.conn); want.Erased && (left != nil || err != nil) {
		t.Errorf("left in the store: %v, %v", left, err)
	}
}
