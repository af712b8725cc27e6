package publishercmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// lookTime is how often the files are looked at.
const lookTime = time.Second

// How long to wait before an upstream that was down at the start is tried
// again. Once it runs, the gateway brings it back by itself.
const (
	retryLeast = 5 * time.Second
	retryMost  = time.Minute
)

// reloader brings up a configuration, and each change of it while it is served.
type reloader struct {
	path   string
	getenv func(string) string
	log    *slog.Logger
	site   *site
	fixed  func(now, next *configFile) error // refuses what cannot change while it is served
	certs  *certFiles                        // nil: none
	below  publicnet.Below                   // under the guard of what issuers are asked

	draining sync.WaitGroup
}

// first brings up the configuration that the program starts with. ctx bounds
// the start alone: what is running is stopped after the last call is done.
func (r *reloader) first(ctx context.Context, config *configFile) error {
	started := config.connect(ctx, &connection{getenv: r.getenv, log: r.log, below: r.below, patient: true})
	err := r.take(ctx, config, nil)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return errors.Join(err, closeAll(started))
	}
	return nil
}

// take publishes a configuration whose upstreams are up, in place of what is
// served. Draining that ends with over.
func (r *reloader) take(over context.Context, config *configFile, old *edition) error {
	pub, err := config.publish(r.log)
	if err != nil {
		return err
	}
	r.site.put(newEdition(config, pub, r.site.metrics))
	for _, u := range config.upstreams {
		if old != nil && find(values(old.file.upstreams), u.key) == u {
			continue // was said before
		}
		r.announce(u)
	}
	if old == nil {
		return nil
	}
	kept := values(config.upstreams)
	unused := slices.DeleteFunc(values(old.file.upstreams), func(u *upstream) bool { return slices.Contains(kept, u) })
	r.draining.Go(func() { old.drain(over, unused, r.log) })
	return nil
}

// announce says what an operator should know of an upstream that is new.
func (r *reloader) announce(u *upstream) {
	if u.gateway == nil {
		r.log.Warn("the upstream is down; its documents are served, and it is tried again", "app", u.slug, "error", u.down)
		return
	}
	for _, c := range u.gateway.Corrections() {
		r.log.Warn("corrected for hosts", "app", u.slug, "kind", c.Kind, "from", c.From, "to", c.To, "why", c.Why)
	}
}

func values(m map[int]*upstream) []*upstream {
	out := make([]*upstream, 0, len(m))
	for _, u := range m {
		out = append(out, u)
	}
	return out
}

// watch takes up changes until ctx ends: when hup asks for it, and when a file
// has changed and then stayed the same for one look. over ends when nothing is
// served any more.
func (r *reloader) watch(ctx, over context.Context, hup <-chan os.Signal) {
	tick := time.NewTicker(lookTime)
	defer tick.Stop()
	served := stampsOf(r.site.current.Load().file)
	last := served
	wait := retryLeast
	retry := time.Now().Add(wait)
	for {
		select {
		case <-ctx.Done():
			return
		case <-hup:
			served = r.reload(ctx, over)
			last = served
		case <-tick.C:
			now := stampsOf(r.site.current.Load().file)
			if !slices.Equal(now, served) && slices.Equal(now, last) {
				now = r.reload(ctx, over)
				served = now
			}
			last = now
			if time.Now().After(retry) {
				if r.retry(ctx, over) {
					wait = retryLeast
				} else {
					wait = min(2*wait, retryMost)
				}
				retry = time.Now().Add(wait)
			}
		}
	}
}

// reload reads the file again. A faulty one is refused with its reasons, and
// what is served stays. It gives the state of the files that was met.
func (r *reloader) reload(ctx, over context.Context) []stamp {
	old := r.site.current.Load()
	stamps := stampsOf(old.file)
	itself := stamps[0]
	err := func() error {
		config, err := readConfig("--config", r.path)
		if err != nil {
			return err
		}
		if err := r.fixed(old.file, config); err != nil {
			return err
		}
		started := config.connect(ctx, &connection{getenv: r.getenv, log: r.log, below: r.below, running: values(old.file.upstreams)})
		taken := stampsOf(config)
		if err := r.take(over, config, old); err != nil {
			return errors.Join(err, closeAll(started))
		}
		stamps = taken
		stamps[0] = itself // as it was before it was read
		return nil
	}()
	if err == nil {
		r.site.metrics.reloaded("taken")
		now := r.site.current.Load().file
		r.log.Info("the configuration was read again", "apps", len(now.settings.Apps))
		for _, slug := range opened(old.file, now) {
			r.log.Warn("an app is no longer protected: everybody may call it", "app", slug)
		}
		return stamps
	}
	r.site.metrics.reloaded("refused")
	r.log.Error("the new configuration is refused, the old one stays")
	var list faultList
	if errors.As(err, &list) {
		for _, f := range list {
			r.log.Error("fault of the new configuration", "fault", f.String())
		}
	} else {
		r.log.Error("fault of the new configuration", "fault", oneLine(err))
	}
	return stamps
}

// retry tries upstreams that were down at the start. The rest of the
// configuration stays as it is, whatever the file says by now.
func (r *reloader) retry(ctx, over context.Context) (progress bool) {
	old := r.site.current.Load()
	if !slices.ContainsFunc(values(old.file.upstreams), func(u *upstream) bool { return u.gateway == nil }) {
		return true
	}
	config, err := parseConfig(old.file.name, old.file.dir, old.file.data)
	if err != nil {
		return false // cannot happen: it was read before
	}
	started := config.connect(ctx, &connection{getenv: r.getenv, log: r.log, below: r.below, running: values(old.file.upstreams), patient: true, hasty: true})
	if len(started) == 0 {
		return false
	}
	if err := r.take(over, config, old); err != nil {
		r.log.Error("an upstream is up, and cannot be published", "error", oneLine(errors.Join(err, closeAll(started))))
		return false
	}
	for _, u := range started {
		r.log.Info("the upstream is up", "app", u.slug)
	}
	return true
}

// stamp tells whether a file is the one that was read.
type stamp struct {
	name string
	size int64
	time time.Time
	err  string
}

// opened are the apps whose protection is gone. It is what was asked for, and
// should not go unseen.
func opened(before, now *configFile) []string {
	locked := map[string]bool{}
	for i := range before.settings.Apps {
		locked[before.settings.Apps[i].Slug] = before.settings.Apps[i].Auth != nil
	}
	var slugs []string
	for i := range now.settings.Apps {
		if a := &now.settings.Apps[i]; a.Auth == nil && locked[a.Slug] {
			slugs = append(slugs, a.Slug)
		}
	}
	return slugs
}

// stampsOf looks at the configuration and at the cards and secrets in files that
// it names.
// Pictures are read when they are asked for.
func stampsOf(c *configFile) []stamp {
	names := []string{c.name}
	for i := range c.settings.Apps {
		if card := c.settings.Apps[i].Card; card != "" {
			names = append(names, c.path(card))
		}
		if auth := c.settings.Apps[i].Auth; auth != nil {
			for _, issuer := range auth.Issuers {
				if q := issuer.Introspection; q != nil && q.SecretFile != "" {
					names = append(names, c.path(q.SecretFile))
				}
			}
		}
	}
	stamps := make([]stamp, len(names))
	for i, name := range names {
		stamps[i] = stamp{name: name}
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			stamps[i].err = "missing"
		case err != nil:
			stamps[i].err = err.Error()
		default:
			stamps[i].size, stamps[i].time = info.Size(), info.ModTime()
		}
	}
	return stamps
}

// unchanged refuses a new file that changes what was set up once.
func (s *serveCommand) unchanged(now, next *configFile) error {
	a, b := &now.settings, &next.settings
	switch {
	case s.TLSCert == "" && !reflect.DeepEqual(a.TLS, b.TLS):
		return errors.New("tls has changed: that takes a restart")
	case !reflect.DeepEqual(a.Telemetry, b.Telemetry):
		return errors.New("telemetry has changed: that takes a restart")
	case (a.Proxy == nil) != (b.Proxy == nil) && s.TLSCert == "" && a.TLS == nil && !isLoopbackAddr(s.Listen):
		return errors.New("proxy cannot go while plain HTTP is served to it: that takes a restart")
	case a.TLS != nil && a.TLS.ACME != nil && hostOf(a.Origin) != hostOf(b.Origin):
		return fmt.Errorf("the host of the origin has changed from %s: its new certificate takes a restart", hostOf(a.Origin))
	}
	return nil
}

func hostOf(origin string) string {
	u, err := weburl.Parse(origin)
	if err != nil {
		return origin
	}
	return u.Host()
}
