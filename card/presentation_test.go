package card

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	goodPreview = `{"src":"https://apps.example.com/a.webp","alt":"A plan","width":1200,"height":800,"mimeType":"image/webp"}`
	goodExample = `{"id":"plan","title":"Plan","prompt":"Find a slot."}`
)

// block reads a presentation block from a card and checks that the card is
// read and usable whatever the block is (OB-25).
func block(t testing.TB, text string) (*Presentation, error) {
	t.Helper()
	c := mustParse(t, with(t, map[string]string{"_meta": `{"openbot/presentation":` + text + `}`}))
	if _, _, err := c.Usable(); err != nil {
		t.Errorf("the card is not usable: %v", err)
	}
	p, err := c.Presentation()
	if err != nil && p != nil {
		t.Error("a faulty block was not dropped whole")
	}
	return p, err
}

// examples gives a block with these examples.
func examples(list ...string) string {
	return `{"version":"1","examples":[` + strings.Join(list, ",") + `]}`
}

// change gives the JSON object with one member set to text, or removed.
func change(object, member, text string) string {
	var m map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &m); err != nil {
		panic(err)
	}
	if text == "" {
		delete(m, member)
	} else {
		m[member] = json.RawMessage(text)
	}
	b, _ := json.Marshal(m)
	return string(b)
}

// a limit of one member: a value, and the fault it is, "" for none.
type limit struct{ member, value, fault string }

func checkLimits(t *testing.T, at string, build func(limit) string, limits []limit) {
	t.Helper()
	for _, l := range limits {
		_, err := block(t, build(l))
		if l.fault == "" {
			wantFaults(t, err)
		} else {
			wantFaults(t, err, presentationPointer+at+l.member+": "+l.fault)
		}
	}
}

func chars(n int) string { return quoted(strings.Repeat("日", n)) }

func TestPresentation(t *testing.T) {
	p, err := block(t, examples(
		change(change(goodExample, "preview", goodPreview), "description", `"<b>text</b>"`),
		change(goodExample, "id", `"2"`)))
	want := &Presentation{Version: "1", Examples: []Example{
		{
			ID: "plan", Title: "Plan", Prompt: "Find a slot.", Description: "<b>text</b>",
			Preview: &Preview{Src: "https://apps.example.com/a.webp", Alt: "A plan", Width: 1200, Height: 800, MimeType: "image/webp"},
		},
		{ID: "2", Title: "Plan", Prompt: "Find a slot."},
	}}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if p, err := mustParse(t, []byte(good)).Presentation(); p != nil || err != nil {
		t.Errorf("no block: %v, %v", p, err)
	}
}

func TestSetPresentation(t *testing.T) {
	c := mustParse(t, []byte(good))
	want := &Presentation{Examples: []Example{{ID: "a", Title: "t", Prompt: "p"}}}
	if err := c.SetPresentation(want); err != nil {
		t.Fatal(err)
	}
	got, err := c.Presentation()
	if err != nil || got.Version != "1" || got.Examples[0] != want.Examples[0] {
		t.Errorf("read back %v, %v", got, err)
	}
	wantFaults(t, c.SetPresentation(&Presentation{Version: "1"}), presentationPointer+"/examples: must be an array, not null")
	if again, err := c.Presentation(); err != nil || !cmp.Equal(got, again) {
		t.Error("a refused block changed the card")
	}
	if err := c.SetPresentation(nil); err != nil {
		t.Fatal(err)
	}
	if p, err := c.Presentation(); p != nil || err != nil {
		t.Error("the block was not removed")
	}
}

func TestRule_OB20_Version(t *testing.T) {
	for text, fault := range map[string]string{
		`"1"`: "", `"2"`: `is "2"; only version "1" is known`, `1`: "must be a string, not a number", `"1.0"`: "is ", `""`: "is ", "": "is missing",
	} {
		_, err := block(t, change(examples(goodExample), "version", text))
		if fault == "" {
			wantFaults(t, err)
		} else {
			wantFaults(t, err, presentationPointer+"/version: "+fault)
		}
	}
}

func TestRule_OB21_Examples(t *testing.T) {
	list := func(n int) string {
		var l []string
		for i := range n {
			l = append(l, change(goodExample, "id", fmt.Sprintf(`"e%d"`, i)))
		}
		return examples(l...)
	}
	const at = presentationPointer + "/examples"
	for _, n := range []int{1, 12} {
		_, err := block(t, list(n))
		wantFaults(t, err)
	}
	_, err := block(t, list(0))
	wantFaults(t, err, at+": is empty")
	_, err = block(t, list(13))
	wantFaults(t, err, at+": has 13 items; at most 12 are allowed, remove 1")
	_, err = block(t, `{"version":"1"}`)
	wantFaults(t, err, at+": is missing")
	_, err = block(t, `{"version":"1","examples":{}}`)
	wantFaults(t, err, at+": must be an array, not an object")
	_, err = block(t, examples("1", "null"))
	wantFaults(t, err, at+"/0: must be an object, not a number", at+"/1: must be an object, not null")
}

func TestRule_OB22_ID(t *testing.T) {
	checkLimits(t, "/examples/0/", func(l limit) string { return examples(change(goodExample, l.member, l.value)) }, []limit{
		{"id", `"a"`, ""},
		{"id", `"9"`, ""},
		{"id", `"A._-z"`, ""},
		{"id", quoted(strings.Repeat("a", 100)), ""},
		{"id", quoted(strings.Repeat("a", 101)), "is 101 characters; at most 100 are allowed, shorten it by 1"},
		{"id", `""`, "is empty"},
		{"id", ``, "is missing"},
		{"id", `1`, "must be a string, not a number"},
		{"id", `"_a"`, `is "_a"; use ASCII letters`},
		{"id", `".a"`, "is "},
		{"id", `"-a"`, "is "},
		{"id", `"a b"`, "is "},
		{"id", `"é"`, "is "},
		{"id", `"日"`, "is "},
		{"id", `"a\n"`, "is "},
	})
	_, err := block(t, examples(goodExample, change(goodExample, "id", `"x"`), goodExample))
	wantFaults(t, err, presentationPointer+`/examples/2/id: is "plan" like the id of example 0`)
	_, err = block(t, examples(goodExample, change(goodExample, "id", `"PLAN"`)))
	wantFaults(t, err)
}

func TestRule_OB23_Texts(t *testing.T) {
	checkLimits(t, "/examples/0/", func(l limit) string { return examples(change(goodExample, l.member, l.value)) }, []limit{
		{"title", chars(1), ""},
		{"title", chars(100), ""},
		{"title", chars(101), "is 101 characters; at most 100 are allowed, shorten it by 1"},
		{"title", chars(0), "is empty"},
		{"title", ``, "is missing"},
		{"prompt", chars(2000), ""},
		{"prompt", chars(2001), "is 2001 characters; at most 2000 are allowed, shorten it by 1"},
		{"prompt", chars(0), "is empty"},
		{"prompt", ``, "is missing"},
		{"description", ``, ""},
		{"description", chars(0), ""},
		{"description", chars(500), ""},
		{"description", chars(501), "is 501 characters; at most 500 are allowed, shorten it by 1"},
		{"description", `null`, "must be a string, not null"},
	})
}

func TestRule_OB24_Preview(t *testing.T) {
	checkLimits(t, "/examples/0/preview/", func(l limit) string {
		return examples(change(goodExample, "preview", change(goodPreview, l.member, l.value)))
	}, []limit{
		{"src", `"https://a.example.com"`, ""},
		{"src", `"http://a.example.com/x.png"`, "cannot be used"},
		{"src", ``, "is missing"},
		{"alt", chars(0), ""},
		{"alt", chars(500), ""},
		{"alt", chars(501), "is 501 characters; at most 500 are allowed, shorten it by 1"},
		{"alt", ``, "is missing"},
		{"width", `1`, ""},
		{"width", `8192`, ""},
		{"width", `0`, "is 0; it must be a whole number from 1 to 8192"},
		{"width", `8193`, "is 8193; it must be a whole number from 1 to 8192"},
		{"width", `-1`, "is -1"},
		{"width", ``, "is missing"},
		{"height", `1`, ""},
		{"height", `8192`, ""},
		{"height", `0`, "is 0"},
		{"height", `8193`, "is 8193"},
		{"height", ``, "is missing"},
		{"mimeType", `"image/png"`, ""},
		{"mimeType", `"image/jpeg"`, ""},
		{"mimeType", `"image/avif"`, ""},
		{"mimeType", `"image/svg+xml"`, ""},
		{"mimeType", `"IMAGE/PNG"`, ""},
		{"mimeType", `"image/gif"`, `is "image/gif"; it must be "image/png"`},
		{"mimeType", ``, "is missing"},
	})
	_, err := block(t, examples(change(goodExample, "preview", `null`)))
	wantFaults(t, err, presentationPointer+"/examples/0/preview: must be an object, not null")
}

func TestRule_OB25_FaultyBlockIsIgnoredWhole(t *testing.T) {
	for _, text := range []string{`null`, `1`, `[]`, `{}`, `{"version":"1","version":"1","examples":[` + goodExample + `]}`, examples(goodExample, `{}`)} {
		p, err := block(t, text) // block checks that the card is used
		var list Errors
		if p != nil || !errors.As(err, &list) {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
	c := mustParse(t, []byte(good))
	c.Meta = map[string]json.RawMessage{PresentationKey: json.RawMessage(`{`)}
	if p, err := c.Presentation(); p != nil || !IsNotJSON(err) || !strings.HasPrefix(err.Error(), presentationPointer) {
		t.Errorf("bytes that are no JSON: %v, %v", p, err)
	}
}

// Markup in a text comes back as the same text: nothing reads it.
func TestRule_OB26_TextsAreData(t *testing.T) {
	const text = `<img src=x onerror=alert(1)> [x](javascript:1) {{.}}`
	p, err := block(t, examples(change(goodExample, "prompt", quoted(text))))
	if err != nil || p.Examples[0].Prompt != text {
		t.Errorf("%v, %v", p, err)
	}
}

func TestRule_OB27_Details(t *testing.T) {
	checkLimits(t, "/examples/0/preview/", func(l limit) string {
		return examples(change(goodExample, "preview", change(goodPreview, l.member, l.value)))
	}, []limit{
		{"src", `"/a.png"`, "cannot be used"},
		{"src", `"data:image/png;base64,AA=="`, "cannot be used"},
		{"src", `"https://u:p@a.example.com/x"`, "cannot be used"},
		{"src", `""`, "cannot be used"},
		{"width", `1.5`, "is 1.5; it must be a whole number"},
		{"width", `"100"`, "is a string; it must be a whole number"},
		{"width", `1e400`, "is 1e400"},
		{"height", `null`, "is null"},
		{"height", strings.Repeat("9", 60), "is " + strings.Repeat("9", 40) + "..."},
		{"unknown", `{"a":1,"a":2}`, ""},
	})
	// Lengths are code points, not octets or UTF-16 units.
	_, err := block(t, examples(change(goodExample, "title", quoted(strings.Repeat("😀", 100)))))
	wantFaults(t, err)
	_, err = block(t, change(examples(change(goodExample, "more", `[]`)), "more", `1`))
	wantFaults(t, err)
	TestRule_OB22_ID(t) // empty and repeated ids
}

func TestRule_OBT11_LimitsAtNAndOneMore(t *testing.T) {
	TestRule_OB20_Version(t)
	TestRule_OB21_Examples(t)
	TestRule_OB22_ID(t)
	TestRule_OB23_Texts(t)
	TestRule_OB24_Preview(t)
	TestRule_OB25_FaultyBlockIsIgnoredWhole(t)
}

func TestRule_DocumentsV7_Presentation(t *testing.T) { TestRule_OBT11_LimitsAtNAndOneMore(t) }

func FuzzPresentation(f *testing.F) {
	f.Add([]byte(examples(goodExample)))
	f.Add([]byte(examples(change(goodExample, "preview", goodPreview), `{}`)))
	f.Add([]byte(`{"version":"1","version":"1"}`))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := &Card{Meta: map[string]json.RawMessage{PresentationKey: data}}
		p, err := c.Presentation()
		if (p == nil) == (err == nil) {
			t.Fatalf("%v, %v", p, err)
		}
		if p == nil {
			return
		}
		if err := c.SetPresentation(p); err != nil {
			t.Fatalf("a block that was read cannot be written: %v", err)
		}
		if again, err := c.Presentation(); err != nil || !cmp.Equal(p, again) {
			t.Fatalf("written and read: %v, %v", again, err)
		}
	})
}
