package oauthtest_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
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
	for name, member := range map[string]string{
		"jwks": `"token_endpoint_auth_method":"private_key_jwt","jwks":` + string(keys), "jwks_uri": `"token_endpoint_auth_method":"private_key_jwt","jwks_uri":"https://signed.example.com/keys"`,
		"jwks alone": `"jwks":` + string(keys), "jwks_uri alone": `"jwks_uri":"https://signed.example.com/keys"`,
	} {
		w := newWorld(t, nil)
		header := http.Header{"Content-Type": {"application/json"}}
		w.net.Set(id, fakenet.Answer{Header: header, Body: `{"client_id":"` + id + `","client_name":"Signed","redirect_uris":["` + back + `"],` + member + `}`})
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
		if status, tok := w.post(t, "/token", with(sign(key, "none"), "client_assertion", "", "client_assertion_type", "")); status != 401 || tok.Error != "invalid_client" {
			t.Errorf("%s: no assertion: %d %s", name, status, tok.Error)
		}
		if status, tok := w.post(t, "/token", with(sign(key, "iss"), "client_id", "")); status != 200 {
			t.Errorf("%s: an assertion without client_id: %d %s %s", name, status, tok.Error, tok.Description)
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

// An address that publishes a private key gives no keys.
func TestRule_OauthM3_KeysOfAnAddressAreJudgedToo(t *testing.T) {
	w := newWorld(t, nil)
	const id, back = "https://signed.example.com/client.json", "https://signed.example.com/back"
	header := http.Header{"Content-Type": {"application/json"}}
	w.net.Set(id, fakenet.Answer{Header: header, Body: `{"client_id":"` + id + `","client_name":"Signed","redirect_uris":["` + back + `"],"jwks_uri":"https://signed.example.com/keys"}`})
	w.net.Set("https://signed.example.com/keys", fakenet.Answer{Header: header, Body: `{"keys":[{"kty":"oct","k":"AA"}]}`})
	rec := w.open(t, with(authorization(), "client_id", id, "redirect_uri", back))
	if rec.Code != 400 || !strings.Contains(rec.Body.String(), "symmetric key") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

// A stranger whose document takes long does not hold up the others, in whatever
// way the request names it.
func TestStrangersDoNotHoldTheExchange(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: key}, nil)
	if err != nil {
		t.Fatal(err)
	}
	const id = "https://slow.example.com/client.json"
	token, err := jwt.Signed(signer).Claims(jwt.Claims{Issuer: id, Subject: id, Audience: jwt.Audience{issuer}, ID: "1", Expiry: jwt.NewNumericDate(time.Now().Add(time.Minute))}).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, nil)
	reached, release := make(chan struct{}, 10), make(chan struct{})
	w.net.Handle("slow.example.com", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached <- struct{}{}
		<-release
	}))
	answered := make(chan int, 1)
	go func() {
		status, _ := w.post(t, "/token", url.Values{
			"grant_type": {"refresh_token"}, "refresh_token": {"x"},
			"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {token},
		})
		answered <- status
	}()
	select {
	case <-reached:
	case status := <-answered:
		t.Fatalf("the stranger's document is not asked for: %d", status)
	}
	w.signIn(t)
	select {
	case status := <-answered:
		t.Errorf("the others waited until the stranger's %d", status)
	default:
	}
	close(release)
	if status := <-answered; status != 401 {
		t.Errorf("the stranger: %d", status)
	}

	// The protocol library also takes a client from this header, which we do not
	// read: the network is not used for it at all.
	w.net.Reset()
	r := httptest.NewRequest(http.MethodPost, issuer+"/token", strings.NewReader("grant_type=refresh_token&refresh_token=x"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("OAuth-Client-Attestation", token)
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	if rec.Code != 401 || len(w.net.Requests()) > 0 {
		t.Errorf("%d, and asked %v", rec.Code, w.net.Requests())
	}
}
