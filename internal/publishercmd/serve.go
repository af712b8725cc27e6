package publishercmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

type serveCommand struct {
	Config    string `required:"" placeholder:"FILE" help:"Configuration file; publisher init writes one."`
	Listen    string `default:"127.0.0.1:8080" placeholder:"ADDR" help:"Address to serve on, 127.0.0.1:8080 unless set."`
	TLSCert   string `name:"tls-cert" placeholder:"FILE" help:"Certificate chain in PEM. It is read again when it changes."`
	TLSKey    string `name:"tls-key" placeholder:"FILE" help:"Key of the certificate in PEM."`
	Metrics   string `placeholder:"ADDR" help:"Address for metrics and health, for instance :9090; without a host it is loopback."`
	LogFormat string `name:"log-format" enum:"text,json" default:"text" help:"Form of log lines: text or json."`
}

// Help is the manual's page on serve.
func (*serveCommand) Help() string {
	return `Without a certificate it serves plain HTTP, and only where nobody else can reach it: on a loopback address, for a try or for a proxy on the same machine that ends TLS. If the proxy is another machine, name it in the configuration (proxy: trusted:); then everybody else is refused, and only the proxy is believed who the client is. A certificate comes from files (--tls-cert and --tls-key, or tls: in the configuration; they are read again when they change) or from an ACME server such as Let's Encrypt (tls: acme:).

The servers behind apps (upstream:) are started or called first. One that is down does not keep the documents from being served if name, version and description of its app stand in the configuration; it is tried again.

SIGHUP, or a change of the configuration or of a card or client_secret_file that it names, makes it read everything again; SIGHUP reads certificate files at once, which are else looked at each half minute. A faulty file is refused, with its reasons in the log, and what is served stays. Calls under way end on the old configuration; an upstream whose own settings did not change keeps running. Clients of MCP revisions before 2026-07-28 open a new session. What takes a restart: tls, telemetry, the host of the origin with acme.

--metrics serves, for operators only: /metrics for Prometheus; /healthz, 200 while the program runs; /readyz, 200 while everything answers, else 503 with one line for each upstream that is down. Documents are served then too, so a load balancer that should keep them goes by /healthz. Traces go where telemetry: otlp: or OTEL_EXPORTER_OTLP_ENDPOINT says. The log has paths and client addresses, and no query, header, body or variable.

SIGINT and SIGTERM stop it: running requests may end, at most 10 seconds; then the upstreams are stopped.

  publisher serve --config publisher.yaml
  publisher serve --config publisher.yaml --listen :443 --metrics 127.0.0.1:9090
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
	plain := s.TLSCert == "" && config.settings.TLS == nil
	if plain && config.settings.Proxy == nil && !isLoopbackAddr(s.Listen) && len(config.faults) == 0 {
		return badCallf("--listen %s without a certificate: plain HTTP is served on loopback only; give --tls-cert and --tls-key, write tls: in %[2]s, or name your proxy there (proxy: trusted:)", s.Listen, s.Config)
	}
	var certs *certFiles // before anything is started
	if len(config.faults) == 0 {
		if certs, err = s.certFiles(config, log); err != nil {
			return err
		}
	}
	metrics, err := newMetrics()
	if err != nil {
		return err
	}
	st := &site{log: log, metrics: metrics, plain: plain}
	if err := metrics.watch(st); err != nil {
		return err
	}
	over, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	r := &reloader{path: s.Config, getenv: env.Getenv, log: log, site: st, fixed: s.unchanged, certs: certs, below: env.Below}
	if err := r.first(ctx, config); err != nil {
		return err
	}
	err = s.serve(ctx, over, env, r)
	end()
	r.draining.Wait()
	return errors.Join(err, closeAll(values(st.upstreams())))
}

// serve serves what the reloader brought up until ctx ends. over ends after it.
func (s *serveCommand) serve(ctx, over context.Context, env *Env, r *reloader) error {
	config, log := r.site.current.Load().file, r.log
	base := context.WithoutCancel(ctx)
	var err error
	if r.site.tracer, err = newTracer(base, config.settings.Telemetry, env.Getenv, log); err != nil {
		return err
	}
	if t := r.site.tracer; t != nil {
		defer func() {
			ending, cancel := context.WithTimeout(base, sessionTime)
			defer cancel()
			if err := t.stop(ending); err != nil {
				log.Warn("traces are lost", "error", err)
			}
		}()
	}
	listener, err := listen(ctx, "--listen", s.Listen)
	if err != nil {
		return err
	}
	defer listener.Close()
	server := &http.Server{
		Handler:           r.site,
		ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	var acme *acmeCerts
	switch {
	case r.certs != nil:
		server.TLSConfig = r.certs.tlsConfig()
	case config.settings.TLS != nil:
		if acme, err = s.acme(ctx, env, config, listener, log); err != nil {
			return err
		}
		defer acme.stop()
		server.TLSConfig = acme.tlsConfig()
	}
	if s.Metrics != "" {
		stop, addr, err := servePrivate(ctx, s.Metrics, r.site)
		if err != nil {
			return err
		}
		defer stop()
		log.Info("metrics", "addr", addr)
	}

	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	var watching sync.WaitGroup
	defer watching.Wait()
	watched, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	watching.Go(func() { r.watch(watched, over, hup) })
	if r.certs != nil { // a reload may take its time, and they do not wait for it
		hup := make(chan os.Signal, 1)
		signal.Notify(hup, syscall.SIGHUP)
		defer signal.Stop(hup)
		watching.Go(func() { r.certs.watch(watched, hup) })
	}

	log.Info("serving", "addr", listener.Addr().String(), "origin", config.settings.Origin, "tls", !r.site.plain, "apps", len(config.settings.Apps))
	counts := func(i int) bool { return config.limits(i).Client != nil }
	if r.site.plain && len(config.trusted) == 0 && slices.ContainsFunc(config.settings.servedHere(), counts) {
		log.Warn("limits.client counts all callers behind a proxy on this machine as one: name the proxy in proxy.trusted, for instance 127.0.0.1")
	}
	if url := lookAt(listener.Addr(), config.trusted); r.site.plain && url != "" {
		log.Info("to look at it", "url", url)
	}
	var started func() error
	if acme != nil {
		started = func() error { return acme.start(base) }
	}
	return serveUntil(ctx, server, listener, r.site, started)
}

// certFiles is the certificate in files, read once; nil when there is none.
func (s *serveCommand) certFiles(config *configFile, log *slog.Logger) (*certFiles, error) {
	c := &certFiles{log: log}
	switch t := config.settings.TLS; {
	case s.TLSCert != "":
		c.cert, c.key, c.certName, c.keyName = s.TLSCert, s.TLSKey, "--tls-cert", "--tls-key"
	case t != nil && t.ACME == nil:
		c.cert, c.key, c.certName, c.keyName = config.path(t.Cert), config.path(t.Key), "tls.cert", "tls.key"
	default:
		return nil, nil
	}
	return c, c.first(hostOf(config.settings.Origin))
}

// acme gets the certificate of the origin's host from an ACME server.
func (s *serveCommand) acme(ctx context.Context, env *Env, config *configFile, listener net.Listener, log *slog.Logger) (*acmeCerts, error) {
	a := config.settings.TLS.ACME
	o := &acmeOptions{
		config: a, storage: config.path(a.Storage), host: hostOf(config.settings.Origin), origin: config.settings.Origin,
		tls: listener, roots: env.Below.Roots, log: log,
	}
	if a.HTTP != "" {
		var err error
		if o.http, err = listen(ctx, "tls.acme.http", a.HTTP); err != nil {
			return nil, err
		}
		log.Info("proving the host and sending readers to https", "addr", o.http.Addr().String())
	}
	return newACME(o)
}

// serveUntil serves until ctx ends, then lets running requests end. started, if
// any, is called once connections are taken.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener, s *site, started func() error) error {
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
	if started != nil {
		if err := started(); err != nil {
			_ = server.Close() // the first error counts
			<-failed           //nolint:errcheck // http.ErrServerClosed
			return errors.Join(err, s.closeSessions())
		}
	}
	select {
	case err := <-failed:
		_ = server.Close() // the first error counts
		return errors.Join(fmt.Errorf("serve: %w", err), s.closeSessions())
	case <-ctx.Done():
	}
	s.stopping.Store(true)
	s.log.Info("stopping")
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
		if err := s.closeSessions(); err != nil {
			s.log.Warn("close sessions", "error", err)
		}
		err = <-stopped
	}
	if errors.Is(err, context.DeadlineExceeded) {
		cancel()
		err = server.Close()
	}
	<-failed //nolint:errcheck // http.ErrServerClosed
	err = errors.Join(err, s.closeSessions())
	if err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	s.log.Info("stopped")
	return nil
}

func newLogger(env *Env, format string) *slog.Logger {
	if format == "json" {
		return slog.New(slog.NewJSONHandler(env.Stderr, nil))
	}
	return slog.New(slog.NewTextHandler(env.Stderr, nil))
}

// lookAt is where somebody on this machine sees what is served as plain HTTP at
// addr; "" when only proxies on other machines are answered.
func lookAt(addr net.Addr, trusted []netip.Prefix) string {
	at, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return ""
	}
	ip := at.Addr().Unmap()
	if ip.IsUnspecified() {
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if len(trusted) > 0 && !contains(trusted, ip) { // who calls an address of this machine has the same one
		return ""
	}
	return "http://" + netip.AddrPortFrom(ip, at.Port()).String() + "/"
}

func isLoopbackAddr(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
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
func clientAddr(r *http.Request, trusted []netip.Prefix) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	client := peer.Addr().Unmap()
	if !contains(trusted, client) {
		return client
	}
	hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
	for i := len(hops) - 1; i >= 0 && contains(trusted, client); i-- {
		a, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		client = a.Unmap()
	}
	return client
}
