package oauth

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestRule_OauthO5_DeletingStopsAndErases(t *testing.T) { testDeleting(t) }
func TestRule_OB72_DeletingStopsAndErases(t *testing.T)    { testDeleting(t) }
func TestRule_OB74_NothingComesBack(t *testing.T)          { testNothingComesBack(t) }
func TestRule_D22_NothingComesBack(t *testing.T)           { testNothingComesBack(t) }

func testDeleting(t *testing.T) {
	w := newWorld(t)
	bob := w.conn
	bob.ID, bob.User = "c2", "bob"
	if err := w.store.Add(t.Context(), bob); err != nil {
		t.Fatal(err)
	}
	s, err := w.client.Begin(t.Context(), bob, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Finish(t.Context(), "bob", w.as.approve(t, s.URL)); err != nil {
		t.Fatal(err)
	}
	newGuardedApp(w)
	w.signIn()
	session := w.session()
	if err := call(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Revoke(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	if err := call(t.Context(), session); !errors.Is(err, ErrGone) {
		t.Errorf("a call after the end: %v", err)
	}
	if left, err := w.store.Kill(t.Context(), w.conn); left != nil || err != nil {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := w.client.Token(t.Context(), bob); err != nil {
		t.Errorf("another user lost his sign-in: %v", err)
	}
	if err := w.client.Revoke(t.Context(), w.conn); err != nil {
		t.Errorf("ending it twice: %v", err)
	}
}

// A callback and a refresh that come after the end write nothing, and what the
// server gave them is revoked.
func testNothingComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		q := w.as.approve(t, w.begin(nil).URL)
		if err := w.client.Revoke(t.Context(), w.conn); err != nil {
			t.Fatal(err)
		}
		if _, err := w.client.Finish(t.Context(), "alice", q); !errors.Is(err, ErrNotFound) {
			t.Errorf("a callback after the end: %v", err)
		}
		if err := w.store.Add(t.Context(), w.conn); !errors.Is(err, ErrGone) {
			t.Errorf("the ID is used again: %v", err)
		}
		if _, err := w.client.Begin(t.Context(), w.conn, nil); !errors.Is(err, ErrGone) {
			t.Errorf("a new sign-in: %v", err)
		}
	})
	for _, late := range []string{"callback", "refresh"} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			slow := func(rw http.ResponseWriter, r *http.Request) {
				time.Sleep(3 * time.Second)
				writeJSON(rw, 200, map[string]any{"access_token": "SECRET-late", "refresh_token": "SECRET-late-r", "token_type": "Bearer"})
			}
			ended := make(chan error, 1)
			if late == "callback" {
				q := w.as.approve(t, w.begin(nil).URL)
				w.as.set(func(s *fakeServer) { s.token = slow })
				go func() {
					_, err := w.client.Finish(t.Context(), "alice", q)
					ended <- err
				}()
			} else {
				w.signIn()
				w.as.set(func(s *fakeServer) { s.token = slow })
				go func() { ended <- w.client.Refresh(t.Context(), w.conn) }()
			}
			time.Sleep(time.Second)
			if err := w.client.Revoke(t.Context(), w.conn); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, ErrGone) {
				t.Errorf("%s: %v", late, err)
			}
			if left, _ := w.store.Kill(t.Context(), w.conn); left != nil {
				t.Errorf("%s: something was written", late)
			}
			var revoked []string
			for _, f := range w.as.sent("/revoke") {
				revoked = append(revoked, f.Get("token"))
			}
			if !slices.Contains(revoked, "SECRET-late") || !slices.Contains(revoked, "SECRET-late-r") {
				t.Errorf("%s: revoked %q", late, revoked)
			}
		})
	}
}

// Deleting does not wait for an issuer, nor for the caller.
func TestRule_D22_RevokingTakesFiveSecondsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.signIn()
		w.as.set(func(s *fakeServer) {
			s.revoke = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		})
		gone, cancel := contextCancelled(t)
		defer cancel()
		start := time.Now()
		err := w.client.Revoke(gone, w.conn)
		if took := time.Since(start); took > revokeTimeout {
			t.Errorf("took %s", took)
		}
		if err == nil {
			t.Error("nobody tells that the issuer did not answer")
		}
		if left, _ := w.store.Kill(t.Context(), w.conn); left != nil {
			t.Error("the tokens are still there")
		}
	})
}

// A rotated secret of the host is used at once, and a token that another process
// replaced is not given any more.
func TestRule_OB75_RotatedCredentialsCountAtOnce(t *testing.T) {
	w := newWorld(t, func(w *world) {
		w.opts.Registered = []Registration{{Issuer: testIssuer, ClientID: "hand", Secret: "SECRET-old"}}
	})
	w.signIn()
	first, err := w.client.Token(t.Context(), w.conn)
	if err != nil {
		t.Fatal(err)
	}
	w.opts.Registered = []Registration{{Issuer: testIssuer, ClientID: "hand", Secret: "SECRET-new"}}
	if err := w.another().Refresh(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	h := w.as.headers["/token"]
	r := http.Request{Header: h[len(h)-1]}
	if _, secret, _ := r.BasicAuth(); secret != "SECRET-new" {
		t.Error("the old secret was sent")
	}
	if now, err := w.client.Token(t.Context(), w.conn); err != nil || now == first {
		t.Errorf("the first process still gives the old token: %v", err)
	}
	if err := w.another().Revoke(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Token(t.Context(), w.conn); !errors.Is(err, ErrGone) {
		t.Errorf("revoked elsewhere: %v", err)
	}
}
