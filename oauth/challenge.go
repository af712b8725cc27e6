package oauth

import (
	"net/http"
	"slices"
	"strings"
)

// Limits of what is read of an answer's challenges (ours).
const (
	maxChallenges = 16 << 10 // octets, all header lines together
	maxScopes     = 64
	maxErrorCode  = 64
)

// Challenge is what a Bearer challenge says (RFC 9110 section 11, RFC 6750
// section 3). The zero value is an answer without one. Its texts are the app's
// words: data, at most a few hundred octets of which are worth showing.
type Challenge struct {
	Present          bool
	Status           int // of the answer; 0 when not known
	Error            string
	Scope            []string // nil when not given
	ResourceMetadata string

	unreadable bool // there is an error that is malformed: not the same as none (D20)
}

// ParseChallenge reads the WWW-Authenticate headers of an answer. It never
// fails: what is malformed is left out, other schemes are passed over whatever
// they look like (G13). Of several Bearer challenges the first that names
// metadata counts, else the first. 16 KiB are read.
func ParseChallenge(h http.Header) Challenge {
	var found Challenge
	left, cut := maxChallenges, false
	for _, line := range h.Values("WWW-Authenticate") {
		if len(line) > left {
			line, cut = line[:left], true
		}
		left -= len(line)
		p := challengeParser{text: line}
		for _, c := range p.run() {
			if !strings.EqualFold(c.scheme, "Bearer") {
				continue
			}
			b := c.bearer()
			if !found.Present || found.ResourceMetadata == "" && b.ResourceMetadata != "" {
				found = b
			}
		}
	}
	if cut && found.Present && found.Error == "" {
		found.unreadable = true // it may stand behind the cut
	}
	return found
}

// asksForMore reports a challenge that a step-up may satisfy (D20): a 403 with
// insufficient_scope, or one with scopes and no error (G1).
func (c Challenge) asksForMore() bool {
	return !c.unreadable && c.Status == http.StatusForbidden && (c.Error == "insufficient_scope" || c.Error == "" && len(c.Scope) > 0)
}

// challenge is one of a header's, with parameter names in lower case.
type challenge struct {
	scheme string
	params map[string]string
	twice  map[string]bool // names given twice, which tell nothing
	broken map[string]bool // names whose value is malformed
}

func (c *challenge) set(name, value string) {
	name = strings.ToLower(name)
	if old, ok := c.params[name]; ok && old != value {
		c.twice[name] = true
		return
	}
	c.params[name] = value
}

func (c *challenge) bearer() Challenge {
	get := func(name string) string {
		if c.twice[name] {
			return ""
		}
		return c.params[name]
	}
	b := Challenge{Present: true, Scope: scopesOf(get("scope")), ResourceMetadata: get("resource_metadata")}
	switch e := get("error"); {
	case c.twice["error"] || c.broken["error"]:
		b.unreadable = true
	case len(e) <= maxErrorCode && isScopeToken(e):
		b.Error = e
	default:
		b.unreadable = e != ""
	}
	return b
}

// scopesOf parts a scope value (RFC 6749 section 3.3), in its order and without
// repetitions. What is no scope is left out; nil is none.
func scopesOf(value string) []string {
	var scopes []string
	for s := range strings.FieldsSeq(value) {
		if isScopeToken(s) && !slices.Contains(scopes, s) && len(scopes) < maxScopes {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// isScopeToken is the grammar of a scope, which an error code has too.
func isScopeToken(s string) bool {
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || c == '"' || c == '\\' {
			return false
		}
	}
	return s != ""
}

// challengeParser reads one header line by the grammar of RFC 9110 section
// 11.6.1. Parameters belong to the scheme before them. Where the grammar is
// broken, it goes on behind the next comma that is outside of quotes.
type challengeParser struct {
	text string
	at   int
	all  []*challenge
}

func (p *challengeParser) run() []*challenge {
	for {
		p.skip(" \t,")
		if p.at >= len(p.text) {
			return p.all
		}
		name := p.token()
		blank := p.skip(" \t")
		switch {
		case name == "":
			p.resync()
		case p.peek() == '=':
			p.param(name)
		case blank || p.at >= len(p.text) || p.peek() == ',':
			p.all = append(p.all, &challenge{scheme: name, params: map[string]string{}, twice: map[string]bool{}, broken: map[string]bool{}})
			p.token68()
		default:
			p.resync()
		}
	}
}

// param reads what follows a parameter's name. It is kept when a scheme stands
// before it and the value is whole.
func (p *challengeParser) param(name string) {
	p.at++ // the equals sign
	p.skip(" \t")
	var value string
	ok := false
	if p.peek() == '"' {
		value, ok = p.quoted() // a missing comma behind it is forgiven
	} else if value = p.token(); value != "" {
		p.skip(" \t")
		ok = p.at >= len(p.text) || p.peek() == ','
		if !ok {
			p.resync()
		}
	} else {
		p.resync()
	}
	switch n := len(p.all); {
	case n == 0:
	case ok:
		p.all[n-1].set(name, value)
	default:
		p.all[n-1].broken[strings.ToLower(name)] = true
	}
}

// token68 passes over the other form of credentials that may follow a scheme:
// letters with equals signs at their end.
func (p *challengeParser) token68() {
	end := p.at
	for end < len(p.text) && (isTokenChar(p.text[end]) || p.text[end] == '/') {
		end++
	}
	if end == p.at {
		return
	}
	for end < len(p.text) && p.text[end] == '=' {
		end++
	}
	rest := strings.TrimLeft(p.text[end:], " \t")
	if rest == "" || rest[0] == ',' {
		p.at = end
	}
}

func (p *challengeParser) token() string {
	start := p.at
	for p.at < len(p.text) && isTokenChar(p.text[p.at]) {
		p.at++
	}
	return p.text[start:p.at]
}

// quoted reads a quoted-string. One that never ends takes the rest of the line.
func (p *challengeParser) quoted() (string, bool) {
	var b strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; c {
		case '"':
			p.at++
			return b.String(), true
		case '\\':
			if p.at++; p.at < len(p.text) {
				b.WriteByte(p.text[p.at])
			}
		default:
			b.WriteByte(c)
		}
	}
	return "", false
}

// resync goes to the next comma outside of quotes.
func (p *challengeParser) resync() {
	for p.at < len(p.text) && p.text[p.at] != ',' {
		if p.text[p.at] == '"' {
			p.quoted()
		} else {
			p.at++
		}
	}
}

func (p *challengeParser) skip(chars string) (any bool) {
	for p.at < len(p.text) && strings.IndexByte(chars, p.text[p.at]) >= 0 {
		p.at++
		any = true
	}
	return any
}

func (p *challengeParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

// isTokenChar is tchar of RFC 9110 section 5.6.2.
func isTokenChar(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}
