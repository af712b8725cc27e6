package oauthtest

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/luikyv/go-oidc/pkg/goidc"

	"github.com/openbot-build/openbot-go/oauth/cimd"
)

// answerParameters are those of an authorization response, errors included.
var answerParameters = []string{"code", "state", "iss", "error", "error_description", "error_uri"}

// authorize checks client and redirect URI before anything is done: without both
// there is nobody to send an answer to. Then it checks how the answer is wanted,
// for the protocol library would give its errors in every way that it knows.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", "GET")
		_ = writePage(w, http.StatusMethodNotAllowed, "'none'", &page{Fault: "a sign-in begins with GET"})
		return
	}
	query := r.URL.Query()
	redirect := query.Get("redirect_uri")
	c, err := func() (*goidc.Client, error) {
		if len(r.URL.RawQuery) > maxQuery {
			return nil, errors.New("the request is too long")
		}
		if name := repeated(query); name != "" {
			return nil, errors.New("the parameter " + name + " is repeated")
		}
		c, err := s.client(r.Context(), query.Get("client_id"))
		if err != nil {
			return nil, err
		}
		if !cimd.MatchRedirect(c.RedirectURIs, redirect) {
			return nil, errors.New("the redirect URI " + redirect + " is not registered for the client")
		}
		return c, nil
	}()
	if err != nil {
		_ = renderFault(w, r, err)
		return
	}
	if code, description := checkAnswer(query); code != "" {
		answer := url.Values{"error": {string(code)}, "error_description": {description}, "iss": {s.opts.Issuer}}
		if state := query.Get("state"); state != "" {
			answer.Set("state", state)
		}
		w.Header().Set("Location", appendQuery(redirect, answer))
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	ctx := context.WithValue(r.Context(), clientKey{}, redirectTo(c, redirect))
	s.pass(&redirector{ResponseWriter: w, to: redirect}, r.WithContext(ctx), "/authorize")
}

// checkAnswer wants an answer with a code, in the query of the redirect URI, to a
// request that is all in its own query.
func checkAnswer(query url.Values) (goidc.ErrorCode, string) {
	const (
		unsupportedResponseType = "unsupported_response_type" // RFC 6749 section 4.1.2.1
		requestNotSupported     = "request_not_supported"     // OpenID Connect Core section 3.1.2.6
	)
	switch {
	case query.Get("response_type") == "":
		return goidc.ErrorCodeInvalidRequest, "response_type is missing"
	case query.Get("response_type") != "code":
		return unsupportedResponseType, "the response type is code"
	case query.Get("response_mode") != "" && query.Get("response_mode") != string(goidc.ResponseModeQuery):
		return goidc.ErrorCodeInvalidRequest, "the response mode is query"
	case query.Get("request") != "":
		return requestNotSupported, "request objects are not read"
	case query.Get("request_uri") != "":
		return goidc.ErrorCodeRequestURINotSupported, "request objects are not read"
	}
	return "", ""
}

// answered hands the user's answer on.
func (s *Server) answered(w http.ResponseWriter, r *http.Request, path string) {
	if as, err := s.memory.Session(r.Context(), strings.TrimPrefix(path, "/authorize/")); err == nil {
		w = &redirector{ResponseWriter: w, to: as.RedirectURI}
	}
	s.pass(w, r, path)
}

// redirector sends the browser to a redirect URI as it is written, with the
// answer's parameters after it: the protocol library puts another text with the
// same meaning in its place, or one with less.
type redirector struct {
	http.ResponseWriter
	to   string
	sent bool
}

func (r *redirector) WriteHeader(status int) {
	if location := r.Header().Get("Location"); location != "" && status/100 == 3 {
		answer := url.Values{}
		if u, err := url.Parse(location); err == nil {
			query := u.Query()
			for _, name := range answerParameters {
				if query.Has(name) {
					answer.Set(name, query.Get(name))
				}
			}
		}
		r.Header().Set("Location", appendQuery(r.to, answer))
		r.Header().Del("Content-Type")
		r.sent = true
	}
	r.ResponseWriter.WriteHeader(status)
}

// Write leaves out the body of a redirect, which names the other text.
func (r *redirector) Write(b []byte) (int, error) {
	if r.sent {
		return len(b), nil
	}
	return r.ResponseWriter.Write(b)
}

// appendQuery puts parameters after a redirect URI, which has none of their names
// and no fragment: see cimd.CheckRedirect.
func appendQuery(uri string, parameters url.Values) string {
	_, query, has := strings.Cut(uri, "?")
	switch {
	case !has:
		uri += "?"
	case query != "" && !strings.HasSuffix(query, "&"):
		uri += "&"
	}
	return uri + parameters.Encode()
}
