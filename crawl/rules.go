package crawl

import (
	"context"
	"fmt"

	"github.com/openbot-build/openbot-go/robots"
)

// This file is about rules of robots.txt that are so large that a visit does
// not keep them: a lease that has them, or leaves them out, is worked off with
// the store's, one look at a time.

// largeRules reports whether rules are no usual ones.
func largeRules(r *robots.Rules) bool { return int64(r.Size()) > small }

// leaveRules drops large rules that the lease brought.
func (v *visit) leaveRules() {
	v.delay = crawlDelay(&v.robots)
	if v.robots.State == robots.Found && (v.robots.Rules == nil || largeRules(v.robots.Rules)) {
		v.robots.Rules, v.rules = nil, true
	}
}

// ruled hands the robots.txt of the host to f, with its rules. The error is
// errLater, or the store's, which ends the crawl.
func (v *visit) ruled(ctx context.Context, f func(*robots.File)) error {
	if !v.rules {
		f(&v.robots)
		return nil
	}
	return v.desk(ctx, deskBytes, func() error {
		h, err := v.c.store.Host(ctx, v.host)
		if err != nil {
			v.err = fmt.Errorf("look up host: %w", err)
			return v.err
		}
		file := v.robots
		file.Rules = h.Robots.Rules
		v.delay = crawlDelay(&file)
		f(&file)
		return nil
	})
}

// obey makes a new robots.txt the host's. Large rules are handed in before
// anything is asked for under them, so that no visit keeps them.
func (v *visit) obey(f robots.File) {
	v.robots, v.rules = f, false
	v.delay = crawlDelay(&f)
	v.out.Robots = &v.robots
	if largeRules(f.Rules) {
		stored := new(robots.Rules) // smaller, as the store will give it
		if text, err := f.Rules.MarshalText(); err == nil && stored.UnmarshalText(text) == nil {
			v.robots.Rules = stored
		}
		v.kept += int64(v.robots.Rules.Size())
		v.over = true
	}
	v.settle()
}

// maxHeader is how many octets of a document's Link or X-Robots-Tag headers
// count, and maxValue of a header that is one word.
const (
	maxHeader = 16 << 10
	maxValue  = 1 << 10
)

// usual gives a header value unless it is absurdly long.
func usual(s string) string {
	if len(s) > maxValue {
		return ""
	}
	return s
}

// kept gives the first header values, as many as count.
func kept(values []string) []string {
	n := 0
	for i, s := range values {
		if n += len(s); n > maxHeader {
			return values[:i:i]
		}
	}
	return values
}
