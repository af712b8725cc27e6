package publisher

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// document is bytes that were made at start, with the headers of every answer
// prepared. It never changes, so serving it takes no lock.
type document struct {
	body    []byte
	etag    string
	modTime time.Time   // zero: no Last-Modified
	header  http.Header // of 200, 206 and 304 alike
	full    http.Header // more for the 200
}

// docHeader is what a document's answers carry besides what all share.
type docHeader struct {
	contentType  string
	etag         string // "" makes one from the bytes
	modTime      time.Time
	cacheControl string
	link         string
	csp          string
	noIndex      bool
}

// newDocument prepares a document. The default ETag is strong and depends on
// the bytes alone: every replica gives the same one (OB-7, W1).
func newDocument(body []byte, dh docHeader) *document {
	d := &document{body: body, etag: dh.etag, modTime: dh.modTime.Truncate(time.Second)}
	if d.etag == "" {
		sum := sha256.Sum256(body)
		d.etag = `"` + hex.EncodeToString(sum[:16]) + `"`
	}
	d.header = http.Header{}
	setCORS(d.header)
	d.header.Set("X-Content-Type-Options", "nosniff")
	d.header.Set("ETag", d.etag)
	d.header.Set("Cache-Control", dh.cacheControl)
	if dh.link != "" {
		d.header.Set("Link", dh.link)
	}
	if dh.csp != "" {
		d.header.Set("Content-Security-Policy", dh.csp)
		d.header.Set("Referrer-Policy", "no-referrer")
	}
	if dh.noIndex {
		d.header.Set("X-Robots-Tag", "noindex")
	}
	d.full = http.Header{}
	d.full.Set("Accept-Ranges", "bytes")
	d.full.Set("Content-Type", dh.contentType)
	d.full.Set("Content-Length", strconv.Itoa(len(body)))
	if !d.modTime.IsZero() {
		d.full.Set("Last-Modified", d.modTime.UTC().Format(http.TimeFormat))
	}
	return d
}

// file is the document as a plain GET answers it.
func (d *document) file(path string) File {
	h := d.header.Clone()
	maps.Copy(h, d.full.Clone())
	return File{Path: path, Header: h, Body: d.body}
}

// ServeHTTP serves GET, HEAD and OPTIONS (W1 to W6).
//
// The two answers that make up nearly all traffic, the plain 200 and the 304
// for exactly our tag, are written from prepared headers. Everything else goes
// through http.ServeContent, which knows lists, weak tags, dates and ranges.
func (d *document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !allowRead(w, r) {
		return
	}
	h := w.Header()
	maps.Copy(h, d.header)
	if r.Method == http.MethodGet {
		tags := r.Header["If-None-Match"]
		switch {
		case hasAny(r.Header, "If-Match", "If-Unmodified-Since"):
		case len(tags) == 1 && tags[0] == d.etag:
			w.WriteHeader(http.StatusNotModified)
			return
		case len(tags) == 0 && !hasAny(r.Header, "If-Modified-Since", "Range"):
			maps.Copy(h, d.full)
			_, _ = w.Write(d.body) //nolint:gosec // pages are escaped when they are made; a client that left needs no answer
			return
		}
	}
	h["Content-Type"] = d.full["Content-Type"]
	http.ServeContent(w, joinLists(r), "", d.modTime, bytes.NewReader(d.body))
}

// joinLists makes one line of a list that came in several (RFC 9110 section
// 5.3); http.ServeContent reads the first line only.
func joinLists(r *http.Request) *http.Request {
	for _, name := range []string{"If-None-Match", "If-Match"} {
		if lines := r.Header[name]; len(lines) > 1 {
			r = r.Clone(r.Context())
			r.Header.Set(name, strings.Join(lines, ", "))
		}
	}
	return r
}

func hasAny(h http.Header, names ...string) bool {
	for _, name := range names {
		if len(h[name]) > 0 {
			return true
		}
	}
	return false
}

// setCORS lets every web page read a public document (OB-8, W3).
func setCORS(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Allow-Methods", "GET, HEAD")
	h.Set("Access-Control-Allow-Headers", "Content-Type, If-None-Match")
	h.Set("Access-Control-Expose-Headers", "ETag")
}

// allowRead answers preflights and refuses methods that a document does not
// have. It reports whether the request is still to be answered.
func allowRead(w http.ResponseWriter, r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return true
	case http.MethodOptions:
		setCORS(w.Header())
		w.Header().Set("Access-Control-Max-Age", "86400")
		w.Header().Set("Allow", allowedMethods)
		w.WriteHeader(http.StatusNoContent)
	default:
		setCORS(w.Header())
		w.Header().Set("Allow", allowedMethods)
		http.Error(w, "this document can only be read", http.StatusMethodNotAllowed)
	}
	return false
}

const allowedMethods = "GET, HEAD, OPTIONS"

// notFound is a real 404 for everything that is not served, unknown
// /.well-known paths above all: hosts take a 200 there for an answer (FO-03).
func notFound(w http.ResponseWriter, _ *http.Request) {
	setCORS(w.Header())
	http.Error(w, "not found", http.StatusNotFound)
}
