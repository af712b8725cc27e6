package publisher_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/publicnet"
)

const (
	issuerURL    = "https://signin.example.com/t"
	resource     = origin + "/mcp/calendar"
	metadataPath = "/.well-known/oauth-protected-resource/mcp/calendar"
)

// issuer is an authorization server, as far as an app needs one: its metadata
// and its keys are in net, and it makes tokens.
type issuer struct {
	t       *testing.T
	net     *fakenet.Net
	network *publicnet.Network
	key     *ecdsa.PrivateKey
}

var b64 = base64.RawURLEncoding.EncodeToString

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	in := &issuer{t: t, net: fakenet.New()}
	t.Cleanup(in.net.Close)
	var err error
	if in.network, err = publicnet.New(&publicnet.Options{UserAgent: "test", Below: in.net.Below()}); err != nil {
		t.Fatal(err)
	}
	if in.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	point, err := in.key.PublicKey.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	asJSON := http.Header{"Content-Type": {"application/json"}}
	in.net.Set("https://signin.example.com/.well-known/oauth-authorization-server/t", fakenet.Answer{Header: asJSON, Body: `{"issuer":"` + issuerURL + `",
		"authorization_endpoint":"` + issuerURL + `/a","token_endpoint":"` + issuerURL + `/token","jwks_uri":"` + issuerURL + `/keys",
		"introspection_endpoint":"` + issuerURL + `/introspect","code_challenge_methods_supported":["S256"]}`})
	in.net.Set(issuerURL+"/keys", fakenet.Answer{Header: asJSON, Body: `{"keys":[{"kty":"EC","crv":"P-256","use":"sig","alg":"ES256","kid":"k1","x":"` +
		b64(point[1:33]) + `","y":"` + b64(point[33:]) + `"}]}`})
	return in
}

// token is an access token (RFC 9068).
func (in *issuer) token(user, audience string, scopes ...string) string {
	in.t.Helper()
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": issuerURL, "sub": user, "aud": audience, "client_id": "https://host.example.com/client.json", "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "scope": strings.Join(scopes, " "),
	})
	if err != nil {
		in.t.Fatal(err)
	}
	signed := b64([]byte(`{"alg":"ES256","typ":"at+jwt","kid":"k1"}`)) + "." + b64(claims)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, in.key, digest[:])
	if err != nil {
		in.t.Fatal(err)
	}
	return signed + "." + b64(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
}

func (in *issuer) protection() *oauth.Protection {
	return &oauth.Protection{
		Issuers: []oauth.Issuer{{URL: issuerURL}},
		Scopes: oauth.Scopes{
			Basic: []string{"read"}, Tools: map[string][]string{"write": {"write", "admin"}}, Implies: map[string][]string{"admin": {"write"}},
		},
		Network: in.network,
	}
}
