package accesstoken

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	theIssuer   = "https://as.example.org"
	theResource = "https://app.example.org/mcp/a"
	theKeys     = "https://as.example.org/jwks"
	theQuestion = "https://as.example.org/introspect"
)

// issuer of the tests: an authorization server on an Internet in memory.
type testIssuer struct {
	t     testing.TB
	net   *fakenet.Net
	clock atomic.Int64 // seconds
	keys  []jose.JSONWebKey
}

func newIssuer(t testing.TB) *testIssuer {
	is := &testIssuer{t: t, net: fakenet.New()}
	t.Cleanup(is.net.Close)
	is.clock.Store(1_800_000_000)
	is.rotate("k1")
	return is
}

func (is *testIssuer) now() time.Time { return time.Unix(is.clock.Load(), 0) }

func (is *testIssuer) pass(d time.Duration) { is.clock.Add(int64(d / time.Second)) }

// rotate makes a new key the only one, and publishes it.
func (is *testIssuer) rotate(kid string) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		is.t.Fatal(err)
	}
	is.keys = []jose.JSONWebKey{{Key: k, KeyID: kid, Algorithm: "ES256", Use: "sig"}}
	is.publish()
}

func (is *testIssuer) set() string {
	var set jose.JSONWebKeySet
	for _, k := range is.keys {
		set.Keys = append(set.Keys, k.Public())
	}
	text, err := json.Marshal(set)
	if err != nil {
		is.t.Fatal(err)
	}
	return string(text)
}

func (is *testIssuer) publish() { is.net.Set(theKeys, fakenet.Answer{Body: is.set()}) }

// fetches counts the requests to an address so far.
func (is *testIssuer) fetches(url string) int {
	n := 0
	for _, r := range is.net.Requests() {
		if r.URL == url {
			n++
		}
	}
	return n
}

type member = map[string]any

// token signs claims with the first key; changes of nil remove a claim.
func (is *testIssuer) token(changes member) string { return is.tokenWith(nil, changes) }

func (is *testIssuer) tokenWith(head, changes member) string {
	c := member{
		"iss": theIssuer, "aud": theResource, "sub": "alice", "client_id": "c", "jti": rand.Text(),
		"iat": is.clock.Load(), "exp": is.clock.Load() + 300, "scope": "a b",
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return sign(is.t, is.keys[0], head, c)
}

func sign(t testing.TB, key jose.JSONWebKey, head, payload member) string {
	t.Helper()
	h := member{"typ": "at+jwt", "kid": key.KeyID}
	maps.Copy(h, head)
	o := &jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{}}
	for name, v := range h {
		if v != nil {
			o.ExtraHeaders[jose.HeaderKey(name)] = v
		}
	}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key.Key}, o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(payload)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// raw signs any header and payload with the first key.
func (is *testIssuer) raw(head, payload string) string {
	input := base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	sum := crypto.SHA256.New()
	_, _ = io.WriteString(sum, input)
	r, s, err := ecdsa.Sign(rand.Reader, is.keys[0].Key.(*ecdsa.PrivateKey), sum.Sum(nil))
	if err != nil {
		is.t.Fatal(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

// verifier gives one for the issuer; change may be nil.
func (is *testIssuer) verifier(change func(*Options)) *Verifier {
	is.t.Helper()
	network, err := publicnet.New(&publicnet.Options{UserAgent: "test", Below: is.net.Below()})
	if err != nil {
		is.t.Fatal(err)
	}
	client := network.Client()
	is.t.Cleanup(client.CloseIdleConnections)
	o := &Options{Audience: theResource, Issuers: []Issuer{{URL: theIssuer, JWKS: theKeys}}, Client: client, Now: is.now}
	if change != nil {
		change(o)
	}
	v, err := New(o)
	if err != nil {
		is.t.Fatal(err)
	}
	return v
}

// asking makes the issuer answer questions, and gives a verifier that asks.
func (is *testIssuer) asking(always bool, h http.HandlerFunc) *Verifier {
	is.net.Handle("as.example.org", h)
	return is.verifier(func(o *Options) {
		o.Issuers[0].Introspection = &Introspection{
			Endpoint: theQuestion, Always: always, Authenticate: func(r *http.Request) { r.SetBasicAuth("rs", "secret") },
		}
	})
}

func check(t *testing.T, v *Verifier, token string, want error) *Result {
	t.Helper()
	r, err := v.Verify(context.Background(), token)
	if want == nil {
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		return r
	}
	if err == nil || !isError(err, want) {
		t.Fatalf("error %v, want %v", err, want)
	}
	if len(token) > 2 && strings.Contains(err.Error(), token) {
		t.Fatal("the error holds the token")
	}
	return nil
}
