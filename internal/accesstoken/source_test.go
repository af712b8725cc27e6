package accesstoken

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

// A key of before is dropped, and one of after found, without a restart.
func TestRotation(t *testing.T) {
	is := newIssuer(t)
	v := is.verifier(nil)
	old := is.token(nil)
	check(t, v, old, nil)
	is.rotate("k2")
	fresh := is.token(nil)
	check(t, v, fresh, errUnknownKey) // within the cool-down of the first fetch
	check(t, v, old, nil)
	is.pass(coolDown)
	check(t, v, fresh, nil)
	check(t, v, old, errUnknownKey) // kept answers are of the keys of before
	if n := is.fetches(theKeys); n != 2 {
		t.Errorf("%d fetches", n)
	}
}

// Whatever strangers send, an issuer is asked once in 30 seconds.
func TestAttackKeySetFlood(t *testing.T) {
	is := newIssuer(t)
	v := is.verifier(nil)
	check(t, v, is.token(nil), nil)
	for round := 1; round <= 3; round++ {
		is.pass(coolDown)
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				for range 25 {
					if _, err := v.Verify(context.Background(), is.tokenWith(member{"kid": "from nowhere " + t.Name()}, nil)); !errors.Is(err, ErrInvalid) {
						t.Errorf("error %v", err)
					}
				}
			})
		}
		wait.Wait()
		if n := is.fetches(theKeys); n != 1+round {
			t.Fatalf("%d fetches after %d rounds", n, round)
		}
	}
	// A refusal for want of a key is kept, and a flood of them costs no answer.
	if n := v.refused.len(); n == 0 || n > maxRefused {
		t.Errorf("%d refusals are kept", n)
	}
	if n := v.kept.len(); n != 1 {
		t.Errorf("%d answers are kept", n)
	}
}

func TestUnknownKeyIsRefusedFromMemory(t *testing.T) {
	is := newIssuer(t)
	v := is.verifier(nil)
	token := is.tokenWith(member{"kid": "k2"}, nil)
	check(t, v, token, errUnknownKey)
	id := v.refused.len()
	if id != 1 {
		t.Fatalf("%d refusals are kept", id)
	}
	check(t, v, token, errUnknownKey)
	is.keys[0].KeyID = "k2"
	is.publish()
	is.pass(coolDown)
	check(t, v, token, nil)
}

// Many callers meet one fetch.
func TestKeySetSingleFlight(t *testing.T) {
	is := newIssuer(t)
	is.net.Set(theKeys, fakenet.Answer{Body: is.set(), Wait: 50 * time.Millisecond})
	v := is.verifier(nil)
	var wait sync.WaitGroup
	for range 20 {
		token := is.token(nil)
		wait.Go(func() {
			if _, err := v.Verify(context.Background(), token); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := is.fetches(theKeys); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

// A caller who leaves does not cost the others the keys.
func TestKeySetOutlivesItsCaller(t *testing.T) {
	is := newIssuer(t)
	is.net.Set(theKeys, fakenet.Answer{Body: is.set(), Wait: 50 * time.Millisecond})
	v := is.verifier(nil)
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	if _, err := v.Verify(ctx, is.token(nil)); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("error %v", err)
	}
	check(t, v, is.token(nil), nil)
	if n := is.fetches(theKeys); n != 1 {
		t.Errorf("%d fetches", n)
	}
}

// The keys of before stay when a fetch fails, whatever the failure.
func TestKeySetOutage(t *testing.T) {
	is := newIssuer(t)
	is.net.Host("inside.example.org")
	is.net.SetDNS("inside.example.org", fakenet.DNS{Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}})
	v := is.verifier(nil)
	check(t, v, is.token(nil), nil)
	for _, answer := range []fakenet.Answer{
		{Status: 500},
		{Status: 404},
		{Body: "<html>"},
		{Body: `{}`},
		{Body: `{"keys":{}}`},
		{Body: `{"keys":[],"keys":[]}`},
		{Fault: fakenet.Reset},
		{Fault: fakenet.Cut, Body: is.set()},
		{Body: `{"keys":[` + strings.Repeat(" ", maxSet) + `]}`},
		{Status: 302, Header: map[string][]string{"Location": {"https://inside.example.org/jwks"}}},
	} {
		is.net.Set(theKeys, answer)
		before := is.fetches(theKeys)
		is.pass(refreshFirst + time.Second)
		check(t, v, is.token(nil), nil)
		if is.fetches(theKeys) == before {
			t.Errorf("%+v: not asked again", answer.Status)
		}
		// Whether a key that we do not have is there now, nobody knows.
		check(t, v, is.tokenWith(member{"kid": "new"}, nil), ErrUnavailable)
	}
	is.publish()
	is.pass(coolDown)
	check(t, v, is.tokenWith(member{"kid": "new"}, nil), errUnknownKey)
}

// Without any keys nothing can be said about a token, and the issuer is asked
// again soon.
func TestKeySetNeverThere(t *testing.T) {
	is := newIssuer(t)
	is.net.Set(theKeys, fakenet.Answer{Status: 503})
	v := is.verifier(nil)
	token := is.token(nil)
	check(t, v, token, ErrUnavailable)
	check(t, v, token, ErrUnavailable)
	if n := is.fetches(theKeys); n != 1 {
		t.Errorf("%d fetches", n)
	}
	is.publish()
	is.pass(coolDownNone)
	check(t, v, token, nil)
}

// A set without any usable key is a fault of the issuer, and signs nobody out.
func TestKeySetWithoutUsableKey(t *testing.T) {
	for name, set := range map[string]string{
		"empty": `{"keys":[]}`, "of other kinds": `{"keys":[{"kty":"oct","kid":"k1","k":"c2VjcmV0"},{"kty":"AKP","kid":"k1"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			is := newIssuer(t)
			v := is.verifier(nil)
			token := is.token(member{"exp": is.clock.Load() + 1e6})
			check(t, v, token, nil)
			is.net.Set(theKeys, fakenet.Answer{Body: set})
			is.pass(refreshFirst + time.Second)
			check(t, v, token, nil)
			check(t, v, is.tokenWith(member{"kid": "new"}, nil), ErrUnavailable)
			if n := is.fetches(theKeys); n != 2 {
				t.Errorf("%d fetches", n)
			}
			is.rotate("k2")
			is.pass(coolDown)
			check(t, v, is.token(nil), nil)
			check(t, v, token, errUnknownKey)
		})
	}
}

// Kept answers end with a change of the keys, and not when the same keys come in
// another order; and they end for the one issuer only.
func TestKeptAnswersEndWithTheirKeys(t *testing.T) {
	is, other := newIssuer(t), newIssuer(t)
	const second, secondKeys = "https://second.example.org", "https://second.example.org/jwks"
	other.rotate("s1")
	first := other.keys[0]
	other.rotate("s2")
	next := other.keys[0]
	publish := func(keys ...jose.JSONWebKey) {
		other.keys = keys
		is.net.Set(secondKeys, fakenet.Answer{Body: other.set()})
	}
	publish(first, next)
	v := is.verifier(func(o *Options) { o.Issuers = append(o.Issuers, Issuer{URL: second, JWKS: secondKeys}) })
	ours := is.token(member{"exp": is.clock.Load() + 1e6})
	theirs := other.token(member{"iss": second, "exp": is.clock.Load() + 1e6})
	var r, s *Result
	keep := func() {
		r, s = check(t, v, ours, nil), check(t, v, theirs, nil)
	}
	// meet makes the second issuer's keys be fetched.
	meet := func() {
		t.Helper()
		is.pass(coolDown)
		n := is.fetches(secondKeys)
		check(t, v, other.tokenWith(member{"kid": "new"}, member{"iss": second}), errUnknownKey)
		if is.fetches(secondKeys) != n+1 {
			t.Fatal("no fetch")
		}
	}
	keep()
	publish(next, first)
	meet()
	if check(t, v, ours, nil) != r || check(t, v, theirs, nil) != s {
		t.Error("judged again after the keys changed places")
	}
	flipped := strings.NewReplacer(`"kty":"EC",`, "", `"crv":"P-256",`, `"crv":"P-256","kty":"EC",`).Replace(other.set())
	if flipped == other.set() {
		t.Fatal("the members have their old order")
	}
	is.net.Set(secondKeys, fakenet.Answer{Body: flipped})
	meet()
	if check(t, v, theirs, nil) != s {
		t.Error("judged again after the members changed places")
	}
	publish(first)
	meet()
	if check(t, v, ours, nil) != r {
		t.Error("the keys of one issuer ended the answers of another")
	}
	if check(t, v, theirs, nil) == s {
		t.Error("kept over a change of keys")
	}
}

// Old keys are looked at again behind a request's back, very old ones before it.
func TestKeySetRefresh(t *testing.T) {
	is := newIssuer(t)
	v := is.verifier(nil)
	check(t, v, is.token(nil), nil)
	is.pass(refreshAfter + time.Second)
	check(t, v, is.token(nil), nil)
	for until := time.Now().Add(5 * time.Second); is.fetches(theKeys) < 2; {
		if time.Now().After(until) {
			t.Fatal("no second fetch")
		}
		time.Sleep(time.Millisecond)
	}
	old := is.token(nil)
	is.rotate("k2")
	is.pass(refreshFirst + time.Second)
	check(t, v, is.token(nil), nil)
	check(t, v, old, ErrInvalid)
}

// An issuer that hangs holds nobody up for long who has keys.
func TestKeySetHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t)
		v := is.verifier(nil)
		check(t, v, is.token(nil), nil)
		is.net.Set(theKeys, fakenet.Answer{Fault: fakenet.Timeout})
		is.pass(refreshFirst + time.Second)
		began := time.Now()
		check(t, v, is.token(nil), nil)
		if d := time.Since(began); d != patience {
			t.Errorf("waited %v", d)
		}
		began = time.Now()
		check(t, v, is.tokenWith(member{"kid": "new"}, nil), ErrUnavailable)
		if d := time.Since(began); d > fetchTimeout {
			t.Errorf("waited %v", d)
		}
		synctest.Wait()
	})
}

func TestKeySetOfMetadata(t *testing.T) {
	is := newIssuer(t)
	asked := 0
	answer := func() (Endpoints, error) { return Endpoints{}, errors.New("down") }
	v := is.verifier(func(o *Options) {
		o.Issuers[0].JWKS = ""
		o.Issuers[0].Discover = func(context.Context) (Endpoints, error) { asked++; return answer() }
	})
	token := is.token(nil)
	check(t, v, token, ErrUnavailable)
	answer = func() (Endpoints, error) { return Endpoints{}, nil }
	is.pass(coolDown)
	check(t, v, token, ErrUnavailable) // metadata without jwks_uri
	answer = func() (Endpoints, error) { return Endpoints{JWKS: theKeys}, nil }
	is.pass(refreshFirst)
	check(t, v, is.token(nil), nil)
	if asked != 3 {
		t.Errorf("asked %d times", asked)
	}
	answer = func() (Endpoints, error) { return Endpoints{}, errors.New("down") }
	is.pass(2 * refreshFirst)
	check(t, v, is.token(nil), nil) // what was known stays
}

func TestSeveralIssuers(t *testing.T) {
	is, other := newIssuer(t), newIssuer(t)
	const second, secondKeys = "https://second.example.org", "https://second.example.org/jwks"
	other.rotate("k1") // the same kid, another key
	is.net.Set(secondKeys, fakenet.Answer{Body: other.set()})
	v := is.verifier(func(o *Options) {
		o.Issuers = append(o.Issuers, Issuer{URL: second, JWKS: secondKeys, Algorithms: []string{"ES256"}})
	})
	if r := check(t, v, is.token(nil), nil); r.Issuer != theIssuer {
		t.Errorf("issuer %s", r.Issuer)
	}
	if r := check(t, v, other.token(member{"iss": second}), nil); r.Issuer != second {
		t.Errorf("issuer %s", r.Issuer)
	}
	// Each signs for itself alone.
	check(t, v, is.token(member{"iss": second}), errSignature)
	check(t, v, other.token(nil), errSignature)

	narrow := is.verifier(func(o *Options) { o.Issuers[0].Algorithms = []string{"RS256"} })
	check(t, narrow, is.token(nil), errAlgorithm)
}

func TestNewFaults(t *testing.T) {
	is := newIssuer(t)
	good := is.verifier(nil)
	if good.leeway != DefaultLeeway {
		t.Errorf("leeway %v", good.leeway)
	}
	if _, err := New(&Options{}); err == nil {
		t.Error("nothing is enough")
	}
	if _, err := New(&Options{Audience: "a", Client: nil, Issuers: []Issuer{{}}}); err == nil {
		t.Error("no client is enough")
	}
}
