package oauthtest_test

import (
	"testing"
)

// The whole flow by plain HTTP: authorization, code, token, refresh, replay.
func TestFlow(t *testing.T) {
	w := newWorld(t, nil)
	back := w.approve(t, authorization())
	if back.Get("iss") != issuer || back.Get("state") != "s-1" || back.Get("code") == "" {
		t.Fatalf("redirect: %v", back)
	}
	tok := w.signIn(t)
	if info := w.introspect(t, tok.Access); !info.Active || info.Subject != "ada" || info.Audience != notes || info.Issuer != issuer {
		t.Errorf("introspection: %+v", info)
	}
	status, next := w.post(t, "/token", refresh(tok.Refresh))
	if status != 200 || next.Refresh == "" || next.Refresh == tok.Refresh {
		t.Fatalf("refresh: %d %s, rotated: %v", status, next.Error, next.Refresh != tok.Refresh)
	}
}
