package discovery_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

var kinds = []discovery.Kind{
	discovery.BadInput, discovery.NotHTTPS, discovery.BlockedAddress, discovery.DNS, discovery.Connect, discovery.TLS, discovery.Timeout,
	discovery.TooLarge, discovery.TooManyRedirects, discovery.HTTPStatus, discovery.BadAnswer, discovery.WrongType, discovery.WebPage,
	discovery.BadJSON, discovery.InvalidCatalog, discovery.InvalidCard, discovery.UnsupportedVersion, discovery.NoLink, discovery.NoCards,
	discovery.NotFetched,
}

// OB-44: the kinds are kept apart, and each says in a sentence where, what, and
// what to do.
func TestRule_OB44_Kinds(t *testing.T) {
	texts := map[string]discovery.Kind{}
	for _, kind := range kinds {
		cause := errors.New("cause")
		err := fmt.Errorf("wrapped: %w", &discovery.Error{Kind: kind, URL: somewhere, Status: 404, Err: cause})
		for _, other := range kinds {
			if errors.Is(err, other) != (kind == other) {
				t.Errorf("errors.Is(%s, %s) = %v", kind, other, kind != other)
			}
		}
		e, ok := errors.AsType[*discovery.Error](err)
		if !ok || !errors.Is(err, cause) {
			t.Fatalf("%s is not found", kind)
		}
		text := e.Error()
		if !strings.Contains(text, somewhere) || kind != discovery.NotFetched && !strings.Contains(text, "; ") {
			t.Errorf("%s: %q", kind, text)
		}
		if before, taken := texts[text]; taken && !(before == discovery.BadInput && kind == discovery.NotHTTPS) {
			t.Errorf("%s and %s read the same: %q", kind, before, text)
		}
		texts[text] = kind
		if kind.Error() != string(kind) {
			t.Errorf("Error of a Kind: %q", kind.Error())
		}
	}
	if text := (&discovery.Error{Kind: "new", URL: somewhere}).Error(); !strings.Contains(text, "new") || !strings.Contains(text, somewhere) {
		t.Errorf("unknown kind: %q", text)
	}
}

func TestStatusAdvice(t *testing.T) {
	for status, want := range map[int]string{404: "check the address", 410: "check", 401: "public", 403: "public", 429: "later", 503: "later", 418: "status 200", 599: "later"} {
		if e := (&discovery.Error{Kind: discovery.HTTPStatus, URL: somewhere, Status: status}); !strings.Contains(e.Error(), want) || !strings.Contains(e.Error(), fmt.Sprint(status)) {
			t.Errorf("%d: %v", status, e)
		}
	}
}

func TestFetchError(t *testing.T) {
	own := &discovery.Error{Kind: discovery.BadJSON, URL: "https://b.example.com/"}
	refusal := errors.New("robots.txt forbids it")
	for _, tt := range []struct {
		err  error
		want discovery.Kind
	}{
		{publicnet.ErrNotPublic, discovery.BlockedAddress},
		{publicnet.ErrTooLarge, discovery.TooLarge},
		{publicnet.ErrTooManyRedirects, discovery.TooManyRedirects},
		{publicnet.ErrBadAnswer, discovery.BadAnswer},
		{publicnet.ErrDNS, discovery.DNS},
		{publicnet.ErrConnect, discovery.Connect},
		{publicnet.ErrTLS, discovery.TLS},
		{publicnet.ErrTimeout, discovery.Timeout},
		{fetch.ErrNoLocation, discovery.BadAnswer},
		{context.DeadlineExceeded, discovery.Timeout},
		{context.Canceled, discovery.Timeout},
		{os.ErrDeadlineExceeded, discovery.Timeout},
		{&weburl.Error{Reason: weburl.NotHTTPS}, discovery.NotHTTPS},
		{&weburl.Error{Reason: weburl.BadInput}, discovery.BadInput},
		{&net.DNSError{Err: "no such host"}, discovery.DNS},
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, discovery.Connect},
		{io.ErrUnexpectedEOF, discovery.Connect},
		{&tls.CertificateVerificationError{Err: errors.New("expired")}, discovery.TLS},
		{x509.HostnameError{Certificate: &x509.Certificate{}, Host: "a"}, discovery.TLS},
		{own, discovery.BadJSON},
		{discovery.ErrDeferred, discovery.NotFetched},
		{refusal, discovery.NotFetched},
	} {
		e := discovery.FetchError(somewhere, fmt.Errorf("fetch: %w", tt.err))
		if e.Kind != tt.want || !errors.Is(e, tt.want) || !errors.Is(e, tt.err) {
			t.Errorf("%v: %s; want %s", tt.err, e.Kind, tt.want)
		}
		if e != own && e.URL != somewhere {
			t.Errorf("%v: %s", tt.err, e.URL)
		}
	}
	if e := discovery.FetchError(somewhere, refusal); !strings.Contains(e.Error(), refusal.Error()) {
		t.Errorf("message: %v", e)
	}
	if e := discovery.FetchError(somewhere, &tls.CertificateVerificationError{Err: errors.New("expired")}); !strings.Contains(e.Error(), "expired") {
		t.Errorf("message: %v", e)
	}
}
