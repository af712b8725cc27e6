// Package weburl owns the normal form of web addresses (D5) and the form of
// host names. It does no I/O and knows nothing about networks: whether a host
// may be contacted is publicnet's judgement.
package weburl

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxLen is the longest address that Parse and Resolve accept, in octets, as
// written and in normal form (crawler G1).
const MaxLen = 8 << 10

// URL is an absolute https URL in normal form: lower-case scheme and host,
// host in IDNA ASCII form without a trailing dot, default port and fragment
// dropped, empty path "/", dot segments resolved; path and query otherwise
// byte-exact. User-info and IP literals never occur. The zero URL is no URL.
//
// Two URLs are the same address exactly when they are equal with ==.
//
// Source: D5, documents R8, crawler G1.
type URL struct {
	text string // the whole normal form
	host string // ASCII host without port
	port int
	path int // where path and query begin in text
}

// Parse reads an absolute https URL and gives its normal form. Any port is
// accepted here; which ports may be dialled is publicnet's decision.
//
// A path or query may hold letters outside ASCII; they are percent-encoded as
// UTF-8 (RFC 3987 section 3.1). Spaces, control characters, octets that are no
// UTF-8 and a "%" without two hexadecimal digits are refused.
//
// Errors are *Error.
func Parse(s string) (URL, error) { return parse(s, s, false) }

// Resolve reads ref, absolute or relative, against u (RFC 3986 section 5),
// keeping path and query bytes as written. It is made for what servers and
// documents say, a Location header for instance, and so repairs what Parse
// refuses in a path or query: spaces, stray "%" and octets outside ASCII are
// percent-encoded, spaces around ref dropped. Control characters are refused.
// An empty ref, or one with a fragment only, is u itself.
//
// Errors are *Error; their Input is ref.
func (u URL) Resolve(ref string) (URL, error) {
	ref0 := ref
	ref = strings.Trim(ref, " ")
	if len(ref) > MaxLen {
		return URL{}, tooLong(ref0)
	}
	if schemeEnd(ref) >= 0 {
		return parse(ref, ref0, true)
	}
	if u.IsZero() {
		return URL{}, noScheme(ref0)
	}
	if strings.HasPrefix(ref, "//") {
		return parse("https:"+ref, ref0, true)
	}
	basePath, _, _ := strings.Cut(u.Target(), "?")
	switch {
	case ref == "" || ref[0] == '#':
		// The fragment is dropped, but a control character in it is still refused.
		return parse(u.text+ref, ref0, true)
	case ref[0] == '/':
	case ref[0] == '?':
		ref = basePath + ref
	default:
		ref = basePath[:strings.LastIndexByte(basePath, '/')+1] + ref
	}
	return parse(u.text[:u.path]+ref, ref0, true)
}

// String is the normal form.
func (u URL) String() string { return u.text }

// Host is the ASCII host name without port.
func (u URL) Host() string { return u.host }

// Port is the port; 443 when the URL names none.
func (u URL) Port() int { return u.port }

// Authority is the host, with ":port" only when the port is not 443.
func (u URL) Authority() string {
	if u.IsZero() {
		return ""
	}
	return u.text[len("https://"):u.path]
}

// Origin is "https://" and the authority; empty for the zero URL.
func (u URL) Origin() string { return u.text[:u.path] }

// Target is path and query, exactly as a request line carries them.
func (u URL) Target() string { return u.text[u.path:] }

// IsZero reports whether u is the zero URL.
func (u URL) IsZero() bool { return u.text == "" }

// Reason tells why an address was refused.
type Reason string

// The reasons of an Error.
const (
	NotHTTPS Reason = "not_https" // a scheme other than https
	BadInput Reason = "bad_input" // everything else that Parse refuses
)

// Error is an address that cannot be used. Message is a sentence for the
// person who wrote the address.
type Error struct {
	Input   string
	Reason  Reason
	Message string
}

func (e *Error) Error() string { return e.Message }

// parse reads an absolute URL. input is what the caller was given, for errors.
// lenient repairs octets in path and query that a URI may not hold.
func parse(s, input string, lenient bool) (URL, error) {
	if len(s) > MaxLen {
		return URL{}, tooLong(input)
	}
	if err := checkOctets(s, input, lenient); err != nil {
		return URL{}, err
	}
	colon := schemeEnd(s)
	if colon < 0 {
		return URL{}, noScheme(input)
	}
	if scheme := s[:colon]; !strings.EqualFold(scheme, "https") {
		return URL{}, &Error{input, NotHTTPS, fmt.Sprintf("the address %s has the scheme %q; only https:// addresses can be used", quote(input), scheme)}
	}
	rest, ok := strings.CutPrefix(s[colon+1:], "//")
	if !ok {
		return URL{}, bad(input, "has no host; write it as https://host/path")
	}
	authority, target := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, target = rest[:i], rest[i:]
	}
	host, port, err := splitAuthority(authority, input)
	if err != nil {
		return URL{}, err
	}

	target, _, _ = strings.Cut(target, "#")
	path, query, hasQuery := strings.Cut(target, "?")
	clean := path
	if clean == "" {
		clean = "/"
	} else if strings.Contains(clean, "/.") {
		clean = removeDots(clean)
	}
	if fixed, err := encode(clean, input, lenient); err != nil {
		return URL{}, err
	} else if fixed != clean {
		clean = fixed
	}
	fixedQuery, err := encode(query, input, lenient)
	if err != nil {
		return URL{}, err
	}

	// An address that already stands in normal form costs no copy.
	if strings.HasPrefix(s, "https://") && host == authority && clean == path && fixedQuery == query &&
		len("https://")+len(authority)+len(target) == len(s) {
		return URL{text: s, host: host, port: port, path: len("https://") + len(host)}, nil
	}
	var b strings.Builder
	b.Grow(len("https://") + len(host) + len(":65535") + len(clean) + 1 + len(fixedQuery))
	b.WriteString("https://")
	b.WriteString(host)
	if port != 443 {
		b.WriteByte(':')
		b.WriteString(strconv.Itoa(port))
	}
	u := URL{host: host, port: port, path: b.Len()}
	b.WriteString(clean)
	if hasQuery {
		b.WriteByte('?')
		b.WriteString(fixedQuery)
	}
	u.text = b.String()
	if len(u.text) > MaxLen {
		return URL{}, tooLong(input)
	}
	return u, nil
}

// schemeEnd is the place of the colon that ends a scheme (RFC 3986 section
// 3.1), or -1.
func schemeEnd(s string) int {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			return i
		default:
			return -1
		}
	}
	return -1
}

// checkOctets refuses what may stand nowhere in an address.
func checkOctets(s, input string, lenient bool) error {
	ascii := true
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c == 0x7f:
			return bad(input, "holds a control character or line break")
		case c == ' ' && !lenient:
			return bad(input, "holds a space; write a space in a path as %%20")
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	if !ascii && !lenient && !utf8.ValidString(s) {
		return bad(input, "holds octets that are no UTF-8 text")
	}
	return nil
}

func splitAuthority(authority, input string) (host string, port int, err error) {
	if strings.IndexByte(authority, '@') >= 0 {
		return "", 0, bad(input, "holds a user name or password; remove everything up to the @")
	}
	if strings.IndexByte(authority, '[') >= 0 {
		return "", 0, bad(input, "has an IP address as its host; a domain name is needed")
	}
	host, port = authority, 443
	if i := strings.IndexByte(authority, ':'); i >= 0 {
		host = authority[:i]
		if digits := authority[i+1:]; digits != "" {
			n, err := strconv.ParseUint(digits, 10, 16)
			if err != nil || n == 0 {
				return "", 0, bad(input, "has a port that is no number from 1 to 65535")
			}
			port = int(n)
		}
	}
	host, fault := normalHost(host)
	if fault != "" {
		return "", 0, bad(input, "%s", fault)
	}
	return host, port, nil
}

// encode percent-encodes the octets of a path or query that a URI may not
// hold. Visible ASCII stays as written, also the few characters that the
// grammar of RFC 3986 leaves out ("{" for one): servers compare them.
func encode(s, input string, lenient bool) (string, error) {
	n := 0
	for i := range len(s) {
		if mustEncode(s, i) {
			if s[i] == '%' && !lenient {
				return "", bad(input, `holds a "%%" that is not followed by two hexadecimal digits; write it as %%25`)
			}
			n++
		}
	}
	if n == 0 {
		return s, nil
	}
	const hex = "0123456789ABCDEF"
	out := make([]byte, 0, len(s)+2*n)
	for i := range len(s) {
		if c := s[i]; mustEncode(s, i) {
			out = append(out, '%', hex[c>>4], hex[c&15])
		} else {
			out = append(out, c)
		}
	}
	return string(out), nil
}

func mustEncode(s string, i int) bool {
	c := s[i]
	if c == '%' {
		return i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2])
	}
	return c <= ' ' || c >= 0x7f
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// removeDots resolves "." and ".." segments (RFC 3986 section 5.2.4) of a path
// that begins with "/". "%2e" is no dot here: escapes stay as written.
func removeDots(path string) string {
	out := make([]byte, 0, len(path))
	for rest := path[1:]; ; {
		segment, after, more := strings.Cut(rest, "/")
		switch segment {
		case ".", "..":
			if segment == ".." {
				if i := bytes.LastIndexByte(out, '/'); i >= 0 {
					out = out[:i]
				}
			}
			if !more {
				out = append(out, '/')
			}
		default:
			out = append(out, '/')
			out = append(out, segment...)
		}
		if !more {
			return string(out)
		}
		rest = after
	}
}

func bad(input, format string, args ...any) *Error {
	return &Error{input, BadInput, "the address " + quote(input) + " " + fmt.Sprintf(format, args...)}
}

func noScheme(input string) *Error {
	return bad(input, "is no absolute address; write it as https://host/path")
}

func tooLong(input string) *Error {
	return bad(input, "is longer than %d octets", MaxLen)
}

// quote shows an address in a message: short, and without raw control
// characters.
func quote(s string) string {
	const most = 200
	if len(s) > most {
		return strconv.Quote(strings.ToValidUTF8(s[:most], "")) + "..."
	}
	return strconv.Quote(s)
}
