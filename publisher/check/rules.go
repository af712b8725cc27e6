package check

import (
	"slices"
	"strconv"
	"strings"

	"github.com/openbot-build/openbot-go/discovery"
)

// cardRule is the rule that a place in a card is judged by.
func cardRule(pointer string) string {
	const block = "/_meta/openbot~1presentation"
	if rest, ok := strings.CutPrefix(pointer, block); ok {
		switch last := rest[strings.LastIndexByte(rest, '/')+1:]; {
		case last == "version":
			return "OB-20"
		case strings.Contains(rest, "/preview"):
			return "OB-24"
		case last == "id":
			return "OB-22"
		case last == "title", last == "prompt", last == "description":
			return "OB-23"
		case last == "examples":
			return "OB-21"
		}
		return "OB-27"
	}
	switch {
	case pointer == "":
		return "OB-15"
	case strings.Contains(pointer, "/headers"), strings.Contains(pointer, "/variables"):
		return "OB-11"
	case strings.HasPrefix(pointer, "/remotes"):
		return "OB-10"
	case strings.HasPrefix(pointer, "/icons"):
		return "OB-12"
	}
	return "OB-13"
}

// catalogRule is the rule that a place in a catalog is judged by.
func catalogRule(pointer string) string {
	switch {
	case pointer == "":
		return "OB-15"
	case strings.HasPrefix(pointer, "/entries/"):
		return "OB-16"
	}
	return "OB-1"
}

// ruleOf is the rule behind an error of discovery.
func ruleOf(e *discovery.Error) string {
	switch e.Kind {
	case discovery.BadInput:
		return "OB-38"
	case discovery.NotHTTPS, discovery.BlockedAddress:
		return "OB-150"
	case discovery.DNS, discovery.Connect:
		return "OB-30"
	case discovery.TLS:
		return "OB-154"
	case discovery.Timeout, discovery.TooLarge, discovery.TooManyRedirects:
		return "OB-36"
	case discovery.InvalidCatalog:
		return "OB-1"
	case discovery.InvalidCard:
		return "OB-13"
	case discovery.UnsupportedVersion:
		return "OB-10"
	case discovery.NoLink:
		return "OB-32"
	case discovery.NoCards:
		return "OB-41"
	case discovery.BadJSON:
		return "OB-15"
	}
	return "OB-37"
}

// Verdict is what became of one rule.
type Verdict struct {
	Rule   string `json:"rule"`
	Level  Level  `json:"level"` // the worst that was found
	Faults int    `json:"faults,omitempty"`
	Advice int    `json:"advice,omitempty"`
}

// Verdicts gives every rule that was looked at, by its number.
func (r *Report) Verdicts() []Verdict {
	var out []Verdict
	for _, s := range r.Sections {
		for _, f := range s.Findings {
			if f.Rule == "" {
				continue
			}
			i := slices.IndexFunc(out, func(v Verdict) bool { return v.Rule == f.Rule })
			if i < 0 {
				i = len(out)
				out = append(out, Verdict{Rule: f.Rule, Level: Pass})
			}
			switch f.Level {
			case Fault:
				out[i].Faults++
				out[i].Level = Fault
			case Advice:
				out[i].Advice++
				if out[i].Level == Pass {
					out[i].Level = Advice
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b Verdict) int { return number(a.Rule) - number(b.Rule) })
	return out
}

func number(rule string) int {
	n, _ := strconv.Atoi(rule[strings.LastIndexByte(rule, '-')+1:]) // a rule ends in its number
	return n
}
