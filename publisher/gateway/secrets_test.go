package gateway

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	envSecret    = `sk-env-5c"3&7`
	headerSecret = "sk-header-91x7"
	ownSecret    = "sk-publisher-0042"
	clientSecret = "sk-client-7731"
)

// Nothing of the publisher's environment reaches a command but what the
// operator gives it, and none of that reaches clients.
func TestCommandCredentials(t *testing.T) {
	noLeaks(t)
	t.Setenv("PUBLISHER_DB_PASSWORD", ownSecret)
	var log lockedBuffer
	opts := command(t, "sdk")
	opts.Env["WEATHER_API_KEY"] = envSecret
	opts.Env["DATA_DIR"] = "/srv/weather/data"
	opts.Log = log.log()
	url := front(t, open(t, opts))
	all := post(t, url, methodCall, callTool("environment"), nil)
	text := all.text(t)
	if strings.Contains(all.raw, ownSecret) || strings.Contains(text, "PUBLISHER_DB_PASSWORD") {
		t.Error("the publisher's own environment reached the upstream")
	}
	if !strings.Contains(text, "WEATHER_API_KEY="+removed) || strings.Contains(text, envSecret) {
		t.Errorf("environment %s", text)
	}
	if !strings.Contains(text, "DATA_DIR=/srv/weather/data") || !strings.Contains(text, "PATH=") {
		t.Errorf("too much is missing: %s", text)
	}
	r := post(t, url, methodCall, `{"name":"fail","arguments":{"text":`+string(encode("401 with "+envSecret+" in /srv/weather/data"))+`}}`, nil)
	if strings.Contains(r.err.Message, "sk-env") || strings.Contains(r.err.Message, "/srv/weather") {
		t.Errorf("error %q", r.err.Message)
	}
	if strings.Contains(log.String(), "sk-env") {
		t.Error("a secret is in the log")
	}
}

// leaky answers with the request's headers wherever it can.
func leaky(modern bool, seen func(http.Header, []byte)) http.Handler {
	inner := mcp.NewStreamableHTTPHandler(same(testServer()), &mcp.StreamableHTTPOptions{Stateless: modern, JSONResponse: modern})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen(r.Header.Clone(), body)
		var m message
		_ = json.Unmarshal(body, &m)
		if m.Method == methodCall && strings.Contains(string(body), `"leak"`) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("X-Leak", r.Header.Get("Authorization"))
			if strings.Contains(string(body), "error") {
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-31000,"message":%q,"data":{"h":%q}}}`, m.ID, r.Header.Get("Authorization"), r.Header.Get("Authorization"))
				return
			}
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[{"type":"text","text":%q}]}}`, m.ID, r.Header.Get("Authorization"))
			return
		}
		if m.Method == methodCall && strings.Contains(string(body), `"denied"`) {
			http.Error(w, "bad token "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		inner.ServeHTTP(w, r)
	})
}

// The upstream's credentials go with each request and never come back; the
// client's own never go further than the gateway.
func TestHTTPCredentials(t *testing.T) {
	for _, modern := range []bool{true, false} {
		t.Run(fmt.Sprint("modern=", modern), func(t *testing.T) {
			noLeaks(t)
			var mu sync.Mutex
			var heads []http.Header
			var bodies []string
			opts := serveHTTP(t, leaky(modern, func(h http.Header, b []byte) {
				mu.Lock()
				defer mu.Unlock()
				heads, bodies = append(heads, h), append(bodies, string(b))
			}))
			var log lockedBuffer
			opts.URL += "?api_key=" + headerSecret
			opts.Header, opts.Log = http.Header{"Authorization": {"Bearer " + headerSecret}}, log.log()
			url := front(t, open(t, opts))
			secrets := []string{"Authorization", "Bearer " + clientSecret, "Cookie", "sid=" + clientSecret, "X-Forwarded-For", "198.51.100.7"}
			for _, params := range []string{
				callTool("leak"), `{"name":"leak","arguments":{"error":1}}`, callTool("denied"), callTool("echo"), callTool("progress"),
			} {
				for _, meta := range []map[string]any{nil, {progressToken: 1}} {
					r := post(t, url, methodCall, params, meta, secrets...)
					text := r.raw + fmt.Sprintf("%+v", r.err)
					if strings.Contains(text, headerSecret) {
						t.Errorf("%s: %s", params, text)
					}
					if strings.Contains(params, "denied") && (r.err == nil || r.err.Data.text("outcome") != "not_sent") {
						t.Errorf("denied: %s", text)
					}
				}
			}
			post(t, url, methodRead, `{"uri":"test://a"}`, nil, secrets...)
			mu.Lock()
			defer mu.Unlock()
			for i, h := range heads {
				if h.Get("Authorization") != "Bearer "+headerSecret {
					t.Errorf("request %d has the authorization %q", i, h.Get("Authorization"))
				}
				if text := fmt.Sprint(h, bodies[i]); strings.Contains(text, clientSecret) || h.Get("Cookie")+h.Get("Origin")+h.Get("X-Forwarded-For") != "" {
					t.Errorf("request %d has the client's headers: %v", i, h)
				}
			}
			if strings.Contains(log.String(), headerSecret) || strings.Contains(log.String(), clientSecret) {
				t.Errorf("a secret is in the log: %s", log.String())
			}
		})
	}
}

// Credentials do not follow a redirect to another origin, which is an error
// without the address.
func TestRedirects(t *testing.T) {
	noLeaks(t)
	var mu sync.Mutex
	leaked := ""
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		leaked += fmt.Sprint(r.Header)
	}))
	defer other.Close()
	opts := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	opts.Header = http.Header{"X-Api-Key": {headerSecret}}
	opts.StartTimeout, opts.pause = 300*1e6, 100*1e6
	if _, err := New(t.Context(), opts); err == nil || !strings.Contains(err.Error(), "HTTP status 307") {
		t.Errorf("error %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if leaked != "" {
		t.Errorf("the other origin got %s", leaked)
	}

	inner := mcp.NewStreamableHTTPHandler(same(testServer()), &mcp.StreamableHTTPOptions{Stateless: true})
	mux := http.NewServeMux()
	mux.Handle("/mcp/", inner)
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/mcp/", http.StatusTemporaryRedirect)
	})
	opts = serveHTTP(t, mux)
	opts.URL += "/mcp"
	if r := post(t, front(t, open(t, opts)), methodCall, callTool("echo"), nil); r.result == nil {
		t.Errorf("a redirect on the same origin: %+v", r.err)
	}
}

func TestOptions(t *testing.T) {
	for want, o := range map[string]*Options{
		"needs a Command or a URL": nil,
		"not both":                 {Command: []string{"x"}, URL: "http://x"},
		"must be absolute":         {URL: "x/y"},
		"http or https":            {URL: "file:///etc/passwd?" + headerSecret},
		"Mcp-Name belongs":         {URL: "http://x", Header: http.Header{"mcp-name": {"x"}}},
		"Idempotency-Key belongs":  {URL: "http://x", Header: http.Header{"idempotency-key": {"x"}}},
		"Accept belongs":           {URL: "http://x", Header: http.Header{"accept": {"x"}}},
	} {
		if _, err := New(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), headerSecret) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestScrubber(t *testing.T) {
	s := newScrubber(&Options{
		Env:    map[string]string{"MY_TOKEN": "tok<en>1", "LEVEL": "production", "API_KEY": "12345"},
		Header: http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("user:pass:word"))}},
	})
	for in, want := range map[string]string{
		`a tok<en>1 b`:         `a [removed] b`,
		`a tok\u003cen\u003e1`: `a [removed]`,
		`production 12345`:     `production 12345`, // not a secret; too short
		`x pass:word y`:        `x [removed] y`,
	} {
		if got := string(s.result([]byte(in))); got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
	if got := string(s.all([]byte("in production"))); got != "in [removed]" {
		t.Errorf("error became %q", got)
	}
}
