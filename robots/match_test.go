package robots

import (
	"math/rand/v2"
	"testing"
)

// TestIndexedMatch: the way for big files gives the answers of the plain one.
func TestIndexedMatch(t *testing.T) {
	rnd := rand.New(rand.NewPCG(9, 10))
	word := func(n int, alphabet string) string {
		b := make([]byte, rnd.IntN(n))
		for i := range b {
			b[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return string(b)
	}
	hits := 0
	for range 1000 {
		target := "/" + word(60, "abc")
		indexed := text{s: target, indexed: true} // serves all rules of a file
		for range 30 {
			pattern := "/" + word(4, "abc*") + "*" + word(30, "aaabbbc*")
			if from := rnd.IntN(len(target)); rnd.IntN(2) == 0 { // so that long pieces are found
				pattern = "*" + target[from:min(from+6+rnd.IntN(12), len(target))] + "*" + word(3, "abc")
			}
			if rnd.IntN(2) == 0 {
				pattern += "$"
			}
			plain := text{s: target}
			want := plain.matches(pattern)
			if got := indexed.matches(pattern); got != want {
				t.Fatalf("%q on %q: %t with the index, %t without", pattern, target, got, want)
			}
			if want {
				hits++
			}
		}
	}
	if hits < 1000 {
		t.Errorf("only %d matches: the test proves little", hits)
	}
}

// naive is a matcher that is plainly right: it tries every length of every
// star.
func naive(pattern, target string) bool {
	switch {
	case pattern == "":
		return true
	case pattern == "$":
		return target == ""
	case pattern[0] == '*':
		for i := range len(target) + 1 {
			if naive(pattern[1:], target[i:]) {
				return true
			}
		}
		return false
	}
	return target != "" && pattern[0] == target[0] && naive(pattern[1:], target[1:])
}

func TestMatchAgainstNaive(t *testing.T) {
	rnd := rand.New(rand.NewPCG(11, 12))
	for range 20_000 {
		target, pattern := "/", "/"
		for range rnd.IntN(9) {
			target += string("ab"[rnd.IntN(2)])
		}
		for range rnd.IntN(7) {
			pattern += string("ab**"[rnd.IntN(4)])
		}
		if rnd.IntN(2) == 0 {
			pattern += "$"
		}
		plain := text{s: target}
		if got, want := plain.matches(pattern), naive(pattern, target); got != want {
			t.Fatalf("%q on %q: %t, want %t", pattern, target, got, want)
		}
	}
}
