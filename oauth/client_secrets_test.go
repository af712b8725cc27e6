package oauth

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// C16, OB-73 and S10 on the host: no token, code, verifier or client secret gets
// into a log, an error, a printed value, JSON or an address.
func TestRule_OB73_NoSecretIsEverShown(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.opts.Registered = []Registration{{Issuer: testIssuer, ClientID: "hand", Secret: "SECRET-client"}}
	})
	var shown strings.Builder
	verifiers := map[string]bool{}
	show := func(values ...any) {
		for _, v := range values {
			for _, form := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
				if _, ok := v.(*memoryStore); ok && len(form) == 2 && form != "%v" {
					continue // made for tests; nobody prints a store as a string
				}
				fmt.Fprintf(&shown, form+"\n", v)
				if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && !r.IsNil() && v != any(w.store) {
					fmt.Fprintf(&shown, form+"\n", r.Elem())
				}
			}
			if b, err := json.Marshal(v); err == nil {
				shown.Write(b)
			}
			w.opts.Log.Info("shown", "value", v)
		}
	}
	s := w.begin(nil)
	a, err := w.store.TakeAttempt(t.Context(), s.State)
	if err != nil {
		t.Fatal(err)
	}
	verifiers[a.Verifier.Reveal()] = true
	if err := w.store.AddAttempt(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	show(s, a)
	q := w.as.approve(t, s.URL)
	_, err = w.client.Finish(t.Context(), "alice", "%"+q)
	show(err)
	_, err = w.client.Finish(t.Context(), "alice", q+"&code=SECRET-other")
	show(err)
	w.signIn()
	tokens := w.tokens()
	show(tokens, w.client, w.opts, &w.opts, w.store, w.client.Handler(w.conn), w.client.Transport(w.conn, http.DefaultTransport))
	token, _ := w.client.Token(t.Context(), w.conn)
	show(token)
	for _, answer := range []http.HandlerFunc{
		func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) },
		func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "https://evil.example.net/", http.StatusTemporaryRedirect)
		},
		func(rw http.ResponseWriter, _ *http.Request) {
			writeJSON(rw, 200, map[string]any{"access_token": "SECRET-x", "token_type": 7})
		},
		func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("SECRET-page")) },
		func(rw http.ResponseWriter, _ *http.Request) {
			writeJSON(rw, 400, map[string]any{"error": tokens.Refresh.Reveal(), "error_description": "no " + tokens.Refresh.Reveal() + " by SECRET-client"})
		},
	} {
		w.as.set(func(s *fakeServer) { s.token = answer })
		err := w.client.Refresh(t.Context(), w.conn)
		if err == nil {
			t.Fatal("no error")
		}
		show(err)
	}
	w.as.set(func(s *fakeServer) {
		s.token = nil
		s.revoke = func(rw http.ResponseWriter, _ *http.Request) {
			forms := s.sent("/revoke")
			sent := forms[len(forms)-1].Get("token")
			writeJSON(rw, 400, map[string]any{"error": sent, "error_description": "no " + sent})
		}
	})
	if err := w.client.Refresh(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	show(w.client.Revoke(t.Context(), w.conn))
	for _, r := range w.net.Requests() {
		shown.WriteString(r.URL + "\n")
	}
	all := shown.String() + w.log.String()
	verifiers["SECRET"] = true
	verifiers[fmt.Sprintf("%x", "SECRET")] = true
	for secret := range verifiers {
		if i := strings.Index(all, secret); i >= 0 {
			t.Errorf("a secret is shown: ...%s...", all[max(0, i-200):min(len(all), i+60)])
		}
	}
	if !strings.Contains(all, "signed in") {
		t.Error("the log is not looked at")
	}
}
