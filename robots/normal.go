package robots

import "strings"

// Rules and targets are compared in one normal form (RFC 9309 section 2.2.2):
// escapes of unreserved octets are decoded, all others get upper-case digits,
// and octets that no URI may hold are escaped. A '%' that begins no escape is
// such an octet. What is reserved stays as it is, so /a%2Fb is not /a/b.

// unreserved reports whether an octet means the same with and without escape.
func unreserved(c byte) bool {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return true
	}
	return c == '-' || c == '.' || c == '_' || c == '~'
}

// inURI reports whether an octet may stand in a URI as it is; '%' may not.
func inURI(c byte) bool {
	switch c {
	case '/', ':', '?', '#', '[', ']', '@', '!', '$', '&', '\'', '(', ')', '*', '+', ',', ';', '=':
		return true
	}
	return unreserved(c)
}

// normal gives the normal form of a rule's path or, with target set, of a
// target: in a target '*' and '$' are plain octets and take the form in which a
// rule has to write them, %2A and %24 (RFC 9309 section 2.2.3).
func normal(s string, target bool) string {
	keep := func(c byte) bool {
		return inURI(c) && !(target && (c == '*' || c == '$'))
	}
	i := 0
	for i < len(s) && keep(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	b := make([]byte, i, len(s)+16)
	copy(b, s)
	for ; i < len(s); i++ {
		c := s[i]
		if c == '%' && i+2 < len(s) {
			hi, lo := unhex(s[i+1]), unhex(s[i+2])
			if hi >= 0 && lo >= 0 {
				i += 2
				if c = byte(hi<<4 | lo); unreserved(c) {
					b = append(b, c)
				} else {
					b = escape(b, c)
				}
				continue
			}
		}
		if keep(c) {
			b = append(b, c)
		} else {
			b = escape(b, c)
		}
	}
	return string(b)
}

// normalTarget prepares a path and query for the match.
func normalTarget(target string) string {
	target, _, _ = strings.Cut(target, "#")
	switch {
	case target == "":
		return "/"
	case target[0] == '?':
		target = "/" + target
	}
	return normal(target, true)
}

// newRule reads the path of a rule line.
func newRule(path string, allow bool) rule {
	r := rule{pattern: normal(path, false), text: path, allow: allow}
	r.match = r.pattern
	if i := strings.IndexByte(r.pattern, '$'); i >= 0 && i < len(r.pattern)-1 {
		body, anchor := r.pattern, ""
		if strings.HasSuffix(body, "$") {
			body, anchor = body[:len(body)-1], "$"
		}
		r.match = strings.ReplaceAll(body, "$", "%24") + anchor
	}
	if r.text != r.pattern && !printable(r.text) {
		r.text = r.pattern
	}
	return r
}

func escape(b []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(b, '%', digits[c>>4], digits[c&15])
}

func unhex(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
