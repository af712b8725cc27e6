package discovery

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Kind is what went wrong (OB-44). A Kind is an error itself, so
// errors.Is(err, discovery.TooLarge) works on everything this package returns.
type Kind string

// The kinds of error.
const (
	BadInput           Kind = "bad_input"
	NotHTTPS           Kind = "not_https"
	BlockedAddress     Kind = "blocked_address"
	DNS                Kind = "dns"
	Connect            Kind = "connect" // also a connection that broke
	TLS                Kind = "tls"
	Timeout            Kind = "timeout" // also a context that was cancelled
	TooLarge           Kind = "too_large"
	TooManyRedirects   Kind = "too_many_redirects"
	HTTPStatus         Kind = "http_status"
	BadAnswer          Kind = "bad_answer" // breaks the rules of HTTP: encoding not offered, unasked 206 or 304
	WrongType          Kind = "wrong_type"
	WebPage            Kind = "web_page"
	BadJSON            Kind = "bad_json"
	InvalidCatalog     Kind = "invalid_catalog"
	InvalidCard        Kind = "invalid_card"
	UnsupportedVersion Kind = "unsupported_protocol_version"
	NoLink             Kind = "no_link"
	NoCards            Kind = "no_cards"

	// NotFetched is a document that was not asked for: the FetchFunc would not
	// (robots.txt, noindex, to be read later) or a limit of the run was reached.
	NotFetched Kind = "not_fetched"
)

func (k Kind) Error() string { return string(k) }

// Error is why an address led to no app, or why one document of several could
// not be used. Its text is a sentence for the person who gave the address: the
// address, what was found there, and what can be done.
type Error struct {
	Kind   Kind
	URL    string // the address that failed; a redirect's target when it failed there
	Status int    // of HTTPStatus
	Detail string // what was found, where Kind does not say it; part of the text
	Err    error  // the cause: card.Errors, a publicnet sentinel, ...
}

func (e *Error) Error() string {
	found, advice := e.words()
	if advice == "" {
		return found
	}
	return found + "; " + advice
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the error's Kind.
func (e *Error) Is(target error) bool { k, ok := target.(Kind); return ok && k == e.Kind }

// words says what was found and what can be done about it.
func (e *Error) words() (found, advice string) {
	detail := func(s string) string {
		if e.Detail == "" {
			return s
		}
		return s + ": " + e.Detail
	}
	switch e.Kind {
	case BadInput, NotHTTPS:
		if w, ok := e.Err.(*weburl.Error); ok { //nolint:errorlint // wrapped means another place: a redirect
			return w.Message, "give a domain such as apps.example.com, or an address that begins with https://"
		}
		return detail(e.URL + " leads to an address that cannot be used"), "its owner must repair it"
	case BlockedAddress:
		if e.Detail != "" { // says what to do
			return detail(e.URL + " is not on the public Internet"), ""
		}
		return e.URL + " is not on the public Internet", "only public addresses are contacted"
	case DNS:
		return detail("the name in " + e.URL + " cannot be looked up"), "check its spelling or try again later"
	case Connect:
		return detail("no connection to " + e.URL + " could be made, or it broke"), "try again later"
	case TLS:
		return detail("no secure connection to " + e.URL), "its owner must repair the certificate or the server's settings"
	case Timeout:
		return detail(e.URL + " did not answer in time"), "try again later"
	case TooLarge:
		return detail("the answer of " + e.URL + " is larger than what is read"), "its owner must publish a smaller document"
	case TooManyRedirects:
		return detail(e.URL + " is redirected too often"), "give the address where the redirects should end"
	case HTTPStatus:
		return detail(strings.TrimSpace(fmt.Sprintf("%s answered with status %d %s", e.URL, e.Status, http.StatusText(e.Status)))), statusAdvice(e.Status)
	case BadAnswer:
		return detail(e.URL + " answered against the rules of HTTP"), "its owner must repair the server"
	case WrongType:
		return detail(e.URL + " is no document that can be read here"), "its owner must serve it with its own media type"
	case WebPage:
		what := "catalog"
		if e.Detail != "" {
			what = e.Detail
		}
		return "no " + what + " here: the address answered with a web page: " + e.URL,
			"give the address of the app's own page, or ask its owner where the catalog is"
	case BadJSON:
		return detail(e.URL + " is no valid JSON"), "its owner must repair the document"
	case InvalidCatalog:
		return detail(e.URL + " is no valid catalog"), "its owner must repair the catalog"
	case InvalidCard:
		return detail(e.URL + " is no card of a usable app"), "its owner must repair the card"
	case UnsupportedVersion:
		return detail("the app at " + e.URL + " does not speak MCP " + card.ProtocolVersion), "its owner must update the app"
	case NoLink:
		return detail("the page " + e.URL + " names no catalog"),
			`its owner can add <link rel="ai-catalog" href="..."> to its head; or give the address of the catalog or card itself`
	case NoCards:
		return detail("no app behind " + e.URL), "its owner must list an app there, or repair what is listed"
	case NotFetched:
		return detail(e.URL + " was not read"), ""
	}
	return detail(e.URL + ": " + string(e.Kind)), ""
}

func statusAdvice(status int) string {
	switch {
	case status == http.StatusNotFound || status == http.StatusGone:
		return "check the address, or ask its owner where the document is"
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return "catalogs and cards must be public; its owner must open them"
	case status == http.StatusTooManyRequests || status >= 500:
		return "try again later"
	}
	return "its owner must answer with status 200"
}

// FetchError gives err, which came from a fetch of url, its Kind. An error that
// already is, or wraps, an *Error comes back as that. An error of no known kind
// is NotFetched, with err as its cause.
func FetchError(url string, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	e := &Error{Kind: fetchKind(err), URL: url, Err: err}
	switch e.Kind {
	case BadInput, NotHTTPS, BadAnswer, NotFetched:
		e.Detail = strings.TrimPrefix(err.Error(), "fetch "+url+": ")
	case BlockedAddress:
		if a, ok := errors.AsType[*publicnet.AddrError](err); ok {
			e.Detail = a.Error()
		}
	case TLS:
		if v, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			e.Detail = v.Err.Error()
		}
	}
	return e
}

func fetchKind(err error) Kind {
	for _, c := range []struct {
		sentinel error
		kind     Kind
	}{
		{publicnet.ErrNotPublic, BlockedAddress},
		{publicnet.ErrTooLarge, TooLarge},
		{publicnet.ErrTooManyRedirects, TooManyRedirects},
		{publicnet.ErrBadAnswer, BadAnswer},
		{fetch.ErrNoLocation, BadAnswer},
		{publicnet.ErrTimeout, Timeout},
		{context.DeadlineExceeded, Timeout},
		{context.Canceled, Timeout},
		{publicnet.ErrDNS, DNS},
		{publicnet.ErrTLS, TLS},
		{publicnet.ErrConnect, Connect},
	} {
		if errors.Is(err, c.sentinel) {
			return c.kind
		}
	}
	if e, ok := errors.AsType[*weburl.Error](err); ok {
		if e.Reason == weburl.NotHTTPS {
			return NotHTTPS
		}
		return BadInput
	}
	// What a client that is not publicnet's gives.
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return DNS
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return TLS
	}
	if _, ok := errors.AsType[x509.HostnameError](err); ok {
		return TLS
	}
	if n, ok := errors.AsType[net.Error](err); ok && n.Timeout() {
		return Timeout
	}
	if _, ok := errors.AsType[*net.OpError](err); ok || errors.Is(err, io.ErrUnexpectedEOF) {
		return Connect
	}
	return NotFetched
}

// inputError is the fault of an address that a person gave.
func inputError(input string, err error) *Error {
	e := &Error{Kind: BadInput, URL: input, Err: err}
	if w, ok := errors.AsType[*weburl.Error](err); ok {
		e.Err = w
		if w.Reason == weburl.NotHTTPS {
			e.Kind = NotHTTPS
		}
	}
	return e
}
