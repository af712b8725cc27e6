package publishercmd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/publisher/gateway"
)

// upstream is one upstream of an app that runs, or should.
type upstream struct {
	slug    string
	key     string           // of its options: a reload keeps an upstream whose key is the same
	gateway *gateway.Gateway // nil while it is down
	down    error            // why, without secrets
	secrets []string
}

// ready is nil while the upstream answers, else why it does not, without secrets.
func (u *upstream) ready() error {
	if u.gateway == nil {
		return u.down
	}
	if err := u.gateway.Ready(); err != nil {
		return errors.New(mask(oneLine(err), u.secrets))
	}
	return nil
}

// describe gives what the upstream says of itself.
func (u *upstream) describe() (impl mcp.Implementation, instructions string) {
	if u.gateway == nil {
		return mcp.Implementation{Name: u.slug, Version: "0.0.0"}, ""
	}
	return u.gateway.Info()
}

// connection tells how the upstreams of a file are brought up.
type connection struct {
	getenv func(string) string
	log    *slog.Logger
	// running are upstreams that may be taken over. They stay the caller's.
	running []*upstream
	// patient keeps an app whose upstream is down, if its card needs nothing
	// of the upstream: the documents are served meanwhile.
	patient bool
	// hasty does not wait for an upstream that refuses to be reached.
	hasty bool
	// offline connects to nothing.
	offline bool
	// below goes under the guard of what is asked of issuers.
	below publicnet.Below
}

// connect brings up every upstream of the file, all at one time, and keeps
// them in c.upstreams. What cannot be used is a fault of the file. started are
// those that were not running before; they are closed by whoever takes the
// file, or gives it up.
func (c *configFile) connect(ctx context.Context, how *connection) (started []*upstream) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	c.upstreams = map[int]*upstream{}
	c.protections(&reading{getenv: how.getenv, below: how.below, offline: how.offline})
	for i := range c.settings.Apps {
		a := &c.settings.Apps[i]
		if a.Upstream == nil || a.Hosted != nil {
			continue
		}
		opts, secrets, faults := c.upstream(i, how.getenv, how.offline)
		opts.Private = a.Auth != nil
		if len(faults) > 0 {
			for _, f := range faults {
				within := func(s string) bool { return strings.HasPrefix(s, f.Pointer+".") } // of the whole that lacks what could not be read
				if !c.invented(f.Pointer) && !slices.ContainsFunc(c.spoiled, within) {
					c.faults = append(c.faults, f)
				}
			}
			c.spoiled = append(c.spoiled, fmt.Sprintf("apps[%d].upstream", i))
			continue
		}
		u := &upstream{slug: a.Slug, key: upstreamKey(a.Slug, opts), secrets: secrets}
		if how.offline {
			u.down = errors.New("was not asked")
			c.upstreams[i] = u
			continue
		}
		if old := find(how.running, u.key); old != nil {
			c.upstreams[i] = old
			continue
		}
		opts.FailFast = how.hasty
		if how.log != nil {
			opts.Log = how.log.With("app", a.Slug)
		}
		wg.Go(func() {
			gw, err := gateway.New(ctx, opts)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				u.gateway = gw
				started = append(started, u)
			case how.patient && a.complete():
				u.down = errors.New(mask(oneLine(err), secrets))
			default:
				why := "the upstream does not start: "
				if how.patient {
					why = "the upstream does not start, and its documents cannot be served without it unless name, version and description stand in this file: "
				}
				c.faults = append(c.faults, c.fault(fmt.Sprintf("apps[%d].upstream", i), why+mask(oneLine(err), secrets)))
				c.spoiled = append(c.spoiled, fmt.Sprintf("apps[%d].upstream", i))
				return
			}
			c.upstreams[i] = u
		})
	}
	wg.Wait()
	return started
}

// complete reports whether the card needs nothing of the upstream.
func (a *appConfig) complete() bool {
	return a.Card != "" || a.Name != "" && a.Version != "" && a.Description != ""
}

func find(list []*upstream, key string) *upstream {
	for _, u := range list {
		if u.key == key && u.gateway != nil {
			return u
		}
	}
	return nil
}

// upstreamKey tells whether two upstreams are the same. It holds secrets.
func upstreamKey(slug string, o *gateway.Options) string {
	key, err := json.Marshal([]any{slug, o.Command, o.Dir, o.Env, o.URL, o.Header, o.StartTimeout, o.CallTimeout, o.MaxResult, o.MaxCalls, o.Private})
	if err != nil {
		return "" // cannot happen: texts and numbers
	}
	return string(key)
}

func closeAll(list []*upstream) error {
	errs := make([]error, len(list))
	var wg sync.WaitGroup
	for i, u := range list {
		if u.gateway == nil {
			continue
		}
		wg.Go(func() {
			if err := u.gateway.Close(); err != nil {
				errs[i] = fmt.Errorf("stop upstream of %s: %s", u.slug, mask(oneLine(err), u.secrets))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// filled is the app with what its upstream says of itself where the file says
// nothing. Hosts refuse cards with more or other text, so it is fitted to what
// a card may hold (OB-13).
func (a *appConfig) filled(impl mcp.Implementation, instructions, origin string) *appConfig {
	out := *a
	if out.Name == "" {
		out.Name = cardName(impl.Name, origin)
	}
	if out.Title == "" {
		out.Title = clip(plain(strings.TrimSpace(impl.Title)), 100)
	}
	if out.Version == "" {
		out.Version = "0.0.0"
		if fits("/version", &card.Card{Version: impl.Version}) {
			out.Version = verbatim(impl.Version)
		}
	}
	if out.Description == "" {
		out.Description = describe(impl, instructions)
	}
	return &out
}

// cardName is the upstream's name in the form of a card's, namespace/name.
func cardName(name, origin string) string {
	if fits("/name", &card.Card{Name: name}) {
		return name
	}
	host := "example.com"
	if u, err := weburl.Parse(origin); err == nil {
		host = u.Host()
	}
	return namespace(host) + "/" + slugOf(name)
}

// slugOf makes lower-case letters, digits and inner hyphens of a name.
func slugOf(name string) string {
	if i := strings.LastIndexByte(strings.TrimRight(name, "/"), '/'); i >= 0 {
		name = name[i+1:]
	}
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == 60 {
			break
		}
	}
	if s := strings.Trim(b.String(), "-"); s != "" {
		return s
	}
	return "app"
}

// describe is a sentence for the card: the upstream's own, the first one of its
// instructions, or the name of it.
func describe(impl mcp.Implementation, instructions string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(instructions), "\n")
	if strings.HasPrefix(first, "#") || strings.HasPrefix(first, "<") {
		first = "" // a heading or a mark for models, no sentence
	}
	if end := strings.Index(first, ". "); end > 0 {
		first = first[:end+1]
	}
	name := ""
	if strings.TrimSpace(impl.Name) != "" {
		name = "The MCP server " + impl.Name + "."
	}
	for _, s := range []string{impl.Description, first, impl.Title, name} {
		if s = clip(strings.Join(strings.Fields(plain(s)), " "), 100); s != "" && fits("/description", &card.Card{Description: s}) {
			return s
		}
	}
	return "An MCP server."
}

// fits reports whether a card's member is one that hosts take.
func fits(pointer string, c *card.Card) bool {
	var list card.Errors
	if err := card.Validate(c); !errors.As(err, &list) {
		return err == nil
	}
	for _, e := range list {
		if e.Pointer == pointer {
			return false
		}
	}
	return true
}

// clip shortens a text to a number of characters, at the end of a word where
// there is one.
func clip(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	r := []rune(s)[:most-1]
	short := string(r)
	if i := strings.LastIndexByte(short, ' '); i > len(short)/2 {
		short = short[:i]
	}
	return strings.TrimRight(short, " ,;:") + "…"
}
