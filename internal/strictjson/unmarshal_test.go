package strictjson

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

type rawMessage = json.RawMessage

type base struct {
	Note string `json:"note"`
	Deep int    `json:"deep"`
}

type word string

type sample struct {
	base2      //nolint:unused // unexported and empty: no fields
	Base  base `json:"base"`
	*Inner
	Text    string          `json:"text"`
	Word    word            `json:"word"`
	Flag    bool            `json:"flag"`
	Int     int8            `json:"int"`
	Uint    uint16          `json:"uint"`
	Float   float64         `json:"float"`
	List    []string        `json:"list"`
	Map     map[string]base `json:"map"`
	Raw     json.RawMessage `json:"raw"`
	Any     any             `json:"any"`
	Pointer *base           `json:"pointer"`
	Time    time.Time       `json:"time"`
	Level   level           `json:"level"`
	Words   map[word][]*int `json:"words"`
	Skipped string          `json:"-"`
	Plain   string
	hidden  string            //nolint:unused // must stay out of the way
	Names   map[string]string `json:"names,omitempty"`
}

type base2 struct{} //nolint:unused // embedded above

type Inner struct {
	Note string `json:"note"`
	Text string `json:"text"` // hidden by sample.Text
}

type level int

func (l *level) UnmarshalText(b []byte) error {
	switch string(b) {
	case "low":
		*l = 1
	case "high":
		*l = 2
	default:
		return &time.ParseError{Message: "no such level"}
	}
	return nil
}

var valid = []string{
	`{}`,
	`null`,
	` {"text":"a","word":"w","flag":true,"int":-5,"uint":65535,"float":1.5e3,"list":["a","b"],"Plain":"p"}`,
	`{"base":{"note":"n","deep":3},"pointer":{"note":"x"},"note":"inner","map":{"a":{"note":"1"},"b":{}}}`,
	`{"any":{"a":[1,2.5,"x",null,true,{"b":[]}]},"raw":{"x": [1, 2]},"time":"2026-11-29T10:00:00Z","level":"high"}`,
	`{"text":null,"list":null,"map":null,"pointer":null,"any":null,"int":null}`,
	`{"list":[],"words":{"w":[1,null,2]},"names":{"\u0061":"\ud83d\ude00"}}`,
	`{"unknown":{"a":[{"b":1,"b":2}]},"text":"last"}`,
	`{"float":0.1,"any":-0}`,
	`{"any":1e300}`, `{"any":"\"\\\/\b\f\n\r\t\u00e9"}`, `{"any":[]}`, `{"any":false}`,
}

// For documents that both accept, the result is that of encoding/json.
func TestUnmarshal_equalsStandardLibrary(t *testing.T) {
	for _, in := range valid {
		var ours, theirs sample
		if err := json.Unmarshal([]byte(in), &theirs); err != nil {
			t.Fatalf("%s: encoding/json: %v", in, err)
		}
		if err := Unmarshal([]byte(in), &ours); err != nil {
			t.Fatalf("%s: %v", in, err)
		}
		if diff := cmp.Diff(theirs, ours, cmp.AllowUnexported(sample{})); diff != "" {
			t.Errorf("%s: -encoding/json +ours\n%s", in, diff)
		}
	}
}

func TestUnmarshal_refuses(t *testing.T) {
	tests := []struct{ in, want string }{
		{`[]`, "must be an object, not an array"},
		{`{"text":1}`, "/text: must be a string, not a number"},
		{`{"flag":"true"}`, "/flag: must be a boolean, not a string"},
		{`{"int":"1"}`, "/int: must be a number, not a string"},
		{`{"int":128}`, "/int: is 128, which int8 cannot hold"},
		{`{"int":1.0}`, "/int: is 1.0, which int8 cannot hold"},
		{`{"uint":-1}`, "/uint: is -1, which uint16 cannot hold"},
		{`{"float":1e999}`, "/float: is 1e999, which float64 cannot hold"},
		{`{"any":[0,1e999]}`, "/any/1: is 1e999, which float64 cannot hold"},
		{`{"any":` + strings.Repeat("9", 400) + `}`, "/any: is " + strings.Repeat("9", 40) + "…, which float64 cannot hold"},
		{`{"any":{"a/b":{"c":1,"c":2}}}`, "/any/a~1b/c: is given more than once, keep one"},
		{`{"list":{}}`, "/list: must be an array, not an object"},
		{`{"list":["a",2]}`, "/list/1: must be a string, not a number"},
		{`{"map":{"k":{"deep":"x"}}}`, "/map/k/deep: must be a number, not a string"},
		{`{"map":{"k":{},"k":{}}}`, "/map/k: is given more than once, keep one"},
		{`{"map":[]}`, "/map: must be an object, not an array"},
		{`{"level":"odd"}`, "/level: parsing time \"\"no such level"},
		{`{"level":1}`, "/level: must be a string, not a number"},
		{`{"base":{"x":1,"x":1}}`, "/base/x: is given more than once, keep one"},
		{`{"a":1,"a":1}`, "/a: is given more than once, keep one"},
	}
	for _, tt := range tests {
		var s sample
		err := Unmarshal([]byte(tt.in), &s)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s\n got %v\nwant %s", tt.in, err, tt.want)
		}
	}
	var s sample
	if err := Unmarshal([]byte(`{"time":"yesterday"}`), &s); err == nil || !strings.HasPrefix(err.Error(), "/time: ") {
		t.Errorf("a type's own refusal keeps its place: %v", err)
	}
	if err := Unmarshal([]byte(`{`), &s); err == nil {
		t.Error("bad JSON was read")
	}
	for _, to := range []any{nil, s, (*sample)(nil)} {
		if err := Unmarshal([]byte(`{}`), to); err == nil {
			t.Errorf("decoded into %T", to)
		}
	}
	for _, to := range []any{new(chan int), new(map[int]int), new(interface{ M() })} {
		if err := Unmarshal([]byte(`{}`), to); err == nil {
			t.Errorf("decoded into %T", to)
		}
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, s := range valid {
		f.Add([]byte(s))
	}
	for _, s := range []string{"\ufeff{}", `{"a":1,"a":2}`, `["\ud800"]`, `[1,]`, `[01]`, "[\"\xff\"]", `{"any":{"b":[1,{"c":"\u00e9"}]}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Parse(data)
		if err != nil {
			_ = err.Error()
			return
		}
		if doc.BOM() {
			data = data[len(bom):]
		}
		if !json.Valid(data) {
			t.Fatalf("read what encoding/json refuses: %q", data)
		}
		var ours, theirs any
		if doc.Root().Decode(&ours) != nil { // a duplicate or a number out of range
			return
		}
		if err := json.Unmarshal(data, &theirs); err != nil {
			t.Fatalf("decoded what encoding/json refuses: %q: %v", data, err)
		}
		if diff := cmp.Diff(theirs, ours); diff != "" {
			t.Fatalf("%q: -encoding/json +ours\n%s", data, diff)
		}
	})
}

// The other direction: what encoding/json reads and we do not is refused for
// a reason that this package is there for.
func FuzzParse_refusals(f *testing.F) {
	for _, s := range valid {
		f.Add([]byte(s))
	}
	f.Add([]byte(strings.Repeat("[", 70) + strings.Repeat("]", 70)))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := Parse(data)
		if err == nil || !json.Valid(data) {
			return
		}
		for _, reason := range []string{"nested deeper", "surrogate pair", "not UTF-8"} {
			if strings.Contains(err.Error(), reason) {
				return
			}
		}
		t.Fatalf("refused valid JSON %q: %v", data, err)
	})
}

type benchCard struct {
	Schema      string `json:"$schema"`
	Name        string `json:"name"`
	Version     string `json:"version"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Remotes     []struct {
		Type     string   `json:"type"`
		URL      string   `json:"url"`
		Versions []string `json:"supportedProtocolVersions"`
		Headers  []struct {
			Name     string `json:"name"`
			IsSecret bool   `json:"isSecret"`
		} `json:"headers"`
	} `json:"remotes"`
	Meta map[string]json.RawMessage `json:"_meta"`
}

var benchText = []byte(`{
  "$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
  "name": "com.example/calendar", "version": "1.0.0", "title": "Example Calendar",
  "description": "Look up schedules and create calendar events; 团队日程安排助手.",
  "remotes": [{"type": "streamable-http", "url": "https://apps.example.com/mcp/calendar",
    "headers": [{"name": "X-Key", "isSecret": true}],
    "supportedProtocolVersions": ["2026-07-28", "2025-11-25"]}],
  "unknown": {"a": [1, 2, {"b": "c"}]},
  "_meta": {"openbot/presentation": {"version": "1", "examples": [
    {"id": "meeting-plan", "title": "Plan the next team meeting", "prompt": "Find a free slot next week."}]}}
}`)

func BenchmarkUnmarshal(b *testing.B) {
	b.SetBytes(int64(len(benchText)))
	b.ReportAllocs()
	for b.Loop() {
		var c benchCard
		if err := Unmarshal(benchText, &c); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnmarshal_encodingJSON(b *testing.B) {
	b.SetBytes(int64(len(benchText)))
	b.ReportAllocs()
	for b.Loop() {
		var c benchCard
		if err := json.Unmarshal(benchText, &c); err != nil {
			b.Fatal(err)
		}
	}
}

func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"":                               `""`,
		"a\x1b\u202e\xff\"":              `"a\x1b\u202e\xff\""`,
		strings.Repeat("a", 120):         `"` + strings.Repeat("a", 120) + `"`,
		strings.Repeat("a", 119) + "日日日": `"` + strings.Repeat("a", 119) + `"...`,
	} {
		if got := Quote(in); got != want {
			t.Errorf("Quote(%q) = %s", in, got)
		}
	}
}
