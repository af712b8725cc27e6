package publicnet_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

// raw answers each request of a connection with the next text, without more.
func raw(answers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		for i, a := range answers {
			if i > 0 {
				if _, err := http.ReadRequest(rw.Reader); err != nil {
					return
				}
			}
			if _, err := io.WriteString(conn, a); err != nil {
				return
			}
		}
	}
}

const kept = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

func TestKeptConnections(t *testing.T) {
	type tt struct {
		name    string
		answers []string
		dials   int // for two requests
		fails   int // which request fails; 0: none
		is      error
		first   bool // the first body is not read
	}
	for _, tt := range []tt{
		{"kept", []string{kept, kept}, 1, 0, nil, false},
		{"closed by the server after an answer", []string{kept}, 2, 0, nil, false},
		{"announced", []string{"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"}, 2, 0, nil, false},
		{"without a length", []string{"HTTP/1.0 200 OK\r\n\r\nok"}, 2, 0, nil, false},
		{"empty", []string{"HTTP/1.1 204 No Content\r\n\r\n", kept}, 1, 0, nil, false},
		{"chunked", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", kept}, 1, 0, nil, false},
		{"more than the answer", []string{kept + "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nbad"}, 2, 0, nil, false},
		{"body not read", []string{kept, kept}, 2, 0, nil, true},
		{"cut in the middle of the second answer", []string{kept, "HTTP/1.1 200 OK\r\nContent-Le"}, 1, 2, publicnet.ErrBadAnswer, false},
		{"informational", []string{"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + kept, kept}, 1, 0, nil, false},
		{"too many informational", []string{strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 100)}, 1, 1, publicnet.ErrBadAnswer, false},
		{"large headers", []string{"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 70<<10) + "\r\n\r\n"}, 1, 1, publicnet.ErrTooLarge, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
				n.Handle("apps.example.com", raw(tt.answers...))
				for i := 1; i <= 2; i++ {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, appURL, nil)
					if err != nil {
						t.Fatal(err)
					}
					resp, err := c.Do(req)
					if i == tt.fails {
						if !errors.Is(err, tt.is) {
							t.Errorf("request %d: %v, want %v", i, err, tt.is)
						}
						break
					}
					if err != nil {
						t.Fatalf("request %d: %v", i, err)
					}
					if resp.TLS == nil || resp.Request == nil {
						t.Error("the response lacks its connection or request")
					}
					if i > 1 || !tt.first {
						body, err := io.ReadAll(resp.Body)
						if err != nil || len(body) != 0 && string(body) != "ok" {
							t.Errorf("request %d: %q, %v", i, body, err)
						}
					}
					resp.Body.Close()
					time.Sleep(time.Second)
				}
				if got := len(n.Dials()); got != tt.dials {
					t.Errorf("%d dials, want %d", got, tt.dials)
				}
			})
		})
	}
}

// A kept connection closes by itself after a while, and gives its place back
// after each request.
func TestIdleConnectionEnds(t *testing.T) {
	var places atomic.Int64
	opts := publicnet.Options{Acquire: func(context.Context, netip.Addr) (func(), error) {
		places.Add(1)
		return func() { places.Add(-1) }, nil
	}}
	inNet(t, "-- GET "+appURL+" --\nhello\n", opts, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		for i, wait := range []time.Duration{0, 80 * time.Second, 95 * time.Second} {
			time.Sleep(wait)
			if _, _, err := get(t, c, appURL); err != nil {
				t.Fatal(err)
			}
			if p := places.Load(); p != 0 {
				t.Errorf("%d places are held after request %d", p, i)
			}
		}
		if got := len(n.Dials()); got != 2 {
			t.Errorf("%d dials, want 2", got)
		}
	})
}

// Requests with a body go another way and keep the same rules.
func TestPosts(t *testing.T) {
	inNet(t, "-- POST https://apps.example.com/form --\nposted\n", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		for range 2 {
			resp, err := c.Post("https://apps.example.com/form", "text/plain", strings.NewReader("x"))
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "posted\n" {
				t.Errorf("%q, %v", body, err)
			}
			resp.Body.Close()
		}
		if got := len(n.Dials()); got != 1 {
			t.Errorf("%d dials, want 1", got)
		}
		if _, err := c.Post("https://127.0.0.1/", "text/plain", strings.NewReader("x")); err == nil {
			t.Error("an address inside was asked")
		}
	})
}

// Cancelling ends a request wherever it is.
func TestCancelled(t *testing.T) {
	for _, where := range []string{"connect", "headers", "body"} {
		t.Run(where, func(t *testing.T) {
			inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
				n.Handle("apps.example.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if where == "body" {
						fmt.Fprint(w, "some")
						w.(http.Flusher).Flush()
					}
					<-r.Context().Done()
				}))
				if where == "connect" {
					n.SetConnect("apps.example.com", "timeout")
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, appURL, nil)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				resp, err := c.Do(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
					t.Errorf("after %s: %v", time.Since(began), err)
				}
			})
		})
	}
}

// Limits.Large is asked once, for what an answer may come to, before it is
// read; waiting there does not count.
func TestLarge(t *testing.T) {
	refusal := errors.New("no room")
	chunked := func(n int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			fmt.Fprint(w, strings.Repeat("x", n))
		}
	}
	for _, tt := range []struct {
		name   string
		serve  http.HandlerFunc
		asked  int64 // 0: never
		answer error
	}{
		{"small", raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", publicnet.SmallBody, strings.Repeat("x", publicnet.SmallBody))), 0, refusal},
		{"small, length not announced", chunked(publicnet.SmallBody - 1), 0, refusal},
		{"announced", raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: 40000\r\n\r\n%s", strings.Repeat("x", 40000))), 40000, nil},
		{"not announced", chunked(40000), publicnet.DefaultMaxBytes, nil},
		{"gzip", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			fmt.Fprint(w, gzipString(strings.Repeat("x", 40000)))
		}, publicnet.DefaultMaxBytes, nil},
		{"refused", chunked(40000), publicnet.DefaultMaxBytes, refusal},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
				n.Handle("apps.example.com", tt.serve)
				var asked []int64
				ctx, spent := publicnet.WithLimits(t.Context(), publicnet.Limits{Large: func(_ context.Context, size int64) error {
					asked = append(asked, size)
					time.Sleep(time.Minute)
					return tt.answer
				}})
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, appURL, nil)
				if err != nil {
					t.Fatal(err)
				}
				resp, err := c.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				switch want := tt.answer; {
				case tt.asked == 0 && (err != nil || len(asked) != 0):
					t.Errorf("asked %d, %v", asked, err)
				case tt.asked != 0 && (len(asked) != 1 || asked[0] != tt.asked || !errors.Is(err, want)):
					t.Errorf("asked %d, want %d; %v", asked, tt.asked, err)
				case want == nil && len(body) < publicnet.SmallBody:
					t.Errorf("%d octets", len(body))
				}
				if spent() > 10*time.Second {
					t.Errorf("%s were counted", spent())
				}
			})
		})
	}
}
