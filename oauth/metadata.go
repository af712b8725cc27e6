package oauth

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/oauthex"
)

// document is a text that is published as it is.
type document struct {
	body []byte
	etag string
}

// metadataPlace gives where the metadata of a resource is: the well-known name
// goes between host and path (RFC 9728 section 3.1). A resource without a path
// has the root form.
func metadataPlace(resource string) (address, path string) {
	origin, target := splitTarget(resource)
	if target == "/" {
		target = ""
	}
	path = wellKnownResource + target
	return origin + path, path
}

// newMetadata gives the document. resource is as it was configured, byte for
// byte, and scopes_supported is what a first sign-in should ask for, not all
// that there is (S3).
func newMetadata(p *Protection) (*document, error) {
	m := &oauthex.ProtectedResourceMetadata{
		Resource:               p.Resource,
		ScopesSupported:        union(p.Scopes.Basic),
		BearerMethodsSupported: []string{"header"},
		ResourceName:           p.Name,
		ResourceDocumentation:  p.Documentation,
	}
	for i := range p.Issuers {
		m.AuthorizationServers = append(m.AuthorizationServers, p.Issuers[i].URL)
	}
	body, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode resource metadata: %w", err)
	}
	body = append(body, '\n')
	sum := sha256.Sum256(body)
	return &document{body: body, etag: `"` + hex.EncodeToString(sum[:16]) + `"`}, nil
}

// MetadataPath is where Metadata belongs on the resource's origin, escaped.
func (g *Guard) MetadataPath() string { return g.metadataPath }

// Metadata serves the Protected Resource Metadata (RFC 9728): GET, HEAD and
// OPTIONS, with ETag and CORS for everybody, since it is public.
func (g *Guard) Metadata() http.Handler { return g.metadata }

// ServeHTTP implements http.Handler.
func (d *document) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("Access-Control-Expose-Headers", "ETag")
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS")
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, If-None-Match, MCP-Protocol-Version, Mcp-Method, Mcp-Name")
		h.Set("Access-Control-Max-Age", "86400")
		w.WriteHeader(http.StatusNoContent)
		return
	default:
		h.Set("Allow", "GET, HEAD, OPTIONS")
		http.Error(w, "this is a document: it takes GET", http.StatusMethodNotAllowed)
		return
	}
	h.Set("ETag", d.etag)
	h.Set("Cache-Control", "public, max-age=300")
	if matches(r.Header.Values("If-None-Match"), d.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(d.body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(d.body) // who asked may be gone
	}
}

// matches compares weakly (RFC 9110 section 13.1.2).
func matches(headers []string, etag string) bool {
	for _, header := range headers {
		for tag := range strings.SplitSeq(header, ",") {
			if tag = strings.TrimSpace(tag); tag == "*" || strings.TrimPrefix(tag, "W/") == etag {
				return true
			}
		}
	}
	return false
}
