package accesstoken

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const opaque = "opaque-token-canary"

// lives answers like an issuer that knows the token.
func (is *testIssuer) lives(changes member) member {
	m := member{"active": true, "iss": theIssuer, "aud": theResource, "sub": "alice", "scope": "a b", "exp": is.clock.Load() + 300}
	for name, v := range changes {
		if m[name] = v; v == nil {
			delete(m, name)
		}
	}
	return m
}

func answer(t testing.TB, w http.ResponseWriter, m any) {
	if err := json.NewEncoder(w).Encode(m); err != nil {
		t.Error(err)
	}
}

func TestIntrospection(t *testing.T) {
	is := newIssuer(t)
	var asked atomic.Int64
	v := is.asking(false, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		id, secret, _ := r.BasicAuth()
		if r.Method != "POST" || id != "rs" || secret != "secret" || r.FormValue("token") != opaque || r.URL.RawQuery != "" {
			t.Errorf("asked by %s %s as %s", r.Method, r.URL, id)
		}
		answer(t, w, is.lives(nil))
	})
	r := check(t, v, opaque, nil)
	if r.Subject != "alice" || len(r.Scopes) != 2 || r.Issuer != theIssuer {
		t.Errorf("%+v", r)
	}
	is.pass(keepIntrospection - time.Second)
	check(t, v, opaque, nil)
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times within 30 s", n)
	}
	is.pass(time.Second)
	check(t, v, opaque, nil)
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
	check(t, v, is.token(nil), nil) // a JWT is not asked about
	if n := asked.Load(); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

func TestIntrospectionAnswers(t *testing.T) {
	is := newIssuer(t)
	now := is.clock.Load()
	for name, c := range map[string]struct {
		change member
		want   error
	}{
		"no iss":             {member{"iss": nil}, nil},
		"another iss":        {member{"iss": theIssuer + "/"}, errOtherIssuer},
		"no aud":             {member{"aud": nil}, errAudience},
		"another aud":        {member{"aud": theResource + "/"}, errAudience},
		"expired":            {member{"exp": now - 60}, errExpired},
		"no exp":             {member{"exp": nil}, nil},
		"not yet":            {member{"nbf": now + 60}, errTooNew},
		"active as text":     {member{"active": "true"}, errInactive},
		"active as number":   {member{"active": 1}, errInactive},
		"no active":          {member{"active": nil}, errInactive},
		"inactive":           {member{"active": false}, errInactive},
		"the client itself":  {member{"sub": nil, "client_id": "c"}, nil},
		"nobody":             {member{"sub": nil}, errSubject},
		"scopes as an array": {member{"scope": []string{"a"}}, nil},
		"aud as an object":   {member{"aud": member{}}, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			v := is.asking(false, func(w http.ResponseWriter, _ *http.Request) { answer(t, w, is.lives(c.change)) })
			check(t, v, opaque, c.want)
		})
	}
}

// What goes wrong between us and the issuer says nothing about the token, and
// no part of the token gets into a log.
func TestIntrospectionOutage(t *testing.T) {
	is := newIssuer(t)
	for name, h := range map[string]http.HandlerFunc{
		"500":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		"our secret":   func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(401) },
		"HTML":         func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("<html>" + r.FormValue("token"))) },
		"a list":       func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("[]")) },
		"active twice": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"active":false,"active":true}`)) },
		"too large":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat(" ", maxAnswer+1))) },
		"sent on (307)": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example.org/", http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := is.asking(false, h)
			var log bytes.Buffer
			v.issuers[0].ask.log = slog.New(slog.NewTextHandler(&log, nil))
			check(t, v, opaque, ErrUnavailable)
			if log.Len() == 0 || strings.Contains(log.String(), opaque) {
				t.Errorf("log: %q", log.String())
			}
		})
	}
	for _, r := range is.net.Requests() {
		if strings.Contains(r.URL, "evil") {
			t.Error("token and secret were sent on")
		}
	}
}

func TestIntrospectionSingleFlight(t *testing.T) {
	is := newIssuer(t)
	var asked atomic.Int64
	v := is.asking(false, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		time.Sleep(50 * time.Millisecond)
		answer(t, w, is.lives(nil))
	})
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if _, err := v.Verify(context.Background(), opaque); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := v.Verify(ctx, opaque+"2"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// An issuer is never asked about more than so many tokens at a time.
func TestAttackIntrospectionFlood(t *testing.T) {
	is := newIssuer(t)
	var now, most atomic.Int64
	v := is.asking(false, func(w http.ResponseWriter, _ *http.Request) {
		n := now.Add(1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		time.Sleep(2 * time.Millisecond)
		now.Add(-1)
		answer(t, w, member{"active": false})
	})
	var wait sync.WaitGroup
	for i := range 200 {
		wait.Go(func() {
			if _, err := v.Verify(context.Background(), opaque+strings.Repeat("x", i)); err == nil {
				t.Error("accepted")
			}
		})
	}
	wait.Wait()
	if n := most.Load(); n > maxQuestions {
		t.Errorf("%d questions at a time", n)
	}
	if n := v.kept.len() + v.refused.len(); n != 0 {
		t.Errorf("%d answers are kept", n)
	}
	if n := v.issuers[0].refused.len(); n == 0 || n > maxRefused {
		t.Errorf("%d refusals are kept", n)
	}
}

// With Always a revoked JWT ends within 30 s, and a forged one is not asked
// about.
func TestIntrospectionAlways(t *testing.T) {
	is := newIssuer(t)
	var asked atomic.Int64
	live := is.lives(nil)
	v := is.asking(true, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			asked.Add(1)
			answer(t, w, live)
		}
	})
	token := is.token(nil)
	check(t, v, token, nil)
	live = member{"active": false}
	check(t, v, token, nil)
	is.pass(keepIntrospection)
	check(t, v, token, errInactive)
	n := asked.Load()
	forged := token[:len(token)-4] + "AAAA"
	check(t, v, forged, errSignature)
	if asked.Load() != n {
		t.Error("asked about a forged token")
	}
}

func TestIntrospectionOfMetadata(t *testing.T) {
	is := newIssuer(t)
	is.net.Handle("as.example.org", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(t, w, is.lives(nil)) }))
	e := Endpoints{Introspection: theQuestion}
	v := is.verifier(func(o *Options) {
		o.Issuers[0].Discover = func(context.Context) (Endpoints, error) { return e, nil }
		o.Issuers[0].Introspection = &Introspection{}
	})
	check(t, v, opaque, nil)
	e.Introspection = ""
	v = is.verifier(func(o *Options) {
		o.Issuers[0].Discover = func(context.Context) (Endpoints, error) { return e, nil }
		o.Issuers[0].Introspection = &Introspection{}
	})
	check(t, v, opaque, ErrUnavailable)
}

// One issuer that is down does not hide the answer of another one, and is told
// only when no other knows the token.
func TestIntrospectionOfSeveralIssuers(t *testing.T) {
	is := newIssuer(t)
	is.net.Handle("down.example.org", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
	var live atomic.Bool
	live.Store(true)
	is.net.Handle("up.example.org", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(t, w, is.lives(member{"iss": nil, "active": live.Load()}))
	}))
	v := is.verifier(func(o *Options) {
		o.Issuers = nil
		for _, name := range []string{"down", "up"} {
			u := "https://" + name + ".example.org"
			o.Issuers = append(o.Issuers, Issuer{URL: u, JWKS: u + "/jwks", Introspection: &Introspection{Endpoint: u + "/ask"}})
		}
	})
	if r := check(t, v, opaque, nil); r.Issuer != "https://up.example.org" {
		t.Errorf("issuer %s", r.Issuer)
	}
	live.Store(false)
	check(t, v, opaque+"2", ErrUnavailable)
}
