package api

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/index"
)

// Each text of the pages has its Chinese words, and no words are left over.
func TestPages_allWordsInChinese(t *testing.T) {
	var texts []string
	for _, file := range []string{"pages/pages.html"} {
		html, err := pageFiles.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\{\{t "([^"]*)"`).FindAllStringSubmatch(string(html), -1) {
			texts = append(texts, m[1])
		}
		// Words outside of t would stay English on a Chinese page.
		rest := regexp.MustCompile(`(?s)\{\{.*?\}\}|<[^>]*>`).ReplaceAllString(string(html), " ")
		for _, word := range strings.Fields(rest) {
			if regexp.MustCompile(`^[A-Za-z]{3,}$`).MatchString(word) && word != "API" && word != "JSON" {
				t.Errorf("%q is in no language but English", word)
			}
		}
	}
	for _, r := range []index.Reason{index.ReasonDelisted, index.ReasonNoIndex, index.ReasonGone, index.ReasonInvalid, index.ReasonBlocked, index.ReasonExpired} {
		texts = append(texts, reasonText(r))
	}
	texts = append(texts, acceptance.Message)
	for _, text := range texts {
		if chinese[text] == "" {
			t.Errorf("no Chinese for %q", text)
		}
		if strings.Count(text, "%") != strings.Count(chinese[text], "%") {
			t.Errorf("%q and %q", text, chinese[text])
		}
	}
	texts = append(texts, "Submitted", "Thank you", "Search for the app in a few minutes.", "This app has left the index", "It was %s, until %s.")
	for text := range chinese {
		if !slices.Contains(texts, text) && !slices.ContainsFunc([]int{400, 404, 405, 410, 413, 429, 500, 503}, func(n int) bool { return http.StatusText(n) == text }) {
			t.Errorf("%q is not on any page", text)
		}
	}
}

func TestPages_language(t *testing.T) {
	s := open(t, sample(t), nil)
	for header, lang := range map[string]string{
		"": "en", "de": "en", "zh": "zh-Hans", "zh-CN,zh;q=0.9,en;q=0.8": "zh-Hans", "zh-TW": "zh-Hans", "en-US,zh;q=0.9": "en", "fr, zh;q=0.5": "zh-Hans",
		"*": "en", ";;;": "en", "zh;q=0": "en", strings.Repeat("zh-x-a,", 3000): "",
	} {
		for _, path := range []string{"/", "/?q=calendar", "/apps/" + index.ID("https://weather.example.com/card"), "/apps/" + index.ID("https://old.example.com/card"), "/?cursor=x", "/apps/x"} {
			w := s.get(path, "Accept-Language", header)
			if !slices.Contains(w.Header().Values("Vary"), "Accept-Language") {
				t.Errorf("%s: Vary %q", path, w.Header().Values("Vary"))
			}
			if lang != "" && !strings.Contains(w.Body.String(), `<html lang="`+lang+`">`) {
				t.Errorf("%s in %q is not %s", path, header, lang)
			}
			checkPage(t, path, w.Header(), w.Body.String())
		}
	}
	en, zh := s.get("/").Header().Get("ETag"), s.get("/", "Accept-Language", "zh").Header().Get("ETag")
	if en == zh {
		t.Error("two languages have one ETag")
	}
}
