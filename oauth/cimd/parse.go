package cimd

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// CheckID judges a client_id that should be the address of a document: https, a
// path without dot segments (encoded ones too), no fragment, user-info or
// characters that an address cannot hold. A port and a query are allowed
// (oauth M1). The client_id is never rewritten: it is compared octet by octet.
func CheckID(id string) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("client_id %s: %s", strictjson.Quote(id), fmt.Sprintf(format, args...))
	}
	if len(id) > maxID {
		return fault("is longer than %d octets", maxID)
	}
	rest, ok := strings.CutPrefix(id, "https://")
	if !ok {
		return fault("does not begin with https://")
	}
	if i := strings.IndexFunc(rest, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r)
	}); i >= 0 {
		return fault("holds a character that an address cannot have")
	}
	if strings.Contains(rest, "#") {
		return fault("has a fragment")
	}
	authority, rest, hasPath := strings.Cut(rest, "/")
	switch {
	case strings.Contains(authority, "@"):
		return fault("has user-info")
	case strings.Contains(authority, "?") || !hasPath:
		return fault("has no path")
	}
	if u, err := url.Parse(id); err != nil || u.Hostname() == "" || strings.HasSuffix(u.Host, ":") {
		return fault("is no address")
	}
	path, query, _ := strings.Cut(rest, "?")
	plain, err := url.PathUnescape(path)
	if err != nil {
		return fault("has an escape that is none")
	}
	if _, err := url.PathUnescape(query); err != nil {
		return fault("has an escape that is none")
	}
	for segment := range strings.FieldsFuncSeq(plain, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == "." || segment == ".." {
			return fault("has a dot segment")
		}
	}
	return nil
}

// Parse judges the answer to a GET of id (oauth M1 to M4): status 200, a JSON
// media type, at most MaxBytes, and a document whose client_id is id. The error
// names every fault of the document.
func Parse(id string, status int, contentType string, body []byte) (*Document, error) {
	if err := CheckID(id); err != nil {
		return nil, err
	}
	d, err := parse(id, status, contentType, body)
	if err != nil {
		return nil, fmt.Errorf("read client document %s: %w", strictjson.Quote(id), err)
	}
	return d, nil
}

func parse(id string, status int, contentType string, body []byte) (*Document, error) {
	if status != http.StatusOK {
		return nil, fmt.Errorf("the answer has status %d, only 200 will do", status)
	}
	if !isJSON(contentType) {
		return nil, fmt.Errorf("the media type is %s, not application/json", strictjson.Quote(contentType))
	}
	if len(body) > MaxBytes {
		return nil, fmt.Errorf("is larger than %d octets", MaxBytes)
	}
	doc, err := strictjson.Parse(body)
	if err != nil {
		return nil, err
	}
	root := doc.Root()
	if root.Kind() != strictjson.Object {
		return nil, fmt.Errorf("is %v, not an object", root.Kind())
	}
	var d Document
	if err := root.Decode(&d); err != nil {
		return nil, err
	}
	var faults []error
	for name, value := range root.Members() {
		switch string(name) {
		case "client_secret", "client_secret_expires_at":
			faults = append(faults, fmt.Errorf("%s has no place in a public document", name))
		case "client_uri", "logo_uri", "jwks_uri", "tos_uri", "policy_uri":
			if err := checkLink(value); err != nil {
				faults = append(faults, fmt.Errorf("%s %w", name, err))
			}
		}
	}
	if d.ClientID != id {
		faults = append(faults, fmt.Errorf("client_id is %s, another one than the address", strictjson.Quote(d.ClientID)))
	}
	if err := errors.Join(append(faults, d.check())...); err != nil {
		return nil, err
	}
	return &d, nil
}

func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return false
	}
	suffix, ok := strings.CutPrefix(media, "application/")
	return ok && (suffix == "json" || len(suffix) > len("+json") && strings.HasSuffix(suffix, "+json"))
}

// check judges what a document says, whoever made it.
func (d *Document) check() error {
	faults := []error{CheckID(d.ClientID)}
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if strings.TrimSpace(d.ClientName) == "" {
		fault("client_name is missing")
	}
	if len(d.RedirectURIs) == 0 {
		fault("redirect_uris is missing")
	}
	for _, uri := range d.RedirectURIs {
		if err := checkRedirect(uri); err != nil {
			fault("redirect_uris: %s %w", strictjson.Quote(uri), err)
		}
	}
	switch m := d.TokenEndpointAuthMethod; {
	case strings.HasPrefix(m, "client_secret_"):
		fault("token_endpoint_auth_method %s needs a shared secret", strictjson.Quote(m))
	case m == authPrivateKey && d.JWKSURI == "" && len(d.JWKS) == 0:
		fault("token_endpoint_auth_method private_key_jwt needs jwks or jwks_uri")
	}
	if d.JWKSURI != "" && len(d.JWKS) > 0 {
		fault("jwks and jwks_uri exclude each other")
	}
	if len(d.JWKS) > 0 {
		if err := checkKeys(d.JWKS); err != nil {
			fault("jwks %w", err)
		}
	}
	for name, link := range map[string]string{"client_uri": d.ClientURI, "logo_uri": d.LogoURI, "jwks_uri": d.JWKSURI} {
		if link == "" {
			continue
		}
		if err := checkAddress(link); err != nil {
			fault("%s %w", name, err)
		}
	}
	return errors.Join(faults...)
}

// checkKeys refuses what must not be published: private and symmetric keys.
func checkKeys(raw []byte) error {
	doc, err := strictjson.Parse(raw)
	if err != nil {
		return err
	}
	var keys strictjson.Value
	for name, value := range doc.Root().Members() {
		if string(name) == "keys" {
			keys = value
		}
	}
	if _, twice := doc.Root().Duplicate(); twice || keys.Kind() != strictjson.Array {
		return errors.New("has no list of keys")
	}
	for i, key := range keys.Elements() {
		if key.Kind() != strictjson.Object {
			return fmt.Errorf("has something at place %d that is no key", i)
		}
		for name, value := range key.Members() {
			switch string(name) {
			case "d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv":
				return fmt.Errorf("publishes a private key at place %d: replace that key", i)
			case "kty":
				if value.Text() == "oct" {
					return fmt.Errorf("publishes a symmetric key at place %d: replace that key", i)
				}
			}
		}
	}
	return nil
}

// checkRedirect wants https or http on loopback (MCP), without a fragment.
func checkRedirect(uri string) error {
	if strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '\\' }) {
		return errors.New("holds a character that an address cannot have")
	}
	u, err := url.Parse(uri)
	switch {
	case err != nil || u.Hostname() == "":
		return errors.New("is no absolute address")
	case strings.Contains(uri, "#"):
		return errors.New("has a fragment")
	case u.User != nil:
		return errors.New("has user-info")
	case u.Scheme == "https" || isLoopback(uri):
		return nil
	}
	return errors.New("is neither https nor http on loopback (127.0.0.1, [::1], localhost)")
}

func checkLink(v strictjson.Value) error {
	if v.Kind() != strictjson.String {
		return fmt.Errorf("is %v, not a string", v.Kind())
	}
	return checkAddress(v.Text())
}

// checkAddress wants an address that a stranger's server could be asked for.
// Names are judged again, by what they resolve to, when they are dialled.
func checkAddress(link string) error {
	u, err := weburl.Parse(link)
	if err != nil {
		if a, ok := literal(link); ok && !publicnet.IsPublic(a) {
			return errors.New("leads to a special-use address")
		}
		return err
	}
	if h := u.Host(); h == "localhost" || strings.HasSuffix(h, ".localhost") {
		return errors.New("leads to a special-use address")
	}
	return nil
}

func literal(link string) (netip.Addr, bool) {
	u, err := url.Parse(link)
	if err != nil {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(u.Hostname())
	return a, err == nil
}

func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}
