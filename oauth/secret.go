package oauth

import "log/slog"

// Secret is text that nobody may see: a token, a client secret, a verifier. It
// prints as [secret] in every way that fmt, encoding/json and log/slog know.
type Secret string

const hidden = "[secret]"

// Reveal gives the text itself.
func (s Secret) Reveal() string { return string(s) }

// String implements fmt.Stringer; it gives [secret].
func (s Secret) String() string { return hidden }

// GoString implements fmt.GoStringer; it gives [secret].
func (s Secret) GoString() string { return hidden }

// MarshalText implements encoding.TextMarshaler; it gives [secret].
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue implements slog.LogValuer; it gives [secret].
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
