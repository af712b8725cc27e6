package publishercmd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
)

// acmeCerts keeps the certificate of one host, from an ACME server. It proves
// the host with TLS-ALPN-01 on the main listener and, if there is a second one,
// with HTTP-01 there.
type acmeCerts struct {
	host   string
	cache  *certmagic.Cache
	magic  *certmagic.Config
	http   *http.Server // nil: no HTTP-01
	done   chan struct{}
	cancel context.CancelFunc
}

// acmeOptions say where the certificate comes from and who is asked.
type acmeOptions struct {
	config  *acmeConfig
	storage string // folder
	host    string // the origin's
	origin  string
	tls     net.Listener
	http    net.Listener   // nil: no HTTP-01
	roots   *x509.CertPool // that the ACME server's own certificate is held against; nil: the system's
	log     *slog.Logger
}

func newACME(o *acmeOptions) (*acmeCerts, error) {
	a := &acmeCerts{host: o.host, done: make(chan struct{})}
	logger := zap.New(&slogCore{log: o.log.With("part", "acme")})
	a.cache = certmagic.NewCache(certmagic.CacheOptions{
		GetConfigForCert: func(certmagic.Certificate) (*certmagic.Config, error) { return a.magic, nil },
		Logger:           logger,
	})
	a.magic = certmagic.New(a.cache, certmagic.Config{
		Storage: &certmagic.FileStorage{Path: o.storage},
		Logger:  logger,
		// A client without SNI gets the certificate too.
		DefaultServerName: o.host,
	})
	directory := o.config.Directory
	if directory == "" {
		directory = letsEncrypt
	}
	host, tlsPort, err := splitPort(o.tls)
	if err != nil {
		a.cache.Stop()
		return nil, err
	}
	template := certmagic.ACMEIssuer{
		CA: directory, Email: o.config.Email, Agreed: o.config.Agree, TrustedRoots: o.roots, Logger: logger,
		ListenHost: host, AltTLSALPNPort: tlsPort, DisableHTTPChallenge: o.http == nil,
	}
	if o.http != nil {
		if _, template.AltHTTPPort, err = splitPort(o.http); err != nil {
			a.cache.Stop()
			return nil, err
		}
	}
	issuer := certmagic.NewACMEIssuer(a.magic, template)
	a.magic.Issuers = []certmagic.Issuer{issuer}
	if o.http == nil {
		close(a.done)
		return a, nil
	}
	a.http = &http.Server{
		Handler:           issuer.HTTPChallengeHandler(toHTTPS(o.origin)),
		ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(o.log.Handler(), slog.LevelWarn),
	}
	go func() {
		defer close(a.done)
		_ = a.http.Serve(o.http) // ends with Close
	}()
	return a, nil
}

// splitPort gives the host and the port that a listener got.
func splitPort(l net.Listener) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(l.Addr().String())
	if err == nil {
		port, err = strconv.Atoi(p)
	}
	if err != nil {
		return "", 0, fmt.Errorf("address of listener: %w", err)
	}
	return host, port, nil
}

// toHTTPS sends readers to the origin. Nothing else is served in the clear.
func toHTTPS(origin string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		target := r.URL.RequestURI()
		if r.Method != http.MethodGet && r.Method != http.MethodHead || !strings.HasPrefix(target, "/") {
			http.Error(w, "use https", http.StatusForbidden)
			return
		}
		http.Redirect(w, r, origin+target, http.StatusPermanentRedirect) //nolint:gosec // origin is ours and target begins with a slash
	})
}

// start gets the certificate, or takes the stored one, and renews it until
// stop. It returns at once: handshakes fail until there is a certificate.
// The main listener must be served by then.
func (a *acmeCerts) start(ctx context.Context) error {
	ctx, a.cancel = context.WithCancel(ctx)
	if err := a.magic.ManageAsync(ctx, []string{a.host}); err != nil {
		return fmt.Errorf("get certificate of %s: %w", a.host, err)
	}
	return nil
}

func (a *acmeCerts) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, GetCertificate: a.magic.GetCertificate,
		NextProtos: []string{"h2", "http/1.1", "acme-tls/1"},
	}
}

func (a *acmeCerts) stop() {
	if a.cancel != nil {
		a.cancel()
	}
	if a.http != nil {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if a.http.Shutdown(ctx) != nil {
			_ = a.http.Close() // it had its second
		}
	}
	<-a.done
	a.cache.Stop()
}
