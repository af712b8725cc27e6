package crawlercmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/api"
	"github.com/openbot-build/openbot-go/index/search"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

// Times and sizes of the HTTP servers.
const (
	headerTime = 5 * time.Second
	readTime   = 15 * time.Second
	writeTime  = 30 * time.Second
	idleTime   = 2 * time.Minute
	stopTime   = 10 * time.Second
	maxHeader  = 16 << 10
)

// nodeFlags are those of a process that serves the index.
type nodeFlags struct {
	DB        string `name:"db" required:"" placeholder:"FILE" help:"Database."`
	Listen    string `required:"" placeholder:"ADDR" help:"Address to serve the index on, for instance 127.0.0.1:8080."`
	Metrics   string `placeholder:"ADDR" help:"Address for Prometheus metrics, for instance :9090; without a host it is loopback."`
	LogFormat string `name:"log-format" enum:"text,json" default:"text" help:"Form of log lines: text or json."`
	Verbose   bool   `help:"Log the outcome of every visit; without it only a few of those that failed."`

	TrustedProxy proxies `name:"trusted-proxy" placeholder:"PREFIX,..." help:"Reverse proxies before this process, for instance 10.0.0.0/8. Only their X-Forwarded-For names the client; behind a proxy that is not named here all clients share one rate limit."`
}

type serveCommand struct {
	nodeFlags
	About   string `placeholder:"URL" help:"https address of a page about this index, shown on the search page."`
	Contact string `placeholder:"MAILBOX" help:"Mailbox of whoever runs it, shown on the search page."`
}

// Help is the manual's page on serve.
func (*serveCommand) Help() string {
	return `It answers queries and takes submissions from the same database that crawler run fills in another process. SIGINT and SIGTERM stop it, with exit status 0.

  crawler serve --db index.db --listen 127.0.0.1:8080`
}

func (s *serveCommand) run(ctx context.Context, env *Env) (err error) {
	op := &operator{About: s.About, Contact: s.Contact}
	if err := op.checkGiven(); err != nil {
		return err
	}
	if err := s.checkAddrs(); err != nil {
		return err
	}
	began := time.Now()
	b, err := s.bind(ctx)
	if err != nil {
		return err
	}
	defer b.close()
	log := newLogger(env.Stderr, s.LogFormat, s.Verbose)
	store, err := openStore(ctx, s.DB, false, log)
	if err != nil {
		return err
	}
	defer func() { err = closed(store, err) }()
	n, err := s.open(ctx, b, store, log, op)
	if err != nil {
		return err
	}
	defer n.close()
	log.Info("serving", "db", s.DB, "addr", n.listener.Addr().String(), "open_to", openTo(n.listener.Addr()))
	log.Info("to look at it", "url", webAddr(n.listener.Addr()))
	if err := n.serve(ctx); err != nil {
		return err
	}
	args := []any{"took", time.Since(began).Round(time.Second).String()}
	if stats, err := store.Stats(context.WithoutCancel(ctx), time.Now()); err == nil {
		args = append(args, "listed", stats.Entries[index.Listed], "stale", stats.Entries[index.Stale])
	}
	log.Info("stopped", args...)
	return nil
}

// node is the serving half of a process: search index, API and metrics.
type node struct {
	log      *slog.Logger
	store    *sqlite.Store
	index    *search.Index
	listener net.Listener
	server   *http.Server
	metrics  *metrics
}

// open makes ready what answers on the listeners.
func (f *nodeFlags) open(ctx context.Context, b *bound, store *sqlite.Store, log *slog.Logger, op *operator) (*node, error) {
	n := &node{log: log, store: store, listener: b.index, index: search.New(&search.Options{Log: log})}
	// With the database's own secret cursors outlive the process, and all nodes
	// of one database share them.
	secret, err := store.Secret(ctx)
	if err != nil {
		return nil, err
	}
	if n.metrics, err = newMetrics(store); err != nil {
		return nil, err
	}
	handler, err := api.New(&api.Options{
		Store: store, Search: n.index, Log: log, Meter: n.metrics.provider,
		CursorKey: secret, TrustedProxies: f.TrustedProxy,
		About: op.About, Contact: op.Contact, Version: version(),
	})
	if err != nil {
		return nil, err
	}
	n.server = newServer(handler, log)
	if b.metrics != nil {
		n.metrics.serve(b.metrics, log)
	}
	return n, nil
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: headerTime, ReadTimeout: readTime, WriteTimeout: writeTime, IdleTimeout: idleTime,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

// serve answers until ctx ends, then lets running requests end.
func (n *node) serve(ctx context.Context) error {
	var follower sync.WaitGroup
	following, stop := context.WithCancel(ctx)
	follower.Go(func() {
		if err := n.index.Follow(following, n.store); err != nil && following.Err() == nil {
			n.log.Error("the search index follows the store no more", "error", err)
		}
	})
	defer follower.Wait()
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- n.server.Serve(n.listener) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve index: %w", err)
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	err := n.server.Shutdown(limited)
	if errors.Is(err, context.DeadlineExceeded) {
		err = n.server.Close()
	}
	<-failed //nolint:errcheck // http.ErrServerClosed
	if err != nil {
		return fmt.Errorf("stop serving: %w", err)
	}
	return nil
}

// close ends what open began; the listeners are closed by whoever bound them.
func (n *node) close() { n.metrics.close() }
