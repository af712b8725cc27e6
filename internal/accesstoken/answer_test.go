package accesstoken

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// With Always the signed token says who calls, whatever the answer says or
// leaves out.
func TestAttackAlwaysKeepsTheSignedCaller(t *testing.T) {
	is := newIssuer(t)
	now := is.clock.Load()
	for name, c := range map[string]struct {
		answer member
		want   error
		scopes string
		ends   int64 // of the result; 0 is as signed
	}{
		"nothing but that it lives": {member{}, nil, "a b", 0},
		"without aud, or null":      {member{"aud": nil, "sub": nil, "client_id": nil}, nil, "a b", 0},
		"no subject, but a client":  {member{"client_id": "c"}, nil, "a b", 0},
		"the same":                  {member{"sub": "alice", "client_id": "c", "aud": theResource}, nil, "a b", 0},
		"fewer scopes":              {member{"scope": "a"}, nil, "a", 0},
		"no scopes":                 {member{"scope": ""}, nil, "", 0},
		"less time":                 {member{"exp": now + 10}, nil, "a b", now + 10},
		"more time":                 {member{"exp": now + 1e6}, nil, "a b", 0},
		"another subject":           {member{"sub": "mallory"}, errOtherCaller, "", 0},
		"another client":            {member{"sub": "alice", "client_id": "z"}, errOtherCaller, "", 0},
		"another resource":          {member{"aud": theResource + "2"}, errAudience, "", 0},
		"no resource":               {member{"aud": []string{}}, errAudience, "", 0},
		"another issuer":            {member{"iss": theIssuer + "/"}, errOtherIssuer, "", 0},
		"over":                      {member{"exp": now - 60}, errExpired, "", 0},
		"not yet":                   {member{"nbf": now + 60}, errTooNew, "", 0},
		"dead":                      {member{"active": false}, errInactive, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			v := is.asking(true, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/jwks") {
					_, _ = w.Write([]byte(is.set()))
					return
				}
				m := member{"active": true}
				for name, value := range c.answer {
					m[name] = value
				}
				answer(t, w, m)
			})
			is.publish()
			r := check(t, v, is.token(nil), c.want)
			if c.want != nil {
				return
			}
			ends := c.ends
			if ends == 0 {
				ends = now + 300
			}
			if r.Subject != "alice" || r.ClientID != "c" || r.Itself || strings.Join(r.Scopes, " ") != c.scopes || r.Expires.Unix() != ends {
				t.Errorf("%+v", r)
			}
		})
	}
}

// A client that acts for itself is not the user of the same name.
func TestClientItself(t *testing.T) {
	is := newIssuer(t)
	live := is.lives(member{"sub": nil, "client_id": "alice"})
	v := is.asking(false, func(w http.ResponseWriter, _ *http.Request) { answer(t, w, live) })
	if r := check(t, v, "first", nil); !r.Itself || r.Subject != "alice" || r.ClientID != "alice" {
		t.Errorf("%+v", r)
	}
	live = is.lives(member{"client_id": "alice"})
	if r := check(t, v, "second", nil); r.Itself {
		t.Errorf("%+v", r)
	}
}

// A broken answer is the issuer's fault, and says nothing about the token, but
// when it does not say that the token lives.
func TestIntrospectionBrokenAnswers(t *testing.T) {
	is := newIssuer(t)
	good := fmt.Sprintf(`"active":true,"aud":%q,"sub":"a"`, theResource)
	for body, want := range map[string]error{
		`{` + good + `,"exp":"1800000100"}`:  ErrUnavailable,
		`{` + good + `,"exp":1e400}`:         ErrUnavailable,
		`{` + good + `,"exp":-1}`:            ErrUnavailable,
		`{` + good + `,"exp":1800000000000}`: ErrUnavailable, // milliseconds
		`{` + good + `,"nbf":{}}`:            ErrUnavailable,
		`{` + good + `,"scope":1}`:           ErrUnavailable,
		`{` + good + `,"client_id":[]}`:      ErrUnavailable,
		`{"active":true,"active":false}`:     ErrUnavailable,
		``:                                   ErrUnavailable,
		`{` + good + `,"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`: ErrUnavailable,

		`{` + good + `,"exp":null,"nbf":null,"iat":null,"iss":null,"client_id":null,"scope":null}`: nil,
		`{` + good + `,"exp":1800000100.5}`:                                       nil,
		`{"active":true,"aud":null,"sub":"a"}`:                                    errAudience,
		`{"active":true,"aud":"` + theResource + `","sub":null,"client_id":null}`: errSubject,
		`{` + good + `,"exp":0}`:                                                  errExpired,

		`{"active":false,"exp":"x","aud":7}`: errInactive,
		`{"active":null,"exp":1e400}`:        errInactive,
		`{"exp":"x"}`:                        errInactive,
	} {
		v := is.asking(false, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) })
		if _, err := v.Verify(t.Context(), opaque); (want == nil) != (err == nil) || (err != nil && !isError(err, want)) {
			t.Errorf("%s: error %v, want %v", body, err, want)
		}
	}
}

// No token is asked about twice in 30 seconds, whatever the answer is.
func TestIntrospectionAsksOnce(t *testing.T) {
	is := newIssuer(t)
	now := is.clock.Load()
	for name, c := range map[string]struct {
		answer member
		want   error
	}{
		"within the leeway": {is.lives(member{"exp": now - 1}), nil},
		"inactive":          {member{"active": false}, errInactive},
		"another resource":  {is.lives(member{"aud": "x"}), errAudience},
		"expired":           {is.lives(member{"exp": now - 60}), errExpired},
		"another issuer":    {is.lives(member{"iss": "x"}), errOtherIssuer},
	} {
		t.Run(name, func(t *testing.T) {
			is.clock.Store(now)
			var asked atomic.Int64
			v := is.asking(false, func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				answer(t, w, c.answer)
			})
			for range 20 {
				check(t, v, opaque, c.want)
			}
			is.pass(keepIntrospection - 2*time.Second)
			check(t, v, opaque, c.want)
			if n := asked.Load(); n != 1 {
				t.Errorf("asked %d times", n)
			}
			if is.pass(2 * time.Second); name == "inactive" {
				check(t, v, opaque, c.want)
				if n := asked.Load(); n != 2 {
					t.Errorf("asked %d times after 30 s", n)
				}
			}
		})
	}
}

// The refusal of one issuer is remembered while another one is down.
func TestIntrospectionAsksOnceOfSeveralIssuers(t *testing.T) {
	is := newIssuer(t)
	is.net.Handle("down.example.org", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }))
	var asked atomic.Int64
	v := is.asking(false, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		answer(t, w, member{"active": false})
	})
	both := is.verifier(func(o *Options) {
		o.Issuers[0].Introspection = &Introspection{Endpoint: theQuestion}
		o.Issuers = append(o.Issuers, Issuer{URL: "https://down.example.org", JWKS: "https://down.example.org/jwks", Introspection: &Introspection{Endpoint: "https://down.example.org/ask"}})
	})
	for range 5 {
		check(t, both, opaque, ErrUnavailable)
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	check(t, v, opaque, errInactive)
}
