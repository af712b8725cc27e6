package publishercmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publisher/check"
)

// checkConfig judges a configuration by making a publisher of it. err is what
// reading it gave.
func (c *checkCommand) checkConfig(ctx context.Context, env *Env, name string, config *configFile, err error) (*check.Report, error) {
	rep := &check.Report{Target: name}
	s := rep.Section("configuration", name)
	var list faultList
	switch {
	case errors.As(err, &list):
		list.addTo(s)
		return rep, nil
	case err != nil:
		return nil, err
	}
	started := config.connect(ctx, &connection{getenv: env.Getenv, offline: c.Offline, hasty: true, below: env.Below})
	defer closeAll(started) //nolint:errcheck // they were only looked at
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	pub, err := config.publish(nil)
	if errors.As(err, &list) {
		list.addTo(s)
		return rep, nil
	} else if err != nil {
		return nil, err
	}
	s.Facts = append(s.Facts, count(len(config.settings.Apps), "app", "apps")+" at "+config.settings.Origin)
	origin, err := weburl.Parse(config.settings.Origin)
	if err != nil {
		return nil, err // cannot happen: publish has read it
	}
	for _, f := range pub.Files() {
		if f.Header.Get("Content-Type") == card.MediaType || f.Path == catalog.WellKnownPath {
			check.Document(rep, origin.Origin()+f.Path, f.Body)
		}
	}
	if err := c.checkIssuers(ctx, env, rep, config); err != nil {
		return nil, err
	}
	for _, i := range config.settings.servedHere() {
		advise := func(member, message string) {
			f := config.fault(fmt.Sprintf("apps[%d].%s", i, member), message)
			f.Level = check.Advice
			faultList{f}.addTo(s)
		}
		config.adviseAuth(i, advise)
		if config.settings.Apps[i].NoIndex {
			advise("noindex", "this app will not be listed in public indexes")
		}
		if config.settings.Apps[i].Builtin != "" {
			advise("builtin", "a built-in server is for tries: set endpoint or upstream when the app has a server of its own")
		}
		if u := config.upstreams[i]; u != nil {
			judgeUpstream(rep, u, advise)
		}
	}
	return rep, nil
}

// checkIssuers asks each issuer of the configuration, once, whether hosts can
// sign in there.
func (c *checkCommand) checkIssuers(ctx context.Context, env *Env, rep *check.Report, config *configFile) error {
	if c.Offline {
		return nil
	}
	var issuers []string
	for _, i := range config.settings.servedHere() {
		if a := config.settings.Apps[i].Auth; a != nil {
			for n := range a.Issuers {
				issuers = append(issuers, a.Issuers[n].URL)
			}
		}
	}
	if len(issuers) == 0 {
		return nil
	}
	client, err := c.client(env)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	slices.Sort(issuers)
	for _, issuer := range slices.Compact(issuers) {
		check.Issuer(ctx, client, rep, issuer)
	}
	return ctx.Err()
}

// judgeUpstream says what an upstream is and what is changed for hosts.
func judgeUpstream(rep *check.Report, u *upstream, advise func(member, message string)) {
	if u.gateway == nil {
		advise("upstream", "was not asked (--offline): what its tools are, and what of its card it gives, was not looked at")
		return
	}
	impl, _ := u.describe()
	s := rep.Section("upstream", u.slug)
	s.Facts = append(s.Facts, fmt.Sprintf("answers as %s %s", clip(impl.Name, 100), clip(impl.Version, 100)))
	for _, c := range u.gateway.Corrections() {
		said := fmt.Sprintf("%s %q is offered as %q: %s", c.Kind, clip(c.From, 200), clip(c.To, 200), c.Why)
		if c.To == "" {
			said = fmt.Sprintf("%s %q is left out: %s", c.Kind, clip(c.From, 200), c.Why)
		}
		s.Findings = append(s.Findings, check.Finding{Level: check.Advice, Message: said})
	}
}
