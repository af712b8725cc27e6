package publicnet_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/internal/webtest"
	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publicnet"
)

type vectors struct {
	DNS []struct {
		ID, Host, Verdict, Why string
		Answers                []json.RawMessage // a list of addresses, or a word
	} `json:"dns_vectors"`
	Redirects []struct {
		ID, Verdict, Why string
		Chain            []string
	} `json:"redirect_vectors"`
	Responses   []response `json:"response_vectors"`
	Environment []struct {
		ID, Expect string
		Env        map[string]string
	} `json:"environment_vectors"`
}

type response struct {
	ID, Name, Verdict, Why, Encoding string
	Body, Decoded                    int
	ContentLength                    int64 `json:"content_length"`
}

func TestDNSVectors(t *testing.T) {
	cases := 0
	for _, file := range webtest.Vectors[vectors](t, "ssrf-vectors.json") {
		for _, v := range file.DNS {
			cases++
			inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
				var answers []fakenet.DNS
				for _, raw := range v.Answers {
					var answer fakenet.DNS
					if json.Unmarshal(raw, &answer.Addrs) != nil {
						if err := json.Unmarshal(raw, &answer.Err); err != nil {
							t.Fatalf("%s: answer %s", v.ID, raw)
						}
					}
					answers = append(answers, answer)
				}
				n.SetDNS(v.Host, answers...)
				url := "https://" + v.Host + "/"
				n.Handle(v.Host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					w.Header().Set("Connection", "close") // so that each request is looked up
				}))
				for range len(answers) + 1 {
					_, _, err := get(t, c, url)
					if v.Verdict == "allow" && err != nil || v.Verdict == "deny" && err == nil {
						t.Errorf("%s (%s): %v; want %s", v.ID, v.Why, err, v.Verdict)
					}
				}
				for _, d := range n.Dials() {
					if !publicnet.IsPublic(d.Addr()) {
						t.Errorf("%s: dialled %s", v.ID, d)
					}
				}
				for _, name := range n.Lookups() {
					if name != v.Host+"." {
						t.Errorf("%s: looked up %q", v.ID, name)
					}
				}
			})
		}
	}
	if cases == 0 {
		t.Error("no cases")
	}
}

// The plain client's side; internal/fetch runs the same cases hop by hop.
func TestRedirectVectors(t *testing.T) {
	cases := 0
	for _, file := range webtest.Vectors[vectors](t, "ssrf-vectors.json") {
		for _, v := range file.Redirects {
			cases++
			inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
				first := setChain(t, n, v.Chain)
				resp, _, err := get(t, c, first)
				if ok := err == nil && resp.StatusCode == 200; ok != (v.Verdict == "allow") {
					t.Errorf("%s (%s): %v, %v; want %s", v.ID, v.Why, resp, err, v.Verdict)
				}
				for _, d := range n.Dials() {
					if !publicnet.IsPublic(d.Addr()) {
						t.Errorf("%s: dialled %s", v.ID, d)
					}
				}
			})
		}
	}
	if cases == 0 {
		t.Error("no cases")
	}
}

// setChain makes each address of a chain answer with the next as its Location,
// as written, and gives the first.
func setChain(t *testing.T, n *fakenet.Net, chain []string) string {
	t.Helper()
	at, err := weburl.Parse(chain[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, location := range chain[1:] {
		n.Set(at.String(), fakenet.Answer{Status: 302, Header: http.Header{"Location": {location}}})
		next, err := at.Resolve(location)
		if err != nil || location == "" {
			return chain[0] // the guard's to refuse
		}
		at = next
	}
	if strings.HasPrefix(at.Host(), "rebind.") {
		n.SetDNS(at.Host(), fakenet.DNS{Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}})
	}
	n.Set(at.String(), fakenet.Answer{Body: "ok"})
	return chain[0]
}

func TestResponseVectors(t *testing.T) {
	cases := 0
	for _, file := range webtest.Vectors[vectors](t, "ssrf-vectors.json") {
		for _, v := range file.Responses {
			t.Run(cmp.Or(v.Name, v.ID), func(t *testing.T) {
				inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
					if !serve(t, n, v) {
						t.Skipf("%s: no server for %q", v.ID, v.Name)
					}
					cases++
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					body, err := readApp(c)
					runtime.ReadMemStats(&after)
					if strings.HasPrefix(v.Name, "json-") && err == nil {
						_, err = strictjson.Parse(body)
					}
					if (err == nil) != (v.Verdict == "allow") {
						t.Errorf("%s (%s): %v; want %s", v.ID, v.Why, err, v.Verdict)
					}
					if used := after.TotalAlloc - before.TotalAlloc; v.Encoding != "" && used > 8<<20 {
						t.Errorf("%s: %d octets of memory were used", v.ID, used)
					}
					for _, r := range n.Requests() {
						if r.URL != appURL || r.Header.Get("Cookie") != "" {
							t.Errorf("%s: request %s", v.ID, r)
						}
					}
					if v.Verdict == "deny" && len(n.Requests()) > 2 {
						t.Errorf("%s: %d requests, at most one retry", v.ID, len(n.Requests()))
					}
				})
			})
		}
	}
	if cases == 0 {
		t.Error("no cases")
	}
}

func readApp(c *http.Client) ([]byte, error) {
	resp, err := c.Get(appURL)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

// serve makes the server of one response vector, by name or by what the vector
// says of the answer.
func serve(t *testing.T, n *fakenet.Net, v response) bool {
	const host = "apps.example.com"
	set := func(a fakenet.Answer) bool { n.Set(appURL, a); return true }
	header := func(name, value string) bool {
		return set(fakenet.Answer{Header: http.Header{name: {value}}, Body: "ok"})
	}
	// raw writes octets as they are until the client has gone.
	raw := func(once string, again string) bool {
		n.Handle(host, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Proto != "HTTP/1.1" {
				t.Errorf("%s: the client speaks %s", v.ID, r.Proto)
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			_, err = io.WriteString(conn, once)
			for err == nil && again != "" {
				_, err = io.WriteString(conn, again)
			}
			if again == "" {
				io.Copy(io.Discard, conn) // until the client closes
			}
		}))
		return true
	}
	switch v.Name {
	case "body-endless-chunked":
		return raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", fmt.Sprintf("1000\r\n%s\r\n", strings.Repeat("x", 4096)))
	case "body-cut":
		return set(fakenet.Answer{Body: strings.Repeat("x", 100), Fault: fakenet.Cut})
	case "gzip-trailing":
		return set(gzipAnswer(gzipString("{}") + "garbage"))
	case "slow-body":
		return set(fakenet.Answer{Body: strings.Repeat("x", 60), Fault: fakenet.Slow})
	case "silent":
		return set(fakenet.Answer{Fault: fakenet.Timeout})
	case "silent-after-headers":
		return raw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "")
	case "header-many":
		return raw("HTTP/1.1 200 OK\r\n"+strings.Repeat("A: b\r\n", 100_000)+"\r\n", "")
	case "header-one-big":
		return raw("HTTP/1.1 200 OK\r\nA: "+strings.Repeat("b", 1<<20)+"\r\n\r\n", "")
	case "1xx-flood":
		return raw("", "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n")
	case "http2-goaway-loop":
		// The client offers HTTP/1.1 alone; a server that answers in HTTP/2 all the
		// same (SETTINGS, then GOAWAY) is not understood.
		return raw("\x00\x00\x00\x04\x00\x00\x00\x00\x00", "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	case "304-unasked":
		return set(fakenet.Answer{Status: 304})
	case "set-cookie":
		return header("Set-Cookie", "id=1")
	case "alt-svc":
		return header("Alt-Svc", `h3=":443", h2="evil.example.com:443"`)
	case "refresh-header":
		return header("Refresh", "0; url=https://127.0.0.1/")
	case "tls-selfsigned", "tls-expired":
		n.SetTLS(host, strings.TrimPrefix(v.Name, "tls-"))
		return header("X-Seen", "1")
	case "tls-wrong-name":
		n.SetTLS(host, "wrongname")
		return header("X-Seen", "1")
	case "json-deep":
		return set(fakenet.Answer{Body: strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)})
	case "json-bom":
		return set(fakenet.Answer{Body: "\uFEFF{\"a\": 1}"})
	case "json-nan":
		return set(fakenet.Answer{Body: `{"a": NaN}`})
	}
	if status, ok := strings.CutPrefix(v.Name, "status-"); ok {
		code, err := strconv.Atoi(status)
		return err == nil && set(fakenet.Answer{Status: code, Body: "ok"})
	}
	switch {
	case v.ContentLength > 0:
		return raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", v.ContentLength), strings.Repeat("x", 4096))
	case v.Encoding == "gzip" && v.Decoded > 0:
		return set(gzipAnswer(gzipString(strings.Repeat("\x00", v.Decoded))))
	case v.Encoding != "" && v.Encoding != "gzip":
		return header("Content-Encoding", v.Encoding)
	case v.Body > 0:
		return set(fakenet.Answer{Body: strings.Repeat("x", v.Body)})
	}
	return false
}

// The environment of the process changes no verdict. Each case runs
// TestEnvironmentChild in a process of its own.
func TestEnvironmentVectors(t *testing.T) {
	cases := 0
	for _, file := range webtest.Vectors[vectors](t, "ssrf-vectors.json") {
		for _, v := range file.Environment {
			cases++
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEnvironmentChild$", "-test.v")
			cmd.Env = append(os.Environ(), "PUBLICNET_CHILD=1")
			for name, value := range v.Env {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
			out, err := cmd.CombinedOutput()
			if err != nil || !bytes.Contains(out, []byte("--- PASS: TestEnvironmentChild")) {
				t.Errorf("%s %v (%s): %v\n%s", v.ID, v.Env, v.Expect, err, out)
			}
		}
	}
	if cases == 0 {
		t.Error("no cases")
	}
}

func TestEnvironmentChild(t *testing.T) {
	if os.Getenv("PUBLICNET_CHILD") == "" {
		t.Skip("runs in a process of its own, see TestEnvironmentVectors")
	}
	n := fakenet.New()
	defer n.Close()
	n.Set(appURL, fakenet.Answer{Body: "ok"})
	below := n.Below()
	questions := make(chan string, 100)
	below.Resolver = &net.Resolver{PreferGo: true, Dial: nameServer(t, n.Host("apps.example.com"), questions)}
	network, err := publicnet.New(&publicnet.Options{UserAgent: "Test/1", Below: below})
	if err != nil {
		t.Fatal(err)
	}
	c := network.Client()
	defer c.CloseIdleConnections()
	if _, body, err := get(t, c, appURL); err != nil || body != "ok" {
		t.Errorf("plain request: %q, %v", body, err)
	}
	for _, d := range n.Dials() {
		if d.String() != n.Host("apps.example.com").String()+":443" {
			t.Errorf("dialled %s", d)
		}
	}
	for _, url := range []string{"https://0x7f.1/", "https://2130706433/", "https://127.1/", "https://intranet/", "http://apps.example.com/"} {
		if err := network.CheckURL(url); err == nil {
			t.Errorf("%s passed", url)
		}
		if _, _, err := get(t, c, url); err == nil {
			t.Errorf("%s was fetched", url)
		}
	}
	if _, _, err := get(t, c, "https://unknown.example.com/"); err == nil {
		t.Error("an unknown name was fetched")
	}
	for len(questions) > 0 {
		if name := <-questions; name != "apps.example.com." && name != "unknown.example.com." {
			t.Errorf("asked for %q", name)
		}
	}
	// Roots of the system do not know the test's authority, whatever they are.
	below.Roots = nil
	system, err := publicnet.New(&publicnet.Options{UserAgent: "Test/1", Below: below})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := get(t, system.Client(), appURL); err == nil {
		t.Error("a certificate of an unknown authority passed")
	}
}
