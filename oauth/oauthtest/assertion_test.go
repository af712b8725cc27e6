package oauthtest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/openbot-build/openbot-go/internal/fakenet"
)

// A client with keys in its document, or at an address there, signs in with
// them; an assertion is good once and for one key.
func TestClientsThatSign(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	const id, back = "https://signed.example.com/client.json", "https://signed.example.com/back"
	for name, member := range map[string]string{"jwks": `"jwks":` + string(keys), "jwks_uri": `"jwks_uri":"https://signed.example.com/keys"`} {
		w := newWorld(t, nil)
		header := http.Header{"Content-Type": {"application/json"}}
		w.net.Set(id, fakenet.Answer{Header: header, Body: `{"client_id":"` + id + `","client_name":"Signed","redirect_uris":["` + back + `"],"token_endpoint_auth_method":"private_key_jwt",` + member + `}`})
		w.net.Set("https://signed.example.com/keys", fakenet.Answer{Header: header, Body: string(keys)})

		sign := func(key *ecdsa.PrivateKey, jti string) url.Values {
			t.Helper()
			signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", "1"))
			if err != nil {
				t.Fatal(err)
			}
			assertion, err := jwt.Signed(signer).Claims(jwt.Claims{
				Issuer: id, Subject: id, Audience: jwt.Audience{issuer}, ID: jti, IssuedAt: jwt.NewNumericDate(time.Now()), Expiry: jwt.NewNumericDate(time.Now().Add(time.Minute)),
			}).Serialize()
			if err != nil {
				t.Fatal(err)
			}
			code := w.approve(t, with(authorization(), "client_id", id, "redirect_uri", back)).Get("code")
			return with(exchange(code), "client_id", id, "redirect_uri", back,
				"client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion", assertion)
		}
		if status, tok := w.post(t, "/token", sign(stranger, "a")); status != 401 || tok.Error != "invalid_client" {
			t.Errorf("%s: another key: %d %s", name, status, tok.Error)
		}
		good := sign(key, "b")
		if status, tok := w.post(t, "/token", good); status != 200 || !w.introspect(t, tok.Access).Active {
			t.Errorf("%s: %d %s %s", name, status, tok.Error, tok.Description)
		}
		if status, tok := w.post(t, "/token", with(sign(key, "c"), "client_assertion", good.Get("client_assertion"))); status != 401 || tok.Error != "invalid_client" {
			t.Errorf("%s: an assertion used twice: %d %s", name, status, tok.Error)
		}
	}
}
