package oauth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestRefresh_EarlyExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.signIn()
		first, _ := w.client.Token(t.Context(), w.conn)
		time.Sleep(300*time.Second - earlyExpiry - time.Second)
		if now, err := w.client.Token(t.Context(), w.conn); err != nil || now != first {
			t.Errorf("refreshed too early: %v", err)
		}
		time.Sleep(2 * time.Second)
		if now, err := w.client.Token(t.Context(), w.conn); err != nil || now == first {
			t.Errorf("not refreshed in the last ten seconds: %v", err)
		}
	})
}

func TestRefresh_OneRequestForManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.signIn()
		time.Sleep(time.Hour)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if _, err := w.client.Token(t.Context(), w.conn); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := len(w.as.sent("/token")); n != 2 {
			t.Errorf("%d token requests, want 2", n)
		}
	})
}

// A caller that goes away does not end the refresh of the others, and what comes
// back is stored.
func TestRefresh_OutlivesItsCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refreshWorld(t, "R1")
		w.as.token = func(rw http.ResponseWriter, _ *http.Request) {
			time.Sleep(2 * time.Second)
			writeJSON(rw, 200, map[string]any{"access_token": "A2", "refresh_token": "R2", "token_type": "Bearer"})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.client.Token(ctx, w.conn); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		time.Sleep(5 * time.Second)
		if got := w.tokens(); got.Refresh.Reveal() != "R2" {
			t.Error("the new tokens are lost")
		}
	})
}

func TestRefresh_OutageIsNoSignOut(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"503":  func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) },
		"429":  func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(429) },
		"slow": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"invalid_grant with 500": func(rw http.ResponseWriter, _ *http.Request) {
			writeJSON(rw, 500, map[string]any{"error": "server_error"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := refreshWorld(t, "R1")
				w.as.token = answer
				_, err := w.client.Token(t.Context(), w.conn)
				var required *SignInRequired
				if !errors.Is(err, ErrUnavailable) || errors.As(err, &required) {
					t.Errorf("error %v", err)
				}
				if w.tokens().Refresh.Reveal() != "R1" {
					t.Error("signed out")
				}
				w.as.set(func(s *fakeServer) { s.token = nil; s.refresh["R1"] = true })
				if _, err := w.client.Token(t.Context(), w.conn); err != nil {
					t.Errorf("after the outage: %v", err)
				}
			})
		})
	}
	t.Run("a call of the SDK", func(t *testing.T) {
		w := newWorld(t)
		newGuardedApp(w)
		w.as.lifetime = 1
		w.signIn()
		w.as.set(func(s *fakeServer) { s.lifetime = 300 })
		session := w.session()
		w.as.set(func(s *fakeServer) {
			s.token, s.lifetime = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(503) }, 1
		})
		tokens := w.tokens()
		tokens.Expires = time.Now()
		if _, err := w.store.PutTokens(t.Context(), tokens); err != nil {
			t.Fatal(err)
		}
		if err := call(t.Context(), session); !errors.Is(err, ErrUnavailable) {
			t.Errorf("error %v", err)
		}
		w.as.set(func(s *fakeServer) { s.token, s.lifetime = nil, 300 })
		if err := call(t.Context(), session); err != nil {
			t.Errorf("the session does not outlive it: %v", err)
		}
	})
}

// invalid_grant signs out what was tried and nothing else.
func TestRefresh_RefusalRemovesOnlyWhatWasTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refreshWorld(t, "R1")
		w.as.token = func(rw http.ResponseWriter, _ *http.Request) {
			now := w.tokens() // a new sign-in while the request is on its way
			now.Access, now.Refresh, now.Expires = "A9", "R9", time.Now().Add(time.Hour)
			if _, err := w.store.PutTokens(t.Context(), now); err != nil {
				t.Error(err)
			}
			writeJSON(rw, 400, map[string]any{"error": "invalid_grant"})
		}
		if token, err := w.client.Token(t.Context(), w.conn); err != nil || token.Reveal() != "A9" {
			t.Errorf("%v", err)
		}
		if w.tokens().Refresh.Reveal() != "R9" {
			t.Error("the new sign-in is gone")
		}
	})
	w := refreshWorld(t, "R1")
	_, err := w.client.Token(t.Context(), w.conn)
	wantRequired(t, err)
	if _, err := w.store.Tokens(t.Context(), w.conn); !errors.Is(err, ErrNotFound) {
		t.Errorf("still there: %v", err)
	}
	// Another refusal is no sign-out: the host's operator can mend it.
	w = refreshWorld(t, "R1")
	w.as.token = func(rw http.ResponseWriter, _ *http.Request) {
		writeJSON(rw, 401, map[string]any{"error": "invalid_client"})
	}
	if _, err := w.client.Token(t.Context(), w.conn); err == nil || !strings.Contains(err.Error(), "invalid_client") || w.tokens().Refresh == "" {
		t.Errorf("error %v", err)
	}
}

// A process that died with the lease holds the others up for 30 seconds and no
// longer.
func TestRefresh_LeaseOfADeadProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := refreshWorld(t, "R1")
		w.as.refresh["R1"] = true
		if ok, err := w.store.Lease(t.Context(), w.conn, "dead", leaseTime); !ok || err != nil {
			t.Fatal(ok, err)
		}
		start := time.Now()
		if _, err := w.client.Token(t.Context(), w.conn); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < leaseTime || took > leaseTime+time.Second {
			t.Errorf("took %s", took)
		}
	})
}

// failingStore fails to store tokens for a while.
type failingStore struct {
	Store
	failures int
}

func (s *failingStore) PutTokens(ctx context.Context, t *Tokens) (int64, error) {
	if s.failures > 0 {
		s.failures--
		return 0, errors.New("disk is busy")
	}
	return s.Store.PutTokens(ctx, t)
}

// New tokens are stored before they are used, and a store that stumbles is asked
// again: the old refresh token is used up.
func TestRefresh_StoredBeforeUse(t *testing.T) {
	for failures, ok := range map[int]bool{2: true, 100: false} {
		synctest.Test(t, func(t *testing.T) {
			w := refreshWorld(t, "R1")
			w.as.refresh["R1"] = true
			w.opts.Store = &failingStore{w.store, failures}
			token, err := w.another().Token(t.Context(), w.conn)
			if ok != (err == nil) || ok == (token == "") {
				t.Errorf("%d failures: %v", failures, err)
			}
			if ok && w.tokens().Access != token {
				t.Error("what is used is not what is stored")
			}
		})
	}
}

func TestBegin_OnePendingSignIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.begin(nil)
		if b := w.begin(nil); b.State != a.State {
			t.Error("a second sign-in within seconds")
		}
		if b := w.begin(&BeginOptions{Challenge: &Challenge{Scope: []string{"x"}}}); b.State == a.State {
			t.Error("other scopes, same sign-in")
		}
		time.Sleep(pendingReuse + time.Second)
		b := w.begin(nil)
		if b.State == a.State {
			t.Error("the old sign-in after its time")
		}
		if _, err := w.client.Finish(t.Context(), "alice", w.as.approve(t, b.URL)); err != nil {
			t.Fatal(err)
		}
		if c := w.begin(nil); c.State == b.State {
			t.Error("a sign-in that is used up")
		}
		// An attempt that failed is not given again either.
		c := w.begin(nil)
		if _, err := w.client.Finish(t.Context(), "alice", "state="+c.State+"&error=access_denied&iss="+url.QueryEscape(testIssuer)); !errors.Is(err, ErrDenied) {
			t.Errorf("error %v", err)
		}
		if d := w.begin(nil); d.State == c.State {
			t.Error("a sign-in that is used up")
		}
	})
}

func TestBegin_CallerThatGoesAway(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := contextCancelled(t)
	defer cancel()
	if _, err := w.client.Begin(ctx, w.conn, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestBegin_NeverAdded(t *testing.T) {
	w := newWorld(t)
	w.conn.ID = "c9"
	if _, err := w.client.Begin(t.Context(), w.conn, nil); !errors.Is(err, ErrGone) {
		t.Errorf("error %v", err)
	}
	if _, err := w.client.Token(t.Context(), w.conn); !errors.Is(err, ErrGone) {
		t.Errorf("error %v", err)
	}
	if len(w.net.Requests()) != 0 {
		t.Error("something was asked")
	}
}

func TestClient_OptionsAreChecked(t *testing.T) {
	_, err := NewClient(nil)
	for _, name := range []string{"Network", "Store", "RedirectURI"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want an error that names %s, got %v", name, err)
		}
	}
	w := newWorld(t)
	for name, change := range map[string]func(*ClientOptions){
		"ClientID":      func(o *ClientOptions) { o.ClientID = "https://host.example.com/" },
		"ClientID ":     func(o *ClientOptions) { o.ClientID = "http://host.example.com/c.json" },
		"Registered[0]": func(o *ClientOptions) { o.Registered = []Registration{{ClientID: "x"}} },
		"AuthMethod": func(o *ClientOptions) {
			o.Registered = []Registration{{Issuer: "x", ClientID: "x", AuthMethod: "private_key_jwt"}}
		},
		"Secret": func(o *ClientOptions) {
			o.Registered = []Registration{{Issuer: "x", ClientID: "x", AuthMethod: "client_secret_basic"}}
		},
	} {
		o := w.opts
		change(&o)
		if _, err := NewClient(&o); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClient_LeavesNoGoroutines(t *testing.T) {
	leak := goleak.IgnoreCurrent()
	w := newWorld(t)
	w.signIn()
	if err := w.client.Refresh(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	if err := w.client.Revoke(t.Context(), w.conn); err != nil {
		t.Fatal(err)
	}
	w.net.Close()
	goleak.VerifyNone(t, leak)
}
