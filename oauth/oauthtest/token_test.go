package oauthtest_test

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/oauth/oauthtest"
)

// A token's resource is the one that the user saw, at each request for tokens.
func TestSecondResourceIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	for _, resources := range [][]string{{mail}, {notes, mail}, {notes + "/"}, {""}} {
		v := exchange(w.approve(t, authorization()).Get("code"))
		v["resource"] = resources
		if status, tok := w.post(t, "/token", v); status != 400 || tok.Error != "invalid_target" {
			t.Errorf("code for %q: %d %s", resources, status, tok.Error)
		}
		v = refresh(w.signIn(t).Refresh)
		v["resource"] = resources
		if status, tok := w.post(t, "/token", v); status != 400 || tok.Error != "invalid_target" {
			t.Errorf("refresh for %q: %d %s", resources, status, tok.Error)
		}
	}
	status, tok := w.post(t, "/token", with(exchange(w.approve(t, with(authorization(), "resource", mail)).Get("code")), "resource", mail))
	if status != 200 || w.introspect(t, tok.Access).Audience != mail {
		t.Errorf("the second resource by itself: %d %s", status, tok.Error)
	}
}

func TestCodes(t *testing.T) {
	w := newWorld(t, nil)
	for name, change := range map[string][]string{
		"wrong verifier": {"code_verifier", strings.Repeat("x", 43)},
		"no verifier":    {"code_verifier", ""},
		"unknown":        {"code", "nobody"},
	} {
		if status, tok := w.post(t, "/token", with(exchange(w.approve(t, authorization()).Get("code")), change...)); status != 400 || tok.Error != "invalid_grant" {
			t.Errorf("%s: %d %s", name, status, tok.Error)
		}
	}
	code := w.approve(t, authorization()).Get("code")
	status, tok := w.post(t, "/token", exchange(code))
	if status != 200 {
		t.Fatalf("%d %s", status, tok.Error)
	}
	for range 2 { // a stolen code ends what the right one began (RFC 6749 section 4.1.2)
		if status, again := w.post(t, "/token", exchange(code)); status != 400 || again.Error != "invalid_grant" {
			t.Errorf("a used code: %d %s", status, again.Error)
		}
	}
	if w.introspect(t, tok.Access).Active {
		t.Error("the access token outlives the replay of its code")
	}
	code = w.approve(t, authorization()).Get("code")
	var wg sync.WaitGroup
	var mu sync.Mutex
	good := 0
	for range 8 {
		wg.Go(func() {
			if status, _ := w.post(t, "/token", exchange(code)); status == 200 {
				mu.Lock()
				good++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if good != 1 {
		t.Errorf("one code was good %d times", good)
	}
}

func TestAccessTokenIsOfTheProfile(t *testing.T) {
	w := newWorld(t, nil)
	part := func(token string, i int) map[string]any {
		t.Helper()
		b, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[i])
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	minted, err := w.Token("ada", notes, "notes.read", "notes.write")
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"signed in": w.signIn(t).Access, "minted": minted} {
		head, claims := part(token, 0), part(token, 1)
		if head["typ"] != "at+jwt" || head["alg"] != "ES256" || head["kid"] == "" || head["jwk"] != nil {
			t.Errorf("%s: header %v", name, head)
		}
		if claims["iss"] != issuer || claims["aud"] != notes || claims["sub"] != "ada" || claims["client_id"] == nil || claims["jti"] == nil {
			t.Errorf("%s: claims %v", name, claims)
		}
		if claims["exp"].(float64)-claims["iat"].(float64) != 300 {
			t.Errorf("%s: claims %v", name, claims)
		}
		if !w.introspect(t, token).Active {
			t.Errorf("%s: not active", name)
		}
	}
	if scope := part(minted, 1)["scope"]; scope != "notes.read notes.write" {
		t.Errorf("scope %v", scope)
	}
	for _, bad := range [][]string{{"", notes}, {"ada", notes + "/"}, {"ada", notes, "admin"}, {"a\x00", notes}} {
		if _, err := w.Token(bad[0], bad[1], bad[2:]...); err == nil {
			t.Errorf("Token(%q) gave one", bad)
		}
	}
}

func TestRotateKey(t *testing.T) {
	w := newWorld(t, nil)
	kids := func() (kids []string) {
		_, body := w.get(t.Context(), t, issuer+"/jwks")
		var set struct{ Keys []map[string]string }
		if err := json.Unmarshal([]byte(body), &set); err != nil {
			t.Fatal(err)
		}
		for _, k := range set.Keys {
			if k["d"] != "" || k["use"] != "sig" || k["alg"] != "ES256" {
				t.Errorf("key %v", k)
			}
			kids = append(kids, k["kid"])
		}
		return kids
	}
	old := w.signIn(t)
	before := kids()
	w.RotateKey()
	after := kids()
	if len(before) != 1 || len(after) != 2 || !slices.Contains(after, before[0]) || after[0] == before[0] {
		t.Errorf("keys %v, then %v", before, after)
	}
	if !w.introspect(t, old.Access).Active || !w.introspect(t, w.signIn(t).Access).Active {
		t.Error("a rotation ends tokens")
	}
	w.RotateKey()
	if w.introspect(t, old.Access).Active || slices.Contains(kids(), before[0]) {
		t.Error("the second rotation leaves the first key")
	}
}

func TestRevocationAndIntrospection(t *testing.T) {
	for _, opaque := range []bool{false, true} {
		w := newWorld(t, func(o *oauthtest.Options) { o.Opaque = opaque })
		tok := w.signIn(t)
		if strings.Count(tok.Access, ".") == 2 == opaque {
			t.Errorf("opaque %v: the token has %d dots", opaque, strings.Count(tok.Access, "."))
		}
		if status, out := w.post(t, "/introspect", url.Values{"token": {tok.Access}, "client_id": {clientID}}); status != 403 || out.Active {
			t.Errorf("a client asks about a token: %d", status)
		}
		if status, _ := w.post(t, "/introspect", url.Values{"token": {tok.Access}}, "resource-server", "wrong"); status != 401 {
			t.Errorf("introspection with a wrong secret: %d", status)
		}
		for name, token := range map[string]string{"a refresh token": tok.Refresh, "garbage": "garbage", "dots": "a.b.c"} {
			if w.introspect(t, token).Active {
				t.Errorf("%s is active", name)
			}
		}
		revoke := func(token string) int {
			status, _ := w.post(t, "/revoke", url.Values{"token": {token}, "client_id": {clientID}})
			return status
		}
		if status := revoke("garbage"); status != 200 {
			t.Errorf("revoking garbage: %d", status)
		}
		if status := revoke(tok.Refresh); status != 200 {
			t.Errorf("revocation: %d", status)
		}
		if w.introspect(t, tok.Access).Active {
			t.Error("the access token outlives its refresh token's revocation")
		}
		if status, out := w.post(t, "/token", refresh(tok.Refresh)); status != 400 || out.Error != "invalid_grant" {
			t.Errorf("a revoked refresh token: %d %s", status, out.Error)
		}
		tok = w.signIn(t)
		revoke(tok.Access)
		if w.introspect(t, tok.Access).Active {
			t.Error("a revoked access token is active")
		}
	}
}

func TestLifetimes(t *testing.T) {
	w := newWorld(t, func(o *oauthtest.Options) { o.Opaque, o.AccessLifetime = true, time.Second })
	tok := w.signIn(t)
	if tok.Expires != 1 {
		t.Errorf("expires in %d s", tok.Expires)
	}
	time.Sleep(1100 * time.Millisecond)
	if w.introspect(t, tok.Access).Active {
		t.Error("the token is active after its lifetime")
	}
}
