package publishercmd

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/publisher/check"
)

// Control characters of strangers are shown and not sent to the terminal: C0,
// DEL, C1 (as runes and as single octets), controls of direction, separators of
// lines. The JSON report gives them back to who reads it.
func TestReportShowsControlCharacters(t *testing.T) {
	const evil = "a\x00\x07\x1b[2J\r\b\x7f\u0080\u009b31m\u061c\u200e\u202e\u2066\u2069\u2028\u2029é笔\u200d\U0001f600z"
	r := &check.Report{Target: evil, Sections: []*check.Section{{
		Kind: "app", Name: evil, Facts: []string{evil + "\x9b"},
		Findings: []check.Finding{{Level: check.Fault, Where: evil, Pointer: "/" + evil, Message: evil + "\nsecond\tline"}, {Level: check.Advice, Message: evil}},
	}}}
	for _, asJSON := range []bool{false, true} {
		var b bytes.Buffer
		if err := printReport(&b, r, asJSON); err != nil {
			t.Fatal(err)
		}
		out := b.String()
		for _, c := range out {
			if c != '\n' && steers(c) || c == '\u202e' || c == '\u2028' || c == '\x7f' || c == '\u009b' {
				t.Errorf("JSON %v: %U in %q", asJSON, c, out)
			}
		}
		if strings.Contains(out, "\x9b") || !strings.Contains(out, `\u009b31m`) || !strings.Contains(out, `\u202e`) || !strings.Contains(out, "é笔\u200d\U0001f600z") {
			t.Errorf("JSON %v: %q", asJSON, out)
		}
		if !asJSON {
			if want := 1 + 1 + 2 + 1 + 1; strings.Count(out, "\n") != want {
				t.Errorf("%d lines, want %d:\n%q", strings.Count(out, "\n"), want, out)
			}
			continue
		}
		var back check.Report
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Fatal(err)
		}
		if back.Target != evil || back.Sections[0].Findings[1].Message != evil {
			t.Errorf("came back as %q", back.Target)
		}
	}
}
