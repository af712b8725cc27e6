package webtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Run sends the requests of the scripts that match glob to a handler, over a
// real connection, and checks the answers. Each file is a sub-test; its
// exchanges run in order. No file is a failure.
//
// A script is a list of exchanges:
//
//	# A comment, between exchanges.
//	GET /mcp/calendar/server-card
//	If-None-Match: W/"abc"
//	-> 304, ETag: "abc", no body
//
//	POST https://index.example.com/v1/submissions
//	Content-Type: application/json
//
//	{"url":"https://a.example.com/"}
//	-> 202
//	-> Content-Type: application/json, json /state = "queued"
//
// A request is its line, headers and, after an empty line, a body up to the
// first "->" line. A target with a host sets the Host header; redirects are not
// followed. The expectations stand on one or more "->" lines, several on a line
// with ", " between them:
//
//	200                     the status
//	Name: value             the header, several lines of it joined with ", "
//	Name ~ regexp           the same against a regular expression
//	no Name                 no such header
//	no body                 an empty body
//	body = "text"           the body; a Go string
//	body contains "text"    a part of it
//	no body contains "text"
//	body ~ regexp
//	json /items/0/name = "x"    the value at a JSON Pointer, any JSON value
//	json /items has 3           an array or object of 3
//	json /items/0/name ~ regexp a string
//	no json /nextCursor         nothing at this place
//	$etag = ETag                keep a header for later requests and expectations
//	$next = json /nextCursor    keep a string or number of the body
//
// A ", " parts two expectations only where the next one begins, so values may
// hold commas. "$etag" stands for what was kept under that name; other dollar
// signs are plain.
func Run(t *testing.T, handler http.Handler, glob string) {
	t.Helper()
	names, err := filepath.Glob(glob)
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 {
		t.Fatalf("no script matches %s", glob)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			RunScript(t, handler, name, string(data))
		})
	}
}

// RunScript runs one script; name is for messages.
func RunScript(t testing.TB, handler http.Handler, name, script string) {
	t.Helper()
	exchanges, err := parse(script)
	if err != nil {
		t.Fatalf("%s:%v", name, err)
		return
	}
	server := httptest.NewServer(handler)
	defer server.Close()
	client := &http.Client{
		Transport: &http.Transport{
			DisableCompression: true,
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       time.Minute,
	}
	defer client.CloseIdleConnections()

	kept := map[string]string{}
	for _, x := range exchanges {
		a, err := x.send(client, kept)
		if err != nil {
			t.Errorf("%s:%d: %s: %v", name, x.line, x.request, err)
			continue
		}
		failed := false
		for _, e := range x.expect {
			if err := a.check(expand(e.text, kept), kept); err != nil {
				t.Errorf("%s:%d: %s: %v", name, e.line, x.request, err)
				failed = true
			}
		}
		if failed {
			t.Logf("%s:%d: the answer was:\n%s", name, x.line, a)
		}
	}
}

// exchange is one request and what is expected of its answer.
type exchange struct {
	line    int
	request string // method and target
	header  []string
	body    string
	expect  []expectation
}

type expectation struct {
	line int
	text string
}

// parse reads a script. Errors begin with the line number.
func parse(script string) ([]exchange, error) {
	var (
		all  []exchange
		body []string
	)
	const (
		between = iota
		header
		content
		answer
	)
	state := between
	script = strings.TrimSuffix(strings.ReplaceAll(script, "\r\n", "\n"), "\n")
	for i, text := range strings.Split(script, "\n") {
		n := i + 1
		if state == answer && !strings.HasPrefix(text, "->") {
			state = between
		}
		expects, isAnswer := strings.CutPrefix(text, "->")
		switch {
		case isAnswer && state == between:
			return nil, fmt.Errorf("%d: an expectation without a request", n)
		case isAnswer:
			x := &all[len(all)-1]
			if state == content {
				x.body = strings.Join(body, "\n")
			}
			state = answer
			for _, e := range split(strings.TrimSpace(expects)) {
				x.expect = append(x.expect, expectation{n, e})
			}
		case state == content:
			body = append(body, text)
		case state == header && strings.TrimSpace(text) == "":
			state, body = content, nil
		case state == header:
			if name, _, ok := strings.Cut(text, ":"); !ok || name == "" || strings.ContainsAny(name, " \t") {
				return nil, fmt.Errorf("%d: %q is no header; a body follows an empty line", n, text)
			}
			x := &all[len(all)-1]
			x.header = append(x.header, text)
		case strings.TrimSpace(text) == "" || text[0] == '#':
		default:
			if method, target, ok := strings.Cut(text, " "); !ok || method != strings.ToUpper(method) || strings.ContainsAny(target, " \t") {
				return nil, fmt.Errorf("%d: %q is no request: METHOD TARGET", n, text)
			}
			all = append(all, exchange{line: n, request: text})
			state = header
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("1: no request")
	}
	for _, x := range all {
		if len(x.expect) == 0 {
			return nil, fmt.Errorf("%d: %s: nothing is expected of the answer", x.line, x.request)
		}
	}
	return all, nil
}

// send makes the request.
func (x exchange) send(client *http.Client, kept map[string]string) (*answer, error) {
	method, target, _ := strings.Cut(expand(x.request, kept), " ")
	switch {
	case strings.HasPrefix(target, "https://"):
		target = "http" + target[len("https"):]
	case strings.HasPrefix(target, "/"):
		target = "http://example.com" + target
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(expand(x.body, kept)))
	if err != nil {
		return nil, err
	}
	if x.body == "" {
		req.Body, req.ContentLength = http.NoBody, 0
	}
	req.Header["User-Agent"] = []string{""} // none, unless the script has one
	for _, h := range x.header {
		name, value, _ := strings.Cut(expand(h, kept), ":")
		name, value = http.CanonicalHeaderKey(name), strings.TrimSpace(value)
		switch name {
		case "Host":
			req.Host = value
		case "User-Agent":
			req.Header.Set(name, value)
		default:
			req.Header.Add(name, value)
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the answer: %w", err)
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}
