package crawl

import (
	"context"
	"errors"
	"fmt"

	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/index"
)

// This file is about what may be large and is therefore not held while a visit
// waits: catalogs that evidence needs, and documents of entries.

// parsed is discovery.ReadCatalog. One catalog may prove every card of a visit;
// it is read once, as long as there is room to keep it. Of a document without
// its body the stored one is read. When it could not be, for want of time or
// because of the store, the error is also in v.lost: it says nothing of d.
func (v *visit) parsed(ctx context.Context, d *discovery.Document) (cat *catalog.Catalog, err error) {
	key := [3]string{d.Hash, d.FinalURL, d.ContentType()}
	if cat := v.catalogs[key]; cat != nil {
		return cat, nil
	}
	size := int64(len(d.Body))
	if d.Body == nil && v.where[d.Hash] != "" {
		size = deskBytes
	}
	read := false
	err = v.desk(ctx, size, func() error {
		full, err := v.whole(ctx, d)
		if err != nil {
			return err
		}
		if cat, err = discovery.ReadCatalog(full); err == nil && d.Hash != "" {
			v.keepCatalog(key, cat, len(full.Body))
		}
		read = true
		return err
	})
	if err != nil && !read {
		v.lost = err
	}
	return cat, err
}

// keepCatalog remembers a catalog if there is room for it.
func (v *visit) keepCatalog(key [3]string, cat *catalog.Catalog, body int) {
	n := int64(body)
	for i := range cat.Entries {
		n += 256 + int64(len(cat.Entries[i].URL))
	}
	if len(v.catalogs) == 0 && n <= small { // one such is what nobody counts
		n = 0
	}
	if v.c.cache.try(n) {
		v.cached += n
		v.catalogs[key] = cat
	}
}

// nestedIn gives the catalogs that a catalog names, and no more than one beyond
// most of them.
func nestedIn(cat *catalog.Catalog, most int) (urls []string) {
	for e := range cat.Nested() {
		if len(urls) > most {
			break
		}
		urls = append(urls, e.URL)
	}
	return urls
}

// refill gives an entry that is to be written the document that was left in
// the store, or in the answer that is being judged. The error is the store's, or
// errLater when it is another by now.
func (v *visit) refill(ctx context.Context, e *index.Entry, c *content) error {
	if e.Document != nil || e.Hash == "" {
		return nil
	}
	if c.document != nil && c.document.Hash == e.Hash {
		d, err := v.whole(ctx, c.document)
		if err != nil {
			return err
		}
		e.Document = d.Body
	} else {
		prev, err := v.c.store.ByCard(ctx, e.CardURL)
		if errors.Is(err, index.ErrNotFound) || err == nil && prev.Hash != e.Hash {
			return errLater
		}
		if err != nil {
			return fmt.Errorf("look up entry: %w", err)
		}
		e.Document = prev.Document
	}
	v.kept += int64(len(e.Document))
	return nil
}
