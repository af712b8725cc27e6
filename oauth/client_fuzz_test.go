package oauth

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func FuzzParseChallenge(f *testing.F) {
	for _, s := range []string{
		"", "Bearer", `Bearer error="invalid_token", scope="a b"`, "Negotiate abc=, Bearer scope=a", `Bearer realm="`, `Bearer a="\`, "=,;\"", "Bearer\tscope=\"x\"",
		`Basic realm="a, Bearer scope=b"`, "Bearer scope = a ,error=b", strings.Repeat("Bearer x=y,", 100),
	} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ch := ParseChallenge(http.Header{"Www-Authenticate": {a, b}})
		if !ch.Present && (ch.Error != "" || ch.Scope != nil || ch.ResourceMetadata != "") {
			t.Errorf("parameters without a challenge: %+v", ch)
		}
		if ch.Error != "" && (!isScopeToken(ch.Error) || len(ch.Error) > maxErrorCode) || len(ch.Scope) > maxScopes {
			t.Errorf("%+v", ch)
		}
		for _, s := range ch.Scope {
			if !isScopeToken(s) {
				t.Errorf("scope %q", s)
			}
		}
		if len(ch.ResourceMetadata) > maxChallenges {
			t.Error("longer than what is read")
		}
		// What a plain challenge says is not lost behind anything well formed.
		if got := ParseChallenge(http.Header{"Www-Authenticate": {`Bearer error="e1", resource_metadata="https://a/"`, a, b}}); len(a)+len(b) < 1000 && (got.Error != "e1" || got.ResourceMetadata != "https://a/") {
			t.Errorf("lost: %+v", got)
		}
	})
}

func FuzzCallback(f *testing.F) {
	issuer := "https://as.example.com"
	for _, s := range []string{
		"", "code=c&state=s", "?code=c&state=s&iss=https%3A%2F%2Fas.example.com", "state=s&error=access_denied", "state=s&state=s", "code=c&state=s&iss=x", "%zz", "a;b", "state=s&code=c&code=d",
	} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, query string, advertised bool) {
		q, state, err := parseCallback(query)
		if err != nil {
			return
		}
		if state == "" || len(q["state"]) != 1 {
			t.Fatalf("state %q of %q", state, query)
		}
		code, err := judgeCallback(q, issuer, advertised)
		var theirs *callbackError
		if err == nil || errors.As(err, &theirs) {
			iss, there := q["iss"]
			if advertised && !there || there && (len(iss) != 1 || iss[0] != issuer) {
				t.Errorf("%q was acted on", query)
			}
			for name, values := range q {
				if len(values) != 1 {
					t.Errorf("%q was acted on with %s twice", query, name)
				}
			}
		}
		if err == nil && code != url.Values(q).Get("code") || err != nil && code != "" {
			t.Errorf("code %q, %v", code, err)
		}
	})
}
