package check

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/oauth"
)

// metadataAccess is how resource metadata is answered besides a plain GET. What
// was not answered is nil.
type metadataAccess struct {
	get, head, options *reply
}

func (m *metadataAccess) ask(ctx context.Context, client *http.Client, address string) {
	m.get, _ = ask(ctx, client, http.MethodGet, address, http.Header{"Origin": {foreign}}, "")
	m.head, _ = ask(ctx, client, http.MethodHead, address, nil, "")
	m.options, _ = ask(ctx, client, http.MethodOptions, address, http.Header{
		"Origin": {foreign}, "Access-Control-Request-Method": {http.MethodGet}, "Access-Control-Request-Headers": {"mcp-protocol-version"},
	}, "")
}

// judge says whether hosts that run in a browser can read the metadata (oauth
// S14).
func (m *metadataAccess) judge(s *Section, pointer string) {
	var missing []string
	if m.get == nil || m.get.header.Get("Access-Control-Allow-Origin") != "*" {
		missing = append(missing, "Access-Control-Allow-Origin: *")
	}
	if m.get == nil || m.get.header.Get("ETag") == "" {
		missing = append(missing, "an ETag")
	}
	if m.head == nil || m.head.status != http.StatusOK {
		missing = append(missing, "an answer to HEAD")
	}
	if m.options == nil || m.options.status < 200 || m.options.status > 299 || !hasWord(m.options.header.Values("Access-Control-Allow-Headers"), "mcp-protocol-version") {
		missing = append(missing, "an answer to a preflight (OPTIONS) that allows the header MCP-Protocol-Version")
	}
	if len(missing) == 0 {
		s.pass("OB-60", "browsers can read the metadata (CORS, preflight, HEAD, ETag)")
		return
	}
	s.advise("OB-60", pointer, "the resource metadata lacks %s: hosts that run in a browser cannot read it, or read it again and again", strings.Join(missing, ", "))
}

// endpointAccess is what a protected endpoint answers to a browser's preflight
// and to tokens that are not for it. What was not answered is nil.
type endpointAccess struct {
	preflight *reply // from a page that nobody can have allowed
	plain     *reply // OPTIONS that names no page
	token     *reply // with a token of a stranger
	query     *reply // with that token in the address
}

// callHeaders are what a host in a browser sends to an endpoint.
var callHeaders = []string{"authorization", "content-type", "mcp-protocol-version", "mcp-method", "mcp-name"}

func (e *endpointAccess) ask(ctx context.Context, client *http.Client, endpoint string) {
	e.preflight, _ = ask(ctx, client, http.MethodOptions, endpoint, http.Header{
		"Origin": {foreign}, "Access-Control-Request-Method": {http.MethodPost}, "Access-Control-Request-Headers": {strings.Join(callHeaders, ",")},
	}, "")
	if e.preflight != nil && e.preflight.status == http.StatusForbidden {
		e.plain, _ = ask(ctx, client, http.MethodOptions, endpoint, nil, "")
	}
	token, err := strangersToken(endpoint, time.Now())
	if err != nil {
		return // no randomness, and so no question
	}
	e.token, _ = ask(ctx, client, http.MethodPost, endpoint, discoverHeader("Authorization", "Bearer "+token), discoverBody)
	if u, err := url.Parse(endpoint); err == nil {
		q := u.Query()
		q.Set("access_token", "openbot-check") // no address carries anything that looks like a token
		u.RawQuery = q.Encode()
		e.query, _ = ask(ctx, client, http.MethodPost, u.String(), discoverHeader(), discoverBody)
	}
}

// discoverBody is server/discover as a host asks it.
const discoverBody = `{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{` +
	`"io.modelcontextprotocol/protocolVersion":"` + card.ProtocolVersion + `",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"openbot-publisher-check","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`

// discoverHeader is the header of discoverBody, and more: names and values.
func discoverHeader(more ...string) http.Header {
	h := http.Header{
		"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
		"Mcp-Protocol-Version": {card.ProtocolVersion}, "Mcp-Method": {"server/discover"},
	}
	for i := 0; i+1 < len(more); i += 2 {
		h.Set(more[i], more[i+1])
	}
	return h
}

// strangersToken is a well-formed access token (RFC 9068) for the endpoint, from
// an issuer that nobody can trust, signed by a key that is made and forgotten
// here.
func strangersToken(endpoint string, now time.Time) (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{
		"iss": foreign, "aud": endpoint, "sub": "nobody", "client_id": foreign + "/client", "jti": rand.Text(),
		"iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(), "scope": "openid",
	})
	if err != nil {
		return "", err
	}
	encode := base64.RawURLEncoding.EncodeToString
	signed := encode([]byte(`{"alg":"ES256","typ":"at+jwt","kid":"openbot-check"}`)) + "." + encode(claims)
	digest := sha256.Sum256([]byte(signed))
	r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
	if err != nil {
		return "", err
	}
	var signature [64]byte // r and s (RFC 7518 section 3.4)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return signed + "." + encode(signature[:]), nil
}

func (e *endpointAccess) judge(s *Section, pointer string) {
	e.judgePreflight(s, pointer)
	e.judgeToken(s, pointer)
	switch r := e.query; {
	case r == nil:
	case r.status >= 200 && r.status <= 299:
		s.fault("OB-60", pointer, "a made-up token in the address (access_token=) gets status %d: tokens in addresses end in logs and histories; take them from the header Authorization alone, and check them", r.status)
	case oauth.ParseChallenge(r.header).Error == "invalid_token":
		s.advise("OB-60", pointer, "a token is read from the address (access_token=), where it ends in logs and histories: take it from the header Authorization alone")
	default:
		s.pass("OB-60", "a token in the address opens nothing (status %d)", r.status)
	}
}

// judgePreflight says whether a browser gets as far as the sign-in (FO-10). Which
// pages an endpoint lets in is its own choice, so a refusal is no fault.
func (e *endpointAccess) judgePreflight(s *Section, pointer string) {
	const advice = "answer OPTIONS without a token, or hosts that run in a browser cannot even begin to sign in"
	r := e.preflight
	if r != nil && r.status == http.StatusForbidden {
		if e.plain != nil && e.plain.status == http.StatusUnauthorized {
			s.fault("OB-60", pointer, "a preflight (OPTIONS) gets status 401: "+advice)
			return
		}
		s.pass("OB-5", "a page of another origin gets no further than its preflight (403)")
		return
	}
	switch {
	case r == nil:
		s.advise("OB-60", pointer, "a preflight (OPTIONS) gets no answer: "+advice)
	case r.status == http.StatusUnauthorized:
		s.fault("OB-60", pointer, "a preflight (OPTIONS) gets status 401: "+advice)
	case r.status < 200 || r.status > 299:
		s.advise("OB-60", pointer, "a preflight (OPTIONS) gets status %d: "+advice, r.status)
	case !slices.Contains([]string{"*", foreign}, r.header.Get("Access-Control-Allow-Origin")):
		s.pass("OB-60", "a preflight needs no token (status %d)", r.status)
	default:
		var missing []string
		for _, name := range callHeaders {
			if !hasName(r.header.Values("Access-Control-Allow-Headers"), name) {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			s.fault("OB-60", pointer, "the answer to a preflight (OPTIONS) does not allow the headers %s, which every call carries: add them to Access-Control-Allow-Headers", strings.Join(missing, ", "))
			return
		}
		s.pass("OB-60", "a preflight needs no token (status %d)", r.status)
	}
}

// judgeToken says what became of a token that is not of the app's issuers.
func (e *endpointAccess) judgeToken(s *Section, pointer string) {
	r := e.token
	if r == nil {
		s.advise("OB-60", pointer, "a call with a made-up token gets no answer: answer 401, so that hosts know that it is the token")
		return
	}
	told := oauth.ParseChallenge(r.header)
	switch {
	case r.status >= 200 && r.status <= 299:
		s.fault("OB-60", pointer, "a made-up token, of an issuer that does not exist, opens the endpoint (status %d): check signature, issuer, audience and time of every token", r.status)
	case r.status != http.StatusUnauthorized:
		s.fault("OB-60", pointer, "a made-up token gets status %d: answer 401 with a challenge and error=\"invalid_token\", or hosts do not know that they have to sign in again", r.status)
	case told.Error != "invalid_token":
		s.advise("OB-60", pointer, "a made-up token gets 401%s: name the error invalid_token, so that hosts know that the token is bad", clause(errorNamed(told)))
	default:
		s.pass("OB-60", "a made-up token is refused (401, invalid_token)")
	}
}

func errorNamed(c oauth.Challenge) string {
	if c.Error == "" {
		return "without an error"
	}
	return fmt.Sprintf("error %q", clip(c.Error))
}

// hasName reports whether a list of header names holds one. A star does not stand
// for Authorization (Fetch standard), and is not counted for the others.
func hasName(values []string, name string) bool {
	for _, v := range values {
		for w := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(w), name) {
				return true
			}
		}
	}
	return false
}
