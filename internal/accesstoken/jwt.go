package accesstoken

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// parsed is a JWT whose signature nobody has looked at.
type parsed struct {
	*header
	payload, signature []byte

	head string // the header's octets, when they are new to us; else ""
}

// header is what go-jose reads of a header. An issuer's tokens share theirs
// octet by octet, so each is read once: reading costs as much as half of an RSA
// signature.
type header struct {
	jws      jose.Signature // of another token; payload and signature are not looked at
	alg, kid string
	fault    error
}

// verify checks the signature.
func (j *parsed) verify(key any) bool {
	jws := j.jws
	jws.Signature = j.signature
	signed := jose.JSONWebSignature{Signatures: []jose.Signature{jws}}
	return signed.DetachedVerify(j.payload, key) == nil
}

// headers keeps those of tokens whose signature was good, so that strangers
// cannot fill it.
type headers struct {
	mu  sync.RWMutex
	all map[string]*header
}

const maxHeaders = 256

func (s *headers) get(head string) *header {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.all[head]
}

func (s *headers) put(head string, h *header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil || len(s.all) == maxHeaders {
		s.all = map[string]*header{}
	}
	s.all[strings.Clone(head)] = h
}

var (
	errForm      = invalid("it is malformed")
	errTyp       = invalid("its typ is not at+jwt")
	errCrit      = invalid("its header has a critical extension")
	errAlgorithm = invalid("its algorithm is not taken")
	errSignature = invalid("its signature is wrong")
	errClaims    = invalid("its claims are malformed")
)

// parseJWT reads a token in compact form. A token that is no signed JWT is
// errOpaque, even if it has dots: it may be one of another kind.
func (v *Verifier) parseJWT(token string) (*parsed, error) {
	head, rest, _ := strings.Cut(token, ".")
	body, signature, two := strings.Cut(rest, ".")
	if !two || strings.Contains(signature, ".") {
		return nil, errOpaque
	}
	j := &parsed{header: v.headers.get(head)}
	if j.header == nil {
		if !isObject(head) {
			return nil, errOpaque
		}
		j.head = head
		// Duplicate names in the header, and other algorithms than are given, are
		// refused in here.
		signed, err := jose.ParseSignedCompact(token, v.algorithms)
		if errors.As(err, new(*jose.ErrUnexpectedSignatureAlgorithm)) {
			return nil, errAlgorithm
		}
		if err != nil {
			return nil, errForm
		}
		j.header = newHeader(signed.Signatures[0])
	}
	var err1, err2 error
	j.payload, err1 = decode(body)
	j.signature, err2 = decode(signature)
	if err1 != nil || err2 != nil {
		return nil, errForm
	}
	return j, nil
}

// decode is base64url without padding and, unlike the standard library's
// reader, without line breaks in it.
func decode(s string) ([]byte, error) {
	if strings.ContainsAny(s, "\r\n") {
		return nil, base64.CorruptInputError(0)
	}
	return base64.RawURLEncoding.Strict().DecodeString(s)
}

// isObject reports whether a token begins like a JWT.
func isObject(head string) bool {
	raw, err := decode(head)
	if err != nil {
		return false
	}
	doc, err := strictjson.Parse(raw)
	return err == nil && doc.Root().Kind() == strictjson.Object
}

// newHeader judges a header (J2). Keys in it, or addresses of keys, are not
// looked at (S12).
func newHeader(jws jose.Signature) *header {
	h := &header{jws: jws, alg: jws.Protected.Algorithm, kid: jws.Protected.KeyID}
	extra := jws.Protected.ExtraHeaders
	_, crit := extra["crit"]
	_, b64 := extra["b64"]
	typ, _ := extra[jose.HeaderType].(string)
	if i := strings.LastIndexByte(typ, '/'); i >= 0 && strings.EqualFold(typ[:i], "application") {
		typ = typ[i+1:]
	}
	switch {
	case crit || b64:
		h.fault = errCrit
	case !strings.EqualFold(typ, "at+jwt"):
		h.fault = errTyp
	}
	return h
}

// claims are what we use of a JWT's payload, or of an introspection's answer.
type claims struct {
	issuer, subject, client    string
	audience, scopes           []string
	expires, notBefore, issued time.Time // zero when not said
}

// parseClaims reads a payload once (J6).
func parseClaims(payload []byte) (*claims, error) {
	doc, err := strictjson.Parse(payload)
	if err != nil {
		return nil, errClaims
	}
	return readClaims(doc.Root(), false)
}

// readClaims reads an object. null says that it takes a member that is null for
// one that is not there.
func readClaims(root strictjson.Value, null bool) (*claims, error) {
	if root.Kind() != strictjson.Object {
		return nil, errClaims
	}
	if _, twice := root.Duplicate(); twice {
		return nil, errClaims
	}
	c := &claims{}
	for name, v := range root.Members() {
		if null && v.Kind() == strictjson.Null {
			continue
		}
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
func (is *issuer) verify(ctx context.Context, j *parsed) (again time.Time, err error) {
	if !slices.Contains(is.algorithms, jose.SignatureAlgorithm(j.alg)) {
		return again, errAlgorithm
	}
	keys, again, err := is.keys.find(ctx, j.kid, j.alg)
	if err != nil {
		return again, err
	}
	for _, k := range keys[:min(len(keys), maxTries)] {
		if j.verify(k.public) {
			return again, nil
		}
	}
	return again, errSignature
}
