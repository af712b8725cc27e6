package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/index"
)

// description is /openapi.json as a client reads it.
type description struct{ root map[string]any }

// schemaOf gives the schema of an answer; nil if it is not described.
func (d *description) schemaOf(path, method string, status int, kind string) any {
	var v any = d.root
	for _, name := range []string{"paths", path, strings.ToLower(method), "responses", fmt.Sprint(status), "content", kind, "schema"} {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// check gives what is wrong with a value, by the words of JSON Schema that the
// description uses. A word that it does not know is an error, too.
func (d *description) check(schema, value any, at string) (faults []string) {
	bad := func(format string, args ...any) { faults = append(faults, at+": "+fmt.Sprintf(format, args...)) }
	s, ok := schema.(map[string]any)
	if !ok {
		return []string{at + ": no schema"}
	}
	object, _ := value.(map[string]any)
	list, _ := value.([]any)
	text, isText := value.(string)
	for word, arg := range s {
		switch word {
		case "$ref":
			name, _ := strings.CutPrefix(arg.(string), "#/components/schemas/")
			faults = append(faults, d.check(d.root["components"].(map[string]any)["schemas"].(map[string]any)[name], value, at)...)
		case "allOf":
			for _, part := range arg.([]any) {
				faults = append(faults, d.check(part, value, at)...)
			}
		case "type":
			kinds, several := arg.([]any)
			if !several {
				kinds = []any{arg}
			}
			if !slices.ContainsFunc(kinds, func(k any) bool { return isOf(value, k.(string)) }) {
				bad("%v is no %v", value, arg)
			}
		case "required":
			for _, name := range arg.([]any) {
				if _, ok := object[name.(string)]; !ok && object != nil {
					bad("no %s", name)
				}
			}
		case "properties":
			for name, part := range arg.(map[string]any) {
				if v, ok := object[name]; ok {
					faults = append(faults, d.check(part, v, at+"/"+name)...)
				}
			}
		case "additionalProperties":
			known, _ := s["properties"].(map[string]any)
			for name, v := range object {
				if known[name] == nil {
					faults = append(faults, d.check(arg, v, at+"/"+name)...)
				}
			}
		case "items":
			for i, v := range list {
				faults = append(faults, d.check(arg, v, fmt.Sprintf("%s/%d", at, i))...)
			}
		case "enum":
			if !slices.Contains(arg.([]any), value) {
				bad("%v is none of %v", value, arg)
			}
		case "format":
			if _, err := time.Parse(time.RFC3339, text); arg == "date-time" && err != nil {
				bad("%v is no date-time", value)
			}
		case "pattern":
			if isText && !regexp.MustCompile(arg.(string)).MatchString(text) {
				bad("%q does not match %v", text, arg)
			}
		case "minLength", "maxLength":
			if n := float64(utf8.RuneCountInString(text)); isText && (word == "minLength" && n < arg.(float64) || word == "maxLength" && n > arg.(float64)) {
				bad("%s %v: %d", word, arg, len(text))
			}
		case "description", "examples", "contentEncoding":
		default:
			bad("schema word %s is not known to the test", word)
		}
	}
	return faults
}

func isOf(v any, kind string) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case bool:
		return kind == "boolean"
	case float64:
		return kind == "number" || kind == "integer" && v == float64(int64(v))
	case string:
		return kind == "string"
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return false
}

// slow is a store that takes its time, or fails as told.
type slow struct {
	*memory
	stats func(context.Context) (*index.Stats, error)
	get   func(context.Context) (*index.Entry, error)
	head  func(context.Context) error
}

func (s *slow) Head(ctx context.Context) (index.Head, error) {
	if s.head != nil {
		return index.Head{}, s.head(ctx)
	}
	return s.memory.Head(ctx)
}

func (s *slow) Stats(ctx context.Context, now time.Time) (*index.Stats, error) {
	if s.stats != nil {
		return s.stats(ctx)
	}
	return s.memory.Stats(ctx, now)
}

func (s *slow) Get(ctx context.Context, id string) (*index.Entry, error) {
	if s.get != nil {
		return s.get(ctx)
	}
	return s.memory.Get(ctx, id)
}

// Real answers fit the schemas that the description gives for them.
func TestOpenAPI_bodiesFitTheirSchemas(t *testing.T) {
	m := sample(t)
	m.put(entryFor(t, "https://bare.example.com/card", "", "Text.", func(e *index.Entry, c *card.Card) { c.Remotes, c.WebsiteURL = nil, "" }))
	store := &slow{memory: m}
	s := open(t, m, func(o *Options) { o.Store, o.Rates, o.Now = store, Rates{Submit: 1, Search: -1, Read: -1}, time.Now })
	d := &description{object(t, s.get("/openapi.json"))}
	id := index.ID("https://calendar.example.com/card")
	next := object(t, s.get("/v1/apps?limit=1"))["nextCursor"].(string)
	ask := func(client int, method, target, body, contentType string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, target, strings.NewReader(body))
		r.RemoteAddr = fmt.Sprintf("203.0.113.%d:1", client)
		if contentType != "" {
			r.Header.Set("Content-Type", contentType)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	fits := func(w *httptest.ResponseRecorder, method, path string, status int) {
		t.Helper()
		var v any
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || w.Code != status {
			t.Errorf("%s %s: %d, want %d: %s", method, path, w.Code, status, w.Body)
			return
		}
		for _, fault := range d.check(d.schemaOf(path, method, status, w.Header().Get("Content-Type")), v, "") {
			t.Errorf("%s %s, %d: %s", method, path, status, fault)
		}
	}
	const form = "application/x-www-form-urlencoded"
	for i, tc := range []struct {
		method, path, rest, body, contentType string
		status                                int
	}{
		{"GET", "/v1/apps", "", "", "", 200},
		{"GET", "/v1/apps", "?q=calendar", "", "", 200},
		{"GET", "/v1/apps", "?cursor=" + next, "", "", 200},
		{"GET", "/v1/apps", "?q=nobodyhasthis", "", "", 200},
		{"GET", "/v1/apps", "?limit=x", "", "", 400},
		{"GET", "/v1/apps/{id}", id, "", "", 200},
		{"GET", "/v1/apps/{id}", index.ID("https://bare.example.com/card"), "", "", 200},
		{"GET", "/v1/apps/{id}", "xyz", "", "", 400},
		{"GET", "/v1/apps/{id}", strings.Repeat("0", 64), "", "", 404},
		{"GET", "/v1/apps/by-card", "?url=https://weather.example.com/card", "", "", 200},
		{"GET", "/v1/apps/by-card", "?url=https://old.example.com/card", "", "", 410},
		{"GET", "/v1/apps/by-card", "", "", "", 400},
		{"GET", "/v1/stats", "", "", "", 200},
		{"GET", "/healthz", "", "", "", 200},
		{"GET", "/readyz", "", "", "", 200},
		{"POST", "/v1/submissions", "", `{"url":"https://a.example.com"}`, jsonType, 202},
		{"POST", "/v1/submissions", "", `{"url":1}`, jsonType, 400},
		{"POST", "/v1/submissions", "", strings.Repeat(" ", maxBody+1), jsonType, 413},
		{"POST", "/v1/submissions", "", "url=a", form, 415},
	} {
		target := strings.Replace(tc.path, "{id}", tc.rest, 1)
		if target == tc.path {
			target += tc.rest
		}
		fits(ask(i, tc.method, target, tc.body, tc.contentType), tc.method, tc.path, tc.status)
	}
	const one = `{"url":"https://b.example.com"}`
	ask(99, "POST", "/v1/submissions", one, jsonType)
	fits(ask(99, "POST", "/v1/submissions", one, jsonType), "POST", "/v1/submissions", 429)
	store.get = func(context.Context) (*index.Entry, error) { return nil, errors.New("away") }
	fits(s.get("/v1/apps/by-card?url=https://x.example.com/"), "GET", "/v1/apps/by-card", 503)
	store.get = func(context.Context) (*index.Entry, error) { panic("bug") }
	fits(s.get("/v1/apps/by-card?url=https://x.example.com/"), "GET", "/v1/apps/by-card", 500)
	store.stats = func(context.Context) (*index.Stats, error) { panic("bug") }
	s2 := open(t, m, func(o *Options) { o.Store = store })
	fits(s2.get("/v1/stats"), "GET", "/v1/stats", 500)
	store.stats = func(context.Context) (*index.Stats, error) { return nil, errors.New("away") }
	fits(s2.get("/v1/stats"), "GET", "/v1/stats", 503) // and the panic has left nothing locked

	// What a generated client needs to know of the parameters.
	var params []any
	for _, path := range []string{"/v1/apps", "/v1/apps/{id}", "/v1/apps/by-card"} {
		params = append(params, d.root["paths"].(map[string]any)[path].(map[string]any)["get"].(map[string]any)["parameters"].([]any)...)
	}
	for name, want := range map[string]string{"q": "maxLength:200", "cursor": "maxLength:2048", "id": "pattern:^[0-9a-f]{64}$", "limit": "maximum:100"} {
		i := slices.IndexFunc(params, func(p any) bool { return p.(map[string]any)["name"] == name })
		if i < 0 || !strings.Contains(fmt.Sprint(params[i]), want) {
			t.Errorf("%s is not described with %s", name, want)
		}
	}
	if i := slices.IndexFunc(params, func(p any) bool { return p.(map[string]any)["name"] == "url" }); params[i].(map[string]any)["required"] != true {
		t.Error("url is not described as required")
	}
	if slices.ContainsFunc(params, func(p any) bool { return p.(map[string]any)["name"] == "Content-Type" }) {
		t.Error("Content-Type is no parameter")
	}
}
