package publicnet_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

// TLS says where an answer without a length ends (RFC 9112 section 9.8): when
// the connection below ends first, the answer is cut.
func TestCutWithoutLength(t *testing.T) {
	for _, tt := range []struct{ name, method, answer string }{
		{"no length", http.MethodGet, "HTTP/1.1 200 OK\r\n\r\nhalf of i"},
		{"HTTP/1.0", http.MethodGet, "HTTP/1.0 200 OK\r\n\r\nhalf of i"},
		{"length", http.MethodGet, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf of i"},
		{"chunked", http.MethodGet, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
				n.Handle("apps.example.com", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					conn, _, err := w.(http.Hijacker).Hijack()
					if err != nil {
						panic(err)
					}
					_, _ = io.WriteString(conn, tt.answer)
					_ = conn.(*tls.Conn).NetConn().Close()
				}))
				if _, body, err := get(t, c, appURL); !errors.Is(err, publicnet.ErrConnect) && !errors.Is(err, publicnet.ErrBadAnswer) {
					t.Errorf("%q was taken for whole: %v", body, err)
				}
			})
		})
	}
}

// What a server sends without being asked answers no request: many send 408
// before they close an idle connection.
func TestUnaskedAnswer(t *testing.T) {
	for _, tt := range []struct{ name, extra string }{
		{"408", "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"},
		{"200", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
				n.Handle("apps.example.com", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					conn, rw, err := w.(http.Hijacker).Hijack()
					if err != nil {
						panic(err)
					}
					defer conn.Close()
					_, _ = io.WriteString(conn, kept)
					time.Sleep(time.Second)
					_, _ = io.WriteString(conn, tt.extra)
					_, _ = http.ReadRequest(rw.Reader)
				}))
				for range 2 {
					resp, body, err := get(t, c, appURL)
					if err != nil || resp.StatusCode != http.StatusOK || body != "ok" {
						t.Fatalf("%v, %q, %v", resp, body, err)
					}
					time.Sleep(5 * time.Second)
				}
				if got := len(n.Dials()); got != 2 {
					t.Errorf("%d dials, want 2", got)
				}
			})
		})
	}
}

// Only 1xx announces another answer: what follows any other status is its body.
func TestStatusBelow100(t *testing.T) {
	inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		n.Handle("apps.example.com", raw("HTTP/1.1 099 What\r\n\r\n"+kept))
		if _, body, err := get(t, c, appURL); !errors.Is(err, publicnet.ErrBadAnswer) {
			t.Errorf("%q, %v", body, err)
		}
	})
}

// An error of Acquire says nothing about the server's answer.
func TestAcquireFails(t *testing.T) {
	full, kept := errors.New("no place"), false
	opts := publicnet.Options{Acquire: func(context.Context, netip.Addr) (func(), error) {
		if !kept {
			return nil, full
		}
		return func() {}, nil
	}}
	inNet(t, "-- GET "+appURL+" --\nhello\n", opts, func(t *testing.T, _ *fakenet.Net, c *http.Client) {
		for _, kept = range []bool{false, true, false} { // a new connection, one more, the kept one
			_, _, err := get(t, c, appURL)
			if kept && err != nil || !kept && !errors.Is(err, full) || errors.Is(err, publicnet.ErrBadAnswer) {
				t.Errorf("kept %v: %v", kept, err)
			}
		}
	})
}

// A request that is told to close its connection leaves none behind.
func TestRequestCloses(t *testing.T) {
	inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		n.Handle("apps.example.com", raw(kept, kept))
		for range 2 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, appURL, nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Close = true
			resp, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		if got := len(n.Dials()); got != 2 {
			t.Errorf("%d dials, want 2", got)
		}
	})
}
