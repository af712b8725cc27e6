package card

import (
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

func (r *reader) oneOf(s, at, name string, allowed ...string) {
	for _, a := range allowed {
		if s == a {
			return
		}
	}
	quoted := make([]string, len(allowed))
	for i, a := range allowed {
		quoted[i] = strconv.Quote(a)
	}
	last := len(quoted) - 1
	r.faultIn(at, name, "is %s; it must be %s or %s", strictjson.Quote(s), strings.Join(quoted[:last], ", "), quoted[last])
}

func (r *reader) checkSchema(s string) {
	switch {
	case s == SchemaURL:
	case strings.HasSuffix(s, "/server.schema.json"):
		r.fault("/$schema", "is %s, the registry's server.json, which is another document; a Server Card v1 has %q", strictjson.Quote(s), SchemaURL)
	default:
		r.fault("/$schema", "is %s; set it to %q", strictjson.Quote(s), SchemaURL)
	}
}

func (r *reader) checkName(s string) {
	if n := utf8.RuneCountInString(s); n > 200 {
		r.fault("/name", "is %d characters; at most 200 are allowed, shorten it by %d", n, n-200)
		return
	}
	namespace, name, slash := strings.Cut(s, "/")
	if !slash || namespace == "" || name == "" ||
		!only(namespace, ".-") || !only(name, "._-") {
		r.fault("/name", "is %s; write namespace/name with one slash, such as com.example/calendar, from letters, digits, '.', '-' and, after the slash, '_'", strictjson.Quote(s))
	}
}

// only reports whether s has ASCII letters, digits and the others only.
func only(s, others string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlnum(c) && strings.IndexByte(others, c) < 0 {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isAlnum(c byte) bool  { return isLetter(c) || '0' <= c && c <= '9' }

// isRange reports whether a version is a range (documents V2).
func isRange(s string) bool {
	if s != "" && strings.IndexByte("^~><=", s[0]) >= 0 ||
		strings.Contains(s, " - ") || strings.Contains(s, "||") {
		return true
	}
	if i := strings.IndexAny(s, "-+"); i >= 0 {
		s = s[:i]
	}
	for part := range strings.SplitSeq(s, ".") {
		if part == "x" || part == "X" || part == "*" {
			return true
		}
	}
	return false
}

// checkURI checks what the schema's format "uri" asks: an absolute address.
// Which schemes are used is another question.
func (r *reader) checkURI(s, at, name string) {
	u, err := url.Parse(s)
	hierarchical := err == nil && (u.Scheme == "http" || u.Scheme == "https")
	if err != nil || !u.IsAbs() || hierarchical && u.Host == "" || strings.ContainsFunc(s, unicode.IsSpace) {
		r.faultIn(at, name, "is %s; write an absolute address, such as https://example.com/", strictjson.Quote(s))
	}
}

// isEndpointURL is the schema's pattern for the url of a remote.
func isEndpointURL(s string) bool {
	for _, c := range s {
		if unicode.IsSpace(c) || c == '\ufeff' { // \s of the schema's regular expressions
			return false
		}
	}
	for _, scheme := range []string{"https://", "http://"} {
		if rest, ok := strings.CutPrefix(s, scheme); ok {
			return rest != ""
		}
	}
	name, _, closed := strings.Cut(strings.TrimPrefix(s, "{"), "}")
	return strings.HasPrefix(s, "{") && closed && isVariableName(name)
}

// isVariableName is the form that the schema's pattern asks of a {variable}.
func isVariableName(s string) bool {
	for i := range len(s) {
		if c := s[i]; !isLetter(c) && c != '_' && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return s != ""
}

// checkMetaKey says what is wrong with a key of _meta: an optional prefix of
// dotted labels and a slash, then a name, which may be empty (MCP, _meta).
func checkMetaKey(key string) (reason string) {
	prefix, name, slash := strings.Cut(key, "/")
	if !slash {
		prefix, name = "", key
	}
	if slash {
		for label := range strings.SplitSeq(prefix, ".") {
			if label == "" || !isLetter(label[0]) || !isAlnum(label[len(label)-1]) || !only(label, "-") {
				return "each label before the slash begins with a letter, ends with a letter or digit and has letters, digits and '-' between"
			}
		}
	}
	if name != "" && (!isAlnum(name[0]) || !isAlnum(name[len(name)-1]) || !only(name, "-_.")) {
		return "the name begins and ends with a letter or digit and has letters, digits, '-', '_' and '.' between"
	}
	return ""
}

// isReservedMetaKey reports whether MCP keeps the prefix of the key for
// itself: a label mcp or modelcontextprotocol with another label after it.
func isReservedMetaKey(key string) bool {
	prefix, _, slash := strings.Cut(key, "/")
	labels := strings.Split(prefix, ".")
	if !slash || len(labels) < 2 {
		return false
	}
	word := labels[len(labels)-2]
	return word == "mcp" || word == "modelcontextprotocol"
}
