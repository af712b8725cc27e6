package check

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/oauth"
)

// signIn is what a protected endpoint says about where to sign in, as far as a
// host can find it. Nobody signs in.
type signIn struct {
	challenge oauth.Challenge // its ResourceMetadata is "" when it names none
	scheme    string          // of the first challenge
	address   string          // where the metadata was found
	resource  *resourceMetadata
	failed    string // why there is no metadata
	path      place
	root      place // not asked for an endpoint at the root of its origin
	servers   []serverMetadata

	browser  metadataAccess
	endpoint endpointAccess
}

// place is one place where hosts look for resource metadata.
type place struct {
	address  string // "" when it was not asked
	resource string // that the metadata there is of; "" without metadata
	failed   string // why there is no metadata
}

// resourceMetadata is what is read of protected resource metadata (RFC 9728).
type resourceMetadata struct {
	Resource string    `json:"resource"`
	Servers  []string  `json:"authorization_servers"`
	Scopes   *[]string `json:"scopes_supported"`
}

// serverMetadata is what is read of authorization server metadata (RFC 8414).
type serverMetadata struct {
	asked string // the issuer that the resource names

	Issuer    string   `json:"issuer"`
	Authorize string   `json:"authorization_endpoint"`
	Token     string   `json:"token_endpoint"`
	Methods   []string `json:"code_challenge_methods_supported"`
	CIMD      bool     `json:"client_id_metadata_document_supported"`
	Iss       bool     `json:"authorization_response_iss_parameter_supported"`
	failed    string
}

// maxServers bounds how many authorization servers are asked.
const maxServers = 3

// lookAtSignIn follows a challenge to the metadata behind it, as a host does: the
// address that it names, then the path form, then the root form.
func lookAtSignIn(ctx context.Context, client *http.Client, endpoint string, header http.Header) *signIn {
	in := &signIn{challenge: oauth.ParseChallenge(header)}
	in.scheme, _, _ = strings.Cut(header.Get("WWW-Authenticate"), " ")
	in.endpoint.ask(ctx, client, endpoint)

	path, root := resourcePlaces(endpoint)
	places := []string{in.challenge.ResourceMetadata}
	if places[0] == "" { // hosts that were told a place look nowhere else
		places = []string{path, root}
	}
	known := map[string]*place{}
	docs := map[string]*resourceMetadata{}
	look := func(address string) *place {
		if address == "" {
			return &place{}
		}
		if known[address] == nil {
			doc := &resourceMetadata{}
			p := &place{address: address}
			if _, p.failed = read(ctx, client, address, doc); p.failed == "" {
				p.resource, docs[address] = doc.Resource, doc
			}
			known[address] = p
		}
		return known[address]
	}
	for _, address := range places {
		if in.resource == nil && address != "" {
			in.failed = look(address).failed
			in.address, in.resource = address, docs[address]
		}
	}
	in.path, in.root = *look(path), *look(root)
	if in.resource == nil {
		return in
	}
	in.browser.ask(ctx, client, in.address)
	for _, issuer := range in.resource.Servers[:min(maxServers, len(in.resource.Servers))] {
		in.servers = append(in.servers, readServer(ctx, client, issuer))
	}
	return in
}

// readServer reads the metadata of an authorization server, in the order of
// hosts.
func readServer(ctx context.Context, client *http.Client, issuer string) serverMetadata {
	m := serverMetadata{asked: issuer}
	for _, address := range append(wellKnown(issuer, "oauth-authorization-server", false), wellKnown(issuer, "openid-configuration", true)...) {
		doc := serverMetadata{asked: issuer}
		if _, doc.failed = read(ctx, client, address, &doc); doc.failed == "" {
			return doc
		}
		m.failed = doc.failed
	}
	return m
}

// Issuer reads the metadata of an authorization server and judges whether hosts
// can sign in there, in a section of its own. That it cannot be reached from here
// is advice only. client comes from publicnet.
func Issuer(ctx context.Context, client *http.Client, r *Report, issuer string) {
	s := r.Section("issuer", issuer)
	m := readServer(ctx, client, issuer)
	if m.failed != "" {
		s.advise("OB-64", "", "its metadata cannot be read from here (%s): hosts read it from the public Internet", m.failed)
		return
	}
	m.judge(s, "")
}

// read gets a JSON document. It says what is wrong, or nothing.
func read(ctx context.Context, client *http.Client, address string, to any) (*reply, string) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Sprintf("%s is no https address", clip(address))
	}
	r, err := ask(ctx, client, http.MethodGet, address, http.Header{"Accept": {"application/json"}}, "")
	switch {
	case err != nil:
		return nil, fmt.Sprintf("%s cannot be read (%s)", clip(address), clip(orText(connectionFault(err), oneLine(err))))
	case r.status != http.StatusOK:
		return r, fmt.Sprintf("%s gets status %d", clip(address), r.status)
	}
	if err := strictjson.Unmarshal(r.body, to); err != nil {
		return r, fmt.Sprintf("%s is not the metadata that it should be (%s)", clip(address), clip(oneLine(err)))
	}
	return r, ""
}

// wellKnown gives the places of metadata about an address: its path after the
// well-known name. after adds the one with the name behind the path.
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
	return places
}

// resourcePlaces gives the two places of resource metadata: the path form, and
// the root form, which is of the origin. They are one for an endpoint at the
// root; then root is "".
func resourcePlaces(endpoint string) (path, root string) {
	const name = "/.well-known/oauth-protected-resource"
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" {
		return "", ""
	}
	origin := u.Scheme + "://" + u.Host
	path = origin + name + strings.TrimSuffix(u.EscapedPath(), "/")
	if u.RawQuery != "" {
		path += "?" + u.RawQuery
	}
	if path == origin+name {
		return path, ""
	}
	return path, origin + name
}

// judge says whether a host could sign in there.
func (in *signIn) judge(s *Section, pointer, endpoint string) {
	s.pass("OB-60", "the card is read without signing in")
	if !in.challenge.Present {
		s.fault("OB-60", pointer, "the challenge is of the scheme %q: hosts sign in with Bearer", clip(in.scheme))
	} else if in.challenge.Error != "" {
		s.advise("OB-60", pointer, "a call without a token gets the error %q: name an error only when a token was sent (RFC 6750), or hosts take the answer for a broken token", clip(in.challenge.Error))
	}
	in.endpoint.judge(s, pointer)
	if in.resource == nil {
		s.fault("OB-60", pointer, "hosts cannot find where to sign in: %s; name the resource metadata in the challenge (resource_metadata=)", orText(in.failed, "the challenge names nothing"))
		return
	}
	if in.challenge.ResourceMetadata == "" {
		s.advise("OB-60", pointer, "the challenge names no resource_metadata: hosts found it at %s by trying", clip(in.address))
	} else {
		s.pass("OB-60", "the challenge leads to the resource metadata %s", clip(in.address))
	}
	if in.resource.Resource == endpoint {
		s.pass("OB-62", "the metadata is of this resource: %s", clip(endpoint))
	} else {
		s.fault("OB-62", pointer, "the resource metadata is of %q, the endpoint in the card is %q: they are compared byte for byte, make them the same", clip(in.resource.Resource), clip(endpoint))
	}
	in.judgePlaces(s, pointer, endpoint)
	in.judgeScopes(s, pointer)
	in.browser.judge(s, pointer)
	if len(in.resource.Servers) == 0 {
		s.fault("OB-60", pointer, "the resource metadata names no authorization_servers: hosts never take the app's own origin for one")
	}
	for _, m := range in.servers {
		m.judge(s, pointer)
	}
}

// judgePlaces looks at where hosts search that lost the challenge. The two forms
// are of different resources, so one document never fits both (oauth S2).
func (in *signIn) judgePlaces(s *Section, pointer, endpoint string) {
	switch p := in.path; {
	case p.address == in.address && in.resource.Resource == endpoint:
		s.pass("OB-64", "hosts find the metadata without the challenge too")
	case p.address == in.address: // was said
	case p.resource == "":
		s.advise("OB-64", pointer, "hosts that did not see the challenge find no metadata: %s; serve it there too", clip(orText(p.failed, "it names no resource")))
	case p.resource != endpoint:
		s.fault("OB-64", pointer, "the metadata at %s is of %q, and hosts expect %q there", clip(p.address), clip(p.resource), clip(endpoint))
	default:
		s.pass("OB-64", "hosts find the metadata without the challenge too")
	}
	if p := in.root; p.resource != "" {
		if origin := strings.TrimSuffix(p.address, "/.well-known/oauth-protected-resource"); p.resource != origin {
			s.fault("OB-64", pointer, "the metadata at %s is of %q: at the root it can only be of the origin %q, so answer 404 there", clip(p.address), clip(p.resource), clip(origin))
		}
	}
}

func (in *signIn) judgeScopes(s *Section, pointer string) {
	switch scopes := in.resource.Scopes; {
	case scopes == nil || len(*scopes) == 0:
		s.fault("OB-60", pointer, "the resource metadata names no scopes_supported: name the basic ones, hosts tell their user what they ask for")
	case slices.Contains(*scopes, "offline_access"):
		s.advise("OB-60", pointer, "scopes_supported holds offline_access: leave it out, it is the host's choice and no right of this app")
	default:
		s.pass("OB-60", "the metadata names the scopes %s", clip(strings.Join(*scopes, " ")))
	}
	if slices.Contains(in.challenge.Scope, "offline_access") {
		s.advise("OB-60", pointer, "the challenge asks for the scope offline_access: leave it out, it is the host's choice and no right of this app")
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
	for _, e := range []struct{ name, address string }{{"authorization_endpoint", m.Authorize}, {"token_endpoint", m.Token}} {
		if u, err := url.Parse(e.address); err != nil || u.Scheme != "https" || u.Host == "" {
			s.fault("OB-64", pointer, "the authorization server %s names no https address as its %s: hosts stop there", who, e.name)
		}
	}
	if m.Iss {
		s.pass("OB-64", "says in its answers who it is (iss)")
	} else {
		s.advise("OB-64", pointer, "the authorization server %s does not say in its answers who it is (authorization_response_iss_parameter_supported): hosts with several servers can be misled", who)
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
