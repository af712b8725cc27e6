package gateway

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// scrubber cuts the upstream's credentials out of what it says.
type scrubber struct {
	secret [][]byte // cut out of everything
	errors [][]byte // cut out of errors and logs: values that may also be innocent
}

const removed = "[removed]"

// minSecret is the shortest value that is cut out; a shorter one is no secret,
// and would match by accident.
const minSecret = 6

// secretName matches names of variables that hold secrets.
var secretName = regexp.MustCompile(`(?i)key|token|secret|passw|pwd|auth|cred|private|cookie|session|dsn|database_url|connection`)

func newScrubber(o *Options) scrubber {
	var s scrubber
	for _, values := range o.Header {
		for _, v := range values {
			s.secret = append(s.secret, forms(v)...)
			for word := range strings.FieldsSeq(v) { // "Bearer …" without the scheme
				s.secret = append(s.secret, forms(word)...)
				if plain, err := base64.StdEncoding.DecodeString(word); err == nil { // Basic
					_, password, _ := strings.Cut(string(plain), ":")
					s.secret = append(s.secret, forms(password)...)
				}
			}
		}
	}
	for name, v := range o.Env {
		if secretName.MatchString(name) {
			s.secret = append(s.secret, forms(v)...)
		}
		s.errors = append(s.errors, forms(v)...)
	}
	s.address(o.URL)
	for i, arg := range o.Command[min(1, len(o.Command)):] {
		name, value, assigned := strings.Cut(arg, "=")
		switch last := o.Command[i]; { // the one before: i counts from the second
		case assigned && secretName.MatchString(name):
			s.errors = append(s.errors, forms(value)...)
		case i > 0 && strings.HasPrefix(last, "-") && !strings.Contains(last, "=") && secretName.MatchString(last) && !strings.HasPrefix(arg, "-"):
			s.errors = append(s.errors, forms(arg)...)
		}
		if strings.Contains(arg, "://") {
			s.address(arg[strings.LastIndexAny(arg[:strings.Index(arg, "://")], "= ")+1:])
		}
	}
	s.errors = append(s.errors, s.secret...)
	for _, list := range [][][]byte{s.secret, s.errors} { // the longest first: one may hold another
		slices.SortFunc(list, func(a, b []byte) int { return cmp.Or(len(b)-len(a), bytes.Compare(a, b)) })
	}
	return s
}

// address takes the secrets of a URL: its password, and what stands in its
// query.
func (s *scrubber) address(text string) {
	u, err := url.Parse(text)
	if err != nil {
		return
	}
	if password, ok := u.User.Password(); ok {
		s.errors = append(s.errors, forms(password)...)
	}
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		_, raw, _ := strings.Cut(pair, "=")
		s.errors = append(s.errors, forms(raw)...)
		if value, err := url.QueryUnescape(raw); err == nil && value != raw {
			s.errors = append(s.errors, forms(value)...)
		}
	}
}

// forms gives a value as it may stand in JSON: plain, or escaped.
func forms(v string) [][]byte {
	if len(v) < minSecret {
		return nil
	}
	out := [][]byte{[]byte(v)}
	escaped, err := json.Marshal(v)
	for _, form := range [][]byte{bytes.Trim(encode(v), `"`), bytes.Trim(escaped, `"`)} {
		if err == nil && !slices.ContainsFunc(out, func(f []byte) bool { return bytes.Equal(f, form) }) {
			out = append(out, form)
		}
	}
	return out
}

// result cleans JSON that an upstream has answered. data itself is not changed.
func (s scrubber) result(data []byte) []byte { return cutJSON(data, s.secret) }

// data cleans the data of an error, which is JSON.
func (s scrubber) data(data []byte) []byte { return cutJSON(data, s.errors) }

// all cleans a text: an error, or a line of a log.
func (s scrubber) all(data []byte) []byte { return cut(data, s.errors) }

// number matches a string of JSON, or a number that stands by itself.
var number = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?[0-9][-+.0-9eE]*`)

// cutJSON leaves valid JSON: a secret made of digits may stand there as a
// number, and then a string takes its place.
func cutJSON(data []byte, values [][]byte) []byte {
	out := cut(data, values)
	if bytes.Equal(out, data) || json.Valid(out) || !json.Valid(data) {
		return out
	}
	out = number.ReplaceAllFunc(data, func(token []byte) []byte {
		clean := cut(token, values)
		if token[0] != '"' && !bytes.Equal(clean, token) {
			return encode(removed)
		}
		return clean
	})
	if !json.Valid(out) { // cut out of an escape, for instance
		return encode(removed)
	}
	return out
}

func cut(data []byte, values [][]byte) []byte {
	for _, v := range values {
		if bytes.Contains(data, v) {
			data = bytes.ReplaceAll(data, v, []byte(removed))
		}
	}
	return data
}
