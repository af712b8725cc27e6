package robots

import (
	"slices"
	"strings"
)

// find gives the index of the first rule that matches, which is the one that
// decides because of their order, or -1.
func find(rules []rule, target string) int {
	t := text{s: target, indexed: len(rules)*len(target) > indexFrom}
	for i := range rules {
		if t.matches(rules[i].match) {
			return i
		}
	}
	return -1
}

const (
	// indexFrom is the number of rules times the length of the target from which
	// an index of the target pays. Usual files never come near it.
	indexFrom = 1 << 19
	// maxGram is the longest run of octets that is looked up in the index.
	maxGram = 8
)

// text is a target being matched.
//
// A file of 40,000 patterns with stars against a target of 8 KiB would read the
// target 40,000 times. So for a big file the positions of each run of up to
// maxGram octets in the target are noted once, by length and when first needed.
type text struct {
	s       string
	indexed bool
	grams   [maxGram + 1]map[string][]int32
	looked  map[string]look // of pieces longer than maxGram
}

// look is what looking for a piece gave.
type look struct{ from, at int }

// matches reports whether a pattern matches the text from its first octet. The
// pieces between stars are looked for leftmost, one after the other, which
// never has to go back.
func (t *text) matches(pattern string) bool {
	pattern, anchored := strings.CutSuffix(pattern, "$")
	piece, rest, star := strings.Cut(pattern, "*")
	if !strings.HasPrefix(t.s, piece) {
		return false
	}
	at := len(piece)
	for star {
		piece, rest, star = strings.Cut(rest, "*")
		if !star && anchored {
			return strings.HasSuffix(t.s[at:], piece)
		}
		i := t.next(piece, at)
		if i < 0 {
			return false
		}
		at = i + len(piece)
	}
	return !anchored || at == len(t.s)
}

// next gives the first position of a piece, not before from, or -1.
func (t *text) next(piece string, from int) int {
	if !t.indexed || len(piece) < 2 {
		i := strings.Index(t.s[from:], piece)
		if i < 0 {
			return -1
		}
		return from + i
	}
	if len(piece) <= maxGram {
		places := t.gramsOf(len(piece))[piece]
		if i, _ := slices.BinarySearch(places, int32(from)); i < len(places) {
			return int(places[i])
		}
		return -1
	}
	// Rules that share a piece ask for it again and again.
	if l, ok := t.looked[piece]; ok && l.from <= from && (l.at < 0 || from <= l.at) {
		return l.at
	}
	at := t.nextLong(piece, from)
	if t.looked == nil {
		t.looked = map[string]look{}
	}
	t.looked[piece] = look{from, at}
	return at
}

// nextLong is next for a piece that is longer than the runs of the index: the
// rarest run in it tells where it can stand at all.
func (t *text) nextLong(piece string, from int) int {
	grams := t.gramsOf(maxGram)
	places, offset := grams[piece[:maxGram]], 0
	for o := maxGram; o < len(piece) && len(places) > 0; o += maxGram {
		o := min(o, len(piece)-maxGram)
		if p := grams[piece[o:o+maxGram]]; len(p) < len(places) {
			places, offset = p, o
		}
	}
	i, _ := slices.BinarySearch(places, int32(from+offset))
	for _, p := range places[i:] {
		if at := int(p) - offset; strings.HasPrefix(t.s[at:], piece) {
			return at
		}
	}
	return -1
}

// gramsOf gives the positions of each run of n octets, in order.
func (t *text) gramsOf(n int) map[string][]int32 {
	if t.grams[n] == nil {
		m := map[string][]int32{}
		for i := 0; i+n <= len(t.s); i++ {
			m[t.s[i:i+n]] = append(m[t.s[i:i+n]], int32(i))
		}
		t.grams[n] = m
	}
	return t.grams[n]
}
