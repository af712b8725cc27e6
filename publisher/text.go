package publisher

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// maxText bounds the text that is made from a value: a model reads all of it.
const maxText = 8 << 10

// describe is the text of a value whose handler gave none: its String method,
// else an outline of its JSON.
func describe[T any](out T, value json.RawMessage) string {
	for _, v := range []any{out, &out} {
		if r := reflect.ValueOf(v); r.Kind() == reflect.Pointer && r.IsNil() {
			continue
		}
		if s, ok := v.(fmt.Stringer); ok {
			if text := strings.TrimSpace(s.String()); text != "" {
				return text
			}
		}
	}
	text := outline(value)
	if text == "" {
		return "Done."
	}
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "\n… (more in the structured content)"
	}
	return text
}

// outline writes JSON as lines: "name: value", members of members indented,
// list elements after a dash. It keeps the order of the text.
func outline(data json.RawMessage) string {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	token, err := d.Token()
	if err != nil {
		return ""
	}
	var b strings.Builder
	writeValue(&b, d, token, "")
	return strings.TrimSpace(b.String())
}

// writeValue writes the value that token begins: a scalar on the line that was
// begun, anything else on lines of its own.
func writeValue(b *strings.Builder, d *json.Decoder, token json.Token, indent string) {
	switch t := token.(type) {
	case json.Delim:
		empty := true
		for d.More() {
			empty = false
			if t == '{' {
				name, _ := d.Token()
				fmt.Fprintf(b, "\n%s%v:", indent, name)
			} else {
				fmt.Fprintf(b, "\n%s-", indent)
			}
			next, err := d.Token()
			if err != nil {
				return
			}
			writeValue(b, d, next, indent+"  ")
			if b.Len() > 2*maxText { // the rest is not shown; leave it unread
				return
			}
		}
		_, _ = d.Token()
		if empty && b.Len() > 0 {
			b.WriteString(" none")
		}
	case nil:
		b.WriteString(" none")
	case bool:
		if t {
			b.WriteString(" yes")
		} else {
			b.WriteString(" no")
		}
	default:
		fmt.Fprintf(b, " %v", t)
	}
}
