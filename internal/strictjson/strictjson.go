// Package strictjson reads JSON as the protocol wants it read: members match
// in exact case, a duplicate member in an object that the program uses is
// refused by name, nesting is bounded, and lone surrogates, NaN, comments and
// trailing data are errors (D9, documents R1).
//
// [Parse] checks the whole text once and gives a [Document], in which a reader
// looks up what it wants; parts that nobody looks into cost only the check of
// their grammar. [Unmarshal] fills Go values from it.
//
// The caller limits the size of what it hands over. Memory is at most about
// 32 octets for each octet of input, in the worst case of many tiny values.
package strictjson

import (
	"strconv"
	"strings"
)

// Error is one fault. Pointer is a JSON Pointer (RFC 6901) to the place; the
// empty string is the whole document.
type Error struct {
	Pointer string
	Message string
	// NotJSON is true when the text is no strict JSON at all, and false when
	// it is JSON that does not fit (a duplicate member, another type).
	NotJSON bool
	// Truncated is true when the text ends before its JSON does: what is there
	// may be the beginning of a longer text that was cut off on the way.
	Truncated bool
}

func (e *Error) Error() string {
	if e.Pointer == "" {
		return e.Message
	}
	return e.Pointer + ": " + e.Message
}

// MaxDepth is the deepest nesting of arrays and objects that is read.
const MaxDepth = 64

// escaper writes a member name as a reference token of RFC 6901, section 3.
var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// Member gives the JSON Pointer of a member of the object at pointer.
func Member(pointer, name string) string {
	if strings.ContainsAny(name, "~/") {
		name = escaper.Replace(name)
	}
	return pointer + "/" + name
}

// maxQuote is how many octets of a text Quote shows.
const maxQuote = 120

// Quote puts a document's text into a message: in quotes, with what is not
// printable escaped, and cut to a readable length.
func Quote(s string) string {
	if len(s) > maxQuote {
		return strconv.Quote(strings.ToValidUTF8(s[:maxQuote], "")) + "..."
	}
	return strconv.Quote(s)
}
