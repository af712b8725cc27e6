package publisher

import (
	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
)

// add serves a document at a path.
func (b *builder) add(path string, d *document) {
	b.pub.routes[path] = d
	b.pub.files = append(b.pub.files, d.file(path))
}

// addCatalog serves the catalog of the domain, and the same bytes for ARD (D3).
func (b *builder) addCatalog(items []catalog.Item) {
	d := b.catalog("Host", items)
	if d == nil {
		return
	}
	b.add(catalog.WellKnownPath, d)
	if !b.cfg.NoARD {
		b.add(catalog.ARDPath, d)
	}
}

func (b *builder) catalog(field string, items []catalog.Item) *document {
	body, err := catalog.Build(b.cfg.Host, items)
	if err != nil {
		b.faultErr(field, err)
		return nil
	}
	return newDocument(body, docHeader{contentType: catalog.MediaType, cacheControl: b.cache})
}

// addApp serves everything of one app.
func (b *builder) addApp(a *app, item catalog.Item) {
	if a.catalogURL.Target() != catalog.WellKnownPath {
		if d := b.catalog(a.field, []catalog.Item{item}); d != nil {
			b.add(a.catalogURL.Target(), d)
		}
	}
	b.addCard(a)
	b.add(a.pageURL.Target(), b.appPage(a))
	if a.gate != nil {
		b.pub.gates = append(b.pub.gates, a.gate)
		b.pub.routes[a.mcpURL.Target()] = a.gate
	}
	if a.protected != nil {
		b.addMetadata(a)
	}
	if a.Assets != nil {
		b.pub.assets["/apps/"+a.Slug+assetsDir] = &assets{files: a.Assets, cacheControl: b.cache}
	}
}

func (b *builder) addCard(a *app) {
	body, err := a.card.Encode()
	if err != nil {
		b.faultErr(a.field+".Card", err)
		return
	}
	b.add(a.cardURL.Target(), newDocument(body, docHeader{
		contentType:  card.MediaType,
		etag:         a.ETag,
		modTime:      a.LastModified,
		cacheControl: b.cacheControl(a.field+".CacheControl", a.CacheControl, b.cache),
		link:         catalogLink(a.catalogURL.String()),
		noIndex:      a.NoIndex,
	}))
}

// catalogLink is the Link header that names an app's catalog. The card carries
// it too, wherever the catalog is: it is evidence of the second kind (OB-112).
func catalogLink(url string) string {
	return "<" + url + `>; rel="` + catalog.LinkRel + `"; type="` + catalog.MediaType + `"`
}
