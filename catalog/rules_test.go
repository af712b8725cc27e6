package catalog

import (
	"fmt"
	"strings"
	"testing"
)

func TestRule_OB1_SpecVersion(t *testing.T) {
	for version, fault := range map[string]string{
		`"1.0"`: "", `"0.9"`: "", `"1.7"`: "", `"0.0"`: "", `"1.123456789012345678901234567890"`: "",
		`"2.0"`:  `/specVersion: is "2.0", a version that this reader does not know; it reads 0.x and 1.x`,
		`"10.0"`: "/specVersion: is", `"99999999999999999999.0"`: "/specVersion: is",
		`"1"`: "/specVersion: is \"1\"; it must be two numbers", `"1.0.0"`: "/specVersion: is", `"-1.0"`: "/specVersion: is", `"a.b"`: "/specVersion: is",
		`""`: "/specVersion: is", `"1."`: "/specVersion: is", `".1"`: "/specVersion: is", `" 1.0"`: "/specVersion: is", `"1.0 "`: "/specVersion: is",
		`1`: "/specVersion: must be a string", `1.0`: "/specVersion: must be a string", `null`: "/specVersion: must be a string",
	} {
		_, err := Parse([]byte(`{"specVersion":`+version+`,"entries":[],"unknown":{"a":1}}`), base)
		if fault == "" {
			wantFaults(t, err)
		} else {
			wantFaults(t, err, fault)
		}
	}
}

func TestRule_D1_SpecVersion(t *testing.T)          { TestRule_OB1_SpecVersion(t) }
func TestRule_DocumentsK7_SpecVersion(t *testing.T) { TestRule_OB1_SpecVersion(t) }

func TestRule_OB2_CardsOfOtherDomains(t *testing.T) {
	c := mustParse(t, doc(card("a", "https://apps.example.com/c", ""), card("b", "https://other.example.org/c", "")))
	wantList(t, "cards", urls(c), "https://apps.example.com/c", "https://other.example.org/c")
}

func TestRule_OB3_TheCardURLIsTheIdentity(t *testing.T) {
	c := mustParse(t, doc(
		card("urn:x", "https://a.example.com/c", ""),
		card("urn:x", "https://b.example.com/c", ""),
		card("urn:y", "https://A.example.com./c", ""),
		card("URN:X", "https://a.example.com/c/", "")))
	wantList(t, "cards", urls(c), "https://a.example.com/c", "https://b.example.com/c", "https://a.example.com/c/")
	if len(c.Entries) != 4 || c.Entries[3].Identifier != "URN:X" {
		t.Errorf("entries %v", c.Entries)
	}
}

func TestRule_DocumentsK3_SameURLOnce(t *testing.T) { TestRule_OB3_TheCardURLIsTheIdentity(t) }

func TestRule_DocumentsK1_IdentifiersAreOpaque(t *testing.T) {
	for _, id := range []string{
		"urn:air:apps.example.com:mcp:calendar", "urn:air:apps.example.com:calendar/v2:mcp", "urn:ai:old", "x", " spaced ", "日程", "URN:AIR:a:b", "https://a.example/",
	} {
		c := mustParse(t, doc(card(id, "https://a.example.com/c", "")))
		if e, ok := c.Lists("https://a.example.com/c"); !ok || e.Identifier != id {
			t.Errorf("identifier %q came back as %q", id, e.Identifier)
		}
	}
	for _, id := range []string{`""`, `null`, `1`} {
		c := mustParse(t, doc(`{"identifier":`+id+`,"type":"`+CardType+`","url":"https://a.example.com/c"}`))
		wantList(t, id, reasons(c), "0 missing_identifier")
	}
}

func TestRule_D2_IdentifiersAreOpaque(t *testing.T) { TestRule_DocumentsK1_IdentifiersAreOpaque(t) }

func TestRule_DocumentsK2_Label(t *testing.T) {
	tests := []struct{ display, title, name, identifier, want string }{
		{"D", "T", "N", "i", "D"},
		{"", "T", "N", "i", "T"},
		{"", "", "a/n", "i", "a/n"},
		{"", "", "", "urn:air:apps.example.com:mcp:calendar", "calendar"},
		{"", "", "", "urn:air:a:b/c", "b/c"},
		{"", "", "", "calendar", "calendar"},
		{"", "", "", "urn:air:", "urn:air:"},
	}
	for _, tt := range tests {
		e := Entry{DisplayName: tt.display, Identifier: tt.identifier}
		if got := e.Label(tt.title, tt.name); got != tt.want {
			t.Errorf("Label = %q, want %q", got, tt.want)
		}
	}
}

func TestRule_OB6_InlineCard(t *testing.T) {
	c := mustParse(t, doc(
		`{"identifier":"a","type":"application/mcp-server-card+json","data":{"name":"a/b"}}`,
		`{"identifier":"b","type":"application/mcp-server-card+json","data":null,"url":"https://a.example.com/c"}`,
		`{"identifier":"c","type":"application/mcp-server-card+json","data":false}`))
	wantList(t, "skipped", reasons(c), "0 inline_card", "2 inline_card")
	wantList(t, "cards", urls(c), "https://a.example.com/c")
	if s := c.Skipped[0]; s.Identifier != "a" || !strings.Contains(s.Detail, "entry 0 holds its card in data") {
		t.Errorf("%+v", s)
	}
}

func TestRule_OB16_ABadEntryCostsItself(t *testing.T) {
	const ok = CardType
	c := mustParse(t, doc(
		`null`, `"hi"`, `7`, `[]`, `true`,
		`{"identifier":"a","mediaType":"`+ok+`","url":"https://a.example.com/1"}`,
		`{"identifier":"a","url":"https://a.example.com/1"}`,
		`{"identifier":"a","type":null,"mediaType":"x","url":"https://a.example.com/1"}`,
		`{"identifier":"a","type":7,"url":"https://a.example.com/1"}`,
		`{"type":"`+ok+`","url":"https://a.example.com/1"}`,
		`{"identifier":"a","type":"`+ok+`","url":"https://a.example.com/1","data":{}}`,
		`{"identifier":"a","type":"`+ok+`"}`,
		`{"identifier":"a","type":"`+ok+`","url":null,"data":null}`,
		`{"identifier":"a","type":"`+ok+`","url":7}`,
		`{"identifier":"a","type":"`+ok+`","url":" "}`,
		`{"identifier":"a","type":"`+ok+`","url":"https://u:p@a.example.com/"}`,
		`{"identifier":"a","type":"`+ok+`","url":"https://10.0.0.1/"}`,
		`{"identifier":"a","type":"`+ok+`","url":"http://a.example.com/"}`,
		`{"identifier":"a","type":"`+ok+`","url":"javascript:alert(1)"}`,
		`{"identifier":"a","type":"`+ok+`","url":"https://a.example.com/1","url":"https://b.example.com/1"}`,
		card("good", "https://a.example.com/good", "")))
	wantList(t, "skipped", reasons(c),
		"0 not_an_object", "1 not_an_object", "2 not_an_object", "3 not_an_object", "4 not_an_object",
		"5 old_media_type", "6 missing_type", "7 missing_type", "8 missing_type", "9 missing_identifier", "10 url_and_data",
		"11 no_url", "12 no_url", "13 bad_url", "14 bad_url", "15 bad_url", "16 bad_url", "17 not_https", "18 not_https", "19 duplicate_member")
	wantList(t, "cards", urls(c), "https://a.example.com/good")
	for _, s := range c.Skipped {
		if !strings.HasPrefix(s.Detail, fmt.Sprintf("entry %d ", s.Index)) {
			t.Errorf("the detail names no entry: %s", s.Detail)
		}
	}
	if s := c.Skipped[5].Detail; !strings.Contains(s, "mediaType") {
		t.Errorf("the old field is not named: %s", s)
	}
	if s := c.Skipped[19].Detail; !strings.Contains(s, `"url"`) {
		t.Errorf("the member is not named: %s", s)
	}
	if len(c.Warnings) != 0 {
		t.Errorf("warnings %q", c.Warnings)
	}
}

func TestRule_DocumentsK4_ABrokenEntryCostsItself(t *testing.T) {
	TestRule_OB16_ABadEntryCostsItself(t)
	c := mustParse(t, doc(`{"identifier":"a","mediaType":"text/plain","type":"`+CardType+`","url":"https://a.example.com/1"}`))
	wantList(t, "with both, type wins", urls(c), "https://a.example.com/1")
}

func TestRule_D4_ABrokenEntryCostsItself(t *testing.T) { TestRule_OB16_ABadEntryCostsItself(t) }

func TestRule_OBT27_TheGoodEntriesSurvive(t *testing.T) {
	c := mustParse(t, doc(
		card("first", "https://a.example.com/1", ""),
		`{"identifier":"inline","type":"`+CardType+`","data":{}}`,
		`{"identifier":"old","mediaType":"`+CardType+`","url":"https://a.example.com/old"}`,
		`null`,
		card("last", "https://a.example.com/2", "")))
	wantList(t, "cards", urls(c), "https://a.example.com/1", "https://a.example.com/2")
	wantList(t, "skipped", reasons(c), "1 inline_card", "2 old_media_type", "3 not_an_object")
}

func TestRule_FO01_DuplicateCostsTheEntry(t *testing.T) {
	c := mustParse(t, doc(
		`{"identifier":"urn:air:a.example:mcp:x","type":"application/mcp-server-card+json","url":"https://a.example/c","url":"https://b.example/c"}`,
		`{"identifier":"a","type":"`+CardType+`","url":"https://a.example.com/1","URL":"https://b.example.com/1","Type":"x"}`,
		`{"identifier":"a","type":"`+CardType+`","url":"https://a.example.com/2","extensions":{"x":1,"x":2}}`))
	wantList(t, "skipped", reasons(c), "0 duplicate_member")
	wantList(t, "cards", urls(c), "https://a.example.com/1", "https://a.example.com/2")
}

func TestRule_OB15_StrictCatalog(t *testing.T) {
	TestRule_FO01_DuplicateCostsTheEntry(t)
	c := mustParse(t, "\ufeff"+doc(card("a", "https://a.example.com/1", "")))
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "byte order mark") {
		t.Errorf("warnings %q", c.Warnings)
	}
	if _, err := Parse([]byte(doc(`{"a":`+strings.Repeat("[", 62)+strings.Repeat("]", 62)+`}`)), base); !IsNotJSON(err) {
		t.Errorf("depth 65: %v", err)
	}
}

func TestRule_DocumentsR1_StrictCatalog(t *testing.T) { TestRule_OB15_StrictCatalog(t) }

// A catalog is told from a card by its members.
func TestRule_DocumentsR3_ACardIsNoCatalog(t *testing.T) {
	_, err := Parse([]byte(`{"$schema":"https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json","name":"a/b"}`), base)
	wantFaults(t, err, "/specVersion: is missing", "/entries: is missing")
}

func TestRule_FO02_MediaTypeBecameType(t *testing.T) {
	c := mustParse(t, `{"specVersion":"1.0","entries":[{"identifier":"urn:air:a.example:mcp:old","mediaType":"application/mcp-server-card+json","url":"https://a.example/old"},{"identifier":"urn:air:a.example:mcp:new","type":"application/mcp-server-card+json","url":"https://a.example/new"}]}`)
	wantList(t, "cards", urls(c), "https://a.example/new")
	wantList(t, "skipped", reasons(c), "0 old_media_type")
}

func TestRule_FO05_MostEntriesAreNotApps(t *testing.T) {
	c := mustParse(t, `{"specVersion":"1.0","x-note":1,"entries":[null,"hi",{"identifier":"urn:air:a.example:doc:map","type":"application/xml","url":"https://a.example/sitemap.xml"},{"identifier":"u","type":"website","url":"https://a.example/"},{"identifier":"urn:air:a.example:mcp:x","type":"application/mcp-server-card+json","url":"https://a.example/c","capabilities":["a"],"representativeQueries":["b"]}]}`)
	wantList(t, "cards", urls(c), "https://a.example/c")
	wantList(t, "skipped", reasons(c), "0 not_an_object", "1 not_an_object")
	if c.Others() != 2 || len(c.Warnings) != 0 || len(c.Entries) != 3 || c.Entries[2].Index != 4 {
		t.Errorf("others %d, warnings %q, entries %v", c.Others(), c.Warnings, c.Entries)
	}
	// Other types may be inline or of any scheme; nobody reads them.
	c = mustParse(t, doc(
		`{"identifier":"a","type":"x/y","data":7}`, `{"identifier":"a","type":"x/y","url":"ftp://a.example/"}`,
		`{"identifier":"a","type":"x/y","url":"sub"}`, `{"identifier":"a","type":"x/y","url":":bad%"}`))
	var got []string
	for _, e := range c.Entries {
		got = append(got, e.URL)
	}
	wantList(t, "other entries", got, "", "ftp://a.example/", "https://apps.example.com/.well-known/sub", ":bad%")
	if c := mustParse(t, doc()); len(urls(c)) != 0 {
		t.Error("an empty catalog has cards")
	}
}

func TestRule_DocumentsK5_RelativeURL(t *testing.T) {
	c := mustParse(t, doc(card("a", "/c", ""), card("b", "c?x", ""), card("c", "//b.example.com/c", ""), card("d", "../x/./y", "")))
	wantList(t, "cards", urls(c), "https://apps.example.com/c", "https://apps.example.com/.well-known/c?x", "https://b.example.com/c", "https://apps.example.com/x/y")
	c = mustParse(t, doc(card("a", "http:c", "")))
	wantList(t, "skipped", reasons(c), "0 not_https")
}

func TestRule_DocumentsK6_Nested(t *testing.T) {
	c := mustParse(t, doc(
		`{"identifier":"a","type":"Application/AI-Catalog+JSON; v=1","url":"/more.json"}`,
		`{"identifier":"b","type":"application/ai-catalog+json","url":"https://apps.example.com/more.json"}`,
		`{"identifier":"c","type":"application/ai-catalog+json","data":{"entries":[]}}`,
		card("d", "https://a.example.com/1", "")))
	var got []string
	for e := range c.Nested() {
		got = append(got, e.URL)
	}
	wantList(t, "nested", got, "https://apps.example.com/more.json")
	wantList(t, "skipped", reasons(c), "2 inline_catalog")
	if c.Others() != 0 {
		t.Error("a catalog is no other entry")
	}
	for range c.Nested() {
		break
	}
}

func TestRule_OB116_Lists(t *testing.T) {
	c := mustParse(t, doc(
		`{"identifier":"x","type":"text/html","url":"https://a.example.com/page"}`,
		card("first", "https://A.Example.com:443/cards/../c?x=%7e#frag", ""), card("second", "https://a.example.com/c?x=%7e", ""),
		card("rel", "/own", ""), card("idna", "https://bücher.example.com", "")))
	for url, want := range map[string]string{
		"https://a.example.com/c?x=%7e":              "first",
		"HTTPS://a.example.com.:443/./c?x=%7e#other": "first",
		"https://apps.example.com/own":               "rel",
		"https://xn--bcher-kva.example.com/":         "idna",
		"https://a.example.com/c":                    "",
		"https://a.example.com/c/?x=%7e":             "",
		"https://a.example.com/c?x=%7E":              "",
		"https://a.example.com/c?x=~":                "",
		"https://a.example.com/C?x=%7e":              "",
		"https://a.example.com:8443/c?x=%7e":         "",
		"http://a.example.com/c?x=%7e":               "",
		"https://u@a.example.com/c?x=%7e":            "",
		"https://a.example.com/page":                 "", // another type
		"https://10.0.0.1/":                          "",
		"":                                           "",
	} {
		e, ok := c.Lists(url)
		if ok != (want != "") || e.Identifier != want {
			t.Errorf("Lists(%q) = %q, %v; want %q", url, e.Identifier, ok, want)
		}
	}
}

// Evidence is equality of Card URLs in normal form, nothing looser.
func TestRule_DocumentsE2_Match(t *testing.T) { TestRule_OB116_Lists(t) }
