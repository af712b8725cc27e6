package accesstoken

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

func isError(err, want error) bool { return errors.Is(err, want) }

func TestResult(t *testing.T) {
	is := newIssuer(t)
	bound := 0
	v := is.verifier(func(o *Options) { o.Bind = func(r *Result) any { bound++; return r.Subject + "!" } })
	token := is.token(member{"aud": []string{"https://other.example.org", theResource}})
	want := &Result{
		Issuer: theIssuer, Subject: "alice", ClientID: "c", Scopes: []string{"a", "b"},
		Expires: is.now().Add(300 * time.Second), Bound: "alice!",
	}
	for range 3 {
		if diff := cmp.Diff(want, check(t, v, token, nil)); diff != "" {
			t.Fatal(diff)
		}
	}
	if bound != 1 {
		t.Errorf("bound %d times", bound)
	}
}

// The keys of a token's own header are nobody's (S12), whatever else it says.
func TestAttackTokens(t *testing.T) {
	is := newIssuer(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	is.keys = append(is.keys, jose.JSONWebKey{Key: rsaKey, KeyID: "r1", Algorithm: "RS256", Use: "sig"})
	is.publish()
	der, err := x509.MarshalPKIXPublicKey(rsaKey.Public())
	if err != nil {
		t.Fatal(err)
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	evil, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	evilKey := jose.JSONWebKey{Key: evil, KeyID: "k1", Algorithm: "ES256"}
	claims := member{"iss": theIssuer, "aud": theResource, "sub": "alice", "iat": is.clock.Load(), "exp": is.clock.Load() + 60}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	good := is.token(nil)
	part := strings.Split(good, ".")
	none := strings.Split(is.raw(`{"alg":"none","typ":"at+jwt"}`, string(text)), ".")
	shared := func(key []byte) string {
		return sign(t, jose.JSONWebKey{Key: key, KeyID: "r1", Algorithm: "HS256"}, nil, claims)
	}
	v := is.verifier(nil)
	check(t, v, good, nil)
	for name, token := range map[string]string{
		"alg none":                    none[0] + "." + none[1] + ".",
		"alg none, signed":            strings.Join(none, "."),
		"alg None":                    is.raw(`{"alg":"None","typ":"at+jwt","kid":"k1"}`, string(text)),
		"HS256 with the public key":   shared(public),
		"HS256 with its DER":          shared(der),
		"another key, our kid":        sign(t, evilKey, nil, claims),
		"jwk":                         sign(t, evilKey, member{"jwk": evilKey.Public(), "kid": nil}, claims),
		"jwk and our kid":             sign(t, evilKey, member{"jwk": evilKey.Public()}, claims),
		"jku":                         sign(t, evilKey, member{"jku": "https://evil.example.org/jwks", "kid": "e"}, claims),
		"x5u":                         sign(t, evilKey, member{"x5u": "https://evil.example.org/cert", "kid": "e"}, claims),
		"crit":                        is.raw(`{"alg":"ES256","typ":"at+jwt","kid":"k1","crit":["exp"],"exp":1}`, string(text)),
		"b64":                         is.raw(`{"alg":"ES256","typ":"at+jwt","kid":"k1","crit":["b64"],"b64":false}`, string(text)),
		"kid is a number":             is.raw(`{"alg":"ES256","typ":"at+jwt","kid":1}`, string(text)),
		"alg twice":                   is.raw(`{"alg":"none","alg":"ES256","typ":"at+jwt","kid":"k1"}`, string(text)),
		"aud twice":                   is.raw(`{"alg":"ES256","typ":"at+jwt","kid":"k1"}`, `{"aud":"x",`+string(text[1:])),
		"aud twice, escaped":          is.raw(`{"alg":"ES256","typ":"at+jwt","kid":"k1"}`, `{"\u0061ud":"x",`+string(text[1:])),
		"claims in another case":      is.raw(`{"alg":"ES256","typ":"at+jwt","kid":"k1"}`, strings.ReplaceAll(string(text), `"aud"`, `"Aud"`)),
		"another resource":            is.token(member{"aud": theResource + "2"}),
		"another issuer":              is.token(member{"iss": "https://evil.example.org"}),
		"issuer as a list":            is.token(member{"iss": []string{theIssuer}}),
		"aud as an object":            is.token(member{"aud": member{theResource: true}}),
		"aud with a number":           is.token(member{"aud": []any{theResource, 1}}),
		"claims are a list":           is.raw(`{"alg":"ES256","typ":"at+jwt","kid":"k1"}`, `[1]`),
		"claims are no JSON":          is.raw(`{"alg":"ES256","typ":"at+jwt","kid":"k1"}`, `x`),
		"payload of another":          part[0] + "." + strings.Split(is.token(member{"sub": "eve"}), ".")[1] + "." + part[2],
		"no signature":                part[0] + "." + part[1] + ".",
		"line break":                  part[0] + "." + part[1][:4] + "\n" + part[1][4:] + "." + part[2],
		"padding":                     part[0] + "." + part[1] + "=." + part[2],
		"four parts":                  good + ".x",
		"empty":                       "",
		"dots":                        "..",
		"RS256 key used as PS256":     sign(t, jose.JSONWebKey{Key: rsaKey, KeyID: "r1", Algorithm: "PS256"}, nil, claims),
		"exp beyond all years":        is.token(member{"exp": 1e300}),
		"exp below zero":              is.token(member{"exp": -1}),
		"a header of nothing but typ": is.raw(`{"typ":"at+jwt"}`, string(text)),
	} {
		t.Run(name, func(t *testing.T) { check(t, v, token, ErrInvalid) })
	}
	for _, r := range is.net.Requests() {
		if r.URL != theKeys {
			t.Errorf("asked %s", r.URL)
		}
	}
}

// A token is measured before anything else is done with it.
func TestLength(t *testing.T) {
	is := newIssuer(t)
	v := is.verifier(nil)
	long := is.token(member{"x": strings.Repeat("x", MaxToken)})
	check(t, v, long, errTooLong)
	if n := is.fetches(theKeys); n != 0 {
		t.Errorf("%d fetches for a long token", n)
	}
	fits := is.token(member{"x": strings.Repeat("x", 4<<10)})
	check(t, v, fits, nil)
}

func TestTimes(t *testing.T) {
	is := newIssuer(t)
	v := is.verifier(nil)
	now := is.clock.Load()
	for name, c := range map[string]struct {
		change member
		want   error
	}{
		"expired within the leeway":  {member{"exp": now - 29}, nil},
		"expired at its end":         {member{"exp": now - 30}, errExpired},
		"nbf within the leeway":      {member{"nbf": now + 30}, nil},
		"nbf after it":               {member{"nbf": now + 31}, errTooNew},
		"nbf of zero":                {member{"nbf": 0}, nil},
		"iat within the leeway":      {member{"iat": now + 30}, nil},
		"iat after it":               {member{"iat": now + 31}, errTooNew},
		"no iat":                     {member{"iat": nil}, nil},
		"a fraction of a second":     {member{"exp": float64(now) - 29.5}, nil},
		"exp as text":                {member{"exp": fmt.Sprint(now + 60)}, errClaims},
		"no subject":                 {member{"sub": nil}, errSubject},
		"an empty subject":           {member{"sub": ""}, errSubject},
		"no client":                  {member{"client_id": nil}, nil},
		"scopes as a list":           {member{"scope": []string{"a"}}, nil},
		"scopes as a list of others": {member{"scope": []int{1}}, errClaims},
		"no scopes":                  {member{"scope": nil}, nil},
	} {
		t.Run(name, func(t *testing.T) { check(t, v, is.token(c.change), c.want) })
	}
}

func TestRule_OauthJ1_ExpiryIssuerAndAudienceAreRequired(t *testing.T) {
	is := newIssuer(t)
	v := is.verifier(nil)
	for _, name := range []string{"exp", "iss", "aud"} {
		check(t, v, is.token(member{name: nil}), ErrInvalid)
	}
	check(t, v, is.token(nil), nil)
	// The library takes claims without any of them.
	if err := (jwt.Claims{}).Validate(jwt.Expected{}); err != nil {
		t.Errorf("go-jose refuses empty claims now: %v", err)
	}
}

func TestRule_OauthJ2_TypAndUseAndAlgOfKeysAreChecked(t *testing.T) {
	is := newIssuer(t)
	for typ, want := range map[string]error{
		"at+jwt": nil, "AT+JWT": nil, "application/at+jwt": nil, "Application/At+Jwt": nil,
		"JWT": errTyp, "": errTyp, "text/at+jwt": errTyp, "application/x/at+jwt": errTyp, "at+jwt ": errTyp, "/at+jwt": errTyp,
	} {
		check(t, is.verifier(nil), is.tokenWith(member{"typ": typ}, nil), want)
	}
	token := is.token(nil)
	key := is.keys[0]
	for _, change := range []func(*jose.JSONWebKey){
		func(k *jose.JSONWebKey) { k.Use = "enc" },
		func(k *jose.JSONWebKey) { k.Algorithm = "ES384" },
		func(k *jose.JSONWebKey) { k.Algorithm = "ECDH-ES" },
	} {
		is.keys[0] = key
		change(&is.keys[0])
		is.publish()
		check(t, is.verifier(nil), token, ErrUnavailable) // a set without a usable key is none
		// The library verifies with it all the same.
		signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{"ES256"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := signed.Verify(is.keys[0].Public()); err != nil {
			t.Errorf("go-jose checks the key now: %v", err)
		}
	}
}

func TestRule_OauthJ3_OneBadKeyDoesNotCostTheOthers(t *testing.T) {
	is := newIssuer(t)
	set := strings.Replace(is.set(), `{"keys":[`, `{"keys":[{"kty":"AKP","alg":"ML-DSA-44","kid":"pq","pub":"AA"},{"kty":"EC","crv":"P-256","x":"AA","y":"AA"},`, 1)
	is.net.Set(theKeys, fakenet.Answer{Body: set})
	check(t, is.verifier(nil), is.token(nil), nil)
	if err := json.Unmarshal([]byte(set), new(jose.JSONWebKeySet)); err == nil {
		t.Error("go-jose reads the set now")
	}
}

func TestRule_OauthJ4_WithoutKidTheOnlyKeyOfTheAlgorithmCounts(t *testing.T) {
	is := newIssuer(t)
	token := is.tokenWith(member{"kid": nil}, nil)
	check(t, is.verifier(nil), token, nil)
	var set jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(is.set()), &set); err != nil {
		t.Fatal(err)
	}
	signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{"ES256"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := signed.Verify(&set); err == nil {
		t.Error("go-jose takes a token without kid now")
	}
	second, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	is.keys = append(is.keys, jose.JSONWebKey{Key: second, KeyID: "k2", Algorithm: "ES256"})
	is.publish()
	check(t, is.verifier(nil), token, errNoKid)
	is.keys[1].Algorithm = "ES512" // does not fit, so it is not there
	is.publish()
	check(t, is.verifier(nil), token, nil)
}

func TestRule_OauthJ5_OnlyPublicSigningKeysVerify(t *testing.T) {
	is := newIssuer(t)
	token := is.token(nil)
	private, err := json.Marshal(jose.JSONWebKeySet{Keys: is.keys}) // with d
	if err != nil {
		t.Fatal(err)
	}
	is.net.Set(theKeys, fakenet.Answer{Body: string(private)})
	check(t, is.verifier(nil), token, ErrUnavailable) // a set without a usable key is none

	is.net.Set(theKeys, fakenet.Answer{Body: `{"keys":[{"kty":"oct","kid":"k1","k":"c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}]}`})
	shared := sign(t, jose.JSONWebKey{Key: []byte("secretsecretsecretsecretsecretse"), KeyID: "k1", Algorithm: "HS256"}, nil, member{
		"iss": theIssuer, "aud": theResource, "sub": "alice", "exp": is.clock.Load() + 60,
	})
	check(t, is.verifier(nil), shared, ErrInvalid)
	for _, name := range []string{"none", "HS256", "HS512", "", "es256", "RSA-OAEP"} {
		if CheckAlgorithm(name) == nil {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestRule_OauthJ6_ThePayloadIsReadOnce(t *testing.T) {
	// One reader gives all that is used; a member that occurs twice cannot have
	// one value for the check and another one for the app.
	c, err := parseClaims([]byte(`{"iss":"i","sub":"s","aud":"a","scope":"x y","client_id":"c","exp":5,"more":{"sub":"t"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.issuer != "i" || c.subject != "s" || c.client != "c" || len(c.scopes) != 2 || c.expires.Unix() != 5 {
		t.Errorf("%+v", c)
	}
	if _, err := parseClaims([]byte(`{"sub":"s","sub":"t"}`)); err == nil {
		t.Error("a member occurs twice and is read")
	}
}

func FuzzVerify(f *testing.F) {
	is := newIssuer(f)
	v := is.verifier(nil)
	good := is.token(nil)
	f.Add(good)
	f.Add(is.tokenWith(member{"kid": nil}, member{"scope": []string{"a"}}))
	f.Add("..")
	f.Add("e30.e30.")
	f.Add("opaque")
	f.Fuzz(func(t *testing.T, token string) {
		r, err := v.Verify(t.Context(), token)
		if (r == nil) == (err == nil) {
			t.Fatal("an answer and an error, or neither")
		}
		if err == nil && (r.Subject != "alice" || r.Issuer != theIssuer) {
			t.Fatalf("accepted as %q", r.Subject)
		}
	})
}

func FuzzKeySet(f *testing.F) {
	f.Add([]byte(newIssuer(f).set()))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{"kty":"OKP","crv":"Ed25519","x":"AA"},null]}`))
	f.Fuzz(func(t *testing.T, set []byte) {
		keys, err := parseSet(set, Algorithms())
		if err != nil {
			return
		}
		for _, k := range keys {
			if k.public == nil {
				t.Fatal("a key without a key")
			}
		}
	})
}
