package cimd

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
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
// (oauth M1). The host is a domain name or an IP address; whether it may be
// contacted is publicnet's judgement. The client_id is never rewritten: it is
// compared octet by octet.
func CheckID(id string) error {
	fault := func(format string, args ...any) error {
		return fmt.Errorf("client_id %s: %w", strictjson.Quote(id), fmt.Errorf(format, args...))
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
	if err := checkAuthority(authority); err != nil {
		return fault("%w", err)
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

// checkAuthority wants a domain name or an IP address, and a port from 1 to
// 65535 where there is one. It works on the text: an URL library takes nearly
// everything for a host.
func checkAuthority(authority string) error {
	host, port, hasPort := strings.Cut(authority, ":")
	literal := host
	if strings.HasPrefix(authority, "[") {
		var ok bool
		if literal, port, ok = strings.Cut(authority[1:], "]"); !ok {
			return errors.New("has a host that is no IPv6 address")
		}
		port, hasPort = strings.CutPrefix(port, ":")
		if a, err := netip.ParseAddr(literal); err != nil || !a.Is6() || a.Zone() != "" || port != "" && !hasPort {
			return errors.New("has a host that is no IPv6 address")
		}
	} else if a, err := netip.ParseAddr(literal); err != nil || !a.Is4() {
		if _, ok := weburl.Domain(host); !ok {
			return errors.New("has a host that is no domain name")
		}
	}
	if hasPort && !isPort(port) {
		return errors.New("has a port that is no number from 1 to 65535")
	}
	return nil
}

// Parse judges the answer to a GET of id (oauth M1 to M4): status 200, a JSON
// media type, at most MaxBytes, and a document whose client_id is id. The error
// names every fault of the document.
//
// Links that are only shown to people (client_uri, logo_uri, tos_uri and
// policy_uri) are left out of the Document when they are not https, a picture
// inside a data: link for instance: nobody fetches them, and the client is no
// worse for them. One that leads to a special-use address is a fault. A document
// with keys that says nothing of authentication is one with private_key_jwt.
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
			if value.Kind() != strictjson.String {
				faults = append(faults, fmt.Errorf("%s is %v, not a string", name, value.Kind()))
			}
		}
	}
	for name, link := range d.shown() {
		if err := checkAddress(*link); errors.Is(err, errSpecialUse) {
			faults = append(faults, fmt.Errorf("%s %w", name, err))
		} else if err != nil {
			*link = ""
		}
	}
	if d.TokenEndpointAuthMethod == "" && d.hasKeys() {
		d.TokenEndpointAuthMethod = authPrivateKey // oauth M3
	}
	if d.ClientID != id {
		faults = append(faults, fmt.Errorf("client_id is %s, another one than the address", strictjson.Quote(d.ClientID)))
	}
	if err := errors.Join(append(faults, d.check())...); err != nil {
		return nil, err
	}
	return &d, nil
}

var errSpecialUse = errors.New("leads to a special-use address")

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
		if err := CheckRedirect(uri); err != nil {
			fault("redirect_uris: %s %w", strictjson.Quote(uri), err)
		}
	}
	switch m := d.TokenEndpointAuthMethod; {
	case strings.HasPrefix(m, "client_secret_"):
		fault("token_endpoint_auth_method %s needs a shared secret", strictjson.Quote(m))
	case m == authPrivateKey && !d.hasKeys():
		fault("token_endpoint_auth_method private_key_jwt needs jwks or jwks_uri")
	case m == "" && d.hasKeys():
		fault("token_endpoint_auth_method is missing: with keys it is private_key_jwt")
	}
	if d.JWKSURI != "" && len(d.JWKS) > 0 {
		fault("jwks and jwks_uri exclude each other")
	}
	if len(d.JWKS) > 0 {
		switch n, err := checkKeys(d.JWKS); {
		case err != nil:
			fault("jwks %w", err)
		case n == 0 && d.TokenEndpointAuthMethod == authPrivateKey:
			fault("jwks has no key, and private_key_jwt needs one")
		}
	}
	if d.JWKSURI != "" {
		if err := checkAddress(d.JWKSURI); err != nil {
			fault("jwks_uri %w", err)
		}
	}
	return errors.Join(faults...)
}

func (d *Document) hasKeys() bool { return d.JWKSURI != "" || len(d.JWKS) > 0 }

// shown visits the links that are there for people.
func (d *Document) shown() iter.Seq2[string, *string] {
	return func(yield func(string, *string) bool) {
		for _, l := range [...]struct {
			name string
			link *string
		}{{"client_uri", &d.ClientURI}, {"logo_uri", &d.LogoURI}, {"tos_uri", &d.TOSURI}, {"policy_uri", &d.PolicyURI}} {
			if *l.link != "" && !yield(l.name, l.link) {
				return
			}
		}
	}
}

// checkKeys refuses what must not be published, private and symmetric keys, and
// counts the keys.
func checkKeys(raw []byte) (n int, err error) {
	doc, err := strictjson.Parse(raw)
	if err != nil {
		return 0, err
	}
	var keys strictjson.Value
	for name, value := range doc.Root().Members() {
		if string(name) == "keys" {
			keys = value
		}
	}
	if _, twice := doc.Root().Duplicate(); twice || keys.Kind() != strictjson.Array {
		return 0, errors.New("has no list of keys")
	}
	for i, key := range keys.Elements() {
		n++
		if key.Kind() != strictjson.Object {
			return 0, fmt.Errorf("has something at place %d that is no key", i)
		}
		for name, value := range key.Members() {
			switch string(name) {
			case "d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv":
				return 0, fmt.Errorf("publishes a private key at place %d: replace that key", i)
			case "kty":
				if value.Text() == "oct" {
					return 0, fmt.Errorf("publishes a symmetric key at place %d: replace that key", i)
				}
			}
		}
	}
	return n, nil
}

// checkAddress wants an address that a stranger's server could be asked for.
// Names are judged again, by what they resolve to, when they are dialled.
func checkAddress(link string) error {
	if u, err := url.Parse(link); err == nil && isSpecial(u.Hostname()) {
		return errSpecialUse
	}
	_, err := weburl.Parse(link)
	return err
}

// isSpecial reports whether a host is one of the special-use addresses, by
// number or by the one name that all computers give themselves.
func isSpecial(host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		return !publicnet.IsPublic(a)
	}
	return isLocalhost(host)
}

func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}
