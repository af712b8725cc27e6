package oauth

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/internal/webtest"
	"github.com/openbot-build/openbot-go/publicnet"
)

// TestVectorsRequests runs the cases on requests to a protected resource.
func TestVectorsRequests(t *testing.T) {
	ran := 0
	for _, file := range webtest.VectorFiles(t, "oauth*vectors.json") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var set struct {
			Profile struct {
				Issuer, Resource string
				JWKS             json.RawMessage
				Now              int64
				Leeway           int `json:"leeway_seconds"`
			}
			Vectors []guardVector
		}
		if err := json.Unmarshal(data, &set); err != nil {
			t.Fatal(err)
		}
		for _, v := range set.Vectors {
			if v.Op != "rs.request" {
				continue
			}
			ran++
			var input guardInput
			var want guardWant
			if err := json.Unmarshal(v.Input, &input); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(v.Want, &want); err != nil {
				t.Fatal(err)
			}
			t.Run(v.ID, func(t *testing.T) {
				n := fakenet.New()
				t.Cleanup(n.Close)
				const keys = "https://keys.example.org/jwks"
				n.Set(keys, fakenet.Answer{Body: string(set.Profile.JWKS)})
				is := Issuer{URL: set.Profile.Issuer, JWKS: keys}
				if in := input.Introspection; in != nil {
					const ask = "https://keys.example.org/introspect"
					n.SetMethod("POST", ask, fakenet.Answer{Status: in.Status, Body: string(in.Body)})
					is.Introspection = &Introspection{Endpoint: ask, ClientID: "rs", ClientSecret: "s"}
				}
				g := makeGuard(t, n, &Protection{
					Resource: set.Profile.Resource, Issuers: []Issuer{is},
					Leeway: time.Duration(set.Profile.Leeway) * time.Second,
					Scopes: Scopes{Basic: input.Need},
				}, func() time.Time { return time.Unix(set.Profile.Now, 0) })
				r := httptest.NewRequest("POST", set.Profile.Resource+"?"+input.Query, nil)
				r.Header["Authorization"] = input.Authorization
				w := httptest.NewRecorder()
				g.Protect(ok200).ServeHTTP(w, r)
				if w.Code != want.Status {
					t.Fatalf("%s: status %d, want %d", v.Why, w.Code, want.Status)
				}
				got := ParseChallenge(w.Header())
				code := ""
				if want.Error != nil {
					code = *want.Error
				}
				if got.Error != code {
					t.Errorf("%s: error %q, want %q", v.Why, got.Error, code)
				}
				if want.Metadata && got.ResourceMetadata != g.metadataURL {
					t.Errorf("resource_metadata is %q", got.ResourceMetadata)
				}
				if want.Scope != nil && !slices.Equal(got.Scope, want.Scope) {
					t.Errorf("scope is %q, want %q", got.Scope, want.Scope)
				}
			})
		}
	}
	if ran == 0 {
		t.Fatal("no case of rs.request")
	}
}

type guardVector struct {
	ID, Op, Why string
	Input, Want json.RawMessage
}

type guardInput struct {
	Authorization []string
	Query         string
	Need          []string
	Introspection *struct {
		Status int
		Body   json.RawMessage
	}
}

type guardWant struct {
	Status   int
	Error    *string
	Metadata bool     `json:"challenge_resource_metadata"`
	Scope    []string `json:"challenge_scope"`
}

var ok200 = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })

// makeGuard gives a Guard on an Internet in memory; now nil is the real clock.
func makeGuard(t testing.TB, n *fakenet.Net, p *Protection, now func() time.Time) *Guard {
	t.Helper()
	network, err := publicnet.New(&publicnet.Options{UserAgent: "test", Below: n.Below()})
	if err != nil {
		t.Fatal(err)
	}
	p.Network = network
	g, err := newGuard(p, now)
	if err != nil {
		t.Fatal(err)
	}
	return g
}
