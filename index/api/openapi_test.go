package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/index"
)

// The description names every route, parameter and answer that there is.
func TestOpenAPI(t *testing.T) {
	s := open(t, sample(t), func(o *Options) {
		o.Rates = Rates{Submit: 1}
		o.About = "https://example.com/about"
		o.Contact = "ops@example.com"
	})
	w := s.get("/openapi.json")
	doc := object(t, w)
	if v, _ := doc["openapi"].(string); !strings.HasPrefix(v, "3.1") {
		t.Errorf("openapi %q", v)
	}
	info := doc["info"].(map[string]any)
	if d := info["description"].(string); !strings.Contains(d, "https://example.com/about") || !strings.Contains(d, "ops@example.com") {
		t.Errorf("description %q", d)
	}
	paths := doc["paths"].(map[string]any)
	op := func(path, method string) map[string]any {
		p, _ := paths[path].(map[string]any)
		o, _ := p[method].(map[string]any)
		if o == nil {
			t.Fatalf("%s %s is not described", method, path)
		}
		return o
	}
	var names []string
	for path, methods := range paths {
		names = append(names, path)
		for method, o := range methods.(map[string]any) {
			o := o.(map[string]any)
			if o["summary"] == "" || o["description"] == "" || o["operationId"] == "" {
				t.Errorf("%s %s has no words", method, path)
			}
			params, _ := o["parameters"].([]any)
			for _, p := range params {
				if p := p.(map[string]any); p["description"] == nil {
					t.Errorf("%s %s: parameter %v has no words", method, path, p["name"])
				}
			}
			for status, r := range o["responses"].(map[string]any) {
				content, _ := r.(map[string]any)["content"].(map[string]any)
				kind := jsonType
				if status >= "400" && !(path == "/readyz" && status == "503") {
					kind = problemType
				}
				if status != "304" && content[kind] == nil {
					t.Errorf("%s %s: %s is no %s", method, path, status, kind)
				}
				if status == "422" {
					t.Errorf("%s %s answers 422", method, path)
				}
			}
		}
	}
	slices.Sort(names)
	want := []string{"/healthz", "/readyz", "/v1/apps", "/v1/apps/by-card", "/v1/apps/{id}", "/v1/healthz", "/v1/stats", "/v1/submissions"}
	if !slices.Equal(names, want) {
		t.Errorf("paths %q", names)
	}
	// Answers that really occur are described.
	id := index.ID("https://calendar.example.com/card")
	for _, tc := range []struct{ method, target, path, body string }{
		{"get", "/v1/apps", "/v1/apps", ""},
		{"get", "/v1/apps?limit=0", "/v1/apps", ""},
		{"get", "/v1/apps?x", "/v1/apps", ""},
		{"get", "/v1/apps/" + id, "/v1/apps/{id}", ""},
		{"get", "/v1/apps/1", "/v1/apps/{id}", ""},
		{"get", "/v1/apps/" + strings.Repeat("0", 64), "/v1/apps/{id}", ""},
		{"get", "/v1/apps/by-card?url=https://old.example.com/card", "/v1/apps/by-card", ""},
		{"get", "/v1/apps/by-card", "/v1/apps/by-card", ""},
		{"get", "/v1/stats", "/v1/stats", ""},
		{"get", "/v1/stats?x", "/v1/stats", ""},
		{"get", "/healthz", "/healthz", ""},
		{"get", "/readyz", "/readyz", ""},
		{"post", "/v1/submissions", "/v1/submissions", `{"url":"https://a.example.com"}`},
		{"post", "/v1/submissions", "/v1/submissions", `{"url":"https://a.example.com"}`},
	} {
		w := s.do(strings.ToUpper(tc.method), tc.target, tc.body)
		if op(tc.path, tc.method)["responses"].(map[string]any)[fmt.Sprint(w.Code)] == nil {
			t.Errorf("%s %s answers %d, which is not described", tc.method, tc.target, w.Code)
		}
	}
	for _, status := range []int{http.StatusAccepted, http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusTooManyRequests} {
		if op("/v1/submissions", "post")["responses"].(map[string]any)[fmt.Sprint(status)] == nil {
			t.Errorf("submissions: %d is not described", status)
		}
	}
	if body := fmt.Sprint(op("/v1/submissions", "post")["requestBody"]); !strings.Contains(body, "schemas/Submission") {
		t.Errorf("submissions: body %s", body)
	}
	for name := range doc["components"].(map[string]any)["schemas"].(map[string]any) {
		if name == "ErrorModel" || name == "ErrorDetail" || name[0] < 'A' || name[0] > 'Z' {
			t.Errorf("schema %s", name)
		}
	}
}
