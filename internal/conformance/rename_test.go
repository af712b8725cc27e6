package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openbot-build/openbot-go/publicnet"
)

// Each text of the suite comes back as it was, octet for octet, and no two that
// differ become one.
func TestTranslation(t *testing.T) {
	net := newTranslator()
	defer net.close()
	seen := map[string]string{}
	for _, text := range []string{
		"", "http://localhost:8080", "http://localhost:8080/", "http://localhost:80801", "http://localhost:808", "http://LOCALHOST:8080",
		"https://localhost:8080", "http://localhost", "http://localhost:/", "http://127.0.0.1:8080/callback", "http%3A%2F%2Flocalhost%3A8080", "http%3a%2f%2flocalhost%3a8080",
		"http%3A%2F%2Flocalhost%3A8080%2F", `{"issuer":"http://localhost:1","x":"http://localhost:2/a"}`,
		`Bearer scope="a", resource_metadata="http://localhost:5/.well-known/oauth-protected-resource/mcp"`,
		"http://127.0.0.1:3/cb?code=a&iss=http%3A%2F%2Flocalhost%3A4&state=b", "http://localhost:08", "https://evil.example.com",
	} {
		there, err := net.toClient(text)
		if err != nil {
			t.Fatal(err)
		}
		back, err := toSuite(there)
		if err != nil || back != text {
			t.Errorf("%q, %q, %q: %v", text, there, back, err)
		}
		if other, ok := seen[there]; ok {
			t.Errorf("%q and %q both became %q", other, text, there)
		}
		seen[there] = text
	}
	if got, _ := net.toClient(`"http://localhost:80/x" http%3A%2F%2Flocalhost%3A80`); got != `"https://p80.mock.example.com/x" https%3A%2F%2Fp80.mock.example.com` {
		t.Error(got)
	}
	if _, err := net.toClient("https://p1.mock.example.com"); !errors.Is(err, errForeignName) {
		t.Error(err)
	}
	if _, err := toSuite("resource=http%3A%2F%2Flocalhost%3A80"); !errors.Is(err, errForeignName) {
		t.Error(err)
	}
}

// What passes through keeps its meaning, and only servers that the suite has
// named are there at all.
func TestTranslator(t *testing.T) {
	net := newTranslator()
	defer net.close()
	var address string
	mock := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch r.URL.Path {
		case "/events":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: {\"at\":%q}\n\n", address)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/foreign":
			fmt.Fprint(w, "https://p1.mock.example.com")
		default:
			w.Header().Set("X-Back", r.Header.Get("X-There"))
			w.Header().Set("Location", "http://127.0.0.1:9/cb?iss=http%3A%2F%2Flocalhost%3A9")
			fmt.Fprintf(w, "%s %s %s %s %s", r.Method, r.Host, r.URL.Path, r.URL.RawQuery, body)
		}
	}))
	defer mock.Close()
	port := mock.URL[strings.LastIndex(mock.URL, ":"):]
	address = "http://localhost" + port
	public, err := net.toClient(address)
	if err != nil {
		t.Fatal(err)
	}
	network, err := net.network()
	if err != nil {
		t.Fatal(err)
	}
	client := network.Client()
	defer client.CloseIdleConnections()

	there := "resource=" + strings.NewReplacer(":", "%3A", "/", "%2F").Replace(public+"/mcp")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, public+"/a%2Fb?"+there, strings.NewReader(there))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-There", public)
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	// The mock named itself once in Host, which is no address, and gave the rest
	// back as it came.
	if want := "POST localhost" + port + " /a/b " + there + " " + there; string(body) != want {
		t.Errorf("%s\nwant %s", body, want)
	}
	if got := answer.Header.Get("X-Back"); got != public {
		t.Error(got)
	}
	if got := answer.Header.Get("Location"); got != "http://127.0.0.1:9/cb?iss=https%3A%2F%2Fp9.mock.example.com" {
		t.Error(got)
	}

	// An event arrives while its stream is open.
	answer, err = get(t, client, public+"/events")
	if err != nil {
		t.Fatal(err)
	}
	event := make([]byte, 1<<10)
	n, err := answer.Body.Read(event)
	if want := fmt.Sprintf("data: {\"at\":%q}\n", public); err != nil || !strings.HasPrefix(string(event[:n]), want) {
		t.Errorf("%q, %v", event[:n], err)
	}
	_ = answer.Body.Close()

	if answer, err := get(t, client, public+"/foreign"); err == nil {
		if body, err := io.ReadAll(answer.Body); err == nil {
			t.Errorf("a name that nobody translated came through: %s", body)
		}
	}
	if _, err := get(t, client, "https://p1."+mockDomain); !errors.Is(err, publicnet.ErrDNS) {
		t.Errorf("a server that the suite did not name: %v", err)
	}
	if _, err := get(t, client, address); err == nil {
		t.Error("the suite's own name was reached")
	}
}

func get(t *testing.T, c *http.Client, address string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(r)
	if err == nil {
		t.Cleanup(func() { _ = answer.Body.Close() })
	}
	return answer, err
}
