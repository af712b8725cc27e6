package main

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/oauth"
	"github.com/openbot-build/openbot-go/publicnet"
)

const (
	signInIssuer   = "https://as.example.com"
	signInKeys     = "https://as.example.com/jwks"
	signInResource = "https://apps.example.com/mcp/app"

	keptARound  = 20_000
	freshARound = 2000
)

// signer makes tokens of one algorithm, and checks their signatures as barely
// as that can be done.
type signer struct {
	algorithm jose.SignatureAlgorithm
	private   any
	bare      func(input, signature []byte) bool
}

func signers() ([]*signer, error) {
	ec, err1 := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, err2 := rsa.GenerateKey(rand.Reader, 2048)
	edPublic, ed, err3 := ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	return []*signer{
		{jose.ES256, ec, func(input, signature []byte) bool {
			sum := sha256.Sum256(input)
			r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
			return ecdsa.Verify(&ec.PublicKey, sum[:], r, s)
		}},
		{jose.RS256, rs, func(input, signature []byte) bool {
			sum := sha256.Sum256(input)
			return rsa.VerifyPKCS1v15(&rs.PublicKey, crypto.SHA256, sum[:], signature) == nil
		}},
		{jose.EdDSA, ed, func(input, signature []byte) bool { return ed25519.Verify(edPublic, input, signature) }},
	}, nil
}

// token signs claims as an authorization server does.
func (s *signer) token(id int) (string, error) {
	maker, err := jose.NewSigner(jose.SigningKey{Algorithm: s.algorithm, Key: s.private},
		(&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", string(s.algorithm)))
	if err != nil {
		return "", err
	}
	now := time.Now().Unix()
	claims, err := json.Marshal(map[string]any{
		"iss": signInIssuer, "aud": signInResource, "sub": "4f1c8a2e-0d5b-4b7e-9a53-6d2f0c9e7b11", "scope": "notes.read notes.write",
		"client_id": "https://host.example.com/oauth/client.json", "iat": now, "exp": now + 3600*6, "jti": fmt.Sprintf("%08d", id),
	})
	if err != nil {
		return "", err
	}
	signed, err := maker.Sign(claims)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// signInRequest is a call as a host sends it.
func signInRequest(token string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, signInResource, http.NoBody)
	r.Header = http.Header{
		"Content-Type":         {"application/json"},
		"Content-Length":       {"300"},
		"Accept":               {"application/json, text/event-stream"},
		"Accept-Encoding":      {"gzip"},
		"User-Agent":           {"bench/1.0"},
		"Mcp-Protocol-Version": {"2026-07-28"},
		"Mcp-Method":           {"tools/call"},
		"Mcp-Name":             {"echo"},
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// signIns compares a protected handler with the bare one, for a token that was
// judged before, and the judging of a new token with its bare signature check.
func signIns(context.Context, *size) ([]comparison, func(), error) {
	internet := fakenet.New()
	list, err := signInComparisons(internet)
	if err != nil {
		internet.Close()
		return nil, nil, err
	}
	return list, internet.Close, nil
}

func signInComparisons(internet *fakenet.Net) ([]comparison, error) {
	all, err := signers()
	if err != nil {
		return nil, err
	}
	var set jose.JSONWebKeySet
	for _, s := range all {
		key := jose.JSONWebKey{Key: s.private, KeyID: string(s.algorithm), Algorithm: string(s.algorithm), Use: "sig"}
		set.Keys = append(set.Keys, key.Public())
	}
	text, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	internet.Set(signInKeys, fakenet.Answer{Body: string(text)})
	network, err := publicnet.New(&publicnet.Options{UserAgent: "bench/1.0", Below: internet.Below()})
	if err != nil {
		return nil, err
	}
	bare := &countServed{}
	protected := func() (http.Handler, error) {
		g, err := oauth.NewGuard(&oauth.Protection{
			Resource: signInResource,
			Issuers:  []oauth.Issuer{{URL: signInIssuer, JWKS: signInKeys}},
			Scopes:   oauth.Scopes{Basic: []string{"notes.read"}, Tools: map[string][]string{"echo": {"notes.write"}}},
			Network:  network,
		})
		if err != nil {
			return nil, err
		}
		return g.Protect(bare), nil
	}
	kept, err := keptTokens(all[0], protected, bare)
	if err != nil {
		return nil, err
	}
	list := []comparison{kept}
	for _, s := range all {
		fresh, err := freshTokens(s, protected, bare)
		if err != nil {
			return nil, err
		}
		list = append(list, fresh)
	}
	return list, nil
}

// countServed is the least handler; it counts, so that a request that is
// refused on the way is seen.
type countServed struct{ n int }

func (c *countServed) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.n++
	w.WriteHeader(http.StatusOK)
}

func (c *countServed) through(h http.Handler, w http.ResponseWriter, r *http.Request) error {
	before := c.n
	if h.ServeHTTP(w, r); c.n != before+1 {
		return errors.New("a request with a good token was refused")
	}
	return nil
}

// keptTokens is the way of nearly every request.
func keptTokens(s *signer, protected func() (http.Handler, error), bare *countServed) (comparison, error) {
	h, err := protected()
	if err != nil {
		return comparison{}, err
	}
	token, err := s.token(0)
	if err != nil {
		return comparison{}, err
	}
	side := func(h http.Handler, r *http.Request) func() error {
		w := httptest.NewRecorder()
		return func() error {
			return bare.through(h, w, r)
		}
	}
	ours, theirs := side(h, signInRequest(token)), side(bare, signInRequest(""))
	if err := ours(); err != nil { // judges the token
		return comparison{}, err
	}
	count := func(work func() error) float64 { return testing.AllocsPerRun(1000, func() { _ = work() }) }
	return comparison{
		name: "token judged before", slices: 5, ours: repeat(keptARound, ours),
		allocs: count(ours) - count(theirs), mostAllocs: 8,
		bases: []base{{what: "the same handler, unprotected", side: repeat(keptARound, theirs), extra: 5 * time.Microsecond}},
	}, nil
}

// freshTokens is the first request of a token.
func freshTokens(s *signer, protected func() (http.Handler, error), bare *countServed) (comparison, error) {
	request := signInRequest("")
	var headers [][]string
	var inputs, signatures [][]byte
	for i := range freshARound + 1 {
		token, err := s.token(i)
		if err != nil {
			return comparison{}, err
		}
		headers = append(headers, []string{"Bearer " + token})
		signed, err := jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{s.algorithm})
		if err != nil {
			return comparison{}, err
		}
		inputs = append(inputs, []byte(token[:strings.LastIndexByte(token, '.')]))
		signatures = append(signatures, signed.Signatures[0].Signature)
	}
	ours := func(ctx context.Context) (sample, error) {
		h, err := protected() // knows no token
		if err != nil {
			return sample{}, err
		}
		w := httptest.NewRecorder()
		send := func(header []string) error {
			request.Header["Authorization"] = header
			return bare.through(h, w, request)
		}
		if err := send(headers[freshARound]); err != nil { // fetches the keys
			return sample{}, err
		}
		return batch(freshARound, func(context.Context) error {
			for _, header := range headers[:freshARound] {
				if err := send(header); err != nil {
					return err
				}
			}
			return nil
		})(ctx)
	}
	signatureAlone := batch(freshARound, func(context.Context) error {
		for i := range freshARound {
			if !s.bare(inputs[i], signatures[i]) {
				return errors.New("a signature is wrong")
			}
		}
		return nil
	})
	return comparison{
		name: "new token, " + string(s.algorithm), slices: 3, ours: ours,
		bases: []base{{what: "its signature alone", side: signatureAlone, ratio: 1.4, plus: 10 * time.Microsecond}},
	}, nil
}
