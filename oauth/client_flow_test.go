package oauth

import (
	"net/url"
	"strings"
	"testing"
)

func TestClient_WholeFlow(t *testing.T) {
	w := newWorld(t)
	s := w.begin(nil)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	for name, want := range map[string]string{
		"client_id": testClientID, "redirect_uri": testRedirect, "resource": testEndpoint, "scope": "notes.read", "state": s.State,
		"code_challenge_method": "S256", "response_type": "code",
	} {
		if q.Get(name) != want {
			t.Errorf("%s = %q, want %q", name, q.Get(name), want)
		}
	}
	conn, err := w.client.Finish(t.Context(), "alice", w.as.approve(t, s.URL))
	if err != nil {
		t.Fatal(err)
	}
	if *conn != w.conn {
		t.Errorf("connection %+v", conn)
	}
	token, err := w.client.Token(t.Context(), w.conn)
	if err != nil || !strings.HasPrefix(token.Reveal(), "SECRET-access-") {
		t.Fatalf("token %q, %v", token.Reveal(), err)
	}
	if err := w.client.Refresh(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	again, err := w.client.Token(t.Context(), w.conn)
	if err != nil || again == token {
		t.Fatalf("token after a refresh is the same one: %v", err)
	}
	if err := w.client.Revoke(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	if len(w.as.access) != 1 || len(w.as.refresh) != 0 { // the access token that was replaced stays until it ends
		t.Errorf("left at the server: %d access, %d refresh", len(w.as.access), len(w.as.refresh))
	}
}
