package webtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// answer is what a request got.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// String shows an answer as it would stand in a failed test's log.
func (a *answer) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s\n", a.status, http.StatusText(a.status))
	var names []string
	for name := range a.header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\n", name, a.value(name))
	}
	const most = 2000
	body := a.body
	if len(body) > most {
		body = body[:most]
	}
	fmt.Fprintf(&b, "\n%s", body)
	if len(body) < len(a.body) {
		fmt.Fprintf(&b, "... (%d octets)", len(a.body))
	}
	return b.String()
}

func (a *answer) value(name string) string {
	return strings.Join(a.header.Values(name), ", ")
}

// begins tells where an expectation begins.
var begins = regexp.MustCompile(`^(\d{3}(,|$)|no [A-Za-z]|body( contains)? "|body (=|contains|~) |json /|json (=|has|~) |[A-Za-z][A-Za-z0-9-]*(:| ~) |\$\w+ = )`)

// split parts a line of expectations at each ", " outside double quotes that
// another expectation follows.
func split(line string) []string {
	var out []string
	quoted, from := false, 0
	for i := 0; i < len(line); i++ {
		switch {
		case quoted && line[i] == '\\':
			i++
		case line[i] == '"':
			quoted = !quoted
		case !quoted && strings.HasPrefix(line[i:], ", ") && begins.MatchString(line[i+2:]):
			out = append(out, line[from:i])
			from = i + 2
		}
	}
	return append(out, line[from:])
}

var name = regexp.MustCompile(`\$\w+`)

// expand puts what was kept in the place of its names.
func expand(s string, kept map[string]string) string {
	return name.ReplaceAllStringFunc(s, func(n string) string {
		if v, ok := kept[n]; ok {
			return v
		}
		return n
	})
}

var (
	keepForm   = regexp.MustCompile(`^(\$\w+) = (?:json (/\S*)|([A-Za-z0-9-]+))$`)
	jsonForm   = regexp.MustCompile(`^json (/\S*|) ?(=|has|~) (.+)$`)
	bodyForm   = regexp.MustCompile(`^body (=|contains|~) (.+)$`)
	headerForm = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*)(:| ~) (.+)$`)
	absentForm = regexp.MustCompile(`^no ([A-Za-z][A-Za-z0-9-]*)$`)
)

// check compares the answer with one expectation.
func (a *answer) check(want string, kept map[string]string) error {
	if status, err := strconv.Atoi(want); err == nil {
		if a.status != status {
			return fmt.Errorf("status %d, want %d", a.status, status)
		}
		return nil
	}
	if want == "no body" {
		if len(a.body) > 0 {
			return fmt.Errorf("a body of %d octets, want none", len(a.body))
		}
		return nil
	}
	if m := keepForm.FindStringSubmatch(want); m != nil {
		return a.keep(m[1], m[2], m[3], kept)
	}
	if pointer, ok := strings.CutPrefix(want, "no json "); ok {
		v, err := a.at(pointer)
		if err == nil {
			return fmt.Errorf("json %s is %s, want nothing there", pointer, show(v))
		}
		if missing := missingError(""); !errors.As(err, &missing) {
			return err
		}
		return nil
	}
	if text, ok := strings.CutPrefix(want, "no body contains "); ok {
		part, err := strconv.Unquote(text)
		if err != nil {
			return fmt.Errorf("%s is no Go string", text)
		}
		if strings.Contains(string(a.body), part) {
			return fmt.Errorf("the body contains %q", part)
		}
		return nil
	}
	if m := jsonForm.FindStringSubmatch(want); m != nil {
		return a.checkJSON(m[1], m[2], m[3])
	}
	if m := bodyForm.FindStringSubmatch(want); m != nil {
		return a.checkBody(m[1], m[2])
	}
	if m := absentForm.FindStringSubmatch(want); m != nil {
		if _, ok := a.header[http.CanonicalHeaderKey(m[1])]; ok {
			return fmt.Errorf("%s is %q, want no such header", m[1], a.value(m[1]))
		}
		return nil
	}
	if m := headerForm.FindStringSubmatch(want); m != nil {
		return a.checkHeader(m[1], m[2], m[3])
	}
	return fmt.Errorf("unknown expectation %q", want)
}

func (a *answer) checkHeader(name, how, want string) error {
	got := a.value(name)
	if how == ":" {
		if got != want {
			return fmt.Errorf("%s is %q, want %q", name, got, want)
		}
		return nil
	}
	return match(name, got, want)
}

func (a *answer) checkBody(how, want string) error {
	if how == "~" {
		return match("the body", string(a.body), want)
	}
	text, err := strconv.Unquote(want)
	if err != nil {
		return fmt.Errorf("%s is no Go string", want)
	}
	if how == "=" && string(a.body) != text {
		return fmt.Errorf("the body is %q, want %q", a.body, text)
	}
	if !strings.Contains(string(a.body), text) {
		return fmt.Errorf("the body does not contain %q", text)
	}
	return nil
}

func (a *answer) checkJSON(pointer, how, want string) error {
	got, err := a.at(pointer)
	if err != nil {
		return err
	}
	switch how {
	case "~":
		s, ok := got.(string)
		if !ok {
			return fmt.Errorf("json %s is %s, want a string", pointer, show(got))
		}
		return match("json "+pointer, s, want)
	case "has":
		n := -1
		switch v := got.(type) {
		case []any:
			n = len(v)
		case map[string]any:
			n = len(v)
		}
		if strconv.Itoa(n) != want {
			return fmt.Errorf("json %s is %s, want %s elements", pointer, show(got), want)
		}
		return nil
	}
	var value any
	if err := json.Unmarshal([]byte(want), &value); err != nil {
		return fmt.Errorf("%s is no JSON value", want)
	}
	if !reflect.DeepEqual(got, value) {
		return fmt.Errorf("json %s is %s, want %s", pointer, show(got), want)
	}
	return nil
}

// keep stores a header or a member of the body under a name.
func (a *answer) keep(name, pointer, header string, kept map[string]string) error {
	if header != "" {
		if kept[name] = a.value(header); kept[name] == "" {
			return fmt.Errorf("no %s to keep", header)
		}
		return nil
	}
	v, err := a.at(pointer)
	if err != nil {
		return err
	}
	if s, ok := v.(string); ok {
		kept[name] = s
	} else {
		kept[name] = show(v)
	}
	return nil
}

// missingError is a JSON Pointer that leads nowhere.
type missingError string

func (e missingError) Error() string { return fmt.Sprintf("json %s: nothing there", string(e)) }

// at gives the value at a JSON Pointer (RFC 6901).
func (a *answer) at(pointer string) (any, error) {
	var v any
	if err := json.Unmarshal(a.body, &v); err != nil {
		return nil, fmt.Errorf("the body is no JSON: %w", err)
	}
	if pointer == "" {
		return v, nil
	}
	for _, step := range strings.Split(pointer, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		var ok bool
		switch at := v.(type) {
		case map[string]any:
			v, ok = at[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(at) {
				v, ok = at[i], true
			}
		}
		if !ok {
			return nil, missingError(pointer)
		}
	}
	return v, nil
}

func match(what, got, pattern string) error {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return err
	}
	if !re.MatchString(got) {
		return fmt.Errorf("%s is %q, which does not match %s", what, got, pattern)
	}
	return nil
}

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
