package publishercmd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
)

type serveCommand struct {
	Config    string `required:"" placeholder:"FILE" help:"Configuration file; publisher init writes one."`
	Listen    string `default:"127.0.0.1:8080" placeholder:"ADDR" help:"Address to serve on, 127.0.0.1:8080 unless set."`
	TLSCert   string `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM. It is read again when it changes."`
	TLSKey    string `name:"tls-key" placeholder:"FILE" help:"Key of the certificate in PEM."`
	Metrics   string `placeholder:"ADDR" help:"Address for Prometheus metrics, for instance :9090; without a host it is loopback."`
	LogFormat string `name:"log-format" enum:"text,json" default:"text" help:"Form of log lines: text or json."`
}

// Help is the manual's page on serve.
func (*serveCommand) Help() string {
	return `Without a certificate it serves plain HTTP, and only where nobody else can reach it: on a loopback address, for a try or for a proxy on the same machine that ends TLS. If the proxy is another machine, name it in the configuration (proxy: trusted:); then everybody else is refused.

SIGINT and SIGTERM stop it: running requests may end, at most 10 seconds.

  publisher serve --config publisher.yaml
  publisher serve --config publisher.yaml --listen :443 --tls-cert cert.pem --tls-key key.pem`
}

// Times of the HTTP server. The MCP endpoint lifts the last two for itself.
const (
	headerTime = 10 * time.Second
	readTime   = 30 * time.Second
	writeTime  = 60 * time.Second
	idleTime   = 2 * time.Minute
	stopTime   = 10 * time.Second

	sessionTime = 3 * time.Second // of stopTime, until old sessions are closed
)

func (s *serveCommand) run(ctx context.Context, env *Env) error {
	if (s.TLSCert == "") != (s.TLSKey == "") {
		return badCallf("--tls-cert and --tls-key belong together: give both, or neither")
	}
	if err := checkAddr("--listen", s.Listen); err != nil {
		return err
	}
	if s.Metrics != "" {
		if err := checkAddr("--metrics", s.Metrics); err != nil {
			return err
		}
	}
	config, err := readConfig("--config", s.Config)
	if err != nil {
		return err
	}
	log := newLogger(env, s.LogFormat)
	pub, err := config.publish(log)
	if err != nil {
		return err
	}
	plain := s.TLSCert == ""
	if plain && config.settings.Proxy == nil && !isLoopbackAddr(s.Listen) {
		return badCallf("--listen %s without a certificate: plain HTTP is served on loopback only; give --tls-cert and --tls-key, or name your proxy in %s (proxy: trusted:)", s.Listen, s.Config)
	}
	server := &http.Server{
		ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	if !plain {
		certs := &certFiles{cert: s.TLSCert, key: s.TLSKey, log: log}
		pair, err := certs.get(nil)
		if err != nil {
			return err
		}
		if origin, err := url.Parse(config.settings.Origin); err == nil && pair.Leaf != nil {
			if err := pair.Leaf.VerifyHostname(origin.Hostname()); err != nil {
				log.Warn("the certificate does not cover the host of the origin: nobody will trust this server under it", "host", origin.Hostname(), "certificate", strings.Join(pair.Leaf.DNSNames, " "))
			}
		}
		server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: certs.get}
	}
	listener, err := listen(ctx, "--listen", s.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()

	metrics, err := newMetrics(pub.Files())
	if err != nil {
		return err
	}
	if s.Metrics != "" {
		stop, addr, err := metrics.serve(ctx, s.Metrics)
		if err != nil {
			return err
		}
		defer stop()
		log.Info("metrics", "addr", addr)
	}
	server.Handler = observe(pub, log, metrics, config.trusted)
	if plain && len(config.trusted) > 0 {
		server.Handler = onlyFrom(config.trusted, server.Handler)
	}

	log.Info("serving", "addr", listener.Addr().String(), "origin", config.settings.Origin, "tls", !plain, "apps", len(config.settings.Apps))
	if plain {
		log.Info("to look at it", "url", "http://"+listener.Addr().String()+"/")
	}
	return serveUntil(ctx, server, listener, pub.Close, log)
}

// serveUntil serves until ctx ends, then lets running requests end.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener, closeSessions func() error, log *slog.Logger) error {
	base, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	server.BaseContext = func(net.Listener) context.Context { return base }
	failed := make(chan error, 1)
	go func() {
		if server.TLSConfig != nil {
			failed <- server.ServeTLS(listener, "", "")
		} else {
			failed <- server.Serve(listener)
		}
	}()
	select {
	case err := <-failed:
		_ = server.Close() // the first error counts
		return errors.Join(fmt.Errorf("serve: %w", err), closeSessions())
	case <-ctx.Done():
	}
	log.Info("stopping")
	stop, done := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer done()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Shutdown(stop) }()
	// Calls get some time to end; the streams of old sessions never end by
	// themselves.
	var err error
	select {
	case err = <-stopped:
	case <-time.After(sessionTime):
		if err := closeSessions(); err != nil {
			log.Warn("close sessions", "error", err)
		}
		err = <-stopped
	}
	if errors.Is(err, context.DeadlineExceeded) {
		cancel()
		err = server.Close()
	}
	<-failed //nolint:errcheck // http.ErrServerClosed
	err = errors.Join(err, closeSessions())
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	log.Info("stopped")
	return nil
}

func newLogger(env *Env, format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(env.Stderr, nil))
	}
	return slog.New(slog.NewTextHandler(env.Stderr, nil))
}

func isLoopbackAddr(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// onlyFrom refuses plain HTTP from everybody but the proxy.
func onlyFrom(trusted []netip.Prefix, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if peer, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || !contains(trusted, peer.Addr()) {
			http.Error(w, "use https", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	a = a.Unmap()
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// clientAddr is who asked: the peer, or what a trusted proxy says of it. The
// last entry that no trusted proxy wrote is the client.
func clientAddr(r *http.Request, trusted []netip.Prefix) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	client := peer.Addr().Unmap()
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && contains(trusted, client); i-- {
		a, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		client = a.Unmap()
	}
	return client.String()
}
