package oauth

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/openbot-build/openbot-go/internal/fetch"
	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

// Limits of the documents that sign-in reads (ours; the largest metadata seen in
// the field is about 10 KB).
const (
	maxMetadata  = 64 << 10
	probeTimeout = 5 * time.Second // of one well-known address
	maxListed    = 5               // authorization servers of one resource that are asked
)

// Well-known names (RFC 9728 section 3, RFC 8414 section 3, OpenID Connect
// Discovery 1.0 section 4).
const (
	wellKnownResource = "/.well-known/oauth-protected-resource"
	wellKnownServer   = "/.well-known/oauth-authorization-server"
	wellKnownOpenID   = "/.well-known/openid-configuration"
)

// serverMetadata is what an authorization server says of itself (RFC 8414
// section 2), as far as it is used here. Strings are as they were read.
type serverMetadata struct {
	Issuer                string   `json:"issuer"`
	AuthorizationEndpoint string   `json:"authorization_endpoint"`
	TokenEndpoint         string   `json:"token_endpoint"`
	RegistrationEndpoint  string   `json:"registration_endpoint"`
	RevocationEndpoint    string   `json:"revocation_endpoint"`
	IntrospectionEndpoint string   `json:"introspection_endpoint"`
	JWKSURI               string   `json:"jwks_uri"`
	ScopesSupported       []string `json:"scopes_supported"`
	ResponseTypes         []string `json:"response_types_supported"`
	ChallengeMethods      []string `json:"code_challenge_methods_supported"`
	TokenAuthMethods      []string `json:"token_endpoint_auth_methods_supported"`
	IssAdvertised         bool     `json:"authorization_response_iss_parameter_supported"`
	ClientDocuments       bool     `json:"client_id_metadata_document_supported"`
}

// resourceMetadata is what an app says of its endpoint (RFC 9728 section 2).
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported"`
}

// probe is one address where metadata may be, and the identifier that it must
// name when it is there (RFC 9728 section 3.3, RFC 8414 section 3.3).
type probe struct {
	URL    string
	Expect string
	Skip   string // why it is not asked; "" asks it
	Origin string // where redirects must end; "" is anywhere
}

// resourceProbes are the addresses of an endpoint's metadata in the fixed order:
// the challenge's, the path form, the root form (C1). No slash is ever added. A
// challenge's address on another origin than the endpoint's is not asked unless
// foreign says that it was reviewed.
func resourceProbes(endpoint, challenged string, foreign bool) ([]probe, error) {
	u, err := weburl.Parse(endpoint)
	if err != nil {
		return nil, fmt.Errorf("read the app's endpoint: %w", err)
	}
	origin, target := splitTarget(endpoint)
	ends := u.Origin() // a redirect would be a way around the review
	if foreign {
		ends = ""
	}
	var probes []probe
	if challenged != "" {
		p := probe{URL: challenged, Expect: endpoint, Origin: ends}
		switch c, err := weburl.Parse(challenged); {
		case err != nil:
			p.Skip = "the challenge names an address that cannot be used: " + err.Error()
		case c.Origin() != u.Origin() && !foreign:
			p.Skip = "the challenge names metadata on another origin than the app's: that needs a review"
		}
		probes = append(probes, p)
	}
	if path := strings.TrimSuffix(target, "/"); path != "" {
		probes = appendProbe(probes, probe{URL: origin + wellKnownResource + target, Expect: endpoint, Origin: ends})
		return appendProbe(probes, probe{URL: origin + wellKnownResource, Expect: origin, Origin: ends}), nil
	}
	// The endpoint is the origin, with a slash or without: one form, and what it
	// must name is the endpoint as it is written.
	return appendProbe(probes, probe{URL: origin + wellKnownResource, Expect: endpoint, Origin: ends}), nil
}

// appendProbe adds a probe unless its address is asked already.
func appendProbe(probes []probe, p probe) []probe {
	if slices.ContainsFunc(probes, func(q probe) bool { return q.URL == p.URL }) {
		return probes
	}
	return append(probes, p)
}

// serverURLs are the addresses of an issuer's metadata in the fixed order (C6).
// A last slash is stripped here, and nowhere else.
func serverURLs(issuer string) []string {
	origin, path := splitTarget(issuer)
	path = strings.TrimSuffix(path, "/")
	if path == "" {
		return []string{origin + wellKnownServer, origin + wellKnownOpenID}
	}
	return []string{origin + wellKnownServer + path, origin + wellKnownOpenID + path, origin + path + wellKnownOpenID}
}

// splitTarget parts an address after its authority, octets untouched.
func splitTarget(address string) (origin, target string) {
	at := strings.Index(address, "://")
	if at < 0 {
		return address, ""
	}
	if end := strings.IndexAny(address[at+3:], "/?#"); end >= 0 {
		return address[:at+3+end], address[at+3+end:]
	}
	return address, ""
}

// discoverServer reads the metadata of an issuer: the addresses of C6 in their
// order, the issuer compared byte for byte (C7), every address in it https (C17).
// client comes from publicnet. What a host needs besides is judged by usable.
func discoverServer(ctx context.Context, client *http.Client, issuer string) (*serverMetadata, error) {
	return readServer(ctx, client, issuer, checkHTTPS)
}

func readServer(ctx context.Context, client *http.Client, issuer string, check func(string) error) (*serverMetadata, error) {
	if err := checkIssuer(issuer, check); err != nil {
		return nil, err
	}
	probes := make([]probe, 0, 3)
	for _, u := range serverURLs(issuer) {
		probes = append(probes, probe{URL: u, Expect: issuer})
	}
	var m *serverMetadata
	err := ask(ctx, client, probes, func(p probe, body []byte) error {
		m = &serverMetadata{}
		if err := strictjson.Unmarshal(body, m); err != nil {
			return err
		}
		return acceptServer(m, issuer, check)
	})
	if err != nil {
		return nil, fmt.Errorf("find the metadata of the authorization server %s: %w", strictjson.Quote(issuer), err)
	}
	return m, nil
}

// checkIssuer judges the form of an issuer identifier (RFC 8414 section 2).
func checkIssuer(issuer string, check func(string) error) error {
	if strings.ContainsAny(issuer, "?#") {
		return fmt.Errorf("the issuer %s has a query or fragment, which no issuer has", strictjson.Quote(issuer))
	}
	if err := check(issuer); err != nil {
		return fmt.Errorf("the issuer %s cannot be used: %w", strictjson.Quote(issuer), err)
	}
	return nil
}

// acceptServer judges what every user of the metadata needs: the issuer (C7) and
// the addresses (C17).
func acceptServer(m *serverMetadata, issuer string, check func(string) error) error {
	if m.Issuer != issuer {
		return fmt.Errorf("it is not used: its issuer is %s and not %s, and they must be the same, byte for byte (RFC 8414 section 3.3)", strictjson.Quote(m.Issuer), strictjson.Quote(issuer))
	}
	var faults []error
	for _, e := range []struct{ name, url string }{
		{"authorization_endpoint", m.AuthorizationEndpoint},
		{"token_endpoint", m.TokenEndpoint},
		{"registration_endpoint", m.RegistrationEndpoint},
		{"revocation_endpoint", m.RevocationEndpoint},
		{"introspection_endpoint", m.IntrospectionEndpoint},
		{"jwks_uri", m.JWKSURI},
	} {
		if e.url == "" {
			continue
		}
		if err := check(e.url); err != nil {
			faults = append(faults, fmt.Errorf("its %s cannot be used: %w", e.name, err))
		} else if strings.Contains(e.url, "#") {
			faults = append(faults, fmt.Errorf("its %s %s has a fragment", e.name, strictjson.Quote(e.url)))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return &stopError{err}
	}
	return nil
}

// usable judges what a host needs of an authorization server besides: code flow
// and S256 (C14).
func (m *serverMetadata) usable() error {
	var faults []error
	if m.AuthorizationEndpoint == "" || m.TokenEndpoint == "" {
		faults = append(faults, errors.New("it names no authorization_endpoint or no token_endpoint; none is ever guessed"))
	}
	if !slices.Contains(m.ChallengeMethods, "S256") {
		faults = append(faults, errors.New("its code_challenge_methods_supported does not list S256, without which a code can be stolen"))
	}
	if err := checkPresets(m.AuthorizationEndpoint); err != nil {
		faults = append(faults, err)
	}
	if len(m.ResponseTypes) > 0 && !slices.Contains(m.ResponseTypes, "code") {
		faults = append(faults, errors.New(`its response_types_supported does not list "code"`))
	}
	return errors.Join(faults...)
}

// checkPresets judges the query of an authorization endpoint, which it may have
// (RFC 6749 section 3.1). A parameter of ours that stands in it already would be
// there twice, and which of the two counts is the server's to say.
func checkPresets(endpoint string) error {
	_, query, _ := strings.Cut(endpoint, "?")
	q, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("its authorization_endpoint has a malformed query")
	}
	for name := range q {
		switch strings.ToLower(name) {
		case "client_id", "redirect_uri", "response_type", "response_mode", "scope", "state", "resource", "code_challenge", "code_challenge_method", "request", "request_uri":
			return fmt.Errorf("its authorization_endpoint sets the parameter %s, which belongs to the request", strictjson.Quote(name))
		}
	}
	return nil
}

// acceptResource judges resource metadata (C1, C12): the identifier that its
// address stands for, and at least one authorization server that can be used.
// Servers that cannot be used are dropped from m.
func acceptResource(m *resourceMetadata, expect string, check func(string) error) error {
	if m.Resource == "" {
		return errors.New("it names no resource, and so is no metadata of one")
	}
	if m.Resource != expect {
		return &stopError{fmt.Errorf("its resource is %s and not %s: they must be the same, byte for byte (RFC 9728 section 3.3)", strictjson.Quote(shown(m.Resource)), strictjson.Quote(shown(expect)))}
	}
	if len(m.AuthorizationServers) == 0 {
		return &stopError{errors.New("it names no authorization server; the app itself is never taken for one")}
	}
	var faults []error
	var good []string
	for _, issuer := range m.AuthorizationServers {
		if err := checkIssuer(issuer, check); err != nil {
			faults = append(faults, err)
		} else {
			good = append(good, issuer)
		}
	}
	m.AuthorizationServers = good
	if len(good) == 0 {
		return &stopError{errors.Join(faults...)}
	}
	return nil
}

// outageOf tells of an error of a fetch that another day may have none.
func outageOf(err error) bool {
	for _, e := range []error{publicnet.ErrDNS, publicnet.ErrConnect, publicnet.ErrTimeout, publicnet.ErrTLS} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// checkHTTPS accepts absolute https addresses whose host is a name.
func checkHTTPS(address string) error {
	_, err := weburl.Parse(address)
	return err
}

// stopError is a fault that ends a search: the document is there and wrong. What
// is merely absent or broken is passed over (D19, G14).
type stopError struct{ error }

func (e *stopError) Unwrap() error { return e.error }

// ask reads the addresses one after another until accept takes a document. The
// error tells what each address answered; it is an ErrUnavailable when one of
// them was out of order, so that another day the document may be there.
func ask(ctx context.Context, client *http.Client, probes []probe, accept func(probe, []byte) error) error {
	var faults []error
	outage := false
	for _, p := range probes {
		body, down, err := p.read(ctx, client)
		if err == nil {
			if err = accept(p, body); err == nil {
				return nil
			}
			if stop := (*stopError)(nil); errors.As(err, &stop) {
				return fmt.Errorf("%s: %w", strictjson.Quote(shown(p.URL)), stop.error)
			}
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s: %w", strictjson.Quote(shown(p.URL)), err)
		}
		outage = outage || down
		faults = append(faults, fmt.Errorf("%s: %w", strictjson.Quote(shown(p.URL)), err))
	}
	err := fmt.Errorf("none of the addresses where it may be has it: %w", errors.Join(faults...))
	if outage {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// read gives the octets of a document that may be the metadata. down tells that
// another day the answer may be another one.
func (p probe) read(ctx context.Context, client *http.Client) (body []byte, down bool, err error) {
	if p.Skip != "" {
		return nil, false, errors.New(p.Skip)
	}
	u, err := weburl.Parse(p.URL)
	if err != nil {
		return nil, false, err
	}
	doc, err := fetch.Get(ctx, client, &fetch.Request{URL: u, Accept: "application/json", MaxBytes: maxMetadata, Timeout: probeTimeout, MaxHops: 3})
	if err != nil {
		return nil, outageOf(err), err
	}
	if doc.Status != http.StatusOK {
		return nil, doc.Status >= 500 || doc.Status == http.StatusTooManyRequests, fmt.Errorf("answered %d", doc.Status)
	}
	if final, err := weburl.Parse(doc.FinalURL); p.Origin != "" && (err != nil || final.Origin() != p.Origin) {
		return nil, false, fmt.Errorf("leads to %s, on another origin than the app's: that needs a review", strictjson.Quote(shown(doc.FinalURL)))
	}
	// Static hosting sends documents without an extension as octets; a page is no
	// metadata whatever it is called.
	if t, _, _ := mime.ParseMediaType(doc.ContentType()); t == "text/html" || t == "application/xhtml+xml" {
		return nil, false, errors.New("answered a page (HTML), which counts as absent")
	}
	parsed, err := strictjson.Parse(doc.Body)
	if err != nil {
		return nil, false, err
	}
	if parsed.Root().Kind() != strictjson.Object {
		return nil, false, fmt.Errorf("answered %s where an object is expected", parsed.Root().Kind())
	}
	return doc.Body, false, nil
}
