package check

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"syscall"

	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// explain is the error's sentence, and in a clause why a connection failed.
func explain(e *discovery.Error) string {
	cause := connectionFault(e.Err)
	if cause == "" || e.Kind != discovery.Connect && e.Kind != discovery.TLS {
		return e.Error()
	}
	told := *e
	told.Detail = cause
	return told.Error()
}

// connectionFault tells why a connection could not be made, or nothing.
func connectionFault(err error) string {
	at := func(what string) string {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" && op.Addr != nil {
			return what + " at " + op.Addr.String()
		}
		return what
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "the server there does not speak TLS"
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return "its certificate is signed by an authority that this machine does not know (publisher check takes one with --connect-to and --ca FILE)"
	}
	if v, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return strings.TrimPrefix(v.Err.Error(), "x509: ")
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return at("connection refused")
	case errors.Is(err, syscall.ECONNRESET):
		return "the server closed the connection"
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EHOSTUNREACH):
		return at("no way to the network")
	}
	return ""
}

// looksLikeEndpoint reports whether what answered a GET takes JSON-RPC calls.
func looksLikeEndpoint(d *discovery.Document) bool {
	if d.Status == http.StatusMethodNotAllowed && hasWord(d.Header.Values("Allow"), http.MethodPost) && !hasWord(d.Header.Values("Allow"), http.MethodGet) {
		return true
	}
	doc, err := strictjson.Parse(d.Body)
	if err != nil {
		return false
	}
	for name := range doc.Root().Members() {
		if string(name) == "jsonrpc" {
			return true
		}
	}
	return false
}

// noIndex reports whether X-Robots-Tag keeps a document out of public indexes.
func noIndex(values []string) bool {
	for _, v := range values {
		for word := range strings.FieldsFuncSeq(strings.ToLower(v), func(r rune) bool { return r == ',' || r == ' ' || r == ':' }) {
			if word == "noindex" || word == "none" {
				return true
			}
		}
	}
	return false
}
