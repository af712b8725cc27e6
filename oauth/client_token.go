package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Limits of what an authorization server answers (ours; RFC 6749 sets none).
const (
	maxAnswer     = 64 << 10
	maxToken      = 16 << 10 // of one token or client secret
	maxClientID   = 2 << 10  // it stands in an address
	answerTimeout = 10 * time.Second
	maxLifetime   = 10 * 365 * 24 * time.Hour
	minLifetime   = 4 * time.Second // half of it is used
)

// tokenAnswer is what a token endpoint gave (RFC 6749 section 5.1), judged.
type tokenAnswer struct {
	access, refresh Secret
	expires         time.Time // zero when not told
	scopes          []string  // nil when not told
}

// serverError is a refusal in the words of RFC 6749 section 5.2. Its texts are
// the server's: data, cut short and rid of what was sent.
type serverError struct {
	status      int
	code        string // "" when the answer has none
	description string
}

func (e *serverError) Error() string {
	text := fmt.Sprintf("it answered %d", e.status)
	if e.status >= 300 && e.status < 400 {
		return text + ", and a redirect is never followed with codes or tokens"
	}
	if e.code != "" {
		text += ", error " + strictjson.Quote(e.code)
	}
	if e.description != "" {
		text += ", saying " + strictjson.Quote(e.description)
	}
	return text
}

// refusedWith reports a server's error code. What comes with an outage is no
// refusal.
func refusedWith(err error, code string) bool {
	var e *serverError
	return errors.As(err, &e) && e.code == code && !errors.Is(err, ErrUnavailable)
}

// definite reports an answer that will be the same tomorrow: a refusal in whatever
// words, or an endpoint that has moved for good.
func definite(err error) bool {
	var e *serverError
	if !errors.As(err, &e) || errors.Is(err, ErrUnavailable) {
		return false
	}
	return e.status >= 400 || e.status == http.StatusMovedPermanently || e.status == http.StatusPermanentRedirect
}

// requestToken sends a token request (RFC 6749 sections 4.1.3 and 6, RFC 8707
// section 2.2): never through a redirect, never to an address that publicnet
// refuses.
func (c *Client) requestToken(ctx context.Context, endpoint string, client Registration, form url.Values) (*tokenAnswer, error) {
	a, err := c.post(ctx, endpoint, client, form)
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, a.fault()
	}
	return a.tokens(time.Now())
}

// post sends a form as client.
func (c *Client) post(ctx context.Context, endpoint string, client Registration, form url.Values) (*answer, error) {
	if client.AuthMethod != "client_secret_basic" {
		form.Set("client_id", client.ClientID)
	}
	if client.AuthMethod == "client_secret_post" {
		form.Set("client_secret", client.Secret.Reveal())
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if client.AuthMethod == "client_secret_basic" { // RFC 6749 section 2.3.1: both parts are form-encoded first
		req.SetBasicAuth(url.QueryEscape(client.ClientID), url.QueryEscape(client.Secret.Reveal()))
	}
	a, err := c.send(req)
	if err != nil {
		return nil, err
	}
	_, basic, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	a.sent = []string{basic}
	for _, s := range []string{client.Secret.Reveal(), form.Get("code"), form.Get("code_verifier"), form.Get("refresh_token"), form.Get("token")} {
		a.sent = append(a.sent, s, url.QueryEscape(s)) // as a server may quote it
	}
	return a, nil
}

// answer is what an authorization server said to a request of ours.
type answer struct {
	status int
	kind   string // media type
	body   []byte
	sent   []string // secrets of the request, which no text of ours repeats
}

// send makes one request to an authorization server and reads the answer.
// Whatever keeps an answer from coming is ErrUnavailable, except what publicnet
// refuses.
func (c *Client) send(req *http.Request) (*answer, error) {
	if err := c.check(req.URL.String()); err != nil {
		return nil, err
	}
	client, done := c.oneHop()
	defer done()
	ctx, _ := publicnet.WithLimits(req.Context(), publicnet.Limits{MaxBytes: maxAnswer, Timeout: answerTimeout})
	req = req.WithContext(ctx)
	req.Header.Set("Accept", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return nil, unreached(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, unreached(err)
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return &answer{status: resp.StatusCode, kind: kind, body: body}, nil
}

func unreached(err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // the address is told by whoever calls
	}
	if outageOf(err) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// fault is the error of an answer that is no success.
func (a *answer) fault() error {
	e := &serverError{status: a.status}
	if a.status >= 300 && a.status < 400 {
		return e
	}
	var body struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if isJSON(a.kind) && strictjson.Unmarshal(a.body, &body) == nil {
		if len(body.Error) <= maxErrorCode && isScopeToken(body.Error) {
			e.code = a.without(body.Error)
		}
		e.description = a.without(body.Description)
	}
	if passing(a.status) {
		return fmt.Errorf("%w: %w", ErrUnavailable, e)
	}
	return e
}

// passing reports a status that another day may be another one.
func passing(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// without gives a server's text without what was sent to it.
func (a *answer) without(text string) string {
	for _, s := range a.sent {
		if s != "" {
			text = strings.ReplaceAll(text, s, hidden)
		}
	}
	return text
}

func (a *answer) decode(v any) error {
	if !isJSON(a.kind) {
		return fmt.Errorf("its answer is %s and no JSON", strictjson.Quote(a.kind))
	}
	if err := strictjson.Unmarshal(a.body, v); err != nil {
		return errors.New("its answer is no JSON object of the form that is expected") // the cause might quote a token
	}
	return nil
}

func isJSON(kind string) bool {
	return kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")
}

// tokens judges a success (RFC 6749 section 5.1, G18).
func (a *answer) tokens(now time.Time) (*tokenAnswer, error) {
	var got struct {
		AccessToken  string          `json:"access_token"`
		TokenType    string          `json:"token_type"`
		RefreshToken string          `json:"refresh_token"`
		ExpiresIn    json.RawMessage `json:"expires_in"`
		Scope        json.RawMessage `json:"scope"`
	}
	if err := a.decode(&got); err != nil {
		return nil, err
	}
	if !strings.EqualFold(got.TokenType, "Bearer") {
		return nil, fmt.Errorf("its token_type is %s and not Bearer", strictjson.Quote(got.TokenType))
	}
	for name, t := range map[string]string{"access_token": got.AccessToken, "refresh_token": got.RefreshToken} {
		switch {
		case t == "" && name == "access_token":
			return nil, errors.New("its answer has no access_token")
		case len(t) > maxToken:
			return nil, fmt.Errorf("its %s is longer than %d octets", name, maxToken)
		case strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r > '~' }):
			return nil, fmt.Errorf("its %s holds characters that no token has", name)
		}
	}
	t := &tokenAnswer{access: Secret(got.AccessToken), refresh: Secret(got.RefreshToken)}
	t.expires = endOf(string(got.ExpiresIn), now)
	t.scopes = scopeMember(got.Scope)
	return t, nil
}

// endOf reads expires_in, which some servers write as a string. Zero is no
// number. What is none that a lifetime can have means a token that is about to
// end: it is used for a moment, since the server gave it, and not for ever.
func endOf(expiresIn string, now time.Time) time.Time {
	seconds, err := strconv.ParseFloat(strings.Trim(expiresIn, `"`), 64)
	switch {
	case errors.Is(err, strconv.ErrRange) || math.IsNaN(seconds):
		seconds = 0
	case err != nil:
		return time.Time{}
	}
	left := time.Duration(min(max(seconds, minLifetime.Seconds()), maxLifetime.Seconds()) * float64(time.Second))
	if left < 2*earlyExpiry { // else it would be refreshed at each use, or never be used
		left = left/2 + earlyExpiry
	}
	return now.Add(left)
}

// scopeMember reads a scope as a string or, as some servers write it, an array.
func scopeMember(raw json.RawMessage) []string {
	var text string
	var list []string
	if len(raw) == 0 {
		return nil
	}
	if json.Unmarshal(raw, &text) != nil && json.Unmarshal(raw, &list) == nil {
		text = strings.Join(list, " ")
	}
	scopes := scopesOf(text)
	slices.Sort(scopes)
	return scopes
}
