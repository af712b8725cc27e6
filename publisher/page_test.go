package publisher_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"rsc.io/qr"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/publisher"
)

const hostile = `"><script>alert(1)</script><img src=x onerror=alert(1)>{{.}}`

func hostileConfig(t *testing.T) *publisher.Config {
	t.Helper()
	block, err := json.Marshal(card.Presentation{Version: "1", Examples: []card.Example{{
		ID: "a", Title: hostile, Prompt: hostile + "\nsecond line", Description: hostile,
		Preview: &card.Preview{Src: "https://apps.example.com/apps/calendar/assets/a.svg", Alt: hostile, Width: 10, Height: 20, MimeType: "image/svg+xml"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := twoApps()
	cfg.Host = &catalog.Host{DisplayName: hostile}
	c := &cfg.Apps[0].Card
	c.Title, c.Description, c.Version = hostile[:60], hostile, "1 "+hostile
	c.Icons = []card.Icon{{Src: "data:image/svg+xml,%3Csvg%20onload='alert(1)'/%3E"}, {Src: "https://apps.example.com/dark.png", Theme: "dark"}}
	c.Meta = map[string]json.RawMessage{card.PresentationKey: block}
	return cfg
}

// OB-12, OB-26 and documents R10, V8: a page shows a card's texts as text and
// its pictures as pictures, and lets nothing run.
func TestRule_OB26_TextsAreText(t *testing.T) {
	p := mustNew(t, hostileConfig(t))
	for _, path := range []string{"/apps/calendar", "/"} {
		res, body := ask(t, p, "GET", path)
		csp := res.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: policy %q lacks %q", path, csp, want)
			}
		}
		if strings.Contains(csp, "script-src") || strings.Contains(csp, "unsafe") {
			t.Errorf("%s: policy %q", path, csp)
		}
		checkElements(t, path, body, csp)
	}
	_, body := ask(t, p, "GET", "/apps/calendar")
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if got := text(find(doc, "blockquote")); got != hostile+"\nsecond line" {
		t.Errorf("prompt %q", got)
	}
	if !strings.Contains(body, `srcset="https://apps.example.com/dark.png"`) {
		t.Error("no icon for a dark ground")
	}
}

// checkElements walks the page as a browser reads it.
func checkElements(t *testing.T, path, body, csp string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.Type == html.ElementNode {
			switch n.Data {
			case "script", "iframe", "object", "embed", "form", "base":
				t.Errorf("%s: element %s", path, n.Data)
			case "style":
				sum := sha256.Sum256([]byte(text(n)))
				if !strings.Contains(csp, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'") {
					t.Errorf("%s: the policy blocks the page's own style", path)
				}
			}
			for _, a := range n.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
					t.Errorf("%s: attribute %s on %s", path, a.Key, n.Data)
				}
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(doc)
}

func find(n *html.Node, name string) *html.Node {
	if n.Type == html.ElementNode && n.Data == name {
		return n
	}
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if found := find(c, name); found != nil {
			return found
		}
	}
	return nil
}

func text(n *html.Node) string {
	if n == nil {
		return ""
	}
	if n.Type == html.TextNode {
		return n.Data
	}
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		b.WriteString(text(c))
	}
	return b.String()
}

func TestPageLanguage(t *testing.T) {
	p := mustNew(t, twoApps())
	for path, want := range map[string][]string{
		"/apps/notes":    {`<html lang="zh-CN">`, "<title>示例笔记</title>", "添加此应用", "记录、查找和整理笔记。"},
		"/apps/calendar": {`<html lang="en">`, "<title>Example Calendar</title>", "Add this app", "Example Inc."},
	} {
		_, body := ask(t, p, "GET", path)
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s lacks %q", path, w)
			}
		}
	}
}

// A region or script that writes Chinese in traditional characters gets them.
func TestPageLanguage_chinese(t *testing.T) {
	for lang, want := range map[string]string{
		"zh": "添加此应用", "zh-CN": "添加此应用", "zh-Hans": "添加此应用", "zh-Hans-HK": "添加此应用", "zh-SG": "添加此应用",
		"zh-Hant": "新增此應用程式", "zh-TW": "新增此應用程式", "zh-HK": "新增此應用程式", "ZH-hant-cn": "新增此應用程式", "zh-MO": "新增此應用程式",
		"zhx": "Add this app", "ja": "Add this app",
	} {
		cfg := twoApps()
		cfg.Apps[0].Lang = lang
		if _, body := ask(t, mustNew(t, cfg), "GET", "/apps/calendar"); !strings.Contains(body, want) {
			t.Errorf("%s: no %s", lang, want)
		}
	}
}

// A data address has a comma, which cannot stand in the list of a srcset.
func TestDarkIcons(t *testing.T) {
	const data, dark, light = "data:image/png;base64,AAAA", "https://apps.example.com/dark.png", "https://apps.example.com/light.png"
	for _, tt := range []struct {
		icons       []card.Icon
		src, srcset string
	}{
		{[]card.Icon{{Src: light}, {Src: data, Theme: "dark"}}, light, ""},
		{[]card.Icon{{Src: light}, {Src: data, Theme: "dark"}, {Src: dark, Theme: "dark"}}, light, dark},
		{[]card.Icon{{Src: data}, {Src: dark, Theme: "dark"}}, data, dark},
		{[]card.Icon{{Src: data, Theme: "dark"}}, data, ""},
		{[]card.Icon{{Src: dark, Theme: "dark"}}, dark, ""},
	} {
		cfg := twoApps()
		cfg.Apps[0].Card.Icons = tt.icons
		_, body := ask(t, mustNew(t, cfg), "GET", "/apps/calendar")
		doc, err := html.Parse(strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		attr := func(element, name string) string {
			if n := find(doc, element); n != nil {
				for _, a := range n.Attr {
					if a.Key == name {
						return a.Val
					}
				}
			}
			return ""
		}
		if src, srcset := attr("img", "src"), attr("source", "srcset"); src != tt.src || srcset != tt.srcset {
			t.Errorf("%v: src %q, srcset %q", tt.icons, src, srcset)
		}
	}
}

// The drawing holds exactly the code of the page's own address (OB-35).
func TestCodeHoldsTheAddress(t *testing.T) {
	_, body := ask(t, mustNew(t, twoApps()), "GET", "/apps/calendar")
	want, err := qr.Encode("https://apps.example.com/apps/calendar", qr.M)
	if err != nil {
		t.Fatal(err)
	}
	got := map[[2]int]bool{}
	for _, m := range regexp.MustCompile(`M(\d+) (\d+)h(\d+)v1h-\d+z`).FindAllStringSubmatch(body, -1) {
		x, _ := strconv.Atoi(m[1])
		y, _ := strconv.Atoi(m[2])
		n, _ := strconv.Atoi(m[3])
		for i := range n {
			got[[2]int{x + i - 4, y - 4}] = true
		}
	}
	for y := range want.Size {
		for x := range want.Size {
			if got[[2]int{x, y}] != want.Black(x, y) {
				t.Fatalf("module %d,%d differs", x, y)
			}
		}
	}
}
