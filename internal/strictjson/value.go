package strictjson

import (
	"bytes"
	"iter"
	"strconv"
	"unicode/utf8"
)

// Value is one value of a Document. The zero Value is no value, its Kind is
// None; so a reader may keep a Value for each member that it knows and see
// afterwards which were there.
type Value struct {
	doc *Document
	at  int32
}

func (v Value) node() *node { return &v.doc.nodes[v.at] }

// Kind is the value's JSON type.
func (v Value) Kind() Kind {
	if v.doc == nil {
		return None
	}
	return v.node().kind
}

// Raw is the value's own octets. They belong to the text that was parsed.
func (v Value) Raw() []byte {
	if v.doc == nil {
		return nil
	}
	n := v.node()
	return v.doc.src[n.start:n.end:n.end]
}

// Text is the text of a string, in a new Go string. It is empty for any other
// kind.
func (v Value) Text() string {
	if v.Kind() != String {
		return ""
	}
	return string(v.text())
}

// text is the octets of a string, those of the document where it can be.
func (v Value) text() []byte {
	n := v.node()
	inner := v.doc.src[n.start+1 : n.end-1]
	if !n.escaped {
		return inner
	}
	return unescape(inner)
}

// True reports whether the value is true.
func (v Value) True() bool {
	return v.Kind() == Bool && v.doc.src[v.node().start] == 't'
}

// Int is a number that is written as a plain integer and fits into an int.
func (v Value) Int() (int, bool) {
	if v.Kind() != Number {
		return 0, false
	}
	n, err := strconv.Atoi(string(v.Raw()))
	return n, err == nil
}

// Elements visits the elements of an array with their index. Any other kind
// has none.
func (v Value) Elements() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.Kind() != Array {
			return
		}
		nodes := v.doc.nodes
		end := nodes[v.at].next
		for i, at := 0, v.at+1; at < end; i, at = i+1, nodes[at].next {
			if !yield(i, Value{v.doc, at}) {
				return
			}
		}
	}
}

// Len is the number of elements of an array or of members of an object.
func (v Value) Len() int {
	kind := v.Kind()
	if kind != Array && kind != Object {
		return 0
	}
	count := 0
	nodes := v.doc.nodes
	for at := v.at + 1; at < nodes[v.at].next; at = nodes[at].next {
		count++
	}
	if kind == Object {
		count /= 2
	}
	return count
}

// Members visits the members of an object in the order of the text,
// duplicates included: whoever uses an object asks [Value.Duplicate] first.
// The name's octets must not be changed; compare them by switch string(name).
// Any other kind has no members.
func (v Value) Members() iter.Seq2[[]byte, Value] {
	return func(yield func([]byte, Value) bool) {
		if v.Kind() != Object {
			return
		}
		nodes := v.doc.nodes
		end := nodes[v.at].next
		for at := v.at + 1; at < end; at = nodes[at+1].next {
			if !yield(Value{v.doc, at}.text(), Value{v.doc, at + 1}) {
				return
			}
		}
	}
}

// Duplicate gives the first member of an object whose name another member
// before it has. Names are compared octet by octet after their escapes are
// resolved.
func (v Value) Duplicate() (name string, ok bool) {
	if v.Kind() != Object {
		return "", false
	}
	nodes := v.doc.nodes
	end := nodes[v.at].next
	const few = 16
	count := 0
	for at := v.at + 1; at < end; at = nodes[at+1].next {
		if count++; count > few {
			return v.duplicateOfMany()
		}
		this := Value{v.doc, at}.text()
		for before := v.at + 1; before < at; before = nodes[before+1].next {
			if bytes.Equal(this, Value{v.doc, before}.text()) {
				return string(this), true
			}
		}
	}
	return "", false
}

func (v Value) duplicateOfMany() (string, bool) {
	seen := map[string]bool{}
	for name := range v.Members() {
		if seen[string(name)] {
			return string(name), true
		}
		seen[string(name)] = true
	}
	return "", false
}

// unescape resolves the escapes of a string that has been checked.
func unescape(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			return append(out, b...)
		}
		out = append(out, b[:i]...)
		b = b[i:]
		c, size := b[1], 2
		switch c {
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			r, _ := hex4(b)
			size = 6
			if 0xD800 <= r && r <= 0xDFFF {
				low, _ := hex4(b[6:])
				r = 0x10000 + (r-0xD800)<<10 + (low - 0xDC00)
				size = 12
			}
			out = utf8.AppendRune(out, r)
			b = b[size:]
			continue
		}
		out = append(out, c)
		b = b[size:]
	}
}
