package publishercmd

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/openbot-build/openbot-go/publisher/check"
)

// printReport writes a report for people, or as JSON for scripts, whose members
// are only ever added to.
func printReport(w io.Writer, r *check.Report, asJSON bool) error {
	faults, advice := r.Count(check.Fault), r.Count(check.Advice)
	if asJSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(struct {
			*check.Report
			Faults int `json:"faults"`
			Advice int `json:"advice"`
		}{r, faults, advice})
	}
	var b strings.Builder
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "%s %s\n", s.Kind, plain(s.Name))
		for _, fact := range s.Facts {
			fmt.Fprintf(&b, "  · %s\n", plain(fact))
		}
		for _, f := range s.Findings {
			mark := "✗"
			if f.Level == check.Advice {
				mark = "!"
			}
			fmt.Fprintf(&b, "  %s %s\n", mark, plain(f.String()))
		}
		b.WriteByte('\n')
	}
	switch {
	case faults == 0 && advice == 0:
		b.WriteString("no faults\n")
	case faults == 0:
		fmt.Fprintf(&b, "no faults, %s\n", count(advice, "piece of advice", "pieces of advice"))
	default:
		fmt.Fprintf(&b, "%s, %s\n", count(faults, "fault", "faults"), count(advice, "piece of advice", "pieces of advice"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// plain keeps a stranger's text from steering the terminal.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return '�'
		}
		return r
	}, s)
}
