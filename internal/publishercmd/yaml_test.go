package publishercmd

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// checkText runs publisher check on a configuration and gives what it prints.
func checkText(t *testing.T, config string) (code int, out string) {
	t.Helper()
	var log logBuffer
	code = Run(context.Background(), []string{"check", "--config", write(t, "c.yaml", config)}, &Env{Stdout: &log, Stderr: &log})
	return code, log.String()
}

// Each of these took the YAML reader alone from seconds to hours. That they end
// at all is what shows here; the message shows why.
func TestHostileConfigurations(t *testing.T) {
	r := strings.Repeat
	keys := func(n int, before, after string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%sk%d: x%s", before, i, after)
		}
		return b.String()
	}
	const deep = "is nested more than 32 levels deep"
	for name, tt := range map[string]struct{ config, want string }{
		"brackets":           {"origin: " + r("[", 100_000) + r("]", 100_000), "the file has 200000 brackets and commas"},
		"fewer brackets":     {"origin: " + r("[", 5000) + r("]", 5000), "c.yaml:1: " + deep},
		"open brackets":      {"origin: " + r("[\n", 5000), deep},
		"closed in a string": {"origin: " + r(`["]", `, 5000), deep},
		"braces":             {"origin: " + r("{a: ", 5000) + r("}", 5000), deep},
		"lists on a line":    {"apps:\n" + r("- ", 5000) + "x", "c.yaml:2: " + deep},
		"indentation": {func() string {
			var b strings.Builder
			for i := range 1000 {
				b.WriteString(r(" ", i) + "a:\n")
			}
			return b.String()
		}(), "c.yaml:33: " + deep},
		"lines":             {r("# x\n", 200_000), "the file has 200000 lines"},
		"words":             {"apps: [" + r("x,", 500_000) + "]", "brackets and commas"},
		"words in a list":   {"apps:\n" + r(r("- ", 10)+"x\n", 6000), "words and marks"},
		"members":           {keys(5000, "", "\n"), "c.yaml:101: there are more than 100 members in one place"},
		"members in lists":  {keys(5000, "", ":\n- a\n"), "there are more than 100 members in one place"},
		"members in braces": {"apps: [{" + keys(5000, "", ",") + "}]", "there are more than 100 members in one place"},
		"documents":         {r("---\na: b\n", 3000), "c.yaml:3: a second document"},
		"laughs": {func() string {
			b := "origin: https://apps.example.com\napps:\n  - &a0 {slug: x, icons: [{src: a}]}\n"
			for i := range 40 {
				b += fmt.Sprintf("  - &a%d [%s*a%d]\n", i+1, r(fmt.Sprintf("*a%d, ", i), 8), i)
			}
			return b
		}(), "with its aliases written out"},
		"long aliases": {"origin: https://apps.example.com\napps:\n  - {slug: x, allowed_origins: &o [" + r("a,", 10_000) + "]}\n" +
			r("  - {slug: x, allowed_origins: *o}\n", 2000), "with its aliases written out"},
		"many faults":        {"origin: https://apps.example.com\napps:\n" + r("  - slug: X\n    name: x\n", 1000), "apps[999].slug"},
		"an alias of itself": {"apps: &a [*a]\n", "c.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := checkText(t, tt.config)
			if code != exitFailed || !strings.Contains(out, tt.want) {
				t.Errorf("exit %d, no %q in %.300s", code, tt.want, out)
			}
		})
	}
}

// What people write is far from the bounds.
func TestLargeConfiguration(t *testing.T) {
	var b strings.Builder
	b.WriteString("---\n# Ours.\norigin: https://apps.example.com\napps:\n")
	for i := range 150 { // as far left as their key, which YAML allows
		fmt.Fprintf(&b, `- slug: app-%d
  name: com.example/app-%[1]d
  version: 1.0.0
  description: "App [[[[ {{{{ %[1]d"
  endpoint: https://mcp.example.net/%[1]d
  icons: [{src: "https://apps.example.com/%[1]d.png", type: image/png, sizes: [48x48, 96x96]}]
  settings:
  - {header: X-Key, description: Your key, required: true, secret: true}
  examples:
    - id: one
      title: One
      prompt: |
        Plan: the week {{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{
        - and: tell
`, i)
	}
	if code, out := checkText(t, b.String()); code != exitOK {
		t.Errorf("exit %d: %.1000s", code, out)
	}
	b.WriteString("- {slug: a, name: a/a, version: 1.0.0, description: A., endpoint: \"https://mcp.example.net/a\", icons: &i [{src: \"https://apps.example.com/a.png\"}]}\n")
	b.WriteString("- {slug: b, name: a/b, version: 1.0.0, description: B., endpoint: \"https://mcp.example.net/b\", icons: *i}\n")
	if code, out := checkText(t, b.String()); code != exitOK {
		t.Errorf("with an alias: exit %d: %.1000s", code, out)
	}
}
