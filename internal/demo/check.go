package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// page is what the demo reads of GET /v1/apps.
type page struct {
	Items []item `json:"items"`
}

type item struct {
	CardURL  string `json:"cardUrl"`
	Origin   string `json:"origin"`
	Title    string `json:"title"`
	State    string `json:"state"`
	Evidence struct {
		Kind    string `json:"kind"`
		Catalog string `json:"catalog"`
	} `json:"evidence"`
}

// search asks the index; an empty q lists all.
func (d *demo) search(ctx context.Context, q string) (*page, error) {
	address := d.index + "/v1/apps"
	if q != "" {
		address += "?q=" + url.QueryEscape(q)
	}
	status, _, body, err := get(ctx, http.DefaultClient, address, "")
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("GET %s: status %d: %s", address, status, body)
	}
	var p page
	if err := json.Unmarshal(body, &p); err != nil {
		return nil, fmt.Errorf("GET %s: %w", address, err)
	}
	return &p, nil
}

// get reads one small answer.
func get(ctx context.Context, c *http.Client, address, ifNoneMatch string) (int, http.Header, []byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, nil, nil, err
	}
	if ifNoneMatch != "" {
		r.Header.Set("If-None-Match", ifNoneMatch)
	}
	answer, err := c.Do(r)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return answer.StatusCode, answer.Header, body, err
}

// client reaches the demo's sites directly, as curl does with --connect-to.
func (d *demo) client() *http.Client {
	below := d.net.below()
	return &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: below.Roots, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			found, err := d.net.LookupNetIP(ctx, "ip", host)
			if err != nil {
				return nil, err
			}
			return d.net.dial(ctx, network, net.JoinHostPort(found[0].String(), port))
		},
	}}
}

// check asserts what a person would look at. All faults are reported.
func (d *demo) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	client := d.client()
	defer client.CloseIdleConnections()
	var faults []error
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"the catalog is served with its type", func() error { return d.checkCatalog(ctx, client) }},
		{"an unchanged card answers 304", func() error { return d.checkNotModified(ctx, client) }},
		{"search finds the calendar, with origin and evidence", func() error {
			return d.checkSearch(ctx, "calendar", "https://apps.example.com", "Example Calendar")
		}},
		{"search finds the notes app by a Chinese word", func() error {
			return d.checkSearch(ctx, "会议纪要", "https://notes.example.com", "团队笔记助手")
		}},
		{"the search page shows both apps", func() error { return d.checkPage(ctx) }},
		{"an MCP client calls a tool", func() error { return d.checkCall(ctx, client) }},
		{"the notes app leads who has not signed in to its authorization server", func() error { return d.checkChallenge(ctx, client) }},
		{"a user signs in, reads, agrees to more, writes, and signs out", func() error { return d.checkSignIn(ctx, client) }},
		{"the curl lines work as printed", func() error { return d.checkCurl(ctx) }},
	} {
		err := step.do()
		switch {
		case errors.Is(err, errSkipped):
			fmt.Fprintf(d.out, "skip  %s: %v\n", step.name, err)
		case err != nil:
			fmt.Fprintf(d.out, "FAIL  %s: %v\n", step.name, err)
			faults = append(faults, fmt.Errorf("%s: %w", step.name, err))
		default:
			fmt.Fprintf(d.out, "ok    %s\n", step.name)
		}
	}
	if len(faults) == 0 {
		fmt.Fprintln(d.out, "all answers are as they should be")
	}
	return errors.Join(faults...)
}

var errSkipped = errors.New("not possible here")

func (d *demo) checkCatalog(ctx context.Context, c *http.Client) error {
	status, header, body, err := get(ctx, c, "https://apps.example.com/.well-known/ai-catalog.json", "")
	if err != nil {
		return err
	}
	const cardURL = "https://apps.example.com/mcp/calendar/server-card"
	if status != http.StatusOK || header.Get("Content-Type") != "application/ai-catalog+json" || !strings.Contains(string(body), cardURL) {
		return fmt.Errorf("status %d, type %q, body %s", status, header.Get("Content-Type"), body)
	}
	return nil
}

func (d *demo) checkNotModified(ctx context.Context, c *http.Client) error {
	const cardURL = "https://notes.example.com/mcp/notes/server-card"
	status, header, _, err := get(ctx, c, cardURL, "")
	if err != nil {
		return err
	}
	if status != http.StatusOK || header.Get("ETag") == "" {
		return fmt.Errorf("first GET: status %d, ETag %q", status, header.Get("ETag"))
	}
	status, _, body, err := get(ctx, c, cardURL, header.Get("ETag"))
	if err != nil {
		return err
	}
	if status != http.StatusNotModified || len(body) != 0 {
		return fmt.Errorf("conditional GET: status %d, %d bytes", status, len(body))
	}
	return nil
}

func (d *demo) checkSearch(ctx context.Context, q, origin, title string) error {
	p, err := d.search(ctx, q)
	if err != nil {
		return err
	}
	if len(p.Items) == 0 {
		return fmt.Errorf("nothing found for %q", q)
	}
	got := p.Items[0]
	if got.Origin != origin || got.Title != title || got.State != "listed" ||
		got.Evidence.Kind != "well-known" || got.Evidence.Catalog != origin+"/.well-known/ai-catalog.json" {
		return fmt.Errorf("first result for %q is %+v", q, got)
	}
	return nil
}

func (d *demo) checkPage(ctx context.Context) error {
	status, _, body, err := get(ctx, http.DefaultClient, d.index+"/", "")
	if err != nil {
		return err
	}
	for _, want := range []string{"Example Calendar", "团队笔记助手", "notes.example.com"} {
		if status != http.StatusOK || !strings.Contains(string(body), want) {
			return fmt.Errorf("status %d, %q is not on the page", status, want)
		}
	}
	return nil
}

func (d *demo) checkCall(ctx context.Context, c *http.Client) error {
	client := mcp.NewClient(&mcp.Implementation{Name: "demo", Version: "1.0.0"}, nil)
	session, err := client.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: "https://apps.example.com/mcp/calendar", HTTPClient: c, DisableStandaloneSSE: true,
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err != nil {
		return err
	}
	defer func() { _ = session.Close() }()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: "find_events", Arguments: map[string]any{"word": "meeting"}})
	if err != nil {
		return err
	}
	answer, err := json.Marshal(result.StructuredContent)
	if err != nil {
		return err
	}
	if result.IsError || !strings.Contains(string(answer), "Team meeting") {
		return fmt.Errorf("find_events gave %s", answer)
	}
	return nil
}

// checkCurl runs the printed lines, if there is a shell and curl.
func (d *demo) checkCurl(ctx context.Context) error {
	for _, tool := range []string{"sh", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("%w: there is no %s", errSkipped, tool)
		}
	}
	wants := []string{"application/mcp-server-card+json", "Team meeting", "团队笔记助手", "resource_metadata=", `"authorization_servers"`}
	for i, line := range d.curlLines() {
		out, err := exec.CommandContext(ctx, "sh", "-c", line).Output() //nolint:gosec // our own line
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		if !strings.Contains(string(out), wants[i]) {
			return fmt.Errorf("%s printed %s", line, out)
		}
	}
	return nil
}
