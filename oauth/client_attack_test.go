package oauth

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

// A server that the app names besides the right one answers in its place (RFC
// 9207 section 1): the code must not go to it.
func TestAttack_IssuerMixUp(t *testing.T) {
	w := newWorld(t)
	evil := newFakeServer("https://evil.example.net")
	evil.metadata["authorization_response_iss_parameter_supported"] = false
	w.net.Handle("evil.example.net", evil)
	w.app.metadata["authorization_servers"] = []string{testIssuer, "https://evil.example.net"}
	s := w.begin(&BeginOptions{Issuer: "https://evil.example.net"})
	honest := w.as.approve(t, s.URL) // the evil server sent the browser on to the honest one
	if _, err := w.client.Finish(t.Context(), "alice", honest); err == nil {
		t.Error("an answer of another server was taken")
	}
	if n := len(evil.sent("/token")); n != 0 {
		t.Errorf("the honest server's code went to the evil one %d times", n)
	}
}

func TestAttack_SwappedState(t *testing.T) {
	w := newWorld(t)
	mallory := w.conn
	mallory.ID, mallory.User = "c2", "mallory"
	if err := w.store.Add(t.Context(), mallory); err != nil {
		t.Fatal(err)
	}
	theirs, err := w.client.Begin(t.Context(), mallory, nil)
	if err != nil {
		t.Fatal(err)
	}
	mine := w.begin(nil)
	// Mallory's code under alice's state: the verifier does not fit.
	q, _ := url.ParseQuery(w.as.approve(t, theirs.URL))
	q.Set("state", mine.State)
	if _, err := w.client.Finish(t.Context(), "alice", q.Encode()); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("want invalid_grant, got %v", err)
	}
	if _, err := w.client.Finish(t.Context(), "alice", "code=x&state=guessed"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a state from nowhere: %v", err)
	}
	if _, err := w.client.Finish(t.Context(), "alice", "code=x"); err == nil {
		t.Error("no state at all")
	}
}

func TestAttack_CallbackOfAnotherUser(t *testing.T) {
	w := newWorld(t)
	q := w.as.approve(t, w.begin(nil).URL)
	for _, user := range []string{"bob", ""} {
		_, err := w.client.Finish(t.Context(), user, q)
		if !errors.Is(err, ErrDenied) && !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", user, err)
		}
	}
	if n := len(w.as.sent("/token")); n != 0 {
		t.Errorf("%d token requests", n)
	}
	if _, err := w.client.Finish(t.Context(), "alice", q); !errors.Is(err, ErrNotFound) {
		t.Errorf("the attempt is not used up: %v", err)
	}
}

func TestAttack_LateCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		q := w.as.approve(t, w.begin(nil).URL)
		time.Sleep(attemptLifetime)
		if _, err := w.client.Finish(t.Context(), "alice", q); !errors.Is(err, ErrNotFound) {
			t.Errorf("after its time: %v", err)
		}
		q = w.as.approve(t, w.begin(nil).URL)
		time.Sleep(attemptLifetime - time.Second)
		if _, err := w.client.Finish(t.Context(), "alice", q); err != nil {
			t.Errorf("within its time: %v", err)
		}
	})
}

func TestAttack_CodeReplay(t *testing.T) {
	w := newWorld(t)
	q, _ := url.ParseQuery(w.as.approve(t, w.begin(nil).URL))
	if _, err := w.client.Finish(t.Context(), "alice", q.Encode()); err != nil {
		t.Fatal(err)
	}
	before := w.tokens()
	q.Set("state", w.begin(&BeginOptions{Issuer: testIssuer}).State)
	if _, err := w.client.Finish(t.Context(), "alice", q.Encode()); err == nil {
		t.Error("a used code signs in")
	}
	if w.tokens().Version != before.Version {
		t.Error("the tokens changed")
	}
}

func TestAttack_RedirectsOfTokenAndRevocation(t *testing.T) {
	w := newWorld(t)
	w.signIn()
	w.net.Handle("evil.example.net", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	away := func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "https://evil.example.net/x", http.StatusTemporaryRedirect)
	}
	w.as.set(func(s *fakeServer) { s.token, s.revoke = away, away })
	if err := w.client.Refresh(t.Context(), w.conn); err == nil || !strings.Contains(err.Error(), "redirect") {
		t.Errorf("refresh: %v", err)
	}
	if err := w.client.Revoke(t.Context(), w.conn); err == nil || !strings.Contains(err.Error(), "redirect") {
		t.Errorf("revoke: %v", err)
	}
}

func TestAttack_MetadataOnPrivateAddresses(t *testing.T) {
	for _, host := range []string{"as.example.com", "apps.example.com"} {
		for _, ip := range []string{"127.0.0.1", "10.0.0.1", "169.254.169.254", "::1", "fd00::1", "::ffff:10.0.0.1"} {
			w := newWorld(t)
			w.net.SetDNS(host, fakenet.DNS{Addrs: addrs(ip)})
			_, err := w.client.Begin(t.Context(), w.conn, nil)
			if !errors.Is(err, publicnet.ErrNotPublic) {
				t.Errorf("%s at %s: %v", host, ip, err)
			}
			if errors.Is(err, ErrUnavailable) {
				t.Errorf("%s at %s is called an outage: %v", host, ip, err)
			}
			for _, d := range w.net.Dials() {
				if d.Addr().String() == ip {
					t.Errorf("dialled %s", d)
				}
			}
		}
	}
	// The address moves after the sign-in began.
	w := newWorld(t)
	q := w.as.approve(t, w.begin(nil).URL)
	w.net.SetDNS("as.example.com", fakenet.DNS{Addrs: addrs("10.0.0.1")})
	if _, err := w.client.Finish(t.Context(), "alice", q); !errors.Is(err, publicnet.ErrNotPublic) {
		t.Errorf("token endpoint that moved: %v", err)
	}
}

func TestAttack_MetadataThatIsNone(t *testing.T) {
	page := fakenet.Answer{Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Body: `{"resource":"` + testEndpoint + `","authorization_servers":["` + testIssuer + `"]}`}
	huge := fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"resource":"` + strings.Repeat("x", maxMetadata) + `"}`}
	deep := fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000)}
	double := fakenet.Answer{Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"resource":"` + testEndpoint + `","resource":"x","authorization_servers":["` + testIssuer + `"]}`}
	for name, a := range map[string]fakenet.Answer{"a page": page, "huge": huge, "deep": deep, "a member twice": double, "slow": {Body: "{}" + strings.Repeat(" ", 100), Fault: fakenet.Slow}, "never": {Fault: fakenet.Timeout}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.net.Set(testPRM, a)
				w.net.Set(rootPRM, a)
				start := time.Now()
				_, err := w.client.Begin(t.Context(), w.conn, nil)
				if err == nil {
					t.Error("no error")
				}
				if took := time.Since(start); took > 2*probeTimeout+time.Second {
					t.Errorf("took %s", took)
				}
				if got := errors.Is(err, ErrUnavailable); got != (name == "slow" || name == "never") {
					t.Errorf("unavailable is %t: %v", got, err)
				}
				w.net.Set(rootPRM, answerJSON(map[string]any{"resource": "https://apps.example.com", "authorization_servers": []string{testIssuer}}))
				if _, err := w.client.Begin(t.Context(), w.conn, nil); err != nil {
					t.Errorf("the next form is not tried: %v", err)
				}
			})
		})
	}
}

// An app that names many servers cannot make the host ask all of them.
func TestAttack_ManyAuthorizationServers(t *testing.T) {
	w := newWorld(t)
	var many []string
	for i := range 1000 {
		many = append(many, fmt.Sprintf("https://as%d.example.net", i))
	}
	w.app.metadata["authorization_servers"] = many
	_, err := w.client.Begin(t.Context(), w.conn, nil)
	if err == nil || len(w.net.Lookups()) > 4*maxListed+4 {
		t.Errorf("%d lookups, %v", len(w.net.Lookups()), err)
	}
}

// What a server writes is data: cut short, escaped, and without what was sent.
func TestAttack_TextsOfServers(t *testing.T) {
	w := newWorld(t)
	w.as.set(func(s *fakeServer) {
		s.token = func(rw http.ResponseWriter, _ *http.Request) {
			forms := s.sent("/token")
			f := forms[len(forms)-1]
			writeJSON(rw, 400, map[string]any{"error": "invalid_grant", "error_description": "\x1b[31m" + f.Get("code") + f.Get("code_verifier") + f.Get("refresh_token") + strings.Repeat("long ", 5000)})
		}
	})
	q := w.as.approve(t, w.begin(nil).URL)
	_, err := w.client.Finish(t.Context(), "alice", q)
	if err == nil || len(err.Error()) > 1000 || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("error %.2000q", err)
	}
	state := w.begin(nil).State
	_, err = w.client.Finish(t.Context(), "alice", url.Values{"state": {state}, "iss": {testIssuer}, "error": {"access_denied"}, "error_description": {strings.Repeat("\x1b[2J", 500)}}.Encode())
	if !errors.Is(err, ErrDenied) || len(err.Error()) > 1000 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("error %.2000q", err)
	}
}

func TestAttack_OddTokenAnswers(t *testing.T) {
	for name, body := range map[string]string{
		"no token":        `{"token_type":"Bearer"}`,
		"no type":         `{"access_token":"SECRET-a"}`,
		"line break":      `{"access_token":"SECRET-a\r\nX: y","token_type":"Bearer"}`,
		"huge token":      `{"access_token":"` + strings.Repeat("S", maxToken+1) + `","token_type":"Bearer"}`,
		"huge answer":     `{"access_token":"SECRET-a","token_type":"Bearer","x":"` + strings.Repeat("S", maxAnswer) + `"}`,
		"token twice":     `{"access_token":"SECRET-a","access_token":"SECRET-b","token_type":"Bearer"}`,
		"odd refresh":     `{"access_token":"SECRET-a","refresh_token":"SECRET b","token_type":"Bearer"}`,
		"no JSON":         `access_token=SECRET-a&token_type=Bearer`,
		"a number":        `{"access_token":17,"token_type":"Bearer"}`,
		"not even that":   ``,
		"data after JSON": `{"access_token":"SECRET-a","token_type":"Bearer"} SECRET-c`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.as.token = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				_, _ = rw.Write([]byte(body))
			}
			err := ours(t, w)
			if err == nil || strings.Contains(err.Error(), "SECRET") {
				t.Errorf("error %v", err)
			}
			if _, err := w.store.Tokens(t.Context(), w.conn); !errors.Is(err, ErrNotFound) {
				t.Error("something was stored")
			}
		})
	}
	w := newWorld(t)
	w.as.token = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/html")
		_, _ = rw.Write([]byte(`{"access_token":"SECRET-a","token_type":"Bearer"}`))
	}
	if err := ours(t, w); err == nil {
		t.Error("tokens in a page")
	}
}

// Forms of numbers and scopes that servers of the field write.
func TestTokens_ToleratedForms(t *testing.T) {
	now := time.Now()
	const soon = minLifetime/2 + earlyExpiry
	for body, want := range map[string]struct {
		left   time.Duration
		scopes string
	}{
		`"expires_in":60,"scope":"b a"`:                {time.Minute, "a b"},
		`"expires_in":"60","scope":["b","a"]`:          {time.Minute, "a b"},
		`"expires_in":0`:                               {soon, ""},
		`"expires_in":-5,"scope":null`:                 {soon, ""},
		`"expires_in":1e400`:                           {soon, ""},
		`"expires_in":"NaN"`:                           {soon, ""},
		`"expires_in":null`:                            {0, ""},
		`"expires_in":20`:                              {20 * time.Second, ""},
		`"expires_in":1e300`:                           {maxLifetime, ""},
		`"expires_in":"never","scope":{"a":1}`:         {0, ""},
		`"expires_in":59.5,"token_type_x":[]`:          {59500 * time.Millisecond, ""},
		`"scope":"a,b c\"d"`:                           {0, "a,b"},
		`"scope":"","refresh_token":"SECRET-r"`:        {0, ""},
		`"id_token":"x","scope":"A a","expires_in":10`: {15 * time.Second, "A a"}, // used for 5 s

	} {
		a := &answer{status: 200, kind: "application/json", body: []byte(`{"access_token":"SECRET-a","token_type":"bearer",` + body + `}`)}
		got, err := a.tokens(now)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		left := time.Duration(0)
		if !got.expires.IsZero() {
			left = got.expires.Sub(now)
		}
		if left != want.left || strings.Join(got.scopes, " ") != want.scopes {
			t.Errorf("%s: %s %q", body, left, got.scopes)
		}
	}
}
