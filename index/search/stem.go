package search

import "strings"

// stem gives a light English stem: plural, -ed and -ing endings and a final e
// fall, by the tests of Porter's algorithm (steps 1 and 5; Program 14, 1980).
// Words of other alphabets, with digits, or of three letters and fewer are
// their own stems.
func stem(w string) string {
	if len(w) < 4 {
		return w
	}
	for i := range len(w) {
		if w[i] < 'a' || w[i] > 'z' {
			return w
		}
	}
	s := stemPlural(w)
	s = stemPast(s)
	if head, ok := strings.CutSuffix(s, "y"); ok && hasVowel(head) {
		s = head + "i"
	}
	if head, ok := strings.CutSuffix(s, "e"); ok && (measure(head) > 1 || measure(head) == 1 && !isShort(head)) {
		s = head
	}
	if strings.HasSuffix(s, "ll") && measure(s[:len(s)-1]) > 1 {
		s = s[:len(s)-1]
	}
	return s
}

func stemPlural(w string) string {
	switch {
	case strings.HasSuffix(w, "sses"), strings.HasSuffix(w, "ies"):
		return w[:len(w)-2]
	case strings.HasSuffix(w, "ss"), strings.HasSuffix(w, "us"), strings.HasSuffix(w, "is"), !strings.HasSuffix(w, "s"):
		return w
	}
	return w[:len(w)-1]
}

func stemPast(w string) string {
	if head, ok := strings.CutSuffix(w, "eed"); ok {
		if measure(head) > 0 {
			return w[:len(w)-1]
		}
		return w
	}
	head, ok := strings.CutSuffix(w, "ed")
	if !ok {
		head, ok = strings.CutSuffix(w, "ing")
	}
	if !ok || !hasVowel(head) {
		return w
	}
	n := len(head)
	switch {
	case strings.HasSuffix(head, "at"), strings.HasSuffix(head, "bl"), strings.HasSuffix(head, "iz"):
		return head + "e"
	case n > 1 && head[n-1] == head[n-2] && !isVowel(head, n-1) && !strings.ContainsRune("lsz", rune(head[n-1])):
		return head[:n-1]
	case measure(head) == 1 && isShort(head):
		return head + "e"
	}
	return head
}

func isVowel(w string, i int) bool {
	switch w[i] {
	case 'a', 'e', 'i', 'o', 'u':
		return true
	case 'y':
		return i > 0 && !isVowel(w, i-1)
	}
	return false
}

func hasVowel(w string) bool {
	for i := range len(w) {
		if isVowel(w, i) {
			return true
		}
	}
	return false
}

// measure counts the changes from vowel to consonant.
func measure(w string) int {
	m, vowel := 0, false
	for i := range len(w) {
		v := isVowel(w, i)
		if vowel && !v {
			m++
		}
		vowel = v
	}
	return m
}

// isShort reports an ending of consonant, vowel, consonant, the last one none
// of w, x and y.
func isShort(w string) bool {
	n := len(w)
	return n >= 3 && !isVowel(w, n-3) && isVowel(w, n-2) && !isVowel(w, n-1) && !strings.ContainsRune("wxy", rune(w[n-1]))
}

// isStop reports a word that says little in a query that has others (IX-21).
func isStop(w string) bool {
	switch w {
	case "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "did", "do", "does", "for", "from", "has", "have",
		"how", "i", "in", "is", "it", "its", "me", "my", "of", "on", "or", "our", "please", "so", "that", "the", "their",
		"there", "this", "to", "was", "we", "what", "when", "where", "which", "who", "will", "with", "you", "your",
		"的", "了", "吗", "呢", "我", "请":
		return true
	}
	return false
}
