package webtest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/internal/webtest"
)

// demo answers the requests of testdata/demo.txt.
func demo() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /card", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"v1"`)
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		w.Header().Set("Cache-Control", "public, max-age=60")
		w.Header().Set("Content-Type", "application/card+json")
		io.WriteString(w, `{"id":7,"name":"a/b","tags":["x","y"],"text":"one, two","a/b":null}`)
	})
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusCreated)
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s\n%s", r.Host, r.URL, strings.Join(r.Header.Values("X-Two"), ","), body)
	})
	mux.HandleFunc("GET /moved", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Agent", r.UserAgent())
		http.Redirect(w, r, "/card", http.StatusFound)
	})
	return mux
}

func TestRun(t *testing.T) {
	webtest.Run(t, demo(), "testdata/*.txt")
}

// recorder is a testing.TB that keeps failures to itself.
type recorder struct {
	testing.TB
	failures []string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Errorf(format string, args ...any) {
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...) }

// TestScriptsFail: each kind of expectation and each fault of a script fails
// when it should, with a message that names the line.
func TestScriptsFail(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"GET /card\n-> 404", "2: GET /card: status 200, want 404"},
		{"GET /card\n-> 200, ETag: \"v2\"", `ETag is "\"v1\"", want "\"v2\""`},
		{"GET /card\n-> Cache-Control: public", `is "public, max-age=60", want "public"`},
		{"GET /card\n-> ETag ~ ^W/", "does not match ^W/"},
		{"GET /card\n-> ETag ~ (", "missing closing"},
		{"GET /card\n-> no ETag", "want no such header"},
		{"GET /card\n-> no body", "octets, want none"},
		{"GET /card\n-> body = \"x\"", "the body is"},
		{"GET /card\n-> body contains \"zzz\"", `does not contain "zzz"`},
		{"GET /card\n-> body contains zzz", "is no Go string"},
		{"GET /card\n-> no body contains \"name\"", `the body contains "name"`},
		{"GET /card\n-> no body contains name", "is no Go string"},
		{"GET /card\n-> body ~ ^x", "does not match"},
		{"GET /card\n-> json /name = \"z\"", `json /name is "a/b", want "z"`},
		{"GET /card\n-> json /name = z", "z is no JSON value"},
		{"GET /card\n-> json /tags/2 = 1", "json /tags/2: nothing there"},
		{"GET /card\n-> json /name/x = 1", "nothing there"},
		{"GET /card\n-> json /tags has 3", "want 3 elements"},
		{"GET /card\n-> json /name has 1", "want 1 elements"},
		{"GET /card\n-> json /name ~ ^z", "does not match"},
		{"GET /card\n-> json /id ~ 7", "want a string"},
		{"GET /card\n-> no json /name", `json /name is "a/b", want nothing there`},
		{"GET /nothing\n-> json /x = 1", "the body is no JSON"},
		{"GET /nothing\n-> no json /x", "the body is no JSON"},
		{"GET /card\n-> $x = X-None", "no X-None to keep"},
		{"GET /card\n-> $x = json /none", "nothing there"},
		{"GET /card\n-> 200, so it is", "unknown expectation"},
		{"GET /card\n-> fine", `unknown expectation "fine"`},
		{"GET /card\n-> 200\n\nGET /card\nIf-None-Match: \"v1\"\n-> 200", "6: GET /card: status 304, want 200"},
		{"-> 200", "1: an expectation without a request"},
		{"GET /card\n", "1: GET /card: nothing is expected"},
		{"GET /card\nno header here\n-> 200", "2: \"no header here\" is no header"},
		{"get /card\n-> 200", "1: \"get /card\" is no request"},
		{"GET\n-> 200", "1: \"GET\" is no request"},
		{"# nothing\n", "1: no request"},
		{"GET http://%zz/\n-> 200", "invalid URL escape"},
	} {
		var r recorder
		webtest.RunScript(&r, demo(), "x.txt", c.script)
		if len(r.failures) != 1 || !strings.Contains(r.failures[0], c.want) || !strings.HasPrefix(r.failures[0], "x.txt:") {
			t.Errorf("%q failed with %q, want one failure with %q", c.script, r.failures, c.want)
		}
	}
}
