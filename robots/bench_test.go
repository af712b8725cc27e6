package robots

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// hostile gives files that try to make a match slow, each with its worst
// target.
func hostile(size int) map[string][2]string {
	rnd := rand.New(rand.NewPCG(1, 2))
	letters := func(n int, alphabet string) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return string(b)
	}
	fill := func(line func(i int) string) string {
		var b strings.Builder
		b.WriteString("user-agent: OpenBot\n")
		for i := 0; b.Len() < size; i++ {
			b.WriteString("allow:" + line(i) + "\n")
		}
		return b.String()
	}
	random := "/" + letters(8000, "abcdefghijklmnop")
	binary := "/" + letters(8000, "ab")
	return map[string][2]string{
		"same":     {fill(func(int) string { return "/*a$" }), "/" + strings.Repeat("a", 8000) + "b"},
		"numbered": {fill(func(i int) string { return fmt.Sprintf("/*a%x$", i) }), "/" + strings.Repeat("a0", 4000)},
		"inner":    {fill(func(i int) string { return fmt.Sprintf("/*a%x*", i) }), "/" + strings.Repeat("a0", 4000)},
		"random": {fill(func(int) string {
			return "/*" + letters(3, "abcdefghijklmnop") + "*" + letters(3, "abcdefghijklmnop") + "*qq"
		}), random},
		"four letters": {fill(func(int) string { return "/*" + letters(4, "abcdefgh") }), "/" + letters(8000, "abcdefgh")},
		"binary":       {fill(func(int) string { return "/*" + letters(20, "ab") }), binary},
		"backwards":    {fill(func(i int) string { return fmt.Sprintf("/*aaaab*%x*aaaac", i) }), "/" + strings.Repeat("aaac", 1000) + strings.Repeat("aaab", 1000) + "0123456789abcdef"},
		"stars":        {fill(func(i int) string { return "/" + strings.Repeat("*a", 60) + fmt.Sprint("*", i) }), "/" + strings.Repeat("a", 8000)},
		"long stars":   {"user-agent: OpenBot\nallow: /" + strings.Repeat("*a", size/2) + "b", "/" + strings.Repeat("a", 8000)},
		"near":         {fill(func(i int) string { return fmt.Sprintf("/*aaaaaaaab*%x", i) }), "/" + strings.Repeat("aaaaaaaacaaaaaaab", 480)},
		"one octet":    {fill(func(i int) string { return fmt.Sprintf("/*b*a*b*z%x", i) }), "/" + strings.Repeat("a", 4000) + "b" + strings.Repeat("a", 4000) + "bz"},
		"plain":        {fill(func(i int) string { return fmt.Sprintf("/%x", i) }), "/" + strings.Repeat("f", 8000)},
	}
}

// BenchmarkHostile: no match may take more than 50 ms.
func BenchmarkHostile(b *testing.B) {
	for name, h := range hostile(500 << 10) {
		body := []byte(h[0])
		b.Run("parse/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Parse(body, Token)
			}
		})
		rules := Parse(body, Token)
		b.Run("match/"+name, func(b *testing.B) {
			for b.Loop() {
				rules.Allowed(h[1])
			}
		})
	}
}

// BenchmarkUsual reads a file of 2 KB and matches one target.
func BenchmarkUsual(b *testing.B) {
	var s strings.Builder
	s.WriteString("# robots.txt\nUser-agent: *\nCrawl-delay: 5\n")
	for i := 0; s.Len() < 1800; i++ {
		fmt.Fprintf(&s, "Disallow: /section%d/*.php$\nDisallow: /private-%d/\n", i, i)
	}
	s.WriteString("User-agent: badbot\nDisallow: /\n\nSitemap: https://apps.example.com/sitemap.xml\n")
	body := []byte(s.String())
	b.ReportAllocs()
	for b.Loop() {
		Parse(body, Token).Allowed("/.well-known/ai-catalog.json")
	}
}
