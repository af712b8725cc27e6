package cimd

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// forever is the delta-seconds of RFC 9111 section 1.2.2 that stand for every
// larger number.
const forever = (1 << 31) * time.Second

// lifetime is how long an answer may be kept: what a shared cache may do
// (RFC 9111), within our bounds. 0 is not at all. Of what is said twice the
// shorter counts, and what cannot be read is stale.
func lifetime(h http.Header, now time.Time) time.Duration {
	if listed(h, "Vary", "*") {
		return 0
	}
	fresh, ok := cacheControl(h)
	if !ok {
		return 0
	}
	if fresh < 0 {
		fresh = defaultLifetime
		if v := h.Values("Expires"); len(v) > 0 {
			date, err := http.ParseTime(h.Get("Date"))
			if err != nil {
				date = now
			}
			fresh = forever
			for _, text := range v {
				at, err := http.ParseTime(text)
				if err != nil {
					return 0
				}
				fresh = max(min(fresh, at.Sub(date)), 0)
			}
		} else if len(h.Values("Cache-Control")) == 0 && listed(h, "Pragma", "no-cache") {
			return 0 // RFC 9111 section 5.4
		}
	}
	age := time.Duration(0)
	for _, text := range h.Values("Age") {
		if seconds, ok := deltaSeconds(strings.TrimSpace(text)); ok {
			age = max(age, seconds)
		}
	}
	return min(max(fresh-age, 0), maxLifetime)
}

// cacheControl gives the time that Cache-Control allows, s-maxage before max-age,
// or -1 when it names none. ok is false when the answer must not be kept.
func cacheControl(h http.Header) (fresh time.Duration, ok bool) {
	private, shared := time.Duration(-1), time.Duration(-1)
	for _, line := range h.Values("Cache-Control") {
		all, ok := directives(line)
		if !ok {
			return 0, false
		}
		for _, d := range all {
			kept := &private
			switch d.name {
			case "no-store", "no-cache", "private":
				return 0, false
			case "s-maxage":
				kept = &shared
			case "max-age":
			default:
				continue
			}
			seconds, ok := deltaSeconds(d.value)
			if !ok {
				return 0, false
			}
			if *kept < 0 || seconds < *kept {
				*kept = seconds
			}
		}
	}
	if shared >= 0 {
		return shared, true
	}
	return private, true
}

type directive struct{ name, value string }

// directives reads one line of Cache-Control. A comma inside a quoted string ends
// nothing; spaces around "=" are forgiven. ok is false when a quoted string does
// not end, or goes on.
func directives(line string) (all []directive, ok bool) {
	const space = " \t"
	for line = strings.TrimLeft(line, space+","); line != ""; line = strings.TrimLeft(line, space+",") {
		end := strings.IndexAny(line, "=,")
		if end < 0 {
			end = len(line)
		}
		d := directive{name: strings.ToLower(strings.Trim(line[:end], space))}
		line = line[end:]
		if value, has := strings.CutPrefix(line, "="); has {
			value = strings.TrimLeft(value, space)
			text, rest, isQuoted := quoted(value)
			if !isQuoted && strings.HasPrefix(value, `"`) {
				return nil, false
			}
			if isQuoted {
				value = rest
			}
			tail, rest, _ := strings.Cut(value, ",")
			switch tail = strings.Trim(tail, space); {
			case isQuoted && tail != "":
				return nil, false
			case isQuoted:
				d.value = text
			default:
				d.value = tail
			}
			line = rest
		}
		all = append(all, d)
	}
	return all, true
}

// quoted takes a quoted string off the front of a text.
func quoted(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], true
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}

// deltaSeconds reads a number of seconds; a huge one is cut (RFC 9111 section
// 1.2.2).
func deltaSeconds(s string) (time.Duration, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return forever, true
	}
	return time.Duration(n) * time.Second, true
}

// listed reports whether one of the lines of a header lists a value.
func listed(h http.Header, name, value string) bool {
	for _, line := range h.Values(name) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), value) {
				return true
			}
		}
	}
	return false
}
