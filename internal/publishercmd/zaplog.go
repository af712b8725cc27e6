package publishercmd

import (
	"context"
	"log/slog"
	"maps"
	"slices"

	"go.uber.org/zap/zapcore"
)

// slogCore hands what certmagic logs to our log.
type slogCore struct {
	log    *slog.Logger
	fields []zapcore.Field
}

// Enabled implements zapcore.LevelEnabler. What is below info speaks of single
// handshakes and requests.
func (c *slogCore) Enabled(l zapcore.Level) bool {
	return l >= zapcore.InfoLevel && c.log.Enabled(context.Background(), levelOf(l))
}

func levelOf(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// With implements zapcore.Core.
func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	return &slogCore{log: c.log, fields: slices.Concat(c.fields, fields)}
}

// Check implements zapcore.Core.
func (c *slogCore) Check(e zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return to.AddCore(e, c)
	}
	return to
}

// told are the fields that say something to an operator. The others hold
// accounts, tokens of challenges and whole answers.
var told = []string{"identifier", "identifiers", "challenge_type", "issuer", "ca", "error", "remaining", "expiration", "attempt", "retrying_in", "elapsed"}

// Write implements zapcore.Core.
func (c *slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range slices.Concat(c.fields, fields) {
		f.AddTo(values)
	}
	var attrs []slog.Attr
	for _, name := range slices.Sorted(maps.Keys(values.Fields)) {
		if name == "error" && levelOf(e.Level) < slog.LevelWarn {
			continue // the reason for what comes next, such as a file that is not there yet
		}
		if slices.Contains(told, name) {
			attrs = append(attrs, slog.Any(name, values.Fields[name]))
		}
	}
	c.log.LogAttrs(context.Background(), levelOf(e.Level), e.Message, attrs...) //nolint:sloglint // the library's
	return nil
}

// Sync implements zapcore.Core.
func (c *slogCore) Sync() error { return nil }
