package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const base = "https://apps.example.com/.well-known/ai-catalog.json"

func mustParse(t testing.TB, text string) *Catalog {
	t.Helper()
	c, err := Parse([]byte(text), base)
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, text)
	}
	return c
}

// doc gives a catalog with these entries.
func doc(entries ...string) string {
	return `{"specVersion":"1.0","entries":[` + strings.Join(entries, ",") + `]}`
}

// card gives a card entry with more members.
func card(identifier, url, more string) string {
	return fmt.Sprintf(`{"identifier":%q,"type":"application/mcp-server-card+json","url":%q%s}`, identifier, url, more)
}

func urls(c *Catalog) []string {
	var list []string
	for e := range c.Cards() {
		list = append(list, e.URL)
	}
	return list
}

func reasons(c *Catalog) []string {
	var list []string
	for _, s := range c.Skipped {
		list = append(list, fmt.Sprintf("%d %s", s.Index, s.Reason))
	}
	return list
}

func wantList(t testing.TB, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s\n got %q\nwant %q", what, got, want)
	}
}

// wantFaults checks the beginnings of the lines of an error.
func wantFaults(t testing.TB, err error, want ...string) {
	t.Helper()
	var lines []string
	if err != nil {
		lines = strings.Split(err.Error(), "\n")
	}
	bad := len(lines) != len(want)
	for i := 0; !bad && i < len(want); i++ {
		bad = !strings.HasPrefix(lines[i], want[i])
	}
	if bad {
		t.Errorf("faults are\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

func TestParse(t *testing.T) {
	text := []byte(`{"specVersion":"1.0","x":1,
	"host":{"displayName":"Example","identifier":"did:web:example.com","documentationUrl":"https://example.com/","logoUrl":"https://example.com/l.png","more":[]},
	"entries":[{"identifier":"urn:air:a:b","type":"application/mcp-server-card+json","url":"HTTPS://Apps.Example.com:443/a/../c#x",
		"displayName":"C","description":"d","version":"1","tags":["x","y"],"updatedAt":"2026-11-29T10:00:00Z","publisher":{"x":1,"x":2}}]}`)
	c, err := Parse(text, base)
	if err != nil {
		t.Fatal(err)
	}
	raw := string(c.Entries[0].Raw)
	if !strings.HasPrefix(raw, `{"identifier"`) || !strings.HasSuffix(raw, `}`) || !json.Valid([]byte(raw)) {
		t.Errorf("Raw is %s", raw)
	}
	want := &Catalog{
		SpecVersion: "1.0",
		Host:        &Host{DisplayName: "Example", Identifier: "did:web:example.com", DocumentationURL: "https://example.com/", LogoURL: "https://example.com/l.png"},
		Entries: []Entry{{
			Identifier: "urn:air:a:b", Type: CardType, URL: "https://apps.example.com/c", DisplayName: "C", Description: "d", Version: "1",
			Tags: []string{"x", "y"}, UpdatedAt: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC), Raw: json.RawMessage(raw),
		}},
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	clear(text)
	if string(c.Entries[0].Raw) != raw {
		t.Error("Raw shares memory with what the caller gave")
	}
}

func TestParse_refuses(t *testing.T) {
	for text, want := range map[string][]string{
		`[]`:                               {"the catalog must be an object, not an array"},
		`{}`:                               {"/specVersion: is missing", "/entries: is missing"},
		`{"specVersion":1,"entries":null}`: {"/specVersion: must be a string such as \"1.0\", not a number", "/entries: must be an array, not null"},
		`{"specVersion":"1.0","entries":[],"entries":[]}`:                                 {"/entries: is given more than once; keep one"},
		`{"specVersion":"1.0","entries":[],"x":1,"x":1}`:                                  {"/x: is given more than once; keep one"},
		`{"specVersion":"1.0","entries":[],"host":{"displayName":"a","displayName":"b"}}`: {"/host/displayName: is given more than once; keep one"},
		`{"SpecVersion":"1.0","Entries":[]}`:                                              {"/specVersion: is missing", "/entries: is missing"},
	} {
		c, err := Parse([]byte(text), base)
		if c != nil || IsNotJSON(err) {
			t.Errorf("%s: %v, %v", text, c, err)
		}
		wantFaults(t, err, want...)
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: no *Error in %v", text, err)
		}
	}
	for _, text := range []string{``, `<!doctype html>`, `{"specVersion":"1.0","entries":[`, `{} x`, `{"a":"\ud800"}`} {
		if _, err := Parse([]byte(text), base); !IsNotJSON(err) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, bad := range []string{"", "http://apps.example.com/", "/c", "https://u@a.example.com/"} {
		if _, err := Parse([]byte(doc()), bad); err == nil || IsNotJSON(err) {
			t.Errorf("base %q: %v", bad, err)
		}
	}
	if IsNotJSON(nil) {
		t.Error("nil is bad JSON")
	}
}

func TestParse_optionalMembers(t *testing.T) {
	c := mustParse(t, `{"specVersion":"1.0","host":null,"entries":[`+
		card("a", "https://a.example.com/1", `,"displayName":7,"description":null,"version":[],"tags":"x","updatedAt":"2026-11-29"`)+","+
		card("b", "https://a.example.com/2", `,"tags":["a",1,null,"b"],"updatedAt":"2026-11-29T10:00:00+02:00"`)+`]}`)
	wantList(t, "cards", urls(c), "https://a.example.com/1", "https://a.example.com/2")
	wantList(t, "warnings", c.Warnings,
		"/entries/0/displayName: must be a string, not a number; it is ignored",
		"/entries/0/version: must be a string, not an array; it is ignored",
		"/entries/0/tags: must be an array of strings, not a string; it is ignored",
		`/entries/0/updatedAt: is "2026-11-29"; it must be a date and time like 2026-11-29T10:00:00Z; it is ignored`,
		"/entries/1/tags/1: must be a string, not a number; it is ignored")
	wantList(t, "tags", c.Entries[1].Tags, "a", "b")
	if !c.Entries[0].UpdatedAt.IsZero() || c.Entries[1].UpdatedAt.UTC().Hour() != 8 {
		t.Error("updatedAt")
	}
	for host, warning := range map[string]string{
		`7`: "/host: must be an object, not a number; it is ignored", `{}`: "/host/displayName: is missing; the host is ignored",
		`{"displayName":7}`: "/host/displayName: must be a string",
	} {
		c := mustParse(t, `{"specVersion":"1.0","entries":[],"host":`+host+`}`)
		if c.Host != nil || len(c.Warnings) == 0 || !strings.HasPrefix(c.Warnings[0], warning) {
			t.Errorf("host %s: %v, %q", host, c.Host, c.Warnings)
		}
	}
	c = mustParse(t, doc(slices.Repeat([]string{card("a", "https://a.example.com/1", `,"version":1`)}, 300)...))
	if n := len(c.Warnings); n != 99 || c.Warnings[98] != "there are 202 more warnings" {
		t.Errorf("%d warnings, last %q", n, c.Warnings[n-1])
	}
	for range c.Cards() {
		break
	}
	c = mustParse(t, doc(strings.Repeat("1,", 400000)+card("last", "https://a.example.com/1", "")))
	wantList(t, "cards", urls(c), "https://a.example.com/1")
	wantList(t, "warnings", c.Warnings, "there are 399000 more entries that cannot be used")
	if len(c.Skipped) != 1000 {
		t.Errorf("%d skipped", len(c.Skipped))
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(doc(card("a", "https://a.example.com/1", `,"tags":["x"],"updatedAt":"2026-11-29T10:00:00Z"`), `null`, `{"type":"x","identifier":"y","data":1}`)))
	f.Add([]byte(`{"specVersion":"0.9","host":{"displayName":"x"},"entries":[{"identifier":"a","type":"application/ai-catalog+json","url":"../x"}]}`))
	f.Add([]byte(doc(`{"url":"a","url":"b"}`, `{"mediaType":"x"}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data, base)
		if (c == nil) == (err == nil) {
			t.Fatalf("%v, %v", c, err)
		}
		if err != nil {
			return
		}
		last, seen := -1, map[string]bool{}
		for e := range c.Cards() {
			if e.Index <= last || seen[e.URL] {
				t.Fatalf("order or double: %+v", e)
			}
			last, seen[e.URL] = e.Index, true
			if first, ok := c.Lists(e.URL); !ok || first.URL != e.URL {
				t.Fatalf("the catalog does not list its own card %q", e.URL)
			}
			if !json.Valid(e.Raw) {
				t.Fatalf("Raw %q", e.Raw)
			}
		}
		if _, err := Check(data, base); err != nil {
			t.Fatalf("Check: %v", err)
		}
	})
}

func benchmarkText() []byte {
	var list []string
	for i := range 50 {
		list = append(list, card(fmt.Sprintf("urn:air:apps.example.com:mcp:app%d", i), fmt.Sprintf("https://apps.example.com/mcp/app%d/server-card", i), `,"displayName":"An app","x":{"y":[1,2]}`))
	}
	return []byte(doc(list...))
}

func BenchmarkParse(b *testing.B) {
	text := benchmarkText()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(text, base); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse_encodingJSON(b *testing.B) {
	text := benchmarkText()
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		var c struct {
			SpecVersion string
			Entries     []struct{ Identifier, Type, URL, DisplayName, Description, Version string }
		}
		if err := json.Unmarshal(text, &c); err != nil {
			b.Fatal(err)
		}
	}
}

var ardIdentifier = regexp.MustCompile(`^urn:air:[a-zA-Z0-9.-]+(:[a-zA-Z0-9._-]+)+$`)

func TestIsARDIdentifier(t *testing.T) {
	for _, id := range []string{"urn:air:a:b", "urn:air:a.b-c:d_e:f", "urn:air:a", "urn:air:a:", "urn:air::b", "urn:air:a::b", "urn:air:a_b:c", "urn:air:a:b/c", "URN:air:a:b", "urn:air:a:b\n", "", "urn:air:日:b"} {
		if got, want := isARDIdentifier(id), ardIdentifier.MatchString(id) && !strings.HasSuffix(id, "\n"); got != want {
			t.Errorf("%q: %v, want %v", id, got, want)
		}
	}
}
