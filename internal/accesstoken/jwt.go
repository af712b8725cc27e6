package accesstoken

import (
	"bytes"
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// parsed is a JWT whose signature nobody has looked at.
type parsed struct {
	alg, kid, typ string
	bad           error
	payload       []byte
}

var (
	errForm      = invalid("it is malformed")
	errTyp       = invalid("its typ is not at+jwt")
	errCrit      = invalid("its header has a critical extension")
	errAlgorithm = invalid("its algorithm is not taken")
	errSignature = invalid("its signature is wrong")
	errClaims    = invalid("its claims are malformed")
)

// parseJWT reads a token in compact form. ok is false for tokens that are no
// signed JWT: those are opaque to us, even if they have dots.
func parseJWT(token string) (j *parsed, ok bool) {
	head, rest, _ := strings.Cut(token, ".")
	body, signature, two := strings.Cut(rest, ".")
	if !two || strings.Contains(signature, ".") {
		return nil, false
	}
	raw, err := decode(head)
	if err != nil {
		return nil, false
	}
	doc, err := strictjson.Parse(raw)
	if err != nil || doc.Root().Kind() != strictjson.Object {
		return nil, false
	}
	j = &parsed{}
	if _, twice := doc.Root().Duplicate(); twice {
		j.bad = errForm
		return j, true
	}
	for name, v := range doc.Root().Members() {
		// Members with keys (jwk, jku, x5c, x5u) are not looked at (S12).
		switch string(name) {
		case "alg":
			j.alg = v.Text()
		case "typ":
			j.typ = v.Text()
		case "kid":
			j.kid = v.Text()
			if v.Kind() != strictjson.String {
				j.bad = errForm
			}
		case "crit", "b64":
			j.bad = errCrit
		}
	}
	if j.payload, err = decode(body); err != nil {
		j.bad = errForm
	}
	return j, true
}

// decode is base64url without padding and, unlike the standard library's
// reader, without line breaks in it.
func decode(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, base64.CorruptInputError(0)
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// fault judges the header (J2).
func (j *parsed) fault() error {
	typ := j.typ
	if i := strings.LastIndexByte(typ, '/'); i >= 0 {
		if !strings.EqualFold(typ[:i], "application") {
			return errTyp
		}
		typ = typ[i+1:]
	}
	switch {
	case j.bad != nil:
		return j.bad
	case !strings.EqualFold(typ, "at+jwt"):
		return errTyp
	}
	return nil
}

// claims are what we use of a JWT's payload, or of an introspection's answer.
type claims struct {
	issuer, subject, client    string
	audience, scopes           []string
	expires, notBefore, issued time.Time // zero when not said
	active                     bool      // of an introspection
}

// parseClaims reads a payload once (J6).
func parseClaims(payload []byte) (*claims, error) {
	doc, err := strictjson.Parse(payload)
	if err != nil {
		return nil, errClaims
	}
	return readClaims(doc.Root())
}

func readClaims(root strictjson.Value) (*claims, error) {
	if root.Kind() != strictjson.Object {
		return nil, errClaims
	}
	if _, twice := root.Duplicate(); twice {
		return nil, errClaims
	}
	c := &claims{}
	for name, v := range root.Members() {
		ok := true
		switch string(name) {
		case "iss":
			c.issuer, ok = text(v)
		case "sub":
			c.subject, ok = text(v)
		case "client_id":
			c.client, ok = text(v)
		case "aud":
			c.audience, ok = texts(v, false)
		case "scope":
			c.scopes, ok = texts(v, true)
		case "exp":
			c.expires, ok = date(v)
		case "nbf":
			c.notBefore, ok = date(v)
		case "iat":
			c.issued, ok = date(v)
		case "active":
			c.active = v.True()
		}
		if !ok {
			return nil, errClaims
		}
	}
	return c, nil
}

func text(v strictjson.Value) (string, bool) { return v.Text(), v.Kind() == strictjson.String }

// texts reads a string or an array of strings. A scope string is parted at
// spaces, and at nothing else: commas stay in.
func texts(v strictjson.Value, part bool) ([]string, bool) {
	switch v.Kind() {
	case strictjson.String:
		if part {
			return slices.DeleteFunc(strings.Split(v.Text(), " "), func(s string) bool { return s == "" }), true
		}
		return []string{v.Text()}, true
	case strictjson.Array:
		list := make([]string, 0, v.Len())
		for _, e := range v.Elements() {
			if e.Kind() != strictjson.String {
				return nil, false
			}
			list = append(list, e.Text())
		}
		return list, true
	}
	return nil, false
}

func date(v strictjson.Value) (time.Time, bool) {
	if v.Kind() != strictjson.Number {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseFloat(string(v.Raw()), 64)
	if err != nil {
		return time.Time{}, false
	}
	return numericDate(seconds)
}

// maxTries bounds the keys of one name that a token is tried against.
const maxTries = 4

// verify checks the signature by the issuer's keys. For errUnknownKey it tells
// when the keys may be asked for again.
func (is *issuer) verify(ctx context.Context, token string, j *parsed) (again time.Time, err error) {
	if !slices.Contains(is.algorithms, jose.SignatureAlgorithm(j.alg)) {
		return again, errAlgorithm
	}
	keys, again, err := is.keys.find(ctx, j.kid, j.alg)
	if err != nil {
		return again, err
	}
	signed, err := jose.ParseSignedCompact(token, is.algorithms)
	if err != nil {
		return again, errForm
	}
	for _, k := range keys[:min(len(keys), maxTries)] {
		payload, err := signed.Verify(k.public)
		if err == nil && bytes.Equal(payload, j.payload) {
			return again, nil
		}
	}
	return again, errSignature
}
