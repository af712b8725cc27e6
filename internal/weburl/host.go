package weburl

import (
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// profile is the strict IDNA profile of crawler G1. idna.Lookup is not enough:
// it lets empty and over-long labels pass.
var profile = sync.OnceValue(func() *idna.Profile {
	return idna.New(
		idna.MapForLookup(),
		idna.Transitional(false),
		idna.StrictDomainName(true),
		idna.VerifyDNSLength(true),
		idna.BidiRule(),
	)
})

// Domain reports whether s is a bare host name (OB-38) and gives its ASCII
// form: no scheme, port, user-info, path or IP literal. One trailing dot is
// dropped. A single label ("localhost") is a host name too; whether it may be
// contacted is publicnet's judgement.
func Domain(s string) (host string, ok bool) {
	if len(s) > MaxLen || !utf8.ValidString(s) {
		return "", false
	}
	host, fault := normalHost(s)
	return host, fault == ""
}

// normalHost gives the ASCII form of a host name, or the fault as the rest of a
// sentence that begins with "the address".
func normalHost(s string) (host, fault string) {
	if s == "" {
		return "", "has no host; write it as https://host/path"
	}
	if strings.IndexByte(s, '%') >= 0 {
		return "", "has a percent-encoded host; write the host name plainly"
	}
	// The label check below is for what is left; IDNA would map an
	// ideographic full stop to one more trailing dot.
	host, dropped := strings.CutSuffix(s, ".")
	plain, lower := isPlain(host)
	switch {
	case plain && lower:
	case plain:
		host = strings.ToLower(host)
	default:
		mapped, err := profile().ToASCII(host)
		// Some characters encode to a label that the profile then refuses; a
		// normal form must be its own normal form.
		if again, err2 := profile().ToASCII(mapped); err != nil || err2 != nil || again != mapped {
			return "", "has a host that is no valid domain name"
		}
		host = mapped
		if !dropped {
			host = strings.TrimSuffix(host, ".")
		}
	}
	last, ok := checkLabels(host)
	if !ok {
		return "", "has a host that is no valid domain name"
	}
	if isNumeric(last) {
		return "", "has an IP address as its host; a domain name is needed"
	}
	return host, ""
}

// isPlain reports whether s can skip IDNA: letters, digits, hyphens and dots
// only, and no label with hyphens in third and fourth place ("xn--" is one).
func isPlain(s string) (plain, lower bool) {
	lower = true
	label := 0
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
		case 'A' <= c && c <= 'Z':
			lower = false
		case c == '.':
			label = i + 1
		case c == '-':
			if i == label+3 && s[i-1] == '-' {
				return false, lower
			}
		default:
			return false, lower
		}
	}
	return true, lower
}

// checkLabels applies the length and letter rules of RFC 1123 section 2.1 to a
// lower-case ASCII name and gives its last label.
func checkLabels(host string) (last string, ok bool) {
	if host == "" || len(host) > 253 {
		return "", false
	}
	for rest, more := host, true; more; {
		last, rest, more = strings.Cut(rest, ".")
		if last == "" || len(last) > 63 || last[0] == '-' || last[len(last)-1] == '-' {
			return "", false
		}
		for i := range len(last) {
			c := last[i]
			if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-') {
				return "", false
			}
		}
	}
	return last, true
}

// isNumeric reports whether a last label makes the name an IPv4 address to
// some resolver or browser: digits only, or hexadecimal ("0x7f").
func isNumeric(last string) bool {
	digits := last
	isDigit := func(c byte) bool { return '0' <= c && c <= '9' }
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		digits, isDigit = hex, isHex
	}
	for i := range len(digits) {
		if !isDigit(digits[i]) {
			return false
		}
	}
	return true
}
