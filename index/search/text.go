package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Bounds on what one text can cost.
const (
	maxTextBytes = 32 << 10 // of one field; what is beyond is not indexed
	maxWordRunes = 64       // a longer word is cut, in documents and queries alike
	maxParts     = 8        // of a camelCase word; later ones count in the whole only
)

// CleanText gives s as it may be shown: invalid UTF-8 becomes U+FFFD, line
// breaks and tabs become spaces, and characters that could hide or reorder
// text go: control characters, bidi controls, invisible operators, the byte
// order mark and tag characters (IX-20). Joiners stay, as emoji and several
// scripts need them. The result is still untrusted text: escape it.
func CleanText(s string) string {
	if isPrintableASCII(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		switch {
		case isBreak(r):
			return ' '
		case isRemoved(r):
			return -1
		}
		return r // strings.Map gives U+FFFD for bytes that are no UTF-8
	}, s)
}

// CleanQuery gives a query as it is searched for: as CleanText, without white
// space around it, and empty if nothing in it can be seen. An empty query asks
// for the listing.
func CleanQuery(s string) string {
	s = strings.TrimSpace(CleanText(s))
	if strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || isIgnored(r) || unicode.Is(unicode.Cf, r) }) == "" {
		return ""
	}
	return s
}

func isPrintableASCII(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// isBreak reports the control and format characters that stand for white space.
func isBreak(r rune) bool {
	return r >= '\t' && r <= '\r' || r == 0x85 || r == 0x2028 || r == 0x2029
}

// isRemoved reports characters that are neither indexed nor shown (IX-20).
func isRemoved(r rune) bool {
	switch {
	case r < 0x20, r >= 0x7F && r < 0xA0, // control characters
		r == 0x061C, r == 0x200E, r == 0x200F, r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x206F, // bidi controls
		r >= 0x2060 && r <= 0x2064, r == 0xFEFF, // invisible operators, byte order mark
		r >= 0xFFF9 && r <= 0xFFFB,   // interlinear annotation
		r >= 0xE0000 && r <= 0xE007F: // tags
		return true
	}
	return false
}

// isIgnored reports characters that are shown but count for nothing in a word:
// joiners, soft hyphen, variation selectors.
func isIgnored(r rune) bool {
	return r == 0x200C || r == 0x200D || r == 0xAD || r >= 0xFE00 && r <= 0xFE0F || r >= 0xE0100 && r <= 0xE01EF
}

// token is one word of a text, or one bigram or character of a run of a script
// that puts no spaces between words.
type token struct {
	text  string   // folded
	stem  string   // English stem; "" when it is text itself
	parts []string // of a camelCase word, folded
	gram  bool     // of such a run
	// single is the last character of a run. It is the whole run when alone is
	// set, and counts towards the length of a field only then.
	single, alone bool
}

// analyzer cuts texts into tokens, the same way for documents and queries
// (IX-19). It is for one goroutine.
type analyzer struct {
	fold cases.Caser
}

func newAnalyzer() *analyzer { return &analyzer{fold: cases.Fold()} }

// tokens calls emit for each token of text until emit gives false.
func (a *analyzer) tokens(text string, emit func(token) bool) {
	text = normalize(text)
	start, runes, camel := -1, 0, false
	cut := -1          // where a word that is too long ends for us
	var before rune    // the rune that ended the last word
	var run, prev rune // run of a script without spaces: its length and last rune
	endWord := func(end int) bool {
		if start < 0 {
			return true
		}
		word := text[start:end]
		if cut >= 0 {
			word = text[start:cut]
		}
		wasCamel, short := camel, runes == 1
		start, runes, camel, cut = -1, 0, false, -1
		if short && (before == '\'' || before == '’') {
			return true // what "don't" and "publisher's" leave over
		}
		return emit(a.word(word, wasCamel))
	}
	endRun := func() bool {
		if run == 0 {
			return true
		}
		t := token{text: string(prev), gram: true, single: true, alone: run == 1}
		run = 0
		return emit(t)
	}
	var last rune
	for i, r := range text {
		switch {
		case isGram(r):
			if !endWord(i) {
				return
			}
			if run > 0 && !emit(token{text: string(prev) + string(r), gram: true}) {
				return
			}
			run, prev = run+1, r
		case isWord(r) || start >= 0 && unicode.Is(unicode.M, r):
			if !endRun() {
				return
			}
			if start < 0 {
				start, before = i, last
			}
			if runes++; runes == maxWordRunes+1 {
				cut = i
			}
			camel = camel || runes > 1 && unicode.IsUpper(r)
		default:
			if !endWord(i) || !endRun() {
				return
			}
		}
		last = r
	}
	if endWord(len(text)) {
		endRun()
	}
}

// normalize gives text in NFKC without the characters that are not indexed.
// Bytes that are no UTF-8 become spaces: they break a word.
func normalize(text string) string {
	if len(text) > maxTextBytes {
		end := maxTextBytes
		for end > maxTextBytes-utf8.UTFMax && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end]
	}
	if isPrintableASCII(text) {
		return text
	}
	text = strings.Map(func(r rune) rune {
		switch {
		case isBreak(r) || r == utf8.RuneError:
			return ' '
		case isRemoved(r) || isIgnored(r):
			return -1
		}
		return r
	}, text)
	return norm.NFKC.String(text)
}

func (a *analyzer) word(raw string, camel bool) token {
	t := token{text: a.folded(raw)}
	if s := stem(t.text); s != t.text {
		t.stem = s
	}
	if camel {
		for _, part := range camelParts(raw) {
			t.parts = append(t.parts, a.folded(part))
		}
	}
	return t
}

// folded gives the case folding of a word, without the accents of Latin and
// Greek letters. Marks of other scripts carry meaning and stay.
func (a *analyzer) folded(word string) string {
	if isPrintableASCII(word) {
		return strings.ToLower(word)
	}
	word = norm.NFD.String(a.fold.String(word))
	var b strings.Builder
	falls := false
	for _, r := range word {
		if unicode.Is(unicode.Mn, r) {
			if falls {
				continue
			}
		} else {
			falls = unicode.In(r, unicode.Latin, unicode.Greek)
		}
		b.WriteRune(r)
	}
	return norm.NFKC.String(b.String())
}

// phrase gives a text as one key: its words, folded, with single spaces. Two
// texts that a reader would call the same have the same key.
func (a *analyzer) phrase(text string) string {
	var b strings.Builder
	open := false
	for _, r := range a.fold.String(normalize(text)) {
		if isWord(r) || isGram(r) || unicode.Is(unicode.M, r) {
			if open && b.Len() > 0 {
				b.WriteByte(' ')
			}
			open = false
			b.WriteRune(r)
		} else {
			open = true
		}
	}
	return norm.NFKC.String(b.String())
}

// camelParts cuts at a change from lower to upper case, and before the last
// capital of several when at least two small letters follow ("HTTPServer", but
// not "APIs"). Parts of one letter are left out; fewer than two cuts are none.
func camelParts(word string) []string {
	rs := []rune(word)
	var parts []string
	begin := 0
	add := func(end int) {
		if end-begin > 1 {
			parts = append(parts, string(rs[begin:end]))
		}
		begin = end
	}
	for i := 1; i < len(rs) && len(parts) < maxParts; i++ {
		if !unicode.IsUpper(rs[i]) {
			continue
		}
		afterLower := !unicode.IsUpper(rs[i-1])
		newWord := i+2 < len(rs) && unicode.IsLower(rs[i+1]) && unicode.IsLower(rs[i+2])
		if afterLower || newWord {
			add(i)
		}
	}
	if begin == 0 {
		return nil
	}
	if len(parts) < maxParts {
		add(len(rs))
	}
	return parts
}

func isWord(r rune) bool {
	if r < utf8.RuneSelf {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// gramScripts are the scripts that put no spaces between words, and Hangul,
// whose words carry endings (IX-22).
var gramScripts = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Hangul,
	unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar,
}

func isGram(r rune) bool {
	switch {
	case r < 0x0E00:
		return false
	case r >= 0x4E00 && r <= 0x9FFF, r == 'ー':
		return true
	}
	return unicode.In(r, gramScripts...) && (unicode.IsLetter(r) || unicode.Is(unicode.M, r) || unicode.Is(unicode.Nl, r))
}
