package card

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// good is a usable card; with changes it.
const good = `{
  "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
  "name": "com.example/calendar",
  "version": "1.0.0",
  "title": "Example Calendar",
  "description": "Finds free slots and writes events.",
  "websiteUrl": "https://apps.example.com/apps/calendar",
  "remotes": [{"type": "streamable-http", "url": "https://apps.example.com/mcp", "supportedProtocolVersions": ["2026-07-28"]}]
}`

// with gives the good card with top-level members replaced by JSON text; an
// empty text removes the member.
func with(t testing.TB, members map[string]string) []byte {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(good), &m); err != nil {
		t.Fatal(err)
	}
	for name, text := range members {
		if text == "" {
			delete(m, name)
		} else {
			m[name] = json.RawMessage(text)
		}
	}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func mustParse(t testing.TB, data []byte) *Card {
	t.Helper()
	c, err := Parse(data)
	if err != nil {
		t.Fatalf("Parse: %v\n%s", err, data)
	}
	return c
}

// wantFaults checks that err has exactly these faults, each the beginning of
// "pointer: message".
func wantFaults(t testing.TB, err error, want ...string) {
	t.Helper()
	var list Errors
	if err != nil && !errors.As(err, &list) {
		t.Fatalf("error is %T %v, want Errors", err, err)
	}
	bad := len(list) != len(want)
	for i := 0; !bad && i < len(want); i++ {
		bad = !strings.HasPrefix(list[i].Error(), want[i])
	}
	if bad {
		t.Errorf("faults are\n%v\nwant\n%s", list, strings.Join(want, "\n"))
	}
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestParse(t *testing.T) {
	data := with(t, map[string]string{
		"repository": `{"url":"https://git.example.com/x","source":"github","subfolder":"a","id":"1","x":2}`,
		"icons":      `[{"src":"https://apps.example.com/i.png","mimeType":"image/png","sizes":["48x48","any"],"theme":"dark"},{"src":"data:image/png;base64,AA=="}]`,
		"remotes": `[{"type":"streamable-http","url":"https://apps.example.com/{t}/mcp",
			"headers":[{"name":"X-Key","description":"d","isRequired":true,"isSecret":true,"format":"string","default":"a","placeholder":"p","value":"{k}","choices":["a"],"variables":{"k":{"isSecret":true}}}],
			"variables":{"t":{"description":"team","format":"number"}},
			"supportedProtocolVersions":["2025-11-25","2026-07-28"]}]`,
		"_meta":   `{"com.example/x":{"a":1},"b":null}`,
		"unknown": `[1,{"a":1,"a":2}]`,
	})
	c := mustParse(t, data)
	want := &Card{
		Schema: SchemaURL, Name: "com.example/calendar", Version: "1.0.0", Title: "Example Calendar",
		Description: "Finds free slots and writes events.", WebsiteURL: "https://apps.example.com/apps/calendar",
		Repository: &Repository{URL: "https://git.example.com/x", Source: "github", Subfolder: "a", ID: "1"},
		Icons: []Icon{
			{Src: "https://apps.example.com/i.png", MimeType: "image/png", Sizes: []string{"48x48", "any"}, Theme: "dark"},
			{Src: "data:image/png;base64,AA=="},
		},
		Remotes: []Remote{{
			Type: "streamable-http", URL: "https://apps.example.com/{t}/mcp",
			Headers: []Header{{
				Name: "X-Key",
				Input: Input{
					Description: "d", IsRequired: true, IsSecret: true, Format: "string",
					Default: "a", Placeholder: "p", Value: "{k}", Choices: []string{"a"},
				},
				Variables: map[string]Input{"k": {IsSecret: true}},
			}},
			Variables: map[string]Input{"t": {Description: "team", Format: "number"}},
			Versions:  []string{"2025-11-25", "2026-07-28"},
		}},
		Meta: map[string]json.RawMessage{"com.example/x": json.RawMessage(`{"a":1}`), "b": json.RawMessage(`null`)},
		Raw:  data,
	}
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	data[0] = 'x'
	if c.Raw[0] != '{' {
		t.Error("Raw shares memory with what the caller gave")
	}

	// A card that was read and encoded is the same card, and valid.
	text, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again := mustParse(t, text)
	again.Raw, c.Raw = nil, nil
	again.Meta["com.example/x"] = c.Meta["com.example/x"] // indented by Encode
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("after Encode: -want +got\n%s", diff)
	}
	if err := Validate(c); err != nil {
		t.Error(err)
	}
}

// Each file of testdata/invalid has a .golden beside it: pointer and message
// of every fault, as Parse, else Usable, gives them. Run with -update.
func TestInvalidFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/invalid/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files in testdata/invalid: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			c, err := Parse(data)
			if err == nil {
				_, _, err = c.Usable()
			}
			if err == nil {
				t.Fatal("the card is valid and usable")
			}
			got := err.Error() + "\n"
			golden := strings.TrimSuffix(file, ".json") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	_, err := Parse([]byte(`{"$schema":1,"name":null,"remotes":{}}`))
	var one *Error
	if !errors.As(err, &one) || one.Pointer != "/$schema" {
		t.Errorf("errors.As finds %v", one)
	}
	var list Errors
	if !errors.As(err, &list) || len(list.Unwrap()) != len(list) {
		t.Error("Unwrap")
	}
	if IsNotJSON(err) || IsNotJSON(nil) || IsNotJSON(errors.New("x")) {
		t.Error("IsNotJSON is true")
	}
	for _, text := range []string{``, `{`, `<html>`, `{"a":1,}`, "\xff", `{} {}`, `{"a":"\ud800"}`} {
		c, err := Parse([]byte(text))
		if c != nil || !IsNotJSON(err) || errors.As(err, &list) {
			t.Errorf("Parse(%q) = %v, %v", text, c, err)
		}
	}
	for _, text := range []string{`null`, `[]`, `"x"`, `1`} {
		c, err := Parse([]byte(text))
		if c != nil || err == nil || IsNotJSON(err) || !strings.HasPrefix(err.Error(), "the card must be an object, not ") {
			t.Errorf("Parse(%q) = %v, %v", text, c, err)
		}
	}
}

func TestErrors_bounded(t *testing.T) {
	_, err := Parse(with(t, map[string]string{"remotes": "[" + strings.Repeat("1,", 50000) + "1]"}))
	var list Errors
	if !errors.As(err, &list) || len(list) != maxFaults+1 {
		t.Fatalf("%d faults", len(list))
	}
	if last := list[maxFaults].Error(); !strings.HasPrefix(last, "there are ") {
		t.Error(last)
	}
}

// Faults below a huge member name cost neither time nor memory.
func TestErrors_hugeNames(t *testing.T) {
	name := strings.Repeat("k", 500000)
	_, err := Parse(with(t, map[string]string{"remotes": `[{"variables":{"` + name + `":{"choices":[` + strings.Repeat("1,", 250000) + `1]}}}]`}))
	var list Errors
	if !errors.As(err, &list) {
		t.Fatal(err)
	}
	size := 0
	for _, fault := range list {
		size += len(fault.Error())
	}
	if size > 1<<20 {
		t.Errorf("the faults are %d octets", size)
	}
}

func TestValidate(t *testing.T) {
	c := mustParse(t, []byte(good))
	if err := Validate(c); err != nil {
		t.Error(err)
	}
	c.Name = "calendar"
	c.Remotes[0].Type = "stdio"
	wantFaults(t, Validate(c), `/name: is "calendar"; write namespace/name`, `/remotes/0/type: is "stdio"; it must be`)
	wantFaults(t, Validate(nil), "the card must be an object")
	wantFaults(t, Validate(&Card{}), "/$schema: is \"\"; set it to", `/name: is ""; write`, "/version: is empty", "/description: is empty")
	bad := &Card{Meta: map[string]json.RawMessage{"a": json.RawMessage("{")}}
	wantFaults(t, Validate(bad), "/_meta: holds a value that is no JSON")
	if _, err := bad.Encode(); err == nil {
		t.Error("Encode wrote what is no JSON")
	}
	deep := &Card{Meta: map[string]json.RawMessage{"a": json.RawMessage(strings.Repeat("[", 70) + strings.Repeat("]", 70))}}
	wantFaults(t, Validate(deep), "/_meta/a")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	files, _ := filepath.Glob("testdata/invalid/*.json")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse(data)
		if err != nil {
			if c != nil {
				t.Fatal("a card beside an error")
			}
			return
		}
		if !json.Valid([]byte(strings.TrimPrefix(string(data), "\ufeff"))) {
			t.Fatal("read what is no JSON")
		}
		remote, _, err := c.Usable()
		if (remote == nil) != (err != nil) {
			t.Fatalf("Usable = %v, %v", remote, err)
		}
		if remote != nil {
			if origin, err := remote.Origin(); err != nil || !strings.HasPrefix(origin, "https://") {
				t.Fatalf("origin %q, %v", origin, err)
			}
		}
		Findings(c)
		if changes := Changed(c, c); len(changes) != 0 {
			t.Fatalf("a card differs from itself: %v", changes)
		}
		text, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse(text); err != nil {
			t.Fatalf("encoded card: %v\n%s", err, text)
		} else if diff := Changed(c, again); hasWider(diff) {
			t.Fatalf("encoding widened the card: %v", diff)
		}
	})
}

func hasWider(changes []Change) bool { return len(changes) > 0 && changes[0].Kind == Wider }

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse([]byte(good)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParse_encodingJSON(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		var c Card
		if err := json.Unmarshal([]byte(good), &c); err != nil {
			b.Fatal(err)
		}
	}
}
