// Package publisher turns an app into something that any agent host can find,
// review and use: one http.Handler that serves the AI Catalog, each app's MCP
// Server Card, its page and its MCP endpoint.
//
//	c := card.Card{Name: "com.example/hello", Title: "Hello", Version: "1.0.0", Description: "Say hello."}
//	server, err := publisher.NewServer(&c, nil)
//	if err != nil {
//		return err
//	}
//	// publisher.AddTool(server, ...)
//
//	p, err := publisher.New(&publisher.Config{
//		Origin: "https://apps.example.com",
//		Apps:   []publisher.App{{Slug: "hello", Card: c, Server: server}},
//	})
//	if err != nil {
//		return err // every fault of the configuration, each with its field
//	}
//	return http.ListenAndServeTLS(":443", "cert.pem", "key.pem", p)
//
// That serves, without more configuration:
//
//	/.well-known/ai-catalog.json     the catalog of the domain: all apps
//	/.well-known/ard.json            the same bytes, for ARD readers
//	/apps/hello                      the app's page, the address to hand out
//	/apps/hello/catalog.json         a catalog of this app alone, which the page links
//	/apps/hello/assets/…             icons and previews, from App.Assets
//	/mcp/hello                       the MCP endpoint, POST only
//	/mcp/hello/server-card           the card; its address is the app's identity
//	/                                a list of the pages
//
// and for an app with a Protection, where its users sign in:
//
//	/.well-known/oauth-protected-resource/mcp/hello
//
// NewServer, AddTool, AddResource, AddPrompt and AddView build the server; Ask,
// Once, Progress, Text and User are for its tools. A server that was made with
// the SDK alone works as well, and package gateway makes one of an MCP server
// that exists elsewhere.
//
// New does all the work that can fail: it validates, encodes and hashes, so a
// request meets prepared bytes and headers. It opens no file and no network
// connection; it looks at the tools, resources and prompts of each server, in
// memory, and refuses what hosts could not use. Documents take no lock and no
// MCP code on their way out.
//
// Serve it over HTTPS under Origin (TLS 1.2 or later); behind a proxy that ends
// TLS the handler works as well. Documents are public: put no sign-in in front
// of them. An app whose calls are not for everybody has an App.Protection.
//
// Sources: OpenBot App Protocol V1.1, sections on publishing; Server Card v1;
// AI Catalog 1.0; RFC 9110; RFC 9728.
package publisher

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/mcpgate"
	"github.com/openbot-build/openbot-go/oauth"
)

// DefaultCacheControl is sent with every document unless configured otherwise.
const DefaultCacheControl = "public, max-age=3600"

// Config is what one publisher serves. Origin and at least one app, or one
// hosted card, are required.
type Config struct {
	// Origin is the public origin under which all of this is reached, for
	// instance "https://apps.example.com". It is https and a public host name;
	// a port other than 443 works, but crawlers and many hosts will not come.
	Origin string

	Apps   []App        // served here, listed in this order
	Hosted []HostedCard // cards that somebody else serves for you, listed after Apps

	Host  *catalog.Host // who publishes, in the catalog and on pages; nil names nobody
	NoARD bool          // do not serve the catalog at /.well-known/ard.json as well (D3)

	CacheControl string       // of documents, pages and assets; "" is DefaultCacheControl
	Lang         string       // language tag of the list of apps and of pages without their own; "" is "en"
	Log          *slog.Logger // of the MCP endpoints; nil logs nothing
}

// App is one app. Only Slug and Card are required; a card needs its name,
// version and description. Every address may be absolute or a path on Origin.
type App struct {
	// Slug names the app in its default addresses: lower-case letters, digits
	// and hyphens, at most 63.
	Slug string

	// Card is the app's Server Card. Its $schema is filled in. Without Remotes it
	// gets one: MCPURL, streamable-http, revision 2026-07-28. Without WebsiteURL
	// it gets the app's page, which lets a crawler confirm the publisher. A
	// header that hosts would leave out (see card.Header.Check) is a fault.
	Card card.Card

	CardURL    string // the app's identity; "" is MCPURL + "/server-card", or /mcp/{slug}/server-card if that is elsewhere
	PageURL    string // "" is /apps/{slug}
	CatalogURL string // a catalog of this app alone; "" is PageURL + "/catalog.json"; a single app may name the well-known one
	MCPURL     string // "" is /mcp/{slug}; on another origin only without Server

	// Identifier is the app's name in the catalog, opaque text (D2). "" is
	// "urn:air:{host of Origin}:mcp:{slug}".
	Identifier string

	// Server answers at MCPURL. nil means that the endpoint runs elsewhere and
	// nothing is served there; then MCPURL or the card's Remotes name it. Every
	// tool and prompt that New finds in it needs a description. Tools answer
	// with clear text always, and with structured content where they have an
	// output schema (OB-53).
	Server *mcp.Server

	// AllowedOrigins are the browser origins that may call the endpoint, for
	// instance "https://host.example.com". Requests with any other Origin get
	// 403; requests without one pass (OB-5).
	AllowedOrigins []string

	// Modern answers requests of revision 2026-07-28 in place of Server, once
	// the transport's rules hold for them; publisher/gateway makes one. nil is
	// Server. It has no effect without Server, which older clients are served
	// from and the app's lists are judged by.
	Modern http.Handler

	// ModernOnly refuses MCP revisions older than 2026-07-28 (D30).
	ModernOnly bool

	// Protection lets only users in who signed in, each with an access token for
	// this endpoint (OAuth 2.1, OB-60). nil lets everybody in. Documents stay
	// public. Its Resource is filled in: the endpoint as the card's remote writes
	// it; another one is a fault. Name, MaxBody and Log are filled in where empty.
	//
	// The metadata that leads hosts to the issuers is served at its place under
	// /.well-known/oauth-protected-resource. With Server, each call is judged
	// twice: by its headers, and by Scopes inside the server, which New adds a
	// middleware to; what reaches that server by another way is then refused, calls
	// in memory included. A scope for a tool that the server does not have is a fault.
	// Without Server it says what runs elsewhere on Origin needs: the metadata is
	// served, and nothing is checked. On another origin only the page speaks of it.
	Protection *oauth.Protection

	// Private says that answers are for one user: every result that a client may
	// keep is marked so (cacheScope "private"), whatever Server says. An app with
	// a Protection is private in any case (mcp S11). Modern has to do the same by
	// itself, see gateway.Options.Private.
	Private bool

	// MaxBody is how many bytes of one request the endpoint reads; 0 is 1 MiB.
	MaxBody int64

	// MaxListens is how many streams of subscriptions/listen may be open at one
	// time; 0 is 1000.
	MaxListens int

	ETag         string    // of the card, with its quotes; "" is made from the card's bytes
	LastModified time.Time // of the card; the zero time sends none
	CacheControl string    // of the card; "" is Config.CacheControl
	NoIndex      bool      // the card sends X-Robots-Tag: noindex; this is no access control

	// Assets are the files under /apps/{slug}/assets/: PNG, JPEG, WebP, AVIF,
	// GIF, ICO and SVG. It is read when a file is asked for.
	Assets fs.FS

	Lang string // language tag of the page; "" is Config.Lang
}

// HostedCard is an app of yours whose card a third party serves. It is listed
// in the catalog and nothing of it is served here. All members are required:
// a publisher does not fetch the card to find them.
type HostedCard struct {
	CardURL     string // absolute https
	DisplayName string
	Identifier  string
}

// Error is one fault of a Config.
type Error struct {
	Field string // for instance "Apps[0].CardURL"
	Err   error  // a *card.Error when the card is at fault
}

func (e *Error) Error() string { return e.Field + ": " + e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Publisher is the handler. It is safe for concurrent use.
type Publisher struct {
	routes map[string]http.Handler // by escaped path
	assets map[string]http.Handler // by path prefix, ending in "/assets/"
	files  []File
	gates  []*mcpgate.Gate
}

// New validates cfg and prepares everything that will be served. cfg is not
// kept; the maps and slices in it must not be changed while New runs.
//
// The error joins every fault found, each an *Error that names its field:
//
//	Apps[0].Card: /description: is missing; …
//	Apps[1].CardURL: /card is already used by Apps[0].CardURL
func New(cfg *Config) (*Publisher, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	return build(cfg)
}

// ServeHTTP serves one request. Paths match byte for byte, in their escaped
// form; the host name is not looked at, except by MCP endpoints on loopback.
func (p *Publisher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	if h, ok := p.routes[path]; ok {
		h.ServeHTTP(w, r)
		return
	}
	if i := strings.LastIndex(path, assetsDir); i >= 0 {
		if h, ok := p.assets[path[:i+len(assetsDir)]]; ok {
			h.ServeHTTP(w, r)
			return
		}
	}
	notFound(w, r)
}

// Close ends the sessions that MCP clients of older revisions keep open. Their
// streams end by nothing else, so call it while the HTTP server shuts down.
func (p *Publisher) Close() error {
	var errs []error
	for _, g := range p.gates {
		errs = append(errs, g.Close())
	}
	return errors.Join(errs...)
}

// File is one document as a plain GET answers it, with the headers that allow a
// browser's preflight.
type File struct {
	Path   string      // escaped, as in a URL
	Header http.Header // without Date
	Body   []byte
}

// Files gives every document and page, ordered by path, for a static host.
// The slice is new; the bodies must not be changed. Assets and endpoints are
// not in it.
func (p *Publisher) Files() []File { return slices.Clone(p.files) }
