package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/temoto/robotstxt"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/robots"
)

// reading compares the readers of documents with the standard library.
func reading(context.Context, *size) ([]comparison, func(), error) {
	c := exampleCard()
	c.Schema = card.SchemaURL
	c.Remotes = []card.Remote{{Type: "streamable-http", URL: "https://apps.example.com/mcp/calendar", Versions: []string{card.ProtocolVersion}}}
	doc, err := c.Encode()
	if err != nil {
		return nil, nil, err
	}
	var items []catalog.Item
	for i := range 1000 {
		items = append(items, catalog.Item{
			Identifier:  fmt.Sprintf("urn:air:apps.example.com:mcp:app-%d", i),
			DisplayName: fmt.Sprintf("App %d", i),
			URL:         fmt.Sprintf("https://apps.example.com/mcp/app-%d/server-card", i),
		})
	}
	list, err := catalog.Build(nil, items)
	if err != nil {
		return nil, nil, err
	}
	plain := base{
		what: "encoding/json into the same struct, which checks neither case nor duplicates",
		side: repeat(20_000, func() error { var v card.Card; return json.Unmarshal(doc, &v) }), ratio: 2,
	}
	return []comparison{
		{
			name: "strict JSON, card", bases: []base{plain},
			ours: repeat(20_000, func() error { var v card.Card; return strictjson.Unmarshal(doc, &v) }),
		},
		{name: "card.Parse", ours: repeat(20_000, func() error { _, err := card.Parse(doc); return err })},
		{
			name: "catalog.Parse, 1000 entries",
			ours: repeat(20, func() error {
				_, err := catalog.Parse(list, "https://apps.example.com/.well-known/ai-catalog.json")
				return err
			}),
			bases: []base{{what: "encoding/json into a map, no checks", side: repeat(20, func() error { var v map[string]any; return json.Unmarshal(list, &v) })}},
		},
	}, func() {}, nil
}

// robotsFiles reads an ordinary file, and the worst that a stranger could write.
func robotsFiles(context.Context, *size) ([]comparison, func(), error) {
	file := ordinaryFile()
	list := []comparison{{
		name: "2 KB, parse and match", most: 40 * time.Microsecond,
		ours: repeat(5_000, func() error { robots.Parse(file, robots.Token).Allowed("/mcp/calendar/server-card"); return nil }),
		bases: []base{{what: "temoto/robotstxt", side: repeat(500, func() error {
			r, err := robotstxt.FromBytes(file)
			if err == nil {
				r.TestAgent("/mcp/calendar/server-card", robots.Token)
			}
			return err
		})}},
	}}
	for _, h := range hostileFiles() {
		rules := robots.Parse(h.file, robots.Token)
		list = append(list, comparison{
			name: "500 KiB of " + h.name + ", match", most: 50 * time.Millisecond,
			ours: repeat(3, func() error { rules.Allowed(h.path); return nil }),
		}, comparison{
			name: "500 KiB of " + h.name + ", parse",
			ours: repeat(3, func() error { robots.Parse(h.file, robots.Token); return nil }),
		})
	}
	return list, func() {}, nil
}

// ordinaryFile is a robots.txt of 2 KB.
func ordinaryFile() []byte {
	var b bytes.Buffer
	b.WriteString("# an ordinary site\nUser-agent: *\nDisallow: /admin/\nAllow: /admin/help\n")
	for i := 0; b.Len() < 1900; i++ {
		fmt.Fprintf(&b, "Disallow: /private/%d/*.html$\n", i)
	}
	b.WriteString("User-agent: OpenBot\nDisallow: " + strings.Repeat("/deep", 5) + "\n")
	return b.Bytes()
}

type hostileFile struct {
	name string
	file []byte
	path string // of the match
}

// hostileFiles make a matcher try again and again: as many different rules as
// there is room for, and a path that almost matches each of them.
func hostileFiles() []hostileFile {
	rnd := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- the same files in every run
	letters := func(n int, alphabet string) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return string(b)
	}
	fill := func(rule func(i int) string) []byte {
		var b bytes.Buffer
		b.WriteString("User-agent: OpenBot\n")
		for i := 0; b.Len() < 500<<10; i++ {
			b.WriteString("Disallow: /" + rule(i) + "\n")
		}
		return b.Bytes()
	}
	return []hostileFile{
		{"stars", fill(func(i int) string { return fmt.Sprintf("*a%x$", i) }), "/" + strings.Repeat("a0", 4000)},
		{"near misses", fill(func(i int) string { return fmt.Sprintf("*b*a*b*z%x", i) }), "/" + strings.Repeat("a", 4000) + "b" + strings.Repeat("a", 4000) + "bz"},
		{"random pieces", fill(func(int) string {
			return "*" + letters(3, "abcdefghijklmnop") + "*" + letters(3, "abcdefghijklmnop") + "*qq"
		}), "/" + letters(8000, "abcdefghijklmnop")},
		{"long pieces", fill(func(int) string { return "*" + letters(20, "ab") }), "/" + letters(8000, "ab")},
		{"many stars", fill(func(i int) string { return strings.Repeat("*a", 60) + fmt.Sprint("*", i) }), "/" + strings.Repeat("a", 8000)},
		{"one rule", fill(func(int) string { return strings.Repeat("*a", 250<<10) + "b" }), "/" + strings.Repeat("a", 8000)},
	}
}
