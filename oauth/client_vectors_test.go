package oauth

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/internal/webtest"
)

// opOwners are all ops of the vector files and the package that runs each.
var opOwners = map[string]string{
	"client.challenge": "oauth", "client.prm_urls": "oauth", "client.prm_accept": "oauth", "client.as_urls": "oauth", "client.as_accept": "oauth",
	"client.authz_response": "oauth", "client.step_up": "oauth", "scenario.refresh": "oauth", "scenario.binding": "oauth", "scenario.delete": "oauth",
	"rs.request": "oauth", "jwks.usable": "internal/accesstoken", "scenario.cors": "oauth",
	"as.cimd_client_id": "oauth/cimd", "as.cimd_doc": "oauth/cimd", "as.redirect_match": "oauth/cimd",
}

type clientVector struct {
	ID, Op, Why string
	Input, Want json.RawMessage
}

func readClientVectors(t *testing.T) []clientVector {
	t.Helper()
	var all []clientVector
	for _, file := range webtest.VectorFiles(t, "oauth*vectors.json") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var set struct{ Vectors []clientVector }
		if err := json.Unmarshal(data, &set); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, set.Vectors...)
	}
	return all
}

// TestVectorsEveryOpHasAnOwner fails for an op that no package runs.
func TestVectorsEveryOpHasAnOwner(t *testing.T) {
	for _, v := range readClientVectors(t) {
		if opOwners[v.Op] == "" {
			t.Errorf("%s: nobody runs the op %q", v.ID, v.Op)
		}
	}
}

// TestVectorsClient runs the cases on the host side.
func TestVectorsClient(t *testing.T) {
	run := map[string]func(*testing.T, clientVector){
		"client.challenge": vectorChallenge, "client.prm_urls": vectorResourceURLs, "client.prm_accept": vectorResourceAccept, "client.as_urls": vectorServerURLs,
		"client.as_accept": vectorServerAccept, "client.authz_response": vectorCallback, "client.step_up": vectorStepUp,
		"scenario.refresh": vectorRefresh, "scenario.binding": vectorBinding, "scenario.delete": vectorDelete,
	}
	seen := map[string]int{}
	for _, v := range readClientVectors(t) {
		if run[v.Op] == nil {
			continue
		}
		seen[v.Op]++
		t.Run(v.ID, func(t *testing.T) { run[v.Op](t, v) })
	}
	for op := range run {
		if seen[op] == 0 {
			t.Errorf("no case of %s", op)
		}
	}
}

// in decodes input and want.
func (v clientVector) in(t *testing.T, input, want any) {
	t.Helper()
	for _, d := range []struct {
		raw json.RawMessage
		to  any
	}{{v.Input, input}, {v.Want, want}} {
		if err := json.Unmarshal(d.raw, d.to); err != nil {
			t.Fatal(err)
		}
	}
}

func vectorChallenge(t *testing.T, v clientVector) {
	var in struct {
		Lines []string `json:"www_authenticate"`
	}
	var want struct {
		Present  bool
		Error    string
		Scope    []string
		Metadata string `json:"resource_metadata"`
	}
	v.in(t, &in, &want)
	got := ParseChallenge(http.Header{"Www-Authenticate": in.Lines})
	if d := cmp.Diff(Challenge{Present: want.Present, Error: want.Error, Scope: want.Scope, ResourceMetadata: want.Metadata}, got); d != "" {
		t.Errorf("%s\n%s", v.Why, d)
	}
}

func vectorResourceURLs(t *testing.T, v clientVector) {
	type form struct {
		URL    string `json:"url"`
		Expect string `json:"expect_resource"`
	}
	var in struct {
		Endpoint  string
		Challenge string `json:"challenge_url"`
	}
	var want, got []form
	v.in(t, &in, &want)
	probes, err := resourceProbes(in.Endpoint, in.Challenge, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range probes {
		got = append(got, form{p.URL, p.Expect})
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s\n%s", v.Why, d)
	}
}

func wantVerdict(t *testing.T, v clientVector, want string, err error) {
	t.Helper()
	if (want == "accept") != (err == nil) {
		t.Errorf("%s: want %s, got %v", v.Why, want, err)
	}
}

func vectorResourceAccept(t *testing.T, v clientVector) {
	var in struct {
		Doc    *resourceMetadata
		Expect string `json:"expect_resource"`
	}
	var want string
	v.in(t, &in, &want)
	wantVerdict(t, v, want, acceptResource(in.Doc, in.Expect, newWorld(t).client.check))
}

func vectorServerURLs(t *testing.T, v clientVector) {
	var in struct{ Issuer string }
	var want []string
	v.in(t, &in, &want)
	if d := cmp.Diff(want, serverURLs(in.Issuer)); d != "" {
		t.Errorf("%s\n%s", v.Why, d)
	}
}

func vectorServerAccept(t *testing.T, v clientVector) {
	var in struct {
		Doc    *serverMetadata
		Issuer string
	}
	var want string
	v.in(t, &in, &want)
	err := acceptServer(in.Doc, in.Issuer, newWorld(t).client.check)
	wantVerdict(t, v, want, errors.Join(err, in.Doc.usable()))
}

func vectorCallback(t *testing.T, v clientVector) {
	var in struct {
		Query, State, Issuer string
		Advertised           bool `json:"iss_advertised"`
	}
	var want struct {
		Action string
		Show   bool `json:"show_error"`
	}
	v.in(t, &in, &want)
	q, state, err := parseCallback(in.Query)
	if err == nil && state != in.State {
		err = ErrNotFound
	}
	if err == nil {
		_, err = judgeCallback(q, in.Issuer, in.Advertised)
	}
	var theirs *callbackError
	shown := errors.As(err, &theirs)
	rejected := err != nil && !shown
	if rejected != (want.Action == "reject") || shown != want.Show || err == nil != (want.Action != "reject" && !want.Show) {
		t.Errorf("%s: want %+v, got %v", v.Why, want, err)
	}
	if rejected && q != nil && q.Get("error_description") != "" && strings.Contains(err.Error(), q.Get("error_description")) {
		t.Errorf("the error of a stranger is shown: %v", err)
	}
}

func vectorStepUp(t *testing.T, v clientVector) {
	var in struct {
		Status, Attempts int
		Error            string
		Challenged       []string `json:"challenge_scope"`
		Before           []string `json:"requested_before"`
	}
	var want struct {
		Action string
		Scopes []string `json:"request_scopes"`
	}
	v.in(t, &in, &want)
	ch := Challenge{Present: true, Status: in.Status, Error: in.Error, Scope: in.Challenged}
	got, scopes := "fail", []string(nil)
	if in.Attempts == 0 && ch.asksForMore() {
		got = "authorize"
		scopes = scopesToAsk(&ch, &resourceMetadata{}, &serverMetadata{}, &Tokens{Requested: in.Before})
	}
	if got != want.Action || !slices.Equal(scopes, want.Scopes) {
		t.Errorf("%s: got %s %q, want %+v", v.Why, got, scopes, want)
	}
}

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
	w := newWorld(t)
	bound := w.conn
	bound.ID, bound.Endpoint = "c2", in.Bound
	if err := w.store.Add(t.Context(), bound); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.PutTokens(t.Context(), &Tokens{Connection: bound, Client: Registration{Issuer: testIssuer, ClientID: testClientID}, Access: "A1"}); err != nil {
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
	if err := w.client.Revoke(t.Context(), w.conn); (err != nil) != fails {
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
