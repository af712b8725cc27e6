package check

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// signIn is what a protected endpoint says about where to sign in, as far as a
// host can find it. Nobody signs in.
type signIn struct {
	challenge string // of WWW-Authenticate
	named     string // the metadata address that it names; "" for none
	address   string // where the metadata was found
	resource  *resourceMetadata
	failed    string // why there is no metadata
	servers   []serverMetadata
}

// resourceMetadata is what is read of protected resource metadata (RFC 9728).
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
}

// serverMetadata is what is read of authorization server metadata (RFC 8414).
type serverMetadata struct {
	asked string // the issuer that the resource names

	Issuer  string   `json:"issuer"`
	Methods []string `json:"code_challenge_methods_supported"`
	CIMD    bool     `json:"client_id_metadata_document_supported"`
	failed  string
}

// maxServers bounds how many authorization servers are asked.
const maxServers = 3

// lookAtSignIn follows a challenge to the metadata behind it.
func lookAtSignIn(ctx context.Context, client *http.Client, endpoint string, header http.Header) *signIn {
	in := &signIn{challenge: strings.Join(header.Values("WWW-Authenticate"), ", ")}
	in.named = parameter(in.challenge, "resource_metadata")
	places := []string{in.named}
	if in.named == "" {
		places = wellKnown(endpoint, "oauth-protected-resource", false)
	}
	for _, place := range places {
		var doc resourceMetadata
		if in.failed = read(ctx, client, place, &doc); in.failed == "" {
			in.address, in.resource = place, &doc
			break
		}
	}
	if in.resource == nil {
		return in
	}
	for _, issuer := range in.resource.Servers[:min(maxServers, len(in.resource.Servers))] {
		m := serverMetadata{asked: issuer}
		for _, place := range append(wellKnown(issuer, "oauth-authorization-server", false), wellKnown(issuer, "openid-configuration", true)...) {
			doc := serverMetadata{asked: issuer}
			if doc.failed = read(ctx, client, place, &doc); doc.failed == "" {
				m = doc
				break
			}
			m.failed = doc.failed
		}
		in.servers = append(in.servers, m)
	}
	return in
}

// read gets a JSON document. It says what is wrong, or nothing.
func read(ctx context.Context, client *http.Client, address string, to any) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return fmt.Sprintf("%s is no https address", clip(address))
	}
	r, err := ask(ctx, client, http.MethodGet, address, http.Header{"Accept": {"application/json"}}, "")
	switch {
	case err != nil:
		return fmt.Sprintf("%s cannot be read (%s)", clip(address), clip(orText(connectionFault(err), oneLine(err))))
	case r.status != http.StatusOK:
		return fmt.Sprintf("%s gets status %d", clip(address), r.status)
	}
	if err := strictjson.Unmarshal(r.body, to); err != nil {
		return fmt.Sprintf("%s is not the metadata that it should be (%s)", clip(address), clip(oneLine(err)))
	}
	return ""
}

// wellKnown gives the places of metadata about an address: its path after the
// well-known name, then the root. after also tries the name behind the path.
func wellKnown(address, name string, after bool) []string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return nil
	}
	origin := u.Scheme + "://" + u.Host
	path := strings.TrimSuffix(u.EscapedPath(), "/")
	places := []string{origin + "/.well-known/" + name + path}
	if path != "" && after {
		places = append(places, origin+path+"/.well-known/"+name)
	}
	if path != "" && !after && name == "oauth-protected-resource" {
		places = append(places, origin+"/.well-known/"+name)
	}
	return places
}

// parameter finds a parameter of a challenge.
func parameter(challenge, name string) string {
	lower := strings.ToLower(challenge)
	for from := 0; ; {
		i := strings.Index(lower[from:], name+"=")
		if i < 0 {
			return ""
		}
		i += from
		from = i + len(name) + 1
		if i > 0 && !strings.ContainsRune(" ,\t", rune(lower[i-1])) {
			continue
		}
		value := challenge[from:]
		if rest, quoted := strings.CutPrefix(value, `"`); quoted {
			value, _, _ = strings.Cut(rest, `"`)
			return value
		}
		if end := strings.IndexAny(value, " ,\t"); end >= 0 {
			value = value[:end]
		}
		return value
	}
}

// judge says whether a host could sign in there.
func (in *signIn) judge(s *Section, pointer, endpoint string) {
	if scheme, _, _ := strings.Cut(in.challenge, " "); !strings.EqualFold(scheme, "Bearer") {
		s.fault("OB-60", pointer, "the challenge is of the scheme %q: hosts sign in with Bearer", clip(scheme))
	}
	if in.resource == nil {
		s.fault("OB-60", pointer, "hosts cannot find where to sign in: %s; name the resource metadata in the challenge (resource_metadata=)", orText(in.failed, "the challenge names nothing"))
		return
	}
	if in.named == "" {
		s.advise("OB-60", pointer, "the challenge names no resource_metadata: hosts found it at %s by trying", clip(in.address))
	} else {
		s.pass("OB-60", "the challenge leads to the resource metadata %s", clip(in.address))
	}
	if in.resource.Resource == endpoint {
		s.pass("OB-62", "the metadata is of this resource: %s", clip(endpoint))
	} else {
		s.fault("OB-62", pointer, "the resource metadata is of %q, the endpoint in the card is %q: they are compared byte for byte, make them the same", clip(in.resource.Resource), clip(endpoint))
	}
	if len(in.resource.Servers) == 0 {
		s.fault("OB-60", pointer, "the resource metadata names no authorization_servers: hosts never take the app's own origin for one")
	}
	for _, m := range in.servers {
		m.judge(s, pointer)
	}
}

func (m *serverMetadata) judge(s *Section, pointer string) {
	who := clip(m.asked)
	switch {
	case m.failed != "":
		s.fault("OB-64", pointer, "no metadata of the authorization server %s: %s", who, m.failed)
		return
	case m.Issuer != m.asked:
		s.fault("OB-64", pointer, "the authorization server calls itself %q, the resource metadata %q: they are compared byte for byte", clip(m.Issuer), who)
	default:
		s.pass("OB-64", "authorization server %s", who)
	}
	if slices.Contains(m.Methods, "S256") {
		s.pass("OB-62", "PKCE with S256")
	} else {
		s.fault("OB-62", pointer, "the authorization server %s does not offer PKCE with S256 (code_challenge_methods_supported): hosts stop there", who)
	}
	if m.CIMD {
		s.pass("OB-61", "takes a client id metadata document")
	} else {
		s.fault("OB-61", pointer, "the authorization server %s does not take client id metadata documents (client_id_metadata_document_supported): each host would have to be registered there by hand", who)
	}
}
