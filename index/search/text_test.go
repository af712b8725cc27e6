package search

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// terms gives everything that the analyzer makes of a text, in order.
func terms(text string) []string {
	out := []string{}
	newAnalyzer().tokens(text, func(t token) bool {
		out = append(out, t.text)
		if t.stem != "" {
			out = append(out, "~"+t.stem)
		}
		for _, p := range t.parts {
			out = append(out, "+"+p)
		}
		return true
	})
	return out
}

// Stems carry a tilde, parts of camelCase a plus.
func TestRule_IX19_Words(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"case", "Hello WORLD", []string{"hello", "world"}},
		{"full folding", "STRASSE Straße", []string{"strasse", "~strass", "strasse", "~strass"}},
		{"final sigma", "ΟΔΟΣ οδος", []string{"οδοσ", "οδοσ"}},
		{"dotted capital i", "İstanbul", []string{"istanbul"}},
		{"full-width", "ＡＰＩ１２", []string{"api12"}},
		{"ligature", "ﬁle", []string{"file"}},
		{"circled digit", "①", []string{"1"}},
		{"accents of Latin fall", "Café résumé naïve", []string{"cafe", "resume", "~resum", "naive", "~naiv"}},
		{"accents of Greek fall", "Ελλάδα", []string{"ελλαδα"}},
		{"decomposed", "Cafe\u0301", []string{"cafe"}},
		{"Cyrillic stays", "ёлка", []string{"ёлка"}},
		{"kana voicing stays", "がぎ", []string{"がぎ", "ぎ"}},
		{"decomposed kana", "か\u3099き\u3099", []string{"がぎ", "ぎ"}},
		{"Devanagari vowel signs stay", "हिन्दी", []string{"हिन्दी"}},
		{"invalid UTF-8 breaks", "foo\xffbar", []string{"foo", "bar"}},
		{"line breaks break", "foo\nbar\tbaz", []string{"foo", "bar", "baz"}},
		{"punctuation breaks", "com.github/github-mcp", []string{"com", "github", "github", "mcp"}},
		{"emoji alone", "🎉 👩‍👩‍👧", []string{}},
		{"emoji between", "a🎉b", []string{"a", "b"}},
		{"apostrophes", "don't Publisher's rock’s", []string{"don", "publisher", "rock"}},
		{"Arabic", "تقويم العمل", []string{"تقويم", "العمل"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, terms(tc.text)); diff != "" {
				t.Errorf("%q (-want +got):\n%s", tc.text, diff)
			}
		})
	}
}

func TestRule_IX20_RemovedCharacters(t *testing.T) {
	for _, tc := range []struct{ name, text, show, words string }{
		{"bidi override", "a\u202Egnp.exe", "agnp.exe", "agnp exe"},
		{"bidi isolate", "\u2066x\u2069y", "xy", "xy"},
		{"marks", "left\u200Eright\u200F\u061C", "leftright", "leftright"},
		{"word joiner", "key\u2060board", "keyboard", "keyboard"},
		{"byte order mark", "\uFEFFtitle", "title", "title"},
		{"tag characters", "hi\U000E0041\U000E0042\U000E007F", "hi", "hi"},
		{"control", "a\x00b\x1b[31m", "ab[31m", "ab 31m"},
		{"line break", "one\r\ntwo\u2028three", "one  two three", "one two three"},
		{"joiners are shown", "ab\u200Dcd", "ab\u200Dcd", "abcd"},
		{"invalid UTF-8", "a\xffb", "a\uFFFDb", "a b"},
		{"plain", "plain <b>", "plain <b>", "plain b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := CleanText(tc.text); got != tc.show {
				t.Errorf("CleanText(%q) = %q, want %q", tc.text, got, tc.show)
			}
			var words []string
			newAnalyzer().tokens(tc.text, func(t token) bool { words = append(words, t.text); return true })
			if got := strings.Join(words, " "); got != tc.words {
				t.Errorf("words of %q = %q, want %q", tc.text, got, tc.words)
			}
		})
	}
}

func TestRule_IX21_PartsStemsStopWords(t *testing.T) {
	for text, want := range map[string][]string{
		"ParcelBeam":  {"parcelbeam", "+parcel", "+beam"},
		"HTTPServer":  {"httpserver", "+http", "+server"},
		"iPhone APIs": {"iphone", "~iphon", "+phone", "apis"},
		"OAuth2Token": {"oauth2token", "+auth2", "+token"},
		"GITHUB":      {"github"},
	} {
		if diff := cmp.Diff(want, terms(text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	// Words of one line have one stem.
	for _, group := range []string{
		"schedule schedules scheduled scheduling",
		"table tables", "plane planes", "book books booked booking", "plan plans planned planning",
		"company companies", "movie movies", "search searches searched searching", "rate rates rated rating",
		"box boxes", "class classes", "control controls controlled controlling", "ticket tickets", "reply replies replied",
	} {
		words := strings.Fields(group)
		for _, w := range words {
			if stem(w) != stem(words[0]) {
				t.Errorf("stem(%s) = %s, but stem(%s) = %s", w, stem(w), words[0], stem(words[0]))
			}
		}
	}
	for _, w := range []string{"plan", "sing", "need", "bus", "analysis", "press", "api", "k8s", "天气"} {
		if stem(w) != w {
			t.Errorf("stem(%s) = %s", w, stem(w))
		}
	}
	if stem("plane") == stem("plan") {
		t.Error("plane and plan have one stem")
	}
	g := generationOf(t, simple("a.example", "The who", ""), simple("b.example", "Weather", ""))
	if got := words(g.analyze("what is the weather")); !cmp.Equal(got, []string{"weather"}) {
		t.Errorf("stop words beside others: %q", got)
	}
	if got := words(g.analyze("the who")); !cmp.Equal(got, []string{"the", "who"}) {
		t.Errorf("stop words alone: %q", got)
	}
}

func words(q *query) []string {
	var out []string
	for _, w := range q.words {
		out = append(out, w.text)
	}
	return out
}

func TestRule_IX22_Bigrams(t *testing.T) {
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"天气通", []string{"天气", "气通", "通"}},
		{"灯", []string{"灯"}},
		{"PDF翻译助手2", []string{"pdf", "翻译", "译助", "助手", "手", "2"}},
		{"サーバー", []string{"サー", "ーバ", "バー", "ー"}},
		{"ｻｰﾊﾞｰ", []string{"サー", "ーバ", "バー", "ー"}},
		{"\u1112\u1161\u11ab\u1100\u1173\u11af", []string{"한글", "글"}}, // Hangul in NFD
		{"한글", []string{"한글", "글"}},
		{"天 气", []string{"天", "气"}},
		{"人々", []string{"人々", "々"}},
		{"ไทย", []string{"ไท", "ทย", "ย"}},
	} {
		if diff := cmp.Diff(tc.want, terms(tc.text)); diff != "" {
			t.Errorf("%q (-want +got):\n%s", tc.text, diff)
		}
	}
}

func TestAnalyzer_bounds(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	got := terms(long)
	if len(got) != 1 || len(got[0]) != maxWordRunes {
		t.Errorf("a word of 1 MiB: %d terms", len(got))
	}
	if a, b := terms(long[:100]), terms(long[:65]); !cmp.Equal(a, b) {
		t.Error("long words are not cut alike")
	}
	if n := len(terms(strings.Repeat("e\u0301", 1<<19))); n != 1 {
		t.Errorf("a word of many accents: %d terms", n)
	}
	a := newAnalyzer()
	e := app{URL: "https://a.example/c", Name: "a/b", Title: "t", CatalogText: strings.Repeat("word ", 1<<17)}.entry(t)
	if n := len(a.terms(e)); n > 40 {
		t.Errorf("%d terms of one repeated word", n)
	}
}

func FuzzAnalyzer(f *testing.F) {
	for _, s := range []string{"Hello", "天气 ParcelBeam", "a\xff\u202Eb", "e\u0301\u0301", "İ", "ﷺ", "don't", "サーバー", "\U000E0041"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a := newAnalyzer()
		check := func(term string) {
			if term == "" || !utf8.ValidString(term) || term[0] < ' ' {
				t.Fatalf("term %q of %q", term, s)
			}
		}
		n := 0
		a.tokens(s, func(tk token) bool {
			check(tk.text)
			for _, p := range tk.parts {
				check(p)
			}
			n++
			return n < 1000
		})
		a.phrase(s)
		shown := CleanText(s)
		if !utf8.ValidString(shown) || CleanText(shown) != shown || strings.ContainsAny(shown, "\x00\n\u202E\u2066") {
			t.Fatalf("CleanText(%q) = %q", s, shown)
		}
	})
}
