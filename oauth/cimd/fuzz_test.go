package cimd

import (
	"net/url"
	"strings"
	"testing"
)

func FuzzParse(f *testing.F) {
	f.Add(testID, "application/json", body())
	f.Add(testID, "application/x+json", body(`"jwks":{"keys":[{"kty":"EC","d":"x"}]}`, `"client_secret":1`))
	f.Add("https://h/c", "text/html", []byte(`{"client_id":`))
	f.Fuzz(func(t *testing.T, id, contentType string, b []byte) {
		d, err := Parse(id, 200, contentType, b)
		if (d == nil) == (err == nil) {
			t.Fatalf("document %v, error %v", d, err)
		}
		if err != nil {
			return
		}
		if d.ClientID != id || CheckID(id) != nil || len(b) > MaxBytes || strings.Contains(d.TokenEndpointAuthMethod, "client_secret") {
			t.Errorf("accepted for %q: %s", id, b)
		}
		for _, uri := range d.RedirectURIs {
			if !MatchRedirect(d.RedirectURIs, uri) {
				t.Errorf("%q does not match itself", uri)
			}
		}
	})
}

func FuzzCheckID(f *testing.F) {
	for _, id := range []string{testID, "https://h/", "https://h/%2e%2e/", "https://u@h/c", "https://h:1/c?q#f", "https://[::1]/c"} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		if CheckID(id) != nil {
			return
		}
		u, err := url.Parse(id)
		if err != nil || u.Scheme != "https" || u.Host == "" || u.Path == "" || u.User != nil || u.Fragment != "" {
			t.Fatalf("accepted %q: %v", id, err)
		}
		if clean := u.JoinPath(); strings.TrimSuffix(clean.Path, "/") != strings.TrimSuffix(u.Path, "/") && !strings.Contains(u.Path, "//") {
			t.Errorf("%q has another path when it is cleaned: %q", id, clean.Path)
		}
	})
}

func FuzzMatchRedirect(f *testing.F) {
	f.Add("http://127.0.0.1/cb", "http://127.0.0.1:80/cb")
	f.Add("http://[::1]/cb", "http://[::1]:80@evil.example/cb")
	f.Add("https://h/cb", "https://h/cb")
	f.Fuzz(func(t *testing.T, registered, uri string) {
		if !MatchRedirect([]string{registered}, uri) || registered == uri {
			return
		}
		a, err := url.Parse(registered)
		b, err2 := url.Parse(uri)
		if err != nil || err2 != nil { // what url.Parse refuses is refused when it is registered
			return
		}
		if a.Hostname() != b.Hostname() || a.Scheme != "http" || b.Scheme != "http" || b.User != nil || a.EscapedPath() != b.EscapedPath() || a.RawQuery != b.RawQuery {
			t.Errorf("%q matches %q", uri, registered)
		}
		if h := b.Hostname(); h != "127.0.0.1" && h != "::1" && h != "localhost" {
			t.Errorf("%q is not on loopback", uri)
		}
	})
}
