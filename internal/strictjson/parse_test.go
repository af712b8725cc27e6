package strictjson

import (
	"errors"
	"strings"
	"testing"
)

func TestParse_refuses(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := []struct {
		name, in, want string
	}{
		{"empty", ``, "the document is empty, JSON is expected (line 1, column 1)"},
		{"only white space", " \n ", "the document is empty, JSON is expected (line 2, column 2)"},
		{"NaN", `{"a":{"b":NaN}}`, "/a/b: NaN is not a JSON value (line 1, column 11)"},
		{"Infinity", `[Infinity]`, "/0: Infinity is not a JSON value (line 1, column 2)"},
		{"minus Infinity", `[1,-Infinity]`, "/1: -Infinity is not a JSON value (line 1, column 4)"},
		{"undefined", `undefined`, "undefined is not a JSON value (line 1, column 1)"},
		{"comment before value", "{\"a\":\n// no\n1}", "/a: a comment is not allowed in JSON, remove it (line 2, column 1)"},
		{"comment before name", `{/* */"a":1}`, "a comment is not allowed in JSON, remove it (line 1, column 2)"},
		{"comment before comma", `[1 #},
]`, "a comment is not allowed in JSON, remove it (line 1, column 4)"},
		{"comment at the end", `{} // x`, "a comment is not allowed in JSON, remove it (line 1, column 4)"},
		{"trailing comma, array", `[1,]`, "a comma stands before the closing bracket, remove it (line 1, column 4)"},
		{"trailing comma, object", `{"a":1,}`, "a comma stands before the closing brace, remove it (line 1, column 8)"},
		{"lone comma", `[,]`, `/0: ',' cannot begin a JSON value (line 1, column 2)`},
		{"missing comma", `{"a":1 "b":2}`, "a comma or the closing } must follow here (line 1, column 8)"},
		{"missing colon", `{"a" 1}`, "/a: a colon must follow the member's name (line 1, column 6)"},
		{"single quotes", `{"a":'x'}`, "/a: a string must stand in double quotes (line 1, column 6)"},
		{"bare name", `{a:1}`, "a member's name must stand in double quotes here (line 1, column 2)"},
		{"trailing data", `{}{}`, "something follows the end of the document, remove it (line 1, column 3)"},
		{"truncated object", `{"a":1`, "the text ends before the closing } (line 1, column 7)"},
		{"truncated after comma", `{"a":1,`, "the text ends inside an object (line 1, column 8)"},
		{"truncated after colon", `{"a":`, "/a: the text ends where a value must stand (line 1, column 6)"},
		{"truncated array", `[[],[1`, "/1: the text ends before the closing ] (line 1, column 7)"},
		{"truncated string", `["abc`, "/0: the text ends inside a string (line 1, column 6)"},
		{"truncated escape", `["abc\`, "/0: the text ends inside a string (line 1, column 7)"},
		{"control character", "[\"a\x01\"]", `/0: the control character U+0001 stands in a string, write it as \u0001 (line 1, column 4)`},
		{"line break in string", "[\"a\nb\"]", `/0: the control character U+000A stands in a string, write it as \u000a (line 1, column 4)`},
		{"unknown escape", `["\x41"]`, "/0: a backslash begins no escape sequence that JSON has, double it if you mean a backslash (line 1, column 3)"},
		{"short \\u", `["\u12"]`, `/0: four hexadecimal digits must follow \u (line 1, column 3)`},
		{"bad \\u", `["\u12G4"]`, `/0: four hexadecimal digits must follow \u (line 1, column 3)`},
		{"lone high surrogate", `{"a":["x\ud83d"]}`, `/a/0: the escape \ud83d is half of a surrogate pair, write both halves or none (line 1, column 9)`},
		{"high, then other", `["\ud83d\u0041"]`, `/0: the escape \ud83d is half of a surrogate pair, write both halves or none (line 1, column 3)`},
		{"lone low surrogate", `["\uDE00"]`, `/0: the escape \ude00 is half of a surrogate pair, write both halves or none (line 1, column 3)`},
		{"surrogate in a name", `{"\ud800":1}`, `the escape \ud800 is half of a surrogate pair, write both halves or none (line 1, column 3)`},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", "the text is not UTF-8 here, save it as UTF-8 (line 1, column 7)"},
		{"UTF-8 of a surrogate", "[\"\xed\xa0\x80\"]", "the text is not UTF-8 here, save it as UTF-8 (line 1, column 3)"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "the text is not UTF-8 here, save it as UTF-8 (line 1, column 1)"},
		{"leading zero", `[01]`, "/0: a number has digits after its sign and no needless zero before them (line 1, column 4)"},
		{"only a sign", `[-]`, "/0: a number has digits after its sign and no needless zero before them (line 1, column 3)"},
		{"plus sign", `[+1]`, `/0: '+' cannot begin a JSON value (line 1, column 2)`},
		{"no fraction", `[1.]`, "/0: a digit must follow the decimal point (line 1, column 4)"},
		{"no exponent", `[1e+]`, "/0: a digit must follow the exponent's e (line 1, column 5)"},
		{"wrong word", `[nul]`, `/0: 'n' cannot begin a JSON value (line 1, column 2)`},
		{"wrong case", `[True]`, `/0: 'T' cannot begin a JSON value (line 1, column 2)`},
		{"HTML", `<!doctype html>`, `'<' cannot begin a JSON value (line 1, column 1)`},
		{"second BOM", "\ufeff\ufeff{}", `'\ufeff' cannot begin a JSON value (line 1, column 1)`},
		{"pointer is escaped", `{"a/b~c":[0,{"d":tru}]}`, `/a~1b~0c/1/d: 't' cannot begin a JSON value (line 1, column 18)`},
		{"column counts characters", `["日程",x]`, `/1: 'x' cannot begin a JSON value (line 1, column 7)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.in))
			var e *Error
			if !errors.As(err, &e) || !e.NotJSON {
				t.Fatalf("Parse(%q) = %v, want an *Error with NotJSON", tt.in, err)
			}
			if got := err.Error(); got != tt.want {
				t.Errorf("Parse(%q)\n got %s\nwant %s", tt.in, got, tt.want)
			}
		})
	}
	for _, in := range []string{deep(MaxDepth), strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth)} {
		if _, err := Parse([]byte(in)); err != nil {
			t.Errorf("depth %d: %v", MaxDepth, err)
		}
	}
	for _, in := range []string{deep(MaxDepth + 1), deep(100000), strings.Repeat("[", 1<<20)} {
		_, err := Parse([]byte(in))
		if err == nil || !strings.Contains(err.Error(), "nested deeper than 64 levels") {
			t.Errorf("depth over %d: %v", MaxDepth, err)
		}
	}
}

func TestRule_OB15_StrictJSON(t *testing.T) {
	type doc struct {
		Name string `json:"name"`
	}
	var d doc
	if err := Unmarshal([]byte(`{"Name":"delete_note","NAME":"x"}`), &d); err != nil || d.Name != "" {
		t.Errorf("another case is another member: got %q, %v", d.Name, err)
	}
	err := Unmarshal([]byte(`{"name":"a","n\u0061me":"b"}`), &d)
	var e *Error
	if !errors.As(err, &e) || e.NotJSON || e.Pointer != "/name" {
		t.Errorf("duplicate member: got %v", err)
	}
	p, err := Parse([]byte("\ufeff{}"))
	if err != nil || !p.BOM() {
		t.Errorf("a byte order mark is tolerated and reported: %v", err)
	}
	for _, bad := range []string{`{"name":"\ud800"}`, `{"name":NaN}`, `{/**/}`, strings.Repeat("[", 65) + strings.Repeat("]", 65)} {
		if _, err := Parse([]byte(bad)); err == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func TestRule_D9_DuplicatesOnlyWhereUsed(t *testing.T) {
	const text = `{"used":{"a":1},"unused":{"b":1,"b":2},"raw":{"c":1,"c":2}}`
	var v struct {
		Used map[string]int `json:"used"`
		Raw  rawMessage     `json:"raw"`
	}
	if err := Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("objects that nobody looks into may hold duplicates: %v", err)
	}
	var all map[string]any
	err := Unmarshal([]byte(text), &all)
	if err == nil || err.Error() != "/unused/b: is given more than once, keep one" {
		t.Errorf("in an object that is used: %v", err)
	}
}

func TestRule_DocumentsR1_ReadStrictly(t *testing.T) { TestRule_OB15_StrictJSON(t) }

// FO-01: a request that holds both name and Name is read as name.
func TestRule_FO01_KeyCase(t *testing.T) {
	var request struct {
		Method string `json:"method"`
		Params struct {
			Name string `json:"name"`
		} `json:"params"`
	}
	const text = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"read_note","Name":"delete_note","arguments":{}}}`
	if err := Unmarshal([]byte(text), &request); err != nil {
		t.Fatal(err)
	}
	if request.Params.Name != "read_note" {
		t.Errorf("name is %q, want read_note", request.Params.Name)
	}
}

func TestValue(t *testing.T) {
	doc, err := Parse([]byte(` {"s":"a\u00e9\n\ud83d\ude00\/","t":true,"n":-12,"f":1.5,"z":null,"l":[[],{},"x"],"":0} `))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]Value{}
	for name, v := range doc.Root().Members() {
		got[string(name)] = v
	}
	if s := got["s"].Text(); s != "aé\n😀/" {
		t.Errorf("text %q", s)
	}
	if !got["t"].True() || got["s"].True() {
		t.Error("True")
	}
	if n, ok := got["n"].Int(); !ok || n != -12 {
		t.Errorf("Int = %d, %v", n, ok)
	}
	if _, ok := got["f"].Int(); ok {
		t.Error("1.5 is no integer")
	}
	if _, ok := got["s"].Int(); ok {
		t.Error("a string is no integer")
	}
	if got["z"].Kind() != Null || got["gone"].Kind() != None || got["gone"].Raw() != nil || got["gone"].Text() != "" {
		t.Error("null and absent")
	}
	if doc.Root().Len() != 7 || got["l"].Len() != 3 || got["s"].Len() != 0 {
		t.Error("Len")
	}
	var kinds []string
	for i, v := range got["l"].Elements() {
		kinds = append(kinds, v.Kind().String())
		if i == 1 {
			break
		}
	}
	if s := strings.Join(kinds, ","); s != "an array,an object" {
		t.Errorf("elements %s", s)
	}
	for range got["s"].Elements() {
		t.Error("a string has no elements")
	}
	for range got["l"].Members() {
		t.Error("an array has no members")
	}
	for name := range doc.Root().Members() {
		if string(name) == "t" {
			break
		}
	}
	if string(got["l"].Raw()) != `[[],{},"x"]` {
		t.Errorf("Raw %s", got["l"].Raw())
	}
	if _, ok := got["s"].Duplicate(); ok {
		t.Error("a string has no duplicates")
	}
}

func TestDuplicateInLargeObject(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{`)
	for i := range 1000 {
		b.WriteString(`"`)
		b.WriteString(strings.Repeat("k", i+1))
		b.WriteString(`":1,`)
	}
	unique := b.String() + `"x":1}`
	doc, err := Parse([]byte(unique))
	if err != nil {
		t.Fatal(err)
	}
	if name, ok := doc.Root().Duplicate(); ok {
		t.Errorf("found %q", name)
	}
	doc, _ = Parse([]byte(b.String() + `"kk":1}`))
	if name, ok := doc.Root().Duplicate(); !ok || name != "kk" {
		t.Errorf("Duplicate = %q, %v", name, ok)
	}
}

func TestMember(t *testing.T) {
	if got := Member("/a", "b/c~d"); got != "/a/b~1c~0d" {
		t.Error(got)
	}
}

// OB-137: a text that was cut off is told from one that is wrong, wherever the
// cut falls.
func TestRule_OB137_CutOffIsTold(t *testing.T) {
	const whole = `{"a": [1.5e3, true, null, "\u00e9\ud83d\ude00日"], "b": {"c": -0}}`
	truncated := func(text string) bool {
		_, err := Parse([]byte(text))
		var e *Error
		return errors.As(err, &e) && e.Truncated
	}
	for n := range len(whole) {
		if !truncated(whole[:n]) {
			t.Errorf("%q is not told as cut off", whole[:n])
		}
	}
	for _, wrong := range []string{`{"a": }`, `{"a": tru}`, `{"a" 1}`, `[1,]`, `{"a": "\x"}`, `{"a": "\ud800"}`, `{} {}`, "[\"\xff\"]", `[01]`, `nul1`, strings.Repeat("[", 70)} {
		if truncated(wrong) {
			t.Errorf("%q is told as cut off", wrong)
		}
	}
}
