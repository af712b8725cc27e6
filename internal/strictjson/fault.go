package strictjson

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// This file words the faults of a text that is no JSON. It runs once, for the
// first fault, so it may take its time to find out where that is.

// fail makes the error for the place where p stands.
func (p *parser) fail(message string) *Error {
	before := p.src[:p.at]
	line := 1 + bytes.Count(before, []byte("\n"))
	column := 1 + utf8.RuneCount(before[1+bytes.LastIndexByte(before, '\n'):])
	if p.doc.bom && line == 1 {
		column--
	}
	return &Error{
		Pointer:   p.pointer(),
		Message:   fmt.Sprintf("%s (line %d, column %d)", message, line, column),
		NotJSON:   true,
		Truncated: p.cutOff(),
	}
}

// cutOff reports whether more text could have mended what is wrong where p
// stands: only the end is missing, of a word, an escape or a character too.
func (p *parser) cutOff() bool {
	rest := p.src[p.at:]
	switch {
	case len(rest) == 0:
		return true
	case rest[0] == '\\': // an escape of six octets, or two of them
		const digits = "0123456789abcdefABCDEF"
		return len(rest) == 1 || rest[1] == 'u' && len(rest) < 12 && len(bytes.Trim(rest, digits+`\u`)) == 0
	case rest[0] >= utf8.RuneSelf:
		return !utf8.FullRune(rest)
	}
	for _, word := range []string{"true", "false", "null"} {
		if len(rest) < len(word) && bytes.HasPrefix([]byte(word), rest) {
			return true
		}
	}
	return false
}

// pointer is the JSON Pointer of the value in which p stands: it goes down
// through the containers that are still open. Between two values, and in a
// member's name, that is the container.
func (p *parser) pointer() string {
	nodes, pointer := p.doc.nodes, ""
	if len(nodes) == 0 || nodes[0].end != 0 {
		return ""
	}
	for at := 0; ; {
		object, edge, count := nodes[at].kind == Object, int(nodes[at].start)+1, 0
		child, name := at+1, -1
		for child < len(nodes) && nodes[child].end != 0 {
			edge, count = int(nodes[child].end), count+1
			if name = -1; object && count%2 == 1 {
				name = child
			}
			child = int(nodes[child].next)
		}
		if open := child < len(nodes); !open {
			between := bytes.TrimSpace(p.src[edge:p.at])
			comma := bytes.HasPrefix(between, []byte(","))
			closing := len(between) == 1 && p.at < len(p.src) && p.src[p.at] == ']'
			switch {
			case name >= 0:
				return Member(pointer, Value{p.doc, int32(name)}.Text())
			case !object && (count == 0 || comma && !closing):
				return pointer + "/" + strconv.Itoa(count)
			}
			return pointer
		}
		if object {
			pointer = Member(pointer, Value{p.doc, int32(name)}.Text())
		} else {
			pointer += "/" + strconv.Itoa(count)
		}
		at = child
	}
}

func (p *parser) badUTF8() *Error {
	for p.at < len(p.src) {
		r, size := utf8.DecodeRune(p.src[p.at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		p.at += size
	}
	return p.fail("the text is not UTF-8 here, save it as UTF-8")
}

func (p *parser) noValue() *Error {
	rest := p.src[p.at:]
	if len(rest) == 0 {
		if len(p.doc.nodes) == 0 {
			return p.fail("the document is empty, JSON is expected")
		}
		return p.fail("the text ends where a value must stand")
	}
	for _, word := range []string{"NaN", "Infinity", "undefined"} {
		if bytes.HasPrefix(rest, []byte(word)) {
			return p.fail(word + " is not a JSON value")
		}
	}
	switch rest[0] {
	case '/', '#':
		return p.fail("a comment is not allowed in JSON, remove it")
	case '\'':
		return p.fail("a string must stand in double quotes")
	}
	r, _ := utf8.DecodeRune(rest)
	return p.fail(fmt.Sprintf("%q cannot begin a JSON value", r))
}

func (p *parser) noName() *Error {
	if p.at == len(p.src) {
		return p.fail("the text ends inside an object")
	}
	switch p.src[p.at] {
	case '/', '#':
		return p.fail("a comment is not allowed in JSON, remove it")
	}
	return p.fail("a member's name must stand in double quotes here")
}

func (p *parser) noSeparator(closing string) *Error {
	if p.at == len(p.src) {
		return p.fail("the text ends before the closing " + closing)
	}
	switch p.src[p.at] {
	case '/', '#':
		return p.fail("a comment is not allowed in JSON, remove it")
	}
	return p.fail("a comma or the closing " + closing + " must follow here")
}
