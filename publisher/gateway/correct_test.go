package gateway

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What the protocol refuses is offered corrected, under names that are the same
// after a restart, and calls find their way back.
func TestCorrections(t *testing.T) {
	noLeaks(t)
	g := open(t, command(t, "odd"))
	url := front(t, g)
	var got [][3]string
	for _, c := range g.Corrections() {
		got = append(got, [3]string{c.Kind, c.From, c.To})
		if c.Why == "" {
			t.Errorf("%+v has no reason", c)
		}
	}
	want := [][3]string{
		{"tool", "读 文件", "tool_a7aa103c"},
		{"tool", "a b", "a_b_c8687a08"},
		{"tool", "a b", "a_b_c8687a08"}, // its description
		{"tool", "a_b", "a_b"},
		{"tool", "a_b", "a_b"},
		{"resource", "ui://界面", "ui://%E7%95%8C%E9%9D%A2"},
		{"resource", "file:///a b", ""},
		{"template", "x://日/{id}", "x://%E6%97%A5/{id}"},
		{"template", "x://{日}", ""},
		{"resource", "ui://hidden", "ui://hidden"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	list := post(t, url, "tools/list", `{}`, nil)
	var tools []object
	if err := json.Unmarshal(list.result["tools"], &tools); err != nil {
		t.Fatal(err)
	}
	if string(tools[0]["x-kept"]) != `[1,{"b":2}]` {
		t.Errorf("unknown members are lost: %s", list.raw)
	}
	if d := tools[2].text("description"); d != "The tool A B of raw." {
		t.Errorf("description %q", d)
	}
	ui := tools[3].object("_meta")
	if ui.object("ui").text("resourceUri") != "ui://%E7%95%8C%E9%9D%A2" || string(ui["k"]) != "1" {
		t.Errorf("view %s", list.raw)
	}
	if ext := post(t, url, methodDiscover, `{}`, nil); ext.result.object("capabilities").object("extensions")[appsExtension] == nil {
		t.Errorf("the extension of views is not declared: %s", ext.raw)
	}
	for _, c := range got[:2] {
		r := post(t, url, methodCall, callTool(c[2]), nil)
		if r.result.text("name") != c[1] {
			t.Errorf("%s reached %s", c[2], r.raw)
		}
	}
	second := open(t, command(t, "odd"))
	if diff := cmp.Diff(g.Corrections(), second.Corrections()); diff != "" {
		t.Errorf("after a restart: %s", diff)
	}
}

func TestCorrectName(t *testing.T) {
	long := strings.Repeat("n", 129)
	seen := map[string]string{}
	for _, name := range []string{"a b", "a  b", "a/b", "日", "日程", "", " ", long, long + "m", "a.b-c_D9"} {
		to := correctName(name, nil)
		if !toolName.MatchString(to) {
			t.Errorf("%q became %q", name, to)
		}
		if other, twice := seen[to]; twice {
			t.Errorf("%q and %q both became %q", name, other, to)
		}
		seen[to] = name
		if again := correctName(name, map[string]bool{to: true}); to != name && (again == to || !toolName.MatchString(again)) {
			t.Errorf("%q became %q although it is taken", name, again)
		}
	}
	if correctName("a.b-c_D9", nil) != "a.b-c_D9" {
		t.Error("a good name was changed")
	}
}

func TestHeaderParams(t *testing.T) {
	var schema object
	_ = json.Unmarshal([]byte(`{"properties":{"a":{"type":"string","x-mcp-header":"A"},"o":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}},
		"items":{"items":{"properties":{"no":{"x-mcp-header":"No"}}}},"bad":{"x-mcp-header":"b d"}}}`), &schema)
	p := findHeaderParams(schema)
	args := json.RawMessage(`{"a":" 日","o":{"n":42}}`)
	if diff := cmp.Diff(map[string]string{"A": " 日", "N": "42"}, p.values(args)); diff != "" {
		t.Error(diff)
	}
	for _, c := range []struct {
		a, n string
		ok   bool
	}{
		{"=?base64?IOaXpQ==?=", "42", true},
		{"=?base64?IOaXpQ==?=", "42.0", true},
		{"=?base64?IOaXpQ==?=", "43", false},
		{"=?base64?IOaXpQ==?=", "", false},
		{"=?base64?!!?=", "42", false},
		{"other", "42", false},
	} {
		h := map[string][]string{"Mcp-Param-A": {c.a}}
		if c.n != "" {
			h["Mcp-Param-N"] = []string{c.n}
		}
		if err := p.check(h, args); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := p.check(map[string][]string{"Mcp-Param-A": {"x"}}, json.RawMessage(`{}`)); err == nil {
		t.Error("a header without its argument passed")
	}
	for _, v := range []string{"plain", "", " a", "日", "=?base64?eA==?=", "a\nb"} {
		if plain, err := decodeValue(headerValue(v)); err != nil || plain != v {
			t.Errorf("%q came back as %q, %v", v, plain, err)
		}
	}
}

func FuzzEscapeURI(f *testing.F) {
	for _, s := range []string{"file:///a b", "test://日程", "x:%E6%97", "a\x00\xff", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		to := escapeURI(s, "")
		if escapeURI(to, "") != to {
			t.Errorf("%q is not stable", to)
		}
		for i := range len(to) {
			if to[i] <= 0x20 || to[i] >= 0x7f {
				t.Errorf("%q has the byte %x", to, to[i])
			}
		}
	})
}

func FuzzStream(f *testing.F) {
	f.Add(": c\n\ndata: {\"a\":1}\n\nid: 7\nevent: message\ndata:x\ndata: y\r\n\r\nretry: 5\n")
	f.Add("event: endpoint\ndata: /m\n\n\n\ndata\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		s := stream{max: 64}
		n := 0
		err := s.read(strings.NewReader(text), func(data []byte) error {
			n += len(data)
			if len(data) > 128 {
				t.Errorf("an event of %d bytes", len(data))
			}
			return nil
		})
		if err == nil || n > len(text) {
			t.Errorf("%v, %d bytes", err, n)
		}
	})
}

func FuzzSplice(f *testing.F) {
	f.Add(`{}`)
	f.Add(` { "a" : [1, {"b":2}] } `)
	f.Fuzz(func(t *testing.T, text string) {
		var before map[string]any
		if json.Unmarshal([]byte(text), &before) != nil || before == nil {
			return
		}
		if _, there := before["k"]; there {
			return
		}
		var after map[string]any
		if err := json.Unmarshal(splice(json.RawMessage(text), "k", "v"), &after); err != nil {
			t.Fatal(err)
		}
		before["k"] = "v"
		if diff := cmp.Diff(before, after); diff != "" {
			t.Error(diff)
		}
	})
}
