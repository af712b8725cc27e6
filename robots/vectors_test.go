package robots_test

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/temoto/robotstxt"

	"github.com/openbot-build/openbot-go/internal/webtest"
	"github.com/openbot-build/openbot-go/robots"
)

type robotsFile struct {
	Vectors []robotsVector `json:"vectors"`
	Access  []accessVector `json:"access_vectors"`
}

type robotsVector struct {
	ID     string
	Basis  string
	Robots string
	Base64 string `json:"robots_b64"`
	Gen    *struct {
		Prefix, Unit, Suffix string
		Times                int
	} `json:"robots_gen"`
	Agent   string
	URL     string
	Allowed bool
	Note    string
}

func (v robotsVector) body(t *testing.T) []byte {
	t.Helper()
	switch {
	case v.Base64 != "":
		b, err := base64.StdEncoding.DecodeString(v.Base64)
		if err != nil {
			t.Fatal(err)
		}
		return b
	case v.Gen != nil:
		var b strings.Builder
		b.WriteString(v.Gen.Prefix)
		for i := range v.Gen.Times {
			b.WriteString(strings.ReplaceAll(v.Gen.Unit, "{i}", strconv.Itoa(i)))
		}
		b.WriteString(v.Gen.Suffix)
		return []byte(b.String())
	}
	return []byte(v.Robots)
}

// target is the path and query of a URL as they are written.
func target(raw string) string {
	_, rest, _ := strings.Cut(raw, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return rest[i:]
	}
	return ""
}

func TestVectorsRobots(t *testing.T) {
	ran := 0
	for _, file := range webtest.Vectors[robotsFile](t, "robots-vectors.json") {
		for _, v := range file.Vectors {
			ran++
			t.Run(v.ID, func(t *testing.T) {
				rules := robots.Parse(v.body(t), v.Agent)
				allowed, rule, own := rules.Match(target(v.URL))
				if allowed != v.Allowed && v.Basis != "google-optional" {
					t.Errorf("%s: allowed = %t by %q (own group: %t), want %t: %s", v.URL, allowed, rule, own, v.Allowed, v.Note)
				}
				if again := roundTrip(t, rules); again.Allowed(target(v.URL)) != allowed {
					t.Error("rules read back from a store decide differently")
				}
			})
		}
	}
	if ran == 0 {
		t.Fatal("no robots vectors")
	}
}

type accessVector struct {
	ID    string
	Fetch []struct {
		Status   int
		Location string
		Body     string
		Error    string
		AgeHours float64 `json:"age_hours"`
	}
	Expect string
	Note   string
}

func TestVectorsAccess(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	closed := robots.Answer{Status: 200, Body: []byte("user-agent: *\ndisallow: /\n"), ETag: `"r1"`}
	ran := 0
	for _, file := range webtest.Vectors[robotsFile](t, "robots-vectors.json") {
		for _, v := range file.Access {
			ran++
			t.Run(v.ID, func(t *testing.T) {
				// Follow redirects as a fetcher does; the last step is the answer.
				var a robots.Answer
				hops := 0
				for _, f := range v.Fetch {
					a = robots.Answer{Status: f.Status, Body: []byte(f.Body)}
					switch {
					case f.Error != "":
						a = robots.Answer{Err: errors.New(f.Error)}
					case f.Status/100 == 3 && f.Status != 304 && f.Location == "":
						a = robots.Answer{Err: robots.ErrNoLocation}
					case f.Status/100 == 3 && f.Status != 304:
						if hops++; hops > 5 {
							a = robots.Answer{Err: robots.ErrTooManyHops}
						}
					}
					if a.Err != nil {
						break
					}
				}
				age := time.Duration(v.Fetch[0].AgeHours * float64(time.Hour))
				var stored robots.File
				if age > 0 || v.Expect == "cached" {
					stored = robots.File{}.Next(closed, now.Add(-cmp.Or(age, 25*time.Hour)))
				}
				var faults []string
				for _, expect := range strings.Split(v.Expect, "_or_") { // one of them is enough
					fault := accessFault(expect, stored, a, now)
					if fault == "" {
						return
					}
					faults = append(faults, expect+": "+fault)
				}
				t.Errorf("%s: %s", strings.Join(faults, "; "), v.Note)
			})
		}
	}
	if ran == 0 {
		t.Fatal("no access vectors")
	}
}

// accessFault tells how what follows from an answer differs from what is
// expected, "" for not at all. stored holds rules that close the site, or
// nothing.
func accessFault(expect string, stored robots.File, a robots.Answer, now time.Time) string {
	next := stored.Next(a, now)
	if stored.State == robots.Found && !stored.Due(now, time.Minute) {
		next = stored // nothing is asked
	}
	verdict, reason := next.Verdict("/x", now)
	ok := false
	switch expect {
	case "parse":
		ok = next.State == robots.Found && !next.Unreachable && verdict == robots.Disallow
	case "parse_empty":
		ok = next.State == robots.Found && !next.Unreachable && verdict == robots.Allow
	case "allow_all":
		ok = next.State == robots.None && verdict == robots.Allow
	case "disallow_all":
		ok = next.Unreachable && verdict != robots.Allow && next.State == stored.State
	case "cached":
		ok = stored.State == robots.Found && next.Rules == stored.Rules && verdict == robots.Disallow
		if !next.Unreachable && next.ReadAt == now {
			ok = ok && !next.Due(now.Add(23*time.Hour), time.Minute) // its 24 h start again
		}
	case "refetch":
		ok = stored.Due(now, time.Minute)
	default:
		return "unknown expectation"
	}
	if ok {
		return ""
	}
	return fmt.Sprintf("state %q, unreachable %t, verdict %q (%s)", next.State, next.Unreachable, verdict, reason)
}

func TestVectorsXRobotsTag(t *testing.T) {
	type vectors struct {
		XRobots []struct {
			ID      string
			Headers []string
			NoIndex bool
			Why     string
			Now     time.Time
		} `json:"xrobots_vectors"`
	}
	ran := 0
	for _, file := range webtest.Vectors[vectors](t, "document-vectors.json") {
		for _, v := range file.XRobots {
			ran++
			tag := robots.ParseTag(v.Headers, robots.Token)
			if got := tag.NoIndexAt(v.Now); got != v.NoIndex {
				t.Errorf("%s: %q: noindex = %t (%+v), want %t: %s", v.ID, v.Headers, got, tag, v.NoIndex, v.Why)
			}
		}
	}
	if ran == 0 {
		t.Fatal("no X-Robots-Tag vectors")
	}
}

// TestSecondOpinion runs our own vectors through another reader. Where it is
// known to be wrong the case is listed with the reason; a difference that is
// not listed, and a listed one that is gone, both fail.
func TestSecondOpinion(t *testing.T) {
	data, err := os.ReadFile("testdata/temoto-misses.json")
	if err != nil {
		t.Fatal(err)
	}
	var misses map[string]string
	if err := json.Unmarshal(data, &misses); err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile("testdata/vectors/robots-vectors.json")
	if err != nil {
		t.Fatal(err)
	}
	var file robotsFile
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, v := range file.Vectors {
		seen[v.ID] = true
		if v.Gen != nil {
			continue // it takes seconds for these
		}
		allowed := true
		other, err := robotstxt.FromBytes(v.body(t))
		if err == nil {
			allowed = other.TestAgent(cmp.Or(target(v.URL), "/"), v.Agent)
		}
		agrees := err == nil && allowed == v.Allowed
		switch _, known := misses[v.ID]; {
		case !agrees && !known:
			t.Errorf("%s: temoto says %t (error: %v), we say %t: %s; if it is wrong, list it in testdata/temoto-misses.json", v.ID, allowed, err, v.Allowed, v.Note)
		case agrees && known:
			t.Errorf("%s: listed as a miss of temoto, but it agrees", v.ID)
		}
	}
	for id := range misses {
		if !seen[id] {
			t.Errorf("testdata/temoto-misses.json lists %s, which is no vector", id)
		}
	}
}

func roundTrip(t testing.TB, r *robots.Rules) *robots.Rules {
	t.Helper()
	text, err := r.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	var back robots.Rules
	if err := back.UnmarshalText(text); err != nil {
		t.Fatal(err)
	}
	return &back
}
