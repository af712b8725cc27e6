package oauth

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is text that nobody may see: a token, a client secret, a verifier. It
// prints as [secret] in every way that fmt, encoding/json and log/slog know.
//
// What it cannot help: fmt calls no method for %p, for %w (which is for errors),
// and inside unexported struct fields. go vet reports the first two; do not print
// a struct that hides a Secret.
type Secret string

const hidden = "[secret]"

// Reveal gives the text itself.
func (s Secret) Reveal() string { return string(s) }

// Format implements fmt.Formatter for every verb, wrong ones included; it gives
// [secret].
func (s Secret) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, hidden) // a fmt.State keeps what it is given
}

// String implements fmt.Stringer; it gives [secret].
func (s Secret) String() string { return hidden }

// GoString implements fmt.GoStringer; it gives [secret].
func (s Secret) GoString() string { return hidden }

// MarshalText implements encoding.TextMarshaler; it gives [secret].
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue implements slog.LogValuer; it gives [secret].
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// fmt calls no methods of what lies inside a value that its verb does not fit,
// such as the pointers of a []*Tokens under %s. So the types that hold secrets
// print themselves: as with %v or %+v, whatever the verb is.

// Format implements fmt.Formatter; secrets are hidden.
func (t Tokens) Format(f fmt.State, _ rune) {
	type plain Tokens
	printHidden(f, plain(t))
}

// Format implements fmt.Formatter; secrets are hidden.
func (a Attempt) Format(f fmt.State, _ rune) {
	type plain Attempt
	printHidden(f, plain(a))
}

// Format implements fmt.Formatter; secrets are hidden.
func (r Registration) Format(f fmt.State, _ rune) {
	type plain Registration
	printHidden(f, plain(r))
}

// Format implements fmt.Formatter; secrets are hidden.
func (i Introspection) Format(f fmt.State, _ rune) {
	type plain Introspection
	printHidden(f, plain(i))
}

// printHidden writes a struct that holds its secrets in exported fields and
// behind no pointer.
func printHidden(f fmt.State, plain any) {
	layout := "%v"
	if f.Flag('+') || f.Flag('#') {
		layout = "%+v"
	}
	_, _ = fmt.Fprintf(f, layout, plain)
}
