package publisher

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/mcpgate"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// builder collects what will be served and every fault on the way.
type builder struct {
	cfg    *Config
	origin weburl.URL
	cache  string
	owner  map[string]string // escaped path -> field that claimed it
	pub    *Publisher
	faults []error
}

// app is an App with its addresses worked out.
type app struct {
	*App
	field      string // "Apps[0]"
	card       card.Card
	cardURL    weburl.URL
	pageURL    weburl.URL
	catalogURL weburl.URL
	mcpURL     weburl.URL // zero: the card's remotes name the endpoint
	identifier string
	lang       string
	gate       *mcpgate.Gate // nil when the endpoint runs elsewhere
	protected  *protection   // nil when anybody may call, or the endpoint is on another origin
	open       bool          // protected, and the server's middleware is not there yet
	noSlug     bool          // the slug is at fault, and so the default addresses are not the real ones
}

// build makes a Publisher, or every fault of cfg.
func build(cfg *Config) (*Publisher, error) {
	b := &builder{cfg: cfg, owner: map[string]string{}, pub: &Publisher{
		routes: map[string]http.Handler{}, assets: map[string]http.Handler{},
	}}
	b.cache = b.cacheControl("CacheControl", cfg.CacheControl, DefaultCacheControl)
	b.lang("Lang", cfg.Lang)
	if !b.setOrigin() { // no address can be judged without it
		for i := range cfg.Apps {
			b.completeCard(&app{App: &cfg.Apps[i], field: fmt.Sprintf("Apps[%d]", i), card: cfg.Apps[i].Card})
		}
		return nil, errors.Join(b.faults...)
	}
	if len(cfg.Apps)+len(cfg.Hosted) == 0 {
		b.fault("Apps", "nothing to publish: give at least one app, or one hosted card")
	}
	b.claim("the well-known catalog", catalog.WellKnownPath)
	if !cfg.NoARD {
		b.claim("the well-known catalog for ARD readers", catalog.ARDPath)
	}

	var apps []*app
	slugs := map[string]string{}
	for i := range cfg.Apps {
		a := b.resolve(i)
		if first, taken := slugs[a.Slug]; taken && a.Slug != "" {
			b.fault(a.field+".Slug", "%q is already the slug of %s", a.Slug, first)
		}
		slugs[a.Slug] = a.field
		apps = append(apps, a)
	}
	b.checkShared(apps)
	items := b.items(apps)
	if len(b.faults) > 0 {
		return nil, errors.Join(b.faults...)
	}

	b.addCatalog(items)
	for i, a := range apps {
		b.addApp(a, items[i])
	}
	if _, taken := b.owner["/"]; !taken {
		b.add("/", b.indexPage(apps))
	}
	if len(b.faults) > 0 {
		return nil, errors.Join(b.faults...)
	}
	b.closeServers(apps) // last, so that a Config with faults leaves its servers as they are
	slices.SortFunc(b.pub.files, func(x, y File) int { return strings.Compare(x.Path, y.Path) })
	return b.pub, nil
}

func (b *builder) fault(field, format string, args ...any) {
	b.faults = append(b.faults, &Error{Field: field, Err: fmt.Errorf(format, args...)})
}

// faultErr adds err under field, one fault for each error joined in it. What
// publicnet refuses is one error: its causes alone do not say what to do.
func (b *builder) faultErr(field string, err error) {
	if refused, ok := errors.AsType[*publicnet.AddrError](err); ok {
		b.faults = append(b.faults, &Error{Field: field, Err: refused})
		return
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range list.Unwrap() {
			b.faultErr(field, e)
		}
		return
	}
	b.faults = append(b.faults, &Error{Field: field, Err: err})
}

// setOrigin reads Origin: https, a public name, nothing behind the host.
func (b *builder) setOrigin() bool {
	if b.cfg.Origin == "" {
		b.fault("Origin", "is required: the public https origin, for instance https://apps.example.com")
		return false
	}
	u, err := weburl.Parse(b.cfg.Origin)
	if err != nil {
		b.faultErr("Origin", err)
		return false
	}
	if u.Target() != "/" || strings.ContainsAny(b.cfg.Origin, "?#") {
		b.fault("Origin", "%q must end after the host: an origin has no path", b.cfg.Origin)
		return false
	}
	if err := checkPublic(u); err != nil {
		b.faultErr("Origin", err)
		return false
	}
	b.origin = u
	return true
}

// checkPublic refuses names that no host on the public Internet has. Nothing
// is looked up.
func checkPublic(u weburl.URL) error {
	n, err := publicnet.New(&publicnet.Options{UserAgent: "publisher", Ports: []int{u.Port()}})
	if err != nil {
		return err
	}
	return n.CheckURL(u.String())
}

var slugForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// resolve works out the addresses of app i and completes its card.
func (b *builder) resolve(i int) *app {
	in := &b.cfg.Apps[i]
	a := &app{App: in, field: fmt.Sprintf("Apps[%d]", i), card: in.Card, identifier: in.Identifier}
	slug := in.Slug
	switch {
	case slug == "":
		b.fault(a.field+".Slug", "is required: a short name for the app's addresses, for instance calendar")
		slug, a.noSlug = fmt.Sprintf("app-%d", i), true // so that other faults can still be found
	case !slugForm.MatchString(slug):
		b.fault(a.field+".Slug", "%q: use lower-case letters, digits and inner hyphens, at most 63", slug)
		slug, a.noSlug = fmt.Sprintf("app-%d", i), true
	}
	if a.identifier == "" {
		a.identifier = "urn:air:" + b.origin.Host() + ":mcp:" + slug
	}
	a.lang = b.lang(a.field+".Lang", in.Lang)
	if a.lang == "" {
		a.lang = b.cfg.Lang
	}

	a.pageURL = b.address(a.field+".PageURL", in.PageURL, "/apps/"+slug)
	a.catalogURL = b.address(a.field+".CatalogURL", in.CatalogURL, strings.TrimSuffix(a.pageURL.Target(), "/")+"/catalog.json")
	if in.MCPURL != "" || in.Server != nil || len(in.Card.Remotes) == 0 {
		a.mcpURL = b.endpoint(a, "/mcp/"+slug)
	}
	cardDefault := "/mcp/" + slug + "/server-card"
	if a.mcpURL.Origin() == b.origin.Origin() {
		cardDefault = a.mcpURL.Target() + "/server-card"
	}
	a.cardURL = b.address(a.field+".CardURL", in.CardURL, cardDefault)

	b.claimURL(a.field+".PageURL", a.pageURL)
	b.claimURL(a.field+".CardURL", a.cardURL)
	if a.catalogURL.Target() != catalog.WellKnownPath {
		b.claimURL(a.field+".CatalogURL", a.catalogURL)
	} else if len(b.cfg.Apps)+len(b.cfg.Hosted) > 1 {
		b.fault(a.field+".CatalogURL", "the well-known catalog lists other apps too: with several apps each needs a catalog of its own, or its page would not lead to it alone")
	}
	b.checkHeaders(a)
	b.completeCard(a)
	b.protect(a)
	if in.Server != nil {
		b.addServer(a)
	}
	return a
}

// address resolves one address of an app. It must be on the origin: what is
// served here cannot be reached elsewhere.
func (b *builder) address(field, value, byDefault string) weburl.URL {
	if value == "" {
		value = byDefault
	}
	u, err := b.origin.Resolve(value)
	switch {
	case err != nil:
		b.faultErr(field, err)
	case u.Origin() != b.origin.Origin():
		b.fault(field, "%s is not on the origin %s, so it cannot be served here", u, b.origin.Origin())
	case strings.Contains(u.Target(), "?"):
		b.fault(field, "%s: an address that is served here has no query", u)
	default:
		return u
	}
	return weburl.URL{}
}

// endpoint resolves the MCP address, which may be elsewhere if it runs there.
func (b *builder) endpoint(a *app, byDefault string) weburl.URL {
	field := a.field + ".MCPURL"
	if a.Server != nil {
		return b.address(field, a.MCPURL, byDefault)
	}
	if a.MCPURL == "" {
		b.fault(field, "is missing: the app has no server here, so name the endpoint that runs elsewhere")
		return weburl.URL{}
	}
	u, err := b.origin.Resolve(a.MCPURL)
	if err == nil {
		err = checkPublic(u)
	}
	if err != nil {
		b.faultErr(field, err)
		return weburl.URL{}
	}
	return u
}

// claimURL and claim reserve a path for one purpose.
func (b *builder) claimURL(field string, u weburl.URL) {
	if !u.IsZero() {
		b.claim(field, u.Target())
	}
}

func (b *builder) claim(field, path string) {
	if first, taken := b.owner[path]; taken {
		b.fault(field, "%s is already used by %s", path, first)
		return
	}
	b.owner[path] = field
}

// completeCard fills what the addresses tell and judges the result as a host
// would: a card that hosts would refuse is a fault at start.
func (b *builder) completeCard(a *app) {
	c := &a.card
	field := a.field + ".Card"
	c.Raw, c.Warnings = nil, nil
	if c.Schema == "" {
		c.Schema = card.SchemaURL
	}
	if c.WebsiteURL == "" {
		c.WebsiteURL = a.pageURL.String()
	}
	if len(c.Remotes) == 0 {
		endpoint := a.mcpURL.String()
		if a.mcpURL.IsZero() { // its fault is known; the card may have others
			endpoint = "https://mcp.example.com/"
		}
		c.Remotes = []card.Remote{{Type: "streamable-http", URL: endpoint, Versions: []string{card.ProtocolVersion}}}
	}
	if err := card.Validate(c); err != nil {
		b.faultErr(field, err)
	} else if _, _, err := c.Usable(); err != nil {
		b.faultErr(field, err)
	}
	if _, err := c.Presentation(); err != nil {
		b.faultErr(field, err)
	}
	for i := range c.Remotes {
		for j := range c.Remotes[i].Headers {
			if err := c.Remotes[i].Headers[j].Check(); err != nil {
				b.faultErr(field, &card.Error{Pointer: fmt.Sprintf("/remotes/%d/headers/%d/name", i, j), Message: err.Error()})
			}
		}
	}
	if !a.mcpURL.IsZero() && !a.noSlug && !slices.ContainsFunc(c.Remotes, func(r card.Remote) bool {
		u, err := weburl.Parse(r.URL)
		return err == nil && u == a.mcpURL
	}) {
		b.fault(field, "/remotes: none of them is the app's endpoint %s", a.mcpURL)
	}
}

// checkHeaders judges the values that go into headers as they are.
func (b *builder) checkHeaders(a *app) {
	if a.ETag != "" && !validETag(a.ETag) {
		b.fault(a.field+".ETag", `%q: write an entity tag with its quotes, for instance "v1" or W/"v1"`, a.ETag)
	}
	b.cacheControl(a.field+".CacheControl", a.CacheControl, b.cache)
	if a.MaxBody < 0 {
		b.fault(a.field+".MaxBody", "%d is no number of bytes; 0 is 1 MiB", a.MaxBody)
	}
	if a.MaxListens < 0 {
		b.fault(a.field+".MaxListens", "%d is no number of streams; 0 is 1000", a.MaxListens)
	}
	if a.Server == nil && len(a.AllowedOrigins) > 0 {
		b.fault(a.field+".AllowedOrigins", "have no effect on an endpoint that runs elsewhere")
	}
}

// validETag reports whether s is an entity tag (RFC 9110 section 8.8.3).
func validETag(s string) bool {
	s = strings.TrimPrefix(s, "W/")
	if len(s) < 2 || s[0] != '"' || s[len(s)-1] != '"' {
		return false
	}
	for i := range len(s) - 2 {
		if c := s[i+1]; c < 0x21 || c == '"' || c == 0x7f {
			return false
		}
	}
	return true
}

func (b *builder) cacheControl(field, value, byDefault string) string {
	if value == "" {
		return byDefault
	}
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		b.fault(field, "%q is no header value", value)
	}
	return value
}

var langForm = regexp.MustCompile(`^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$`)

func (b *builder) lang(field, value string) string {
	if value != "" && !langForm.MatchString(value) {
		b.fault(field, "%q is no language tag, for instance en or zh-CN", value)
	}
	return value
}

// items are the catalog's entries, those of apps first and in their order.
func (b *builder) items(apps []*app) []catalog.Item {
	var items []catalog.Item
	cards := map[weburl.URL]string{}
	list := func(field string, u weburl.URL, item catalog.Item) {
		if first, taken := cards[u]; taken && !u.IsZero() {
			b.fault(field+".CardURL", "%s is already the card of %s", u, first)
		}
		cards[u] = field
		items = append(items, item)
	}
	for _, a := range apps {
		list(a.field, a.cardURL, catalog.Item{Identifier: a.identifier, DisplayName: displayName(&a.card), URL: a.cardURL.String()})
	}
	for i, h := range b.cfg.Hosted {
		field := fmt.Sprintf("Hosted[%d]", i)
		u, err := weburl.Parse(h.CardURL)
		if err == nil {
			err = checkPublic(u)
		}
		if err != nil {
			b.faultErr(field+".CardURL", err)
		}
		if h.DisplayName == "" {
			b.fault(field+".DisplayName", "is required: the card is not fetched to find it")
		}
		if h.Identifier == "" {
			b.fault(field+".Identifier", "is required: a name for the catalog, for instance urn:air:%s:mcp:notes", b.origin.Host())
		}
		list(field, u, catalog.Item{Identifier: h.Identifier, DisplayName: h.DisplayName, URL: u.String()})
	}
	return items
}

func displayName(c *card.Card) string {
	if c.Title != "" {
		return c.Title
	}
	return c.Name
}
