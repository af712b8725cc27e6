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
		var b strings.Builder
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(struct {
			*check.Report
			Rules  []check.Verdict `json:"rules"`
			Faults int             `json:"faults"`
			Advice int             `json:"advice"`
		}{r, r.Verdicts(), faults, advice}); err != nil {
			return err
		}
		// The encoder leaves DEL, C1 and controls of direction as they are.
		// Outside of strings there is only ASCII.
		_, err := io.WriteString(w, escape(b.String(), func(r rune) bool { return r >= 0x7f && steers(r) }))
		return err
	}
	var b strings.Builder
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "%s %s\n", s.Kind, plain(s.Name))
		for _, fact := range s.Facts {
			fmt.Fprintf(&b, "  · %s\n", plain(fact))
		}
		for _, f := range s.Findings {
			fmt.Fprintf(&b, "  %s %s\n", marks[f.Level], plain(f.String()))
		}
		b.WriteByte('\n')
	}
	writeRules(&b, r.Verdicts())
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

var marks = map[check.Level]string{check.Fault: "✗", check.Advice: "!", check.Pass: "✓"}

// writeRules sums up by rule: what hosts and indexes will hold against the app.
func writeRules(b *strings.Builder, rules []check.Verdict) {
	if len(rules) == 0 {
		return
	}
	b.WriteString("rules of the OpenBot App Protocol\n")
	for _, line := range []struct {
		level check.Level
		name  string
	}{{check.Fault, "broken"}, {check.Advice, "to mend"}, {check.Pass, "kept"}} {
		var names []string
		for _, v := range rules {
			if v.Level == line.level {
				names = append(names, v.Rule)
			}
		}
		if len(names) > 0 {
			fmt.Fprintf(b, "  %s %-7s %s\n", marks[line.level], line.name, strings.Join(names, " "))
		}
	}
	b.WriteByte('\n')
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// plain keeps a stranger's text on its line and from steering the terminal.
func plain(s string) string {
	return escape(strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, s), steers)
}

// steers reports whether a terminal may act on r, or show what stands around it
// in another order: C0, DEL, C1, controls of direction, separators of lines.
func steers(r rune) bool {
	return unicode.IsControl(r) || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp)
}

// escape writes the runes of its choice as \uXXXX, which shows them and is also
// how JSON writes them in a string.
func escape(s string, which func(rune) bool) string {
	if strings.IndexFunc(s, which) < 0 {
		return strings.ToValidUTF8(s, "�")
	}
	var b strings.Builder
	for _, r := range s {
		if which(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
