package robots

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Very many rules that come out of a store stay text, and say the same.
func TestManyStoredRules(t *testing.T) {
	for _, agent := range []string{"*", Token} {
		var b strings.Builder
		fmt.Fprintf(&b, "User-agent: %s\nCrawl-delay: 7\n", agent)
		for i := range 5000 {
			fmt.Fprintf(&b, "Disallow: /closed/%d$\nAllow: /closed/%d/open\n", i, i)
		}
		whole := Parse([]byte(b.String()), Token)
		text, err := whole.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var stored Rules
		if err := stored.UnmarshalText(text); err != nil {
			t.Fatal(err)
		}
		if len(stored.rules) != 0 || stored.Size() > len(text) || whole.Size() < 2*len(text) {
			t.Errorf("%d rules are held; size %d, of the whole %d, of the text %d", len(stored.rules), stored.Size(), whole.Size(), len(text))
		}
		if stored.CrawlDelay() != 7*time.Second {
			t.Errorf("delay %s", stored.CrawlDelay())
		}
		for _, target := range []string{"/closed/4999", "/closed/17/open", "/other", "/robots.txt"} {
			a1, r1, o1 := whole.Match(target)
			a2, r2, o2 := stored.Match(target)
			if a1 != a2 || r1 != r2 || o1 != o2 || o1 != (agent == Token) {
				t.Errorf("%s %s: %v %q %v, stored %v %q %v", agent, target, a1, r1, o1, a2, r2, o2)
			}
		}
		again, err := stored.MarshalText()
		if err != nil || string(again) != string(text) {
			t.Errorf("the stored rules are written otherwise, %v", err)
		}
	}
	if (*Rules)(nil).Size() != 0 {
		t.Error("no rules have a size")
	}
}
