package publishercmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publisher"
)

// publication is a publisher made from a configuration file.
type publication struct {
	*publisher.Publisher
	config *publisher.Config
	apps   []int // index in the file of each config.Apps
}

// publish turns the file into a publisher. The error is a faultList with every
// fault found, each at its line.
func (c *configFile) publish(log *slog.Logger) (*publication, error) {
	s := &c.settings
	if c.protected == nil { // nobody connected: nothing will be asked of issuers
		c.protections(&reading{offline: true})
	}
	p := &publication{config: &publisher.Config{
		Origin: s.Origin, NoARD: s.ARD != nil && !*s.ARD, CacheControl: s.CacheControl, Lang: s.Lang, Log: log,
	}}
	if h := s.Publisher; h != nil {
		p.config.Host = &catalog.Host{DisplayName: h.Name, Identifier: h.Identifier, DocumentationURL: h.Documentation, LogoURL: h.Logo}
	}
	faults := slices.Clone(c.faults)
	add := func(more faultList) {
		for _, f := range more {
			if !c.invented(f.Pointer) {
				faults = append(faults, f)
			}
		}
	}
	var hostedAt []int
	for i := range s.Apps {
		a := &s.Apps[i]
		if a.Hosted != nil {
			if extra := a.beside(); extra != "" {
				add(faultList{c.fault(fmt.Sprintf("apps[%d].%s", i, extra), "has no effect on an app whose card somebody else hosts: remove it, or remove hosted")})
			}
			p.config.Hosted = append(p.config.Hosted, publisher.HostedCard{CardURL: a.Hosted.Card, DisplayName: a.Hosted.Title, Identifier: a.Hosted.Identifier})
			hostedAt = append(hostedAt, i)
			continue
		}
		app, bad := c.app(i)
		add(bad)
		if slices.ContainsFunc(bad, func(f fault) bool { return f.Pointer == fmt.Sprintf("apps[%d].card", i) }) {
			c.spoiled = append(c.spoiled, fmt.Sprintf("apps[%d].card", i)) // an empty card has faults that the file may not have
		}
		p.config.Apps = append(p.config.Apps, app)
		p.apps = append(p.apps, i)
	}
	for n, i := range p.apps {
		add(c.deadPictures(i, &p.config.Apps[n]))
	}
	pub, err := publisher.New(p.config)
	p.Publisher = pub
	add(c.translate(err, p.apps, hostedAt))
	if len(faults) > 0 {
		slices.SortStableFunc(faults, func(a, b fault) int { return a.line - b.line })
		return nil, faults
	}
	return p, nil
}

// beside names a member that an app with a hosted card must not have.
func (a *appConfig) beside() string {
	switch {
	case a.Slug != "":
		return "slug"
	case a.Name != "":
		return "name"
	case a.Endpoint != "":
		return "endpoint"
	case a.Builtin != "":
		return "builtin"
	case a.Upstream != nil:
		return "upstream"
	case a.Card != "":
		return "card"
	case a.Identifier != "":
		return "identifier"
	case a.Auth != nil:
		return "auth"
	}
	return ""
}

// app makes one app of the configuration.
func (c *configFile) app(i int) (app publisher.App, faults faultList) {
	a := &c.settings.Apps[i]
	at := func(member, format string, args ...any) {
		faults = append(faults, c.fault(fmt.Sprintf("apps[%d].%s", i, member), fmt.Sprintf(format, args...)))
	}
	up := c.upstreams[i]
	switch {
	case a.Upstream != nil && a.Builtin != "":
		at("builtin", "stands beside upstream: one of them answers, remove the other")
	case a.Upstream != nil && up != nil && a.Card == "":
		impl, instructions := up.describe()
		a = a.filled(impl, instructions, c.settings.Origin)
	}
	app = publisher.App{
		Slug: a.Slug, Identifier: a.Identifier, MCPURL: a.Endpoint, CardURL: a.CardURL, PageURL: a.PageURL, CatalogURL: a.CatalogURL,
		AllowedOrigins: a.AllowedOrigins, ModernOnly: a.ModernOnly, NoIndex: a.NoIndex, CacheControl: a.CacheControl, ETag: a.ETag, Lang: a.Lang,
	}
	l := c.limits(i)
	app.MaxBody, app.MaxListens = l.body, l.Streams
	app.Protection = c.protected[i]
	if a.LastModified != "" {
		t, err := parseTime(a.LastModified)
		if err != nil {
			at("last_modified", "%v", err)
		}
		app.LastModified = t
	}
	if a.Assets != "" {
		dir := c.path(a.Assets)
		if !isFolder(dir) {
			at("assets", "%s is no folder", dir)
		}
		app.Assets = assetsIn(dir)
	}
	if a.Builtin != "" {
		make, ok := builtins[a.Builtin]
		if !ok {
			at("builtin", "%q is no built-in server: there is echo", a.Builtin)
		} else {
			app.Server = make(a.Name, string(a.Version))
		}
	}
	if a.Upstream != nil {
		if app.MCPURL == "" {
			app.MCPURL = "/mcp/" + a.Slug
		}
		if up != nil && up.gateway != nil {
			app.Server, app.Modern = up.gateway.Server(), up.gateway.Modern()
		} else {
			app.AllowedOrigins = nil // nothing answers yet
		}
	}
	if a.Card != "" {
		c.cardFile(a, &app, at)
		return app, faults
	}
	var err error
	if app.Card, err = a.card(c.settings.Origin); err != nil {
		at("examples", "%v", err)
	}
	if len(a.Settings) > 0 {
		if a.Endpoint == "" && app.Server == nil && a.Upstream == nil {
			at("settings", "need an endpoint to be sent to")
		} else {
			app.Card.Remotes = []card.Remote{a.remote(c.settings.Origin)}
		}
	}
	return app, faults
}

// cardFile takes the whole card from a file.
func (c *configFile) cardFile(a *appConfig, app *publisher.App, at func(member, format string, args ...any)) {
	for member, set := range map[string]bool{
		"name": a.Name != "", "title": a.Title != "", "version": a.Version != "", "description": a.Description != "", "website": a.Website != "",
		"repository": a.Repository != nil, "icons": a.Icons != nil, "examples": a.Examples != nil, "settings": a.Settings != nil,
	} {
		if set {
			at(member, "stands in the card file already: remove it here or there")
		}
	}
	name := c.path(a.Card)
	data, err := readLimited(name, maxDocument)
	if err != nil {
		at("card", "%v", fileError("", a.Card, err))
		return
	}
	parsed, err := card.Parse(data)
	var list card.Errors
	switch {
	case errors.As(err, &list):
		for _, e := range list {
			at("card", "%s: %v", a.Card, e)
		}
	case err != nil:
		at("card", "%s: %v", a.Card, err)
	default:
		app.Card = *parsed
	}
}

// card makes the card of the file's own members.
func (a *appConfig) card(origin string) (card.Card, error) {
	out := card.Card{Name: a.Name, Title: a.Title, Version: string(a.Version), Description: a.Description, WebsiteURL: a.Website}
	if r := a.Repository; r != nil {
		out.Repository = &card.Repository{URL: r.URL, Source: r.Source, Subfolder: r.Subfolder, ID: r.ID}
	}
	for _, i := range a.Icons {
		out.Icons = append(out.Icons, card.Icon{Src: a.picture(origin, i.Src), MimeType: i.Type, Sizes: i.Sizes, Theme: i.Theme})
	}
	if len(a.Examples) == 0 {
		return out, nil
	}
	block := card.Presentation{Version: "1"}
	for _, e := range a.Examples {
		x := card.Example{ID: e.ID, Title: e.Title, Prompt: e.Prompt, Description: e.Description}
		if p := e.Preview; p != nil {
			x.Preview = &card.Preview{Src: a.picture(origin, p.Src), Alt: p.Alt, Width: p.Width, Height: p.Height, MimeType: p.Type}
		}
		block.Examples = append(block.Examples, x)
	}
	raw, err := json.Marshal(block)
	if err != nil {
		return out, err
	}
	out.Meta = map[string]json.RawMessage{card.PresentationKey: raw}
	return out, nil
}

// picture resolves the address of a picture: "assets/icon.png" is a file of
// the app's assets folder.
func (a *appConfig) picture(origin, src string) string {
	if !strings.HasPrefix(src, "assets/") {
		return src
	}
	base, err := weburl.Parse(origin)
	if err != nil {
		return src // the origin's own fault is reported
	}
	u, err := base.Resolve("/apps/" + a.Slug + "/" + src)
	if err != nil {
		return src
	}
	return u.String()
}

// remote is the endpoint with the settings that it asks for.
func (a *appConfig) remote(origin string) card.Remote {
	url := a.Endpoint
	if base, err := weburl.Parse(origin); err == nil {
		if url == "" {
			url = "/mcp/" + a.Slug
		}
		if u, err := base.Resolve(url); err == nil {
			url = u.String()
		}
	}
	r := card.Remote{Type: "streamable-http", URL: url, Versions: []string{card.ProtocolVersion}}
	for _, s := range a.Settings {
		r.Headers = append(r.Headers, card.Header{Name: s.Header, Input: card.Input{
			Description: s.Description, IsRequired: s.Required, IsSecret: s.Secret, Default: s.Default, Choices: s.Choices,
		}})
	}
	return r
}

// path is a path of the file, relative to the file.
func (c *configFile) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(c.dir, p)
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// assetsIn serves a folder without following links out of it.
func assetsIn(dir string) fs.FS { return lazyRoot(dir) }

// lazyRoot opens the folder when a file of it is asked for: making a publisher
// opens nothing.
type lazyRoot string

func (dir lazyRoot) Open(name string) (fs.File, error) {
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Open(filepath.FromSlash(name))
}
