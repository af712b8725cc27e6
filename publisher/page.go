package publisher

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"slices"
	"strings"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

//go:embed page.html
var pageSource string

//go:embed page.css
var pageStyle string

var pages = template.Must(template.New("page").Funcs(template.FuncMap{"breakable": breakable}).Parse(pageSource))

// pageCSP lets a page show pictures and its own style, and nothing else: no
// script ever runs on it, whatever a card's text holds.
var pageCSP = "default-src 'none'; img-src 'self' https: data:; style-src 'sha256-" + styleHash() +
	"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func styleHash() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// pageData is what the templates show. All texts are data; the template
// escapes them.
type pageData struct {
	Lang        string
	Words       words
	Style       template.CSS
	Title       string
	Description string
	CatalogURL  string
	Canonical   string
	Publisher   string
	Origin      string

	// Of an app's page.
	Icon, DarkIcon template.URL
	Version        string
	CardURL        string
	CardPath       string // links stay on the origin that the page was read from
	Endpoints      []string
	Issuers        []string // where users sign in; none for an app that is open
	Website        string
	Repository     string
	Examples       []card.Example
	QR             template.HTML
	ListPath       string // of the list of apps; "" if there is none

	// Of the list of apps.
	Apps []listed
}

type listed struct {
	Title, Description, Path string
	Icon                     template.URL
}

// appPage is the page of one app (OB-32, OB-35, W11): what it is, how to add
// it, and the link to the catalog that lists it alone.
func (b *builder) appPage(a *app) *document {
	c := &a.card
	d := b.page(a.lang)
	d.Title, d.Description = displayName(c), c.Description
	d.CatalogURL, d.Canonical = a.catalogURL.String(), a.pageURL.String()
	d.Icon, d.DarkIcon = icons(c)
	d.Version = c.Version
	d.CardURL, d.CardPath = a.cardURL.String(), a.cardURL.Target()
	for _, r := range c.Remotes {
		if !slices.Contains(d.Endpoints, r.URL) {
			d.Endpoints = append(d.Endpoints, r.URL)
		}
	}
	if a.Protection != nil {
		for i := range a.Protection.Issuers {
			d.Issuers = append(d.Issuers, a.Protection.Issuers[i].URL)
		}
	}
	if isHTTPS(c.WebsiteURL) && c.WebsiteURL != d.Canonical {
		d.Website = c.WebsiteURL
	}
	if c.Repository != nil && isHTTPS(c.Repository.URL) {
		d.Repository = c.Repository.URL
	}
	if p, err := c.Presentation(); err == nil && p != nil {
		d.Examples = p.Examples
	}
	if _, taken := b.owner["/"]; !taken {
		d.ListPath = "/"
	}
	var err error
	if d.QR, err = qrCode(d.Canonical, d.Words.QR); err != nil {
		b.faultErr(a.field+".PageURL", err)
	}
	return b.render(a.field+".Card", "app", d)
}

// indexPage lists the apps that are served here.
func (b *builder) indexPage(apps []*app) *document {
	d := b.page(b.cfg.Lang)
	d.Title = d.Words.Apps
	if d.Publisher != "" {
		d.Title = d.Publisher
	}
	d.Description = d.Words.ListOf + " " + d.Origin
	d.Canonical = b.origin.String()
	d.CatalogURL = b.origin.Origin() + catalog.WellKnownPath
	for _, a := range apps {
		icon, _ := icons(&a.card)
		d.Apps = append(d.Apps, listed{Title: displayName(&a.card), Description: a.card.Description, Path: a.pageURL.Target(), Icon: icon})
	}
	return b.render("Apps", "index", d)
}

func (b *builder) page(lang string) *pageData {
	if lang == "" {
		lang = "en"
	}
	d := &pageData{
		Lang: lang, Words: wordsFor(lang),
		Style:  template.CSS(pageStyle), //nolint:gosec // our own file
		Origin: b.origin.Origin(),
	}
	if b.cfg.Host != nil {
		d.Publisher = b.cfg.Host.DisplayName
	}
	return d
}

func (b *builder) render(field, name string, d *pageData) *document {
	var out bytes.Buffer
	if err := pages.ExecuteTemplate(&out, name, d); err != nil {
		b.faultErr(field, err)
	}
	return newDocument(out.Bytes(), docHeader{
		contentType:  "text/html; charset=utf-8",
		cacheControl: b.cache,
		link:         catalogLink(d.CatalogURL),
		csp:          pageCSP,
	})
}

// icons picks what to show on a light and on a dark ground. Pictures are only
// ever shown through an image element (OB-12). The one for a dark ground stands
// in a srcset, a list with commas, which a data address does not survive: there
// it is https.
func icons(c *card.Card) (light, dark template.URL) {
	var only template.URL // of a dark theme, if there is no other picture
	for _, i := range c.Icons {
		src := imageURL(i.Src)
		switch {
		case src == "":
		case i.Theme != "dark":
			light = cmp.Or(light, src)
		default:
			only = cmp.Or(only, src)
			if isHTTPS(i.Src) {
				dark = cmp.Or(dark, src)
			}
		}
	}
	if light == "" {
		return only, ""
	}
	return light, dark
}

// breakable lets a long address break after a slash and not inside a word.
func breakable(address string) template.HTML {
	escaped := template.HTMLEscapeString(address)
	head, rest, ok := strings.Cut(escaped, "://")
	if !ok {
		head, rest = "", escaped
	} else {
		head += "://<wbr>"
	}
	return template.HTML(head + strings.ReplaceAll(rest, "/", "/<wbr>")) //nolint:gosec // escaped above
}

// imageURL passes https addresses and picture data; the template would take
// data addresses for an attack.
func imageURL(src string) template.URL {
	if isHTTPS(src) || strings.HasPrefix(src, "data:image/") {
		return template.URL(src) //nolint:gosec // checked just now, and used as a picture only
	}
	return ""
}

func isHTTPS(s string) bool {
	_, err := weburl.Parse(s)
	return err == nil
}
