package strictjson

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// Kind is the JSON type of a value.
type Kind uint8

// The kinds of a value. The zero Kind is that of the zero Value: no value.
const (
	None Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

// String is the kind as a sentence names it: "a string", "null".
func (k Kind) String() string {
	return [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}[k]
}

// node is one value, or one member name, of a document. The nodes of a
// document stand in text order, so the children of a container follow it;
// those of an object are name, value, name, value.
type node struct {
	start, end int32 // its octets in the text, quotes and brackets included; end is 0 while a container is open
	next       int32 // index of the node after this one and all below it
	kind       Kind
	escaped    bool // a string that holds a backslash
}

// Document is one JSON text that has been checked in full. It refers to the
// octets that were parsed, which must not be changed while it is in use.
type Document struct {
	src   []byte
	nodes []node
	bom   bool
}

// Root is the document's one value.
func (d *Document) Root() Value { return Value{d, 0} }

// BOM reports whether the text began with a UTF-8 byte order mark, which is
// tolerated and worth a warning.
func (d *Document) BOM() bool { return d.bom }

var bom = []byte("\xef\xbb\xbf")

// Parse checks data against the grammar of RFC 8259 and the rules of this
// package, except for duplicate members: see [Value.Duplicate]. Errors are
// *Error with NotJSON set, and tell line and column.
func Parse(data []byte) (*Document, error) {
	d := &Document{src: data}
	if len(data) > math.MaxInt32 {
		return nil, &Error{Message: "is larger than 2 GiB", NotJSON: true}
	}
	p := parser{doc: d, src: data}
	if bytes.HasPrefix(data, bom) {
		d.bom = true
		p.at = len(bom)
	}
	d.nodes = make([]node, 0, min(len(data)/12, 4096)+8)
	if !utf8.Valid(data) {
		return nil, p.badUTF8()
	}
	if err := p.value(0); err != nil {
		return nil, err
	}
	if p.space(); p.at < len(p.src) {
		if c := p.src[p.at]; c == '/' || c == '#' {
			return nil, p.fail("a comment is not allowed in JSON, remove it")
		}
		return nil, p.fail("something follows the end of the document, remove it")
	}
	return d, nil
}

type parser struct {
	doc *Document
	src []byte
	at  int
}

func (p *parser) space() {
	for p.at < len(p.src) {
		switch p.src[p.at] {
		case ' ', '\n', '\t', '\r':
			p.at++
		default:
			return
		}
	}
}

// peek skips white space and gives the next octet, 0 at the end.
func (p *parser) peek() byte {
	p.space()
	if p.at == len(p.src) {
		return 0
	}
	return p.src[p.at]
}

// add appends a finished node that begins at start and ends where p stands.
func (p *parser) add(kind Kind, start int) {
	n := int32(len(p.doc.nodes))
	p.doc.nodes = append(p.doc.nodes, node{start: int32(start), end: int32(p.at), next: n + 1, kind: kind})
}

// value reads one value inside depth containers.
func (p *parser) value(depth int) error {
	c := p.peek()
	start := p.at
	switch {
	case c == '"':
		return p.str()
	case c == '{' || c == '[':
		if depth == MaxDepth {
			return p.fail("is nested deeper than " + strconv.Itoa(MaxDepth) + " levels, which is the most that is read")
		}
		kind := Array
		if c == '{' {
			kind = Object
		}
		open := len(p.doc.nodes)
		p.doc.nodes = append(p.doc.nodes, node{start: int32(start), kind: kind})
		p.at++
		var err error
		if kind == Object {
			err = p.members(depth + 1)
		} else {
			err = p.elements(depth + 1)
		}
		if err != nil {
			return err
		}
		n := &p.doc.nodes[open]
		n.end, n.next = int32(p.at), int32(len(p.doc.nodes))
		return nil
	case c == '-' || '0' <= c && c <= '9':
		return p.number()
	case c == 't' && p.literal("true"), c == 'f' && p.literal("false"):
		p.add(Bool, start)
		return nil
	case c == 'n' && p.literal("null"):
		p.add(Null, start)
		return nil
	}
	return p.noValue()
}

func (p *parser) literal(word string) bool {
	if !bytes.HasPrefix(p.src[p.at:], []byte(word)) {
		return false
	}
	p.at += len(word)
	return true
}

func (p *parser) elements(depth int) error {
	if p.peek() == ']' {
		p.at++
		return nil
	}
	for {
		if err := p.value(depth); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.at++
			if p.peek() == ']' {
				return p.fail("a comma stands before the closing bracket, remove it")
			}
		case ']':
			p.at++
			return nil
		default:
			return p.noSeparator("]")
		}
	}
}

func (p *parser) members(depth int) error {
	if p.peek() == '}' {
		p.at++
		return nil
	}
	for {
		if p.peek() != '"' {
			return p.noName()
		}
		if err := p.str(); err != nil {
			return err
		}
		if p.peek() != ':' {
			return p.fail("a colon must follow the member's name")
		}
		p.at++
		if err := p.value(depth); err != nil {
			return err
		}
		switch p.peek() {
		case ',':
			p.at++
			if p.peek() == '}' {
				return p.fail("a comma stands before the closing brace, remove it")
			}
		case '}':
			p.at++
			return nil
		default:
			return p.noSeparator("}")
		}
	}
}

// str reads a string; p stands at the opening quote.
func (p *parser) str() error {
	start, escaped := p.at, false
	src := p.src
	for i := start + 1; i < len(src); {
		switch c := src[i]; {
		case c == '"':
			p.at = i + 1
			p.add(String, start)
			p.doc.nodes[len(p.doc.nodes)-1].escaped = escaped
			return nil
		case c == '\\':
			escaped = true
			p.at = i
			n, err := p.escape()
			if err != nil {
				return err
			}
			i += n
		case c < 0x20:
			p.at = i
			return p.fail(fmt.Sprintf("the control character U+%04X stands in a string, write it as \\u%04x", c, c))
		default:
			i++
		}
	}
	p.at = len(src)
	return p.fail("the text ends inside a string")
}

// escape checks the escape sequence at p and gives its length.
func (p *parser) escape() (int, error) {
	rest := p.src[p.at:]
	if len(rest) < 2 {
		p.at = len(p.src)
		return 0, p.fail("the text ends inside a string")
	}
	switch rest[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, nil
	case 'u':
		r, ok := hex4(rest)
		switch {
		case !ok:
			return 0, p.fail(`four hexadecimal digits must follow \u`)
		case r < 0xD800 || r > 0xDFFF:
			return 6, nil
		}
		if low, ok := hex4(rest[6:]); r <= 0xDBFF && ok && 0xDC00 <= low && low <= 0xDFFF {
			return 12, nil
		}
		return 0, p.fail(fmt.Sprintf(`the escape \u%04x is half of a surrogate pair, write both halves or none`, r))
	}
	return 0, p.fail("a backslash begins no escape sequence that JSON has, double it if you mean a backslash")
}

// hex4 reads the escape \uXXXX at the start of b.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// number reads a number; p stands at its first octet.
func (p *parser) number() error {
	start := p.at
	if p.src[p.at] == '-' {
		p.at++
		if bytes.HasPrefix(p.src[p.at:], []byte("Infinity")) {
			p.at = start
			return p.fail("-Infinity is not a JSON value")
		}
	}
	zero := p.at < len(p.src) && p.src[p.at] == '0'
	n := p.digits()
	if n == 0 || zero && n > 1 {
		return p.fail("a number has digits after its sign and no needless zero before them")
	}
	if p.at < len(p.src) && p.src[p.at] == '.' {
		p.at++
		if p.digits() == 0 {
			return p.fail("a digit must follow the decimal point")
		}
	}
	if p.at < len(p.src) && (p.src[p.at] == 'e' || p.src[p.at] == 'E') {
		p.at++
		if p.at < len(p.src) && (p.src[p.at] == '+' || p.src[p.at] == '-') {
			p.at++
		}
		if p.digits() == 0 {
			return p.fail("a digit must follow the exponent's e")
		}
	}
	p.add(Number, start)
	return nil
}

func (p *parser) digits() int {
	start := p.at
	for p.at < len(p.src) && '0' <= p.src[p.at] && p.src[p.at] <= '9' {
		p.at++
	}
	return p.at - start
}
