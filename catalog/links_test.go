package catalog

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/openbot-build/openbot-go/internal/webtest"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

type vectors struct {
	Links []struct {
		ID       string   `json:"id"`
		Headers  []string `json:"headers"`
		Base     string   `json:"response_url"`
		Catalogs []string `json:"catalogs"`
		Why      string   `json:"why"`
	} `json:"link_header_vectors"`
	Pages []struct {
		ID       string   `json:"id"`
		HTML     string   `json:"html"`
		Type     string   `json:"content_type"`
		Base     string   `json:"response_url"`
		Catalogs []string `json:"catalogs"`
		Why      string   `json:"why"`
	} `json:"html_vectors"`
}

func same(want, got []string) bool { return strings.Join(want, "\n") == strings.Join(got, "\n") }

func TestVectors_linkHeaders(t *testing.T) {
	for _, file := range webtest.Vectors[vectors](t, "document-vectors.json") {
		if len(file.Links) == 0 {
			t.Error("a file has no link_header_vectors")
		}
		for _, v := range file.Links {
			if got := HeaderLinks(v.Headers, v.Base); !same(v.Catalogs, got) {
				t.Errorf("%s (%s): %q\n got %q\nwant %q", v.ID, v.Why, v.Headers, got, v.Catalogs)
			}
		}
	}
}

func TestVectors_html(t *testing.T) {
	for _, file := range webtest.Vectors[vectors](t, "document-vectors.json") {
		if len(file.Pages) == 0 {
			t.Error("a file has no html_vectors")
		}
		for _, v := range file.Pages {
			if got := PageLinks([]byte(v.HTML), v.Type, v.Base); !same(v.Catalogs, got) {
				t.Errorf("%s (%s): %s\n got %q\nwant %q", v.ID, v.Why, v.HTML, got, v.Catalogs)
			}
		}
	}
}

const page = "https://apps.example.com/apps/calendar"

// wantHeader and wantPage check what one header or the head of one page links.
func wantHeader(t *testing.T, header string, want ...string) {
	t.Helper()
	if got := HeaderLinks([]string{header}, page); !same(want, got) {
		t.Errorf("Link: %s\n got %q\nwant %q", header, got, want)
	}
}

func wantPage(t *testing.T, html string, want ...string) {
	t.Helper()
	if got := PageLinks([]byte(html), "text/html", page); !same(want, got) {
		t.Errorf("%s\n got %q\nwant %q", html, got, want)
	}
}

func TestRule_DocumentsL3_LinkHeader(t *testing.T) {
	const c = "https://apps.example.com/c"
	wantHeader(t, `</x,y>; rel=next, </c>; title="a, \"b\"; rel=x"; rel="next AI-Catalog"; type="text/plain", ,	</c>;	rel=ai-catalog`, c)
	wantHeader(t, `</c>; rel=next; rel=ai-catalog`)
	wantHeader(t, `</c>; rel=ai-catalog; anchor="https://apps.example.com/other"`)
}

func TestRule_CrawlerX4_LinkHeader(t *testing.T) {
	TestRule_DocumentsL3_LinkHeader(t)
	wantHeader(t, `</c>; Rel = ai-catalog`, "https://apps.example.com/c")
	wantHeader(t, `</c>; rel=ai-catalog; anchor=""`)
}

// D34: a link about another resource, or outside the head, proves nothing.
func TestRule_D34_LinksThatProveNothing(t *testing.T) {
	wantHeader(t, `</c>; rel=ai-catalog; anchor="/apps/calendar"`)
	wantPage(t, `<head></head><body><link rel=ai-catalog href=/c>`)
}

func TestRule_DocumentsL4_OnlyTheHead(t *testing.T) {
	const link = `<link rel="ai-catalog" href="/c">`
	const c = "https://apps.example.com/c"
	wantPage(t, link, c)
	wantPage(t, `<head><noscript>`+link+`</noscript>`, c)
	for _, html := range []string{
		`<!--` + link + `-->`, `<script>` + link + `</script>`, `<title>` + link + `</title>`, `<template>` + link + `</template>`,
		`<iframe srcdoc='` + link + `'></iframe>`, `<body>` + link, `<p>` + link, `<div>` + link, `x` + link,
	} {
		wantPage(t, html)
	}
	wantPage(t, `<link rel=ai-catalog href=/c href=/d rel=next>`, c)
	wantPage(t, "<link rel=ai-catalog href=' \n'>")
	wantPage(t, "<link rel=not-ai-catalog href=/c>")
}

func TestRule_CrawlerX6_OnlyTheHead(t *testing.T) { TestRule_DocumentsL4_OnlyTheHead(t) }

// The tokenizer reads what html.Parse refuses or builds a tree of.
func TestRule_CrawlerX5_HostilePages(t *testing.T) {
	const link = `<link rel="ai-catalog" href="/c">`
	wantPage(t, strings.Repeat("<template>", 20000)+strings.Repeat("</template>", 20000)+link, "https://apps.example.com/c")
	wantPage(t, `<meta content="`+strings.Repeat("a", 1<<20)+`">`+link, "https://apps.example.com/c")
	wantPage(t, `<link rel=ai-catalog `+strings.Repeat("a=b ", 50000)+` href=/c>`, "https://apps.example.com/c")
	var many strings.Builder
	for range 30000 {
		many.WriteString(`<link rel=ai-catalog href=/c>`)
	}
	wantPage(t, many.String(), "https://apps.example.com/c")
	wantPage(t, strings.Repeat("<!--", 100000))
	wantHeader(t, strings.Repeat("<a>;", 100000))
	wantHeader(t, strings.Repeat(`"`, 100001))
}

func TestRule_D36_HeadByTokenizer(t *testing.T) {
	TestRule_CrawlerX5_HostilePages(t)
	TestRule_DocumentsL4_OnlyTheHead(t)
}

func TestRule_CrawlerX7_NoscriptAndCharset(t *testing.T) {
	wantPage(t, `<head><noscript><link rel=ai-catalog href=/c></noscript>`, "https://apps.example.com/c")
	const text = `<head><link rel="ai-catalog" href="/c">日`
	utf16LE := []byte{0xff, 0xfe}
	utf16BE := []byte{0xfe, 0xff}
	for _, u := range utf16.Encode([]rune(text)) {
		utf16LE = append(utf16LE, byte(u), byte(u>>8))
		utf16BE = append(utf16BE, byte(u>>8), byte(u))
	}
	// In Shift JIS and GBK a trail octet may look like a backslash or a bracket.
	gbk := "<head><meta charset=gbk><link title=\"\x81\x5c\" rel=\"ai-catalog\" href=\"/\xc4\xe3\">"
	const ni = "https://apps.example.com/%E4%BD%A0"
	for name, tt := range map[string]struct {
		body        string
		contentType string
		want        string
	}{
		"UTF-16LE by mark":           {string(utf16LE), "text/html", "https://apps.example.com/c"},
		"UTF-16BE, mark wins":        {string(utf16BE), "text/html; charset=utf-8", "https://apps.example.com/c"},
		"UTF-16LE by header":         {string(utf16LE[2:]), "text/html; charset=utf-16le", "https://apps.example.com/c"},
		"UTF-8 mark wins":            {"\xef\xbb\xbf" + text, "text/html; charset=gbk", "https://apps.example.com/c"},
		"UTF-8 mark":                 {"\xef\xbb\xbf" + text, "text/html", "https://apps.example.com/c"},
		"meta":                       {gbk, "text/html", ni},
		"header wins over meta":      {strings.Replace(gbk, "gbk", "utf-16", 1), "text/html; charset=gbk", ni},
		"meta too late to be looked": {"<head><!--" + strings.Repeat(" ", 1100) + "-->" + gbk[6:], "text/html", "https://apps.example.com/%C3%84%C3%A3"},
	} {
		got := PageLinks([]byte(tt.body), tt.contentType, page)
		if !same([]string{tt.want}, got) {
			t.Errorf("%s: got %q, want %s", name, got, tt.want)
		}
	}
}

func TestRule_CrawlerX8_AttributesAndBase(t *testing.T) {
	wantPage(t, `<link rel=ai-catalog rel=next href=c href=d><base href=/b/ href=/x/><base href=/y/>`, "https://apps.example.com/b/c")
	wantPage(t, `<link rel=ai-catalog href="">`)
	wantPage(t, `<link rel="ai-catalogs" href=/c>`)
}

func TestRule_DocumentsL5_Base(t *testing.T) {
	wantPage(t, `<link rel=ai-catalog href=c>`, "https://apps.example.com/apps/c")
	wantPage(t, `<base href=https://cdn.example.org/x/><link rel=ai-catalog href=c>`, "https://cdn.example.org/x/c")
	wantPage(t, `<link rel=ai-catalog href=http://apps.example.com/c><link rel=ai-catalog href=https://u@apps.example.com/c>`)
	wantPage(t, `<base href=http://cdn.example.org/x/><link rel=ai-catalog href=c>`)
}

func TestRule_OB39_Links(t *testing.T) {
	wantHeader(t, `</a>; rel=ai-catalog, <b>; rel="x ai-catalog", </a>; rel=ai-catalog`, "https://apps.example.com/a", "https://apps.example.com/apps/b")
	TestRule_DocumentsL4_OnlyTheHead(t)
	TestRule_DocumentsL5_Base(t)
	TestRule_D34_LinksThatProveNothing(t)
}

func TestRule_FO12_FindingTheLink(t *testing.T) {
	wantHeader(t, `<https://a.example/x?f=a,b>; title="one, two"; rel="preload", </apps/cal/catalog.json>; rel="describedby ai-catalog"`,
		"https://apps.example.com/apps/cal/catalog.json")
	wantPage(t, `<!-- <link rel="ai-catalog" href="/bad.json"> --><base href="/apps/cal/"><link REL="AI-Catalog" href=catalog.json>`,
		"https://apps.example.com/apps/cal/catalog.json")
}

// checkTargets checks what must hold for any input.
func checkTargets(t *testing.T, list []string) {
	t.Helper()
	seen := map[string]bool{}
	for _, target := range list {
		u, err := weburl.Parse(target)
		if err != nil || u.String() != target || seen[target] {
			t.Fatalf("target %q: %v", target, err)
		}
		seen[target] = true
		if p, err := url.Parse(target); err == nil && (p.User != nil || p.Scheme != "https") {
			t.Fatalf("target %q", target)
		}
	}
}

func FuzzHeaderLinks(f *testing.F) {
	f.Add(`</c.json>; rel="ai-catalog"`)
	f.Add(`<a,b>; title="x\"y, z"; rel = "a ai-catalog";anchor=x, ,<c>;rel`)
	f.Add(`junk "open, <c>; rel=ai-catalog`)
	f.Fuzz(func(t *testing.T, value string) {
		one := HeaderLinks([]string{value}, page)
		checkTargets(t, one)
		if two := HeaderLinks([]string{value, value}, page); !same(one, two) {
			t.Fatalf("the same line again changed %q to %q", one, two)
		}
	})
}

func FuzzPageLinks(f *testing.F) {
	f.Add([]byte(`<head><base href=/x/><link rel=ai-catalog href=c><noscript><link rel=ai-catalog href=d></noscript>`), "text/html")
	f.Add([]byte(`<template><link rel=ai-catalog href=c></template><title><x></title><body>`), "text/html; charset=gbk")
	f.Add([]byte("\xff\xfe<\x00p\x00>\x00"), "")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		checkTargets(t, PageLinks(body, contentType, page))
		// A page in a body never says anything.
		inBody := append([]byte("<!doctype html><body>"), body...)
		if got := PageLinks(inBody, "text/html; charset=utf-8", page); len(got) > 0 {
			t.Fatalf("found %q in a body", got)
		}
	})
}

func TestHasWord(t *testing.T) {
	if diff := cmp.Diff([]bool{true, false, false}, []bool{hasWord(" a\tAI-catalog ", LinkRel), hasWord("", LinkRel), hasWord("ai-catalog\u00a0", LinkRel)}); diff != "" {
		t.Error(diff)
	}
}
