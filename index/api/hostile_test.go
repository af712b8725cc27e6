package api

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/search"
)

// What strangers write into cards and queries.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`, `</title><script>alert(1)</script>`,
	`</style><script>alert(1)</script>`, `<!-- --><svg/onload=alert(1)>`, `{{.CSS}}`, "\u202Egnp.exe\u2066", "a\x00b\x1b[31m", "\U000E0041\U000E0042", "bad\xffutf8", `&lt;b&gt;`,
}

// OB-90: results are untrusted text: no HTML, nothing that runs or hides.
func TestRule_IX42_ResultsAreText(t *testing.T) { resultsAreText(t) }

// What a document says is data: no markup of it is run, no address in it asked.
func TestRule_DocumentsR10_DocumentsAreData(t *testing.T) { resultsAreText(t) }

func resultsAreText(t *testing.T) {
	t.Helper()
	m := newMemory()
	for i, text := range hostile {
		e := entryFor(t, "https://h"+string(rune('a'+i))+".example.com/card", "T "+text, "D "+text, func(e *index.Entry, c *card.Card) {
			c.Name = "com.example/x"
			e.DisplayName, e.Description, e.Tags, e.Identifier = text, text, []string{text}, text
			c.WebsiteURL = "javascript:alert(1)"
			c.Icons = []card.Icon{{Src: "javascript:alert(1)"}}
			if err := c.SetPresentation(&card.Presentation{Version: "1", Examples: []card.Example{{ID: "a", Title: "x" + text, Prompt: "p" + text, Description: text}}}); err != nil {
				// What a presentation cannot hold is not shown either.
				c.Meta = nil
			}
			var err error
			if e.Document, err = json.Marshal(c); err != nil {
				t.Fatal(err)
			}
			e.Name = text
		})
		m.put(e)
	}
	s := open(t, m, nil)
	var pagesSeen []string
	for _, q := range append([]string{""}, hostile...) {
		pagesSeen = append(pagesSeen, "/?q="+escape(q))
	}
	for _, e := range m.entries {
		pagesSeen = append(pagesSeen, "/apps/"+e.ID)
		w := s.get("/v1/apps/" + e.ID)
		if w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
		checkClean(t, w.Body.String())
		if strings.Contains(w.Body.String(), `"javascript:`) && !strings.Contains(w.Body.String(), `"card"`) {
			t.Errorf("an address that runs: %s", w.Body)
		}
	}
	for _, path := range pagesSeen {
		w := s.get(path)
		checkPage(t, path, w.Header(), w.Body.String())
	}
	for _, text := range hostile {
		w := s.do(http.MethodPost, "/submit", "url="+escape(text), "Content-Type", "application/x-www-form-urlencoded")
		checkPage(t, "/submit", w.Header(), w.Body.String())
		w = s.get("/?" + escape(text) + "=1")
		checkPage(t, "/?…", w.Header(), w.Body.String())
	}
	checkClean(t, s.get("/v1/apps?limit=100").Body.String())
}

// checkClean looks for characters that may not be shown (IX-20).
func checkClean(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if r < ' ' && r != '\n' || r >= 0x202A && r <= 0x202E || r >= 0x2066 && r <= 0x2069 || r >= 0xE0000 && r <= 0xE007F {
			t.Errorf("%U is shown: %q", r, text)
			return
		}
	}
	if regexp.MustCompile(`\\u(00[01]|20(2[a-e]|6))`).MatchString(text) {
		t.Errorf("an escaped control character: %s", text)
	}
}

// checkPage reads a page as a browser does: nothing in it runs or loads.
func checkPage(t *testing.T, path string, header http.Header, page string) {
	t.Helper()
	checkClean(t, page)
	z := html.NewTokenizer(strings.NewReader(page))
	style := ""
	for {
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			sum := sha256.Sum256([]byte(style))
			want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
			if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, want) {
				t.Errorf("%s: policy %q does not allow the style", path, policy)
			}
			return
		case html.StartTagToken, html.SelfClosingTagToken:
			tag := z.Token()
			switch tag.Data {
			case "script", "img", "svg", "iframe", "object", "embed", "link", "base", "b":
				t.Errorf("%s: element %s", path, tag)
			case "style":
				z.Next()
				style = z.Token().Data
			}
			for _, a := range tag.Attr {
				if strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "src" {
					t.Errorf("%s: attribute %s of %s", path, a.Key, tag)
				}
				if (a.Key == "href" || a.Key == "action") && !strings.HasPrefix(a.Val, "https://") && !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#") {
					t.Errorf("%s: address %s of %s", path, a.Val, tag)
				}
			}
		}
	}
}

// FuzzCursor: no text but our own is a cursor, and none breaks anything.
func FuzzCursor(f *testing.F) {
	own := cursors{[]byte("0123456789abcdef")}
	good := own.encode(cursor{
		Version: cursorVersion, Surface: surfaceV1, Ranker: search.RankerVersion, Query: "q", Limit: 5,
		Position: search.Position{Depth: 5, ID: "ab", Shown: []string{"0123", "x"}, Seen: []byte{1}, Counts: []byte{0, 200}, Epoch: "e"},
	})
	for _, s := range []string{good, "", "A", good[:10], good + good, "====", strings.Repeat("A", 5000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if cur, err := own.decode(text); err == nil {
			if again := own.encode(cur); again != text {
				t.Fatalf("%q is a cursor that we did not write", text)
			}
		}
	})
}
