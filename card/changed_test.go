package card

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestChanged(t *testing.T) {
	remote := func(more string) string {
		return `[{"type":"streamable-http","url":"https://a.example.com/mcp"` + more + `}]`
	}
	vars := func(more string) string { return remote(`,"variables":{"t":{` + more + `}}`) }
	other := `{"type":"streamable-http","url":"https://b.example.com/mcp"}`
	tests := []struct {
		name     string
		member   string
		old, new string
		want     string // kind pointer, one a line
	}{
		{"same", "title", `"a"`, `"a"`, ""},
		{"title", "title", `"a"`, `"b"`, "noted /title"},
		{"name", "name", `"a/b"`, `"a/c"`, "noted /name"},
		{"version", "version", `"1"`, `"2"`, "noted /version"},
		{"description", "description", `"1"`, `"2"`, "noted /description"},
		{"website", "websiteUrl", `"https://a.example.com/"`, ``, "noted /websiteUrl"},
		{"repository", "repository", ``, `{"url":"https://a.example.com/","source":"x"}`, "noted /repository"},
		{"repository part", "repository", `{"url":"https://a.example.com/","source":"y"}`, `{"url":"https://a.example.com/","source":"x"}`, "noted /repository"},
		{"icons", "icons", `[{"src":"https://a.example.com/1"}]`, `[{"src":"https://a.example.com/2"}]`, "noted /icons"},
		{"icon theme", "icons", `[{"src":"https://a.example.com/1"}]`, `[{"src":"https://a.example.com/1","theme":"dark"}]`, "noted /icons"},
		{"no icons", "icons", `[]`, ``, ""},
		{"presentation", "_meta", ``, `{"openbot/presentation":{}}`, "noted /_meta/openbot~1presentation"},
		{"other meta", "_meta", ``, `{"a":{}}`, ""},

		{"endpoint added", "remotes", `[]`, remote(""), "wider /remotes/0"},
		{"endpoint removed", "remotes", remote(""), `[]`, "narrower /remotes/0"},
		{"endpoint moved", "remotes", remote(""), `[` + other + `]`, "wider /remotes/0\nnarrower /remotes/0"},
		{"template changed", "remotes", `[{"type":"sse","url":"https://a.example.com/{t}"}]`, `[{"type":"sse","url":"https://a.example.com/{u}"}]`, "wider /remotes/0\nnarrower /remotes/0"},
		{"type changed", "remotes", remote(""), `[{"type":"sse","url":"https://a.example.com/mcp"}]`, "wider /remotes/0/type"},
		{"order", "remotes", `[` + remote("")[1:len(remote(""))-1] + `,` + other + `]`, `[` + other + `,` + remote("")[1:len(remote(""))-1] + `]`, "noted /remotes"},
		{
			"order of types", "remotes",
			`[{"type":"sse","url":"https://a.example.com/"},{"type":"streamable-http","url":"https://a.example.com/"}]`,
			`[{"type":"streamable-http","url":"https://a.example.com/"},{"type":"sse","url":"https://a.example.com/"}]`, "noted /remotes",
		},
		{"revisions", "remotes", remote(""), remote(`,"supportedProtocolVersions":["2026-07-28"]`), "noted /remotes/0/supportedProtocolVersions"},

		{"header added", "remotes", remote(""), remote(`,"headers":[{"name":"X-A"}]`), "wider /remotes/0/headers/0"},
		{"header removed", "remotes", remote(`,"headers":[{"name":"X-A"}]`), remote(""), "narrower /remotes/0/headers/0"},
		{"header case and order", "remotes", remote(`,"headers":[{"name":"X-A"},{"name":"X-B"}]`), remote(`,"headers":[{"name":"x-b"},{"name":"x-a"}]`), ""},
		{"header twice", "remotes", remote(`,"headers":[{"name":"X-A"}]`), remote(`,"headers":[{"name":"X-A"},{"name":"x-a"}]`), "wider /remotes/0/headers/1"},
		{"header variable", "remotes", remote(`,"headers":[{"name":"X-A"}]`), remote(`,"headers":[{"name":"X-A","variables":{"k":{}}}]`), "wider /remotes/0/headers/0/variables/k"},

		{"variable added", "remotes", remote(""), vars(""), "wider /remotes/0/variables/t"},
		{"variable removed", "remotes", vars(""), remote(""), "narrower /remotes/0/variables/t"},
		{"required", "remotes", vars(""), vars(`"isRequired":true`), "wider /remotes/0/variables/t/isRequired"},
		{"not required", "remotes", vars(`"isRequired":true`), vars(""), "narrower /remotes/0/variables/t/isRequired"},
		{"secret", "remotes", vars(""), vars(`"isSecret":true`), "narrower /remotes/0/variables/t/isSecret"},
		{"no secret", "remotes", vars(`"isSecret":true`), vars(""), "wider /remotes/0/variables/t/isSecret"},
		{"format", "remotes", vars(""), vars(`"format":"filepath"`), "wider /remotes/0/variables/t/format"},
		{"default", "remotes", vars(`"default":"a"`), vars(`"default":"b"`), "wider /remotes/0/variables/t/default"},
		{"value", "remotes", vars(""), vars(`"value":"b"`), "wider /remotes/0/variables/t/value"},
		{"choice added", "remotes", vars(`"choices":["a"]`), vars(`"choices":["a","b"]`), "wider /remotes/0/variables/t/choices"},
		{"choice removed", "remotes", vars(`"choices":["a","b"]`), vars(`"choices":["b"]`), "narrower /remotes/0/variables/t/choices"},
		{"choices dropped", "remotes", vars(`"choices":["a"]`), vars(``), "wider /remotes/0/variables/t/choices"},
		{"choices set", "remotes", vars(``), vars(`"choices":["a"]`), "narrower /remotes/0/variables/t/choices"},
		{"choices in another order", "remotes", vars(`"choices":["a","b"]`), vars(`"choices":["b","a"]`), "noted /remotes/0/variables/t/choices"},
		{"texts", "remotes", vars(""), vars(`"description":"d","placeholder":"p"`), "noted /remotes/0/variables/t/description\nnoted /remotes/0/variables/t/placeholder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := mustParse(t, with(t, map[string]string{tt.member: tt.old}))
			b := mustParse(t, with(t, map[string]string{tt.member: tt.new}))
			var got []string
			for _, c := range Changed(a, b) {
				got = append(got, string(c.Kind)+" "+c.Pointer)
				if c.Old == c.New && c.Pointer != "/repository" && c.Pointer != "/icons" {
					t.Errorf("%s: both sides are %q", c.Pointer, c.Old)
				}
			}
			if s := strings.Join(got, "\n"); s != tt.want {
				t.Errorf("changes are\n%s\nwant\n%s", s, tt.want)
			}
		})
	}
}

func TestChanged_widestFirst(t *testing.T) {
	a := mustParse(t, []byte(good))
	b := mustParse(t, with(t, map[string]string{"title": `"New"`, "remotes": `[{"type":"streamable-http","url":"https://new.example.com/mcp"}]`}))
	changes := Changed(a, b)
	if len(changes) != 3 || changes[0].Kind != Wider || changes[1].Kind != Narrower || changes[2].Kind != Noted {
		t.Fatalf("%v", changes)
	}
	if c := changes[0]; c.Old != "" || c.New != "streamable-http https://new.example.com/mcp" {
		t.Errorf("%+v", c)
	}
	if c := changes[2]; c.Old != "Example Calendar" || c.New != "New" {
		t.Errorf("%+v", c)
	}
	if got := Changed(nil, a); len(got) == 0 || got[0].Kind != Wider {
		t.Errorf("from nothing: %v", got)
	}
	if got := Changed(a, nil); hasWider(got) || len(got) == 0 {
		t.Errorf("to nothing: %v", got)
	}
}

func TestRule_OB92_WhatNeedsReview(t *testing.T) { TestChanged(t); TestChanged_widestFirst(t) }
func TestRule_OB91_NewEndpoint(t *testing.T)     { TestChanged_widestFirst(t) }
func TestRule_D24_Changes(t *testing.T)          { TestChanged(t) }

// Cards of the largest size that only differ in order are compared in time
// that grows with their size, not with its square.
func TestChanged_hostile(t *testing.T) {
	const n = 8000
	build := func(step int) *Card {
		var list []string
		var names strings.Builder
		for i := range n {
			k := (i * step) % n
			list = append(list, fmt.Sprintf(`{"type":"sse","url":"https://a.example.com/%d"}`, k))
			fmt.Fprintf(&names, `{"name":"X-%d"},`, k)
		}
		list = append(list, `{"type":"sse","url":"https://a.example.com/","headers":[`+names.String()+`{"name":"A"}]}`)
		return mustParse(t, with(t, map[string]string{"remotes": "[" + strings.Join(list, ",") + "]"}))
	}
	a, b := build(1), build(3)
	done := make(chan int)
	go func() { done <- len(Changed(a, b)) }()
	select {
	case n := <-done:
		if n != 1 {
			t.Errorf("%d changes, want one note about the order", n)
		}
	case <-time.After(time.Minute):
		t.Fatal("comparing two cards takes minutes")
	}
}
