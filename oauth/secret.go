package oauth

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is text that nobody may see: a token, a client secret, a verifier. It
// prints as [secret] in every way that fmt, encoding/json and log/slog know.
//
// fmt looks past the methods of unexported struct fields: do not print a struct
// that hides one.
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
