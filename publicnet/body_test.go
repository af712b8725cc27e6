package publicnet_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

func gzipString(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	w.Close() // a buffer takes everything
	return b.String()
}

func gzipAnswer(body string) fakenet.Answer {
	return fakenet.Answer{Header: http.Header{"Content-Encoding": {"gzip"}}, Body: body}
}

// Crawler G8, OB-153, FO-11, D12: ten seconds from before the lookup to the
// last octet, over all hops.
func TestRule_CrawlerG8_TenSecondsInAll(t *testing.T) { testTime(t) }
func TestRule_OB153_TotalTime(t *testing.T)           { testTime(t) }
func TestRule_FO11_SlowBody(t *testing.T)             { testTime(t) }
func TestRule_OBT13_Slow(t *testing.T)                { testTime(t) }

func testTime(t *testing.T) {
	inNet(t, `
-- GET https://hops.example.com/ --
302 https://apps.example.com/
wait 6s
-- GET https://apps.example.com/ --
200
wait 6s

late
-- GET https://slow.example.com/ --
200
slow

one octet a second
-- GET https://silent.example.com/ --
timeout
-- DNS dns.example.com --
timeout
-- CONNECT connect.example.com --
timeout
`, publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		for _, host := range []string{"hops", "slow", "silent", "dns", "connect"} {
			begin := time.Now()
			_, _, err := get(t, c, "https://"+host+".example.com/")
			if !errors.Is(err, publicnet.ErrTimeout) || time.Since(begin) != 10*time.Second {
				t.Errorf("%s: %v after %s", host, err, time.Since(begin))
			}
		}
		if _, body, err := get(t, c, appURL); err != nil || body != "late\n" {
			t.Errorf("six seconds: %q, %v", body, err)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "GET", appURL, nil)
		if _, err := c.Do(req); !errors.Is(err, publicnet.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's deadline: %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := c.Do(req.WithContext(ctx)); !errors.Is(err, context.Canceled) || errors.Is(err, publicnet.ErrTimeout) {
			t.Errorf("the caller's cancel: %v", err)
		}
	})
}

func TestWithLimits(t *testing.T) {
	inNet(t, `
-- GET https://apps.example.com/ --
200
wait 4s

0123456789
`, publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		ctx, spent := publicnet.WithLimits(t.Context(), publicnet.Limits{MaxBytes: 4, Timeout: 11 * time.Second, Truncate: true})
		ask := func() (string, error) {
			req, err := http.NewRequestWithContext(ctx, "GET", appURL, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := c.Do(req)
			if err != nil {
				return "", err
			}
			defer resp.Body.Close()
			data, err := io.ReadAll(resp.Body)
			return string(data), err
		}
		for i := range 2 {
			if body, err := ask(); body != "0123" || !errors.Is(err, publicnet.ErrTooLarge) {
				t.Errorf("%d: %q, %v", i, body, err)
			}
			time.Sleep(time.Hour) // between requests the clock stands still
		}
		if spent() != 8*time.Second {
			t.Errorf("spent %s", spent())
		}
		if _, err := ask(); !errors.Is(err, publicnet.ErrTimeout) || spent() != 11*time.Second {
			t.Errorf("third: %v after %s", err, spent())
		}
		if _, err := ask(); !errors.Is(err, publicnet.ErrTimeout) {
			t.Errorf("with no time left: %v", err)
		}
	})
}

// Crawler G7, OB-153, FO-11, OB-T13, documents R5, D12: the limit counts
// decoded octets, announced or not, and the bytes on the wire.
func TestRule_CrawlerG7_BodyLimits(t *testing.T) { testBodyLimits(t) }
func TestRule_OB153_DecodedBytes(t *testing.T)   { testBodyLimits(t) }
func TestRule_FO11_DecodedBytes(t *testing.T)    { testBodyLimits(t) }
func TestRule_OBT13_Oversize(t *testing.T)       { testBodyLimits(t) }
func TestRule_DocumentsR5_Limits(t *testing.T)   { testBodyLimits(t) }
func TestRule_OB150_SizeLimit(t *testing.T)      { testBodyLimits(t) }

// bigBodies are compressed once: it is the slowest part of these tests.
var bigBodies = sync.OnceValue(func() map[string]string {
	full := strings.Repeat("x", publicnet.DefaultMaxBytes)
	return map[string]string{
		"full-gzip": gzipString(full),
		"over-gzip": gzipString(full + "x"),
		"bomb":      gzipString(strings.Repeat("\x00", 10<<20)),
	}
})

func testBodyLimits(t *testing.T) {
	full := strings.Repeat("x", publicnet.DefaultMaxBytes)
	chunked := func(s string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(200)
			http.NewResponseController(w).Flush()
			io.WriteString(w, s)
		})
	}
	inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		n.Set("https://full.example.com/", fakenet.Answer{Body: full})
		n.Set("https://over.example.com/", fakenet.Answer{Body: full + "x"})
		n.Handle("full-chunked.example.com", chunked(full))
		n.Handle("over-chunked.example.com", chunked(full+"x"))
		for name, body := range bigBodies() {
			n.Set("https://"+name+".example.com/", gzipAnswer(body))
		}
		n.Set("https://wire.example.com/", gzipAnswer(strings.Repeat("\x1f\x8b", 1<<20)))
		for host, ok := range map[string]bool{
			"full": true, "full-chunked": true, "full-gzip": true, "over": false, "over-chunked": false, "over-gzip": false, "bomb": false, "wire": false,
		} {
			resp, body, err := get(t, c, "https://"+host+".example.com/")
			if ok && (err != nil || body != full) || !ok && !errors.Is(err, publicnet.ErrTooLarge) {
				t.Errorf("%s: %d octets, %v", host, len(body), err)
			}
			if host == "full-gzip" && (resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("Content-Length") != "" || !resp.Uncompressed) {
				t.Errorf("a decoded answer has headers %v", resp.Header)
			}
		}
	})
}

// Crawler G7, documents R5: only what was offered, whole and alone.
func TestRule_CrawlerG7_Encodings(t *testing.T)  { testEncodings(t) }
func TestRule_DocumentsR5_OnlyGzip(t *testing.T) { testEncodings(t) }

func testEncodings(t *testing.T) {
	plain := gzipString("hello")
	answer := func(encoding, body string) fakenet.Answer {
		return fakenet.Answer{Header: http.Header{"Content-Encoding": {encoding}}, Body: body}
	}
	inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		for i, tt := range []struct {
			answer fakenet.Answer
			accept string
			ok     bool
		}{
			{answer("gzip", plain), "", true},
			{answer("X-GZIP", plain), "", true},
			{answer("identity", "hello"), "", true},
			{answer("gzip", plain), "gzip, br", true},
			{answer("identity", "hello"), "identity", true},
			{answer("gzip", plain), "identity", false},
			{answer("br", "hello"), "", false},
			{answer("br", "hello"), "br", false},
			{answer("deflate", "hello"), "", false},
			{answer("gzip, gzip", plain), "", false},
			{answer("gzip", plain+"x"), "", false},
			{answer("gzip", plain+plain), "", false},
			{answer("gzip", plain[:len(plain)-3]), "", false},
			{answer("gzip", plain[:4]), "", false},
			{answer("gzip", "hello, not gzip"), "", false},
			{answer("gzip", plain[:len(plain)-6]+"xxxxxx"), "", false},
			{fakenet.Answer{Header: http.Header{"Content-Encoding": {"gzip"}}, Body: plain, Fault: fakenet.Cut}, "", false},
		} {
			n.Set(appURL, tt.answer)
			req, err := http.NewRequestWithContext(t.Context(), "GET", appURL, nil)
			if err != nil {
				t.Fatal(err)
			}
			if tt.accept != "" {
				req.Header.Set("Accept-Encoding", tt.accept)
			}
			var body []byte
			resp, err := c.Do(req)
			if err == nil {
				body, err = io.ReadAll(resp.Body)
				if _, again := resp.Body.Read(make([]byte, 1)); again == nil {
					t.Errorf("%d: a read after the end gave no error", i)
				}
				resp.Body.Close()
			}
			if tt.ok && (err != nil || string(body) != "hello") || !tt.ok && !errors.Is(err, publicnet.ErrBadAnswer) {
				t.Errorf("%d: %q, %v", i, body, err)
			}
		}
		n.Set(appURL, answer("gzip", ""))
		if _, body, err := get(t, c, appURL); err != nil || body != "" {
			t.Errorf("an empty body: %q, %v", body, err)
		}
		n.Set(appURL, answer("br", "hello"))
		if resp, err := c.Head(appURL); err != nil || resp.StatusCode != 200 {
			t.Errorf("HEAD: %v", err)
		}
	})
}

// Crawler G7: parts and 304 are answers only to who asked for them.
func TestRule_CrawlerG7_UnaskedStatus(t *testing.T) {
	inNet(t, "", publicnet.Options{}, func(t *testing.T, n *fakenet.Net, c *http.Client) {
		for status, header := range map[int]string{206: "Range", 304: "If-None-Match"} {
			n.Set(appURL, fakenet.Answer{Status: status})
			if _, _, err := get(t, c, appURL); !errors.Is(err, publicnet.ErrBadAnswer) {
				t.Errorf("%d: %v", status, err)
			}
			req, _ := http.NewRequestWithContext(t.Context(), "GET", appURL, nil)
			req.Header.Set(header, `"1"`)
			resp, err := c.Do(req)
			if err != nil || resp.StatusCode != status {
				t.Errorf("%d that was asked for: %v", status, err)
				continue
			}
			resp.Body.Close()
		}
	})
}
