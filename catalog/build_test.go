package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var items = []Item{
	{Identifier: "urn:air:apps.example.com:mcp:calendar", DisplayName: "Calendar & <more>", URL: "https://Apps.example.com:443/mcp/calendar/server-card"},
	{Identifier: "urn:air:apps.example.com:mcp:notes", URL: "https://cards.example.org/notes"},
	{Identifier: "urn:air:apps.example.com:catalog:more", DisplayName: "More", Type: MediaType, URL: "https://apps.example.com/more.json"},
}

const built = `{
  "specVersion": "1.0",
  "host": {
    "displayName": "Example"
  },
  "entries": [
    {
      "identifier": "urn:air:apps.example.com:mcp:calendar",
      "displayName": "Calendar & <more>",
      "type": "application/mcp-server-card+json",
      "url": "https://apps.example.com/mcp/calendar/server-card"
    },
    {
      "identifier": "urn:air:apps.example.com:mcp:notes",
      "displayName": "notes",
      "type": "application/mcp-server-card+json",
      "url": "https://cards.example.org/notes"
    },
    {
      "identifier": "urn:air:apps.example.com:catalog:more",
      "displayName": "More",
      "type": "application/ai-catalog+json",
      "url": "https://apps.example.com/more.json"
    }
  ]
}
`

// checkARD applies what the closed schema of ARD v0.9 and the open one of
// v0.91 ask of a catalog.
func checkARD(t *testing.T, data []byte) {
	t.Helper()
	var root map[string]json.RawMessage
	if err := json.Unmarshal(data, &root); err != nil {
		t.Fatal(err)
	}
	for name := range root {
		if name != "specVersion" && name != "host" && name != "entries" {
			t.Errorf("the root has the member %s", name)
		}
	}
	if string(root["specVersion"]) != `"1.0"` {
		t.Errorf("specVersion %s", root["specVersion"])
	}
	if host, ok := root["host"]; ok {
		var members map[string]string
		if err := json.Unmarshal(host, &members); err != nil || members["displayName"] == "" {
			t.Errorf("host %s: %v", host, err)
		}
		for name := range members {
			switch name {
			case "displayName", "identifier", "documentationUrl", "logoUrl":
			default:
				t.Errorf("the host has the member %s", name)
			}
		}
	}
	var entries []map[string]any
	if err := json.Unmarshal(root["entries"], &entries); err != nil || entries == nil {
		t.Fatalf("entries: %v", err)
	}
	for i, e := range entries {
		for _, name := range []string{"identifier", "displayName", "type", "url"} {
			if s, ok := e[name].(string); !ok || s == "" {
				t.Errorf("entry %d: %s is %v", i, name, e[name])
			}
		}
		if len(e) != 4 {
			t.Errorf("entry %d has other members: %v", i, e)
		}
		if id, _ := e["identifier"].(string); !ardIdentifier.MatchString(id) {
			t.Errorf("entry %d: identifier %q", i, id)
		}
	}
}

func TestRule_DocumentsK8_WhatThePublisherWrites(t *testing.T) {
	host := &Host{DisplayName: "Example"}
	got, err := Build(host, items)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(built, string(got)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	again, _ := Build(host, items)
	if string(again) != string(got) {
		t.Error("the same items gave other bytes")
	}
	checkARD(t, got)
	if list, err := Check(got, base); err != nil || len(list) != 0 {
		t.Errorf("advice on our own catalog: %v, %v", list, err)
	}

	empty, err := Build(nil, nil)
	if err != nil || string(empty) != "{\n  \"specVersion\": \"1.0\",\n  \"entries\": []\n}\n" {
		t.Errorf("empty catalog: %s, %v", empty, err)
	}
	checkARD(t, empty)
	full, err := Build(&Host{DisplayName: "E", Identifier: "did:web:example.com", DocumentationURL: "https://example.com/d", LogoURL: "https://example.com/l"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkARD(t, full)
}

// What we write, we read back: each card is listed at its URL.
func TestBuild_roundTrip(t *testing.T) {
	data, err := Build(&Host{DisplayName: "Example"}, items)
	if err != nil {
		t.Fatal(err)
	}
	c := mustParse(t, string(data))
	wantList(t, "cards", urls(c), "https://apps.example.com/mcp/calendar/server-card", "https://cards.example.org/notes")
	if len(c.Skipped) != 0 || len(c.Warnings) != 0 || c.Host.DisplayName != "Example" {
		t.Errorf("%+v", c)
	}
	for _, item := range items[:2] {
		if e, ok := c.Lists(item.URL); !ok || e.Identifier != item.Identifier {
			t.Errorf("%s is not listed", item.URL)
		}
	}
}

func TestRule_OB9_DisplayNameIsWritten(t *testing.T) {
	TestRule_DocumentsK8_WhatThePublisherWrites(t)
	// and never required of others.
	c := mustParse(t, doc(card("a", "https://a.example.com/1", "")))
	wantList(t, "cards", urls(c), "https://a.example.com/1")
}

func TestRule_D3_DisplayNameIsWritten(t *testing.T) { TestRule_OB9_DisplayNameIsWritten(t) }

func TestBuild_refuses(t *testing.T) {
	_, err := Build(&Host{DisplayName: "", Identifier: "\xff", LogoURL: "http://a.example.com/l", DocumentationURL: "x"}, []Item{
		{},
		{Identifier: "a\xff", DisplayName: "b\xff", Type: "c\xff", URL: "https://a.example.com/c"},
		{Identifier: "b", URL: "/c"},
		{Identifier: "b", URL: "https://a.example.com/c#again"},
		{Identifier: "b", URL: "http://a.example.com/c"},
	})
	wantFaults(t, err,
		"/host/displayName: is empty", "/host/identifier: is not UTF-8", "/host/documentationUrl: cannot be used", "/host/logoUrl: cannot be used",
		"/entries/0/identifier: is empty", "/entries/0/url: cannot be used",
		"/entries/1/identifier: is not UTF-8", "/entries/1/displayName: is not UTF-8", "/entries/1/type: is not UTF-8",
		"/entries/2/url: cannot be used",
		`/entries/3/url: is "https://a.example.com/c" like that of entry 1`,
		"/entries/4/url: cannot be used")
}

func TestCheck(t *testing.T) {
	list, err := Check([]byte("\ufeff"+`{"specVersion":"0.9","entries":[
		null,
		{"identifier":"urn:air:a.example:mcp:x","type":"application/mcp-server-card+json","url":"https://a.example.com/1","displayName":"X"},
		{"identifier":"urn:air:a.example:mcp:x","type":"application/mcp-server-card+json","url":"https://a.example.com/1","displayName":"X","version":"2"},
		{"identifier":"urn:air:a.example:mcp:x","type":"application/mcp-server-card+json","url":"/2","displayName":7,"version":"2"},
		{"identifier":"urn:ai:old","type":"website","url":"/3","displayName":"X"},
		{"identifier":"urn:air:a.example:mcp:x","type":"application/mcp-server-card+json","url":"https://a.example.com/4","displayName":"X"},
		{"identifier":"a"}]}`), base)
	if err != nil {
		t.Fatal(err)
	}
	var errs []error
	for _, e := range list {
		errs = append(errs, e)
	}
	wantFaults(t, errors.Join(errs...),
		"the catalog begins with a UTF-8 byte order mark",
		"/entries/3/displayName: must be a string, not a number; it is ignored",
		`/specVersion: is "0.9"; readers of the ARD formats want "1.0"`,
		"/entries/0: is left out by readers (not_an_object): entry 0 is null",
		"/entries/2/url: is that of entry 1 too",
		"/entries/3/url: is relative; write it in full, other readers may not resolve it: https://apps.example.com/2",
		"/entries/3/identifier: is that of entry 1 too, and only one of the two has a version",
		"/entries/3/displayName: is missing",
		`/entries/4/identifier: is "urn:ai:old"; readers of the ARD formats want`,
		"/entries/5/identifier: is that of entry 1 too; give each its own, or tell them apart by version",
		"/entries/6: is left out by readers (missing_type)")
	if _, err := Check([]byte(`{}`), base); err == nil {
		t.Error("no error for what is no catalog")
	}
}

// Documents sections 2 and 9: readers tell entries of one identifier apart by
// their versions.
func TestCheck_versions(t *testing.T) {
	const same, none, mixed = "in the same version", "tell them apart by version", "only one of the two has a version"
	for _, tt := range []struct {
		versions []string // of entries with one identifier, each at an address of its own
		want     []string // for each entry
	}{
		{[]string{"1", "2", "3"}, []string{"", "", ""}},
		{[]string{"", ""}, []string{"", "of entry 0 too; give each its own, or " + none}},
		{[]string{"2", "2"}, []string{"", "of entry 0 too, " + same}},
		{[]string{"", "2", "2"}, []string{"", "of entry 0 too, and " + mixed, "of entry 1 too, " + same}},
		{[]string{"2", "3", "3", "2"}, []string{"", "", "of entry 1 too, " + same, "of entry 0 too, " + same}},
		{[]string{"1", "2", "", "3", ""}, []string{"", "", "of entry 0 too, and " + mixed, "", "of entry 2 too; give each its own, or " + none}},
	} {
		var entries []string
		for i, v := range tt.versions {
			entries = append(entries, fmt.Sprintf(`{"identifier":"urn:air:a.example:mcp:x","displayName":"X","type":%q,"url":"https://a.example.com/%d","version":%q}`, CardType, i, v))
		}
		list, err := Check([]byte(`{"specVersion":"1.0","entries":[`+strings.Join(entries, ",")+`]}`), base)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]string, len(tt.versions))
		for _, e := range list {
			var i int
			if _, err := fmt.Sscanf(e.Pointer, "/entries/%d/identifier", &i); err != nil || got[i] != "" {
				t.Fatalf("%q: %v", tt.versions, e)
			}
			got[i] = e.Message
		}
		for i, want := range tt.want {
			if (got[i] == "") != (want == "") || !strings.Contains(got[i], want) {
				t.Errorf("%q: entry %d: %q, want %q", tt.versions, i, got[i], want)
			}
		}
	}
}
