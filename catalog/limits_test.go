package catalog

import (
	"fmt"
	"strings"
	"testing"
)

// Short addresses at a long one are long once they are resolved: what a
// document of 1 MiB can make of them is bounded.
func TestLongBase(t *testing.T) {
	base := "https://apps.example.com/" + strings.Repeat("a", 7000) + "/c"
	var entries []string
	for i := range 4000 {
		entries = append(entries, fmt.Sprintf(`{"identifier": "a", "type": %q, "url": "?%d"}`, []string{CardType, "text/plain"}[i%2], i))
	}
	c, err := Parse([]byte(`{"specVersion": "1.0", "entries": [`+strings.Join(entries, ",")+`]}`), base)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range c.Entries {
		n += len(e.URL)
	}
	if n < maxURLs || n > maxURLs+9<<10 || len(c.Skipped) != maxSkipped {
		t.Errorf("%d octets of addresses, %d entries skipped", n, len(c.Skipped))
	}
	if s := c.Skipped[0]; s.Reason != reasonBadURL || !strings.Contains(s.Detail, "shorter") {
		t.Errorf("%+v", s)
	}

	var page strings.Builder
	page.WriteString("<!doctype html><head>")
	for i := range 5000 {
		fmt.Fprintf(&page, "<link rel=ai-catalog href=?%d>", i)
	}
	if got := PageLinks([]byte(page.String()), "text/html", base); len(got) != maxTargets {
		t.Errorf("%d targets", len(got))
	}
}
