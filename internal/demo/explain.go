package main

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
)

// explain prints what there is to look at.
func (d *demo) explain() {
	fmt.Fprintf(d.out, `
Both apps are in the index. Open the search page:

    %s/

Its links lead to names of example.com, which exist in this demo only; the apps'
own pages are here:

    %s

Ask by hand:

`, d.index, strings.Join(d.pages, "\n    "))
	lines := d.curlLines()
	for _, line := range lines[:3] {
		fmt.Fprintf(d.out, "    %s\n\n", line)
	}
	fmt.Fprintf(d.out, `Users of the notes app sign in. A call without a token gets a challenge (401,
WWW-Authenticate), and that leads to the metadata which names the authorization
server. A host follows it, asks its user, and calls again with a token; the demo
does so with -check. Its server, https://%s, is for tests only.

`, signInHost)
	for _, line := range lines[3:] {
		fmt.Fprintf(d.out, "    %s\n\n", line)
	}
	fmt.Fprintf(d.out, "See how an app came into the index:\n\n    go run ./cmd/crawler why --db %s apps.example.com\n\n",
		filepath.Join(d.dir, "index.db"))
	fmt.Fprint(d.out, "Press Ctrl-C to stop.\n")
}

// curlLines are requests that work as printed while the demo runs: the catalog, a
// tool call, a search, and for the app with a sign-in its challenge and metadata.
func (d *demo) curlLines() []string {
	to := func(host string) string {
		return fmt.Sprintf("curl -sSw '\\n' --cacert %s --connect-to %s:443:%s", d.caFile(), host, d.listener(host))
	}
	reach, notes := to("apps.example.com"), to("notes.example.com")
	return []string{
		reach + " https://apps.example.com/.well-known/ai-catalog.json",
		reach + " https://apps.example.com/mcp/calendar" +
			" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream'" +
			" -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: find_events'" +
			` -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find_events","arguments":{},` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'`,
		fmt.Sprintf("curl -sSw '\\n' -G %s/v1/apps --data-urlencode 'q=笔记'", d.index),
		notes + " -i " + notesEndpoint + " -H 'Content-Type: application/json' -d '{}'",
		notes + " https://notes.example.com/.well-known/oauth-protected-resource/mcp/notes",
	}
}

// listener is the loopback address behind a host's name.
func (d *demo) listener(host string) string {
	return d.net.ports[netip.AddrPortFrom(d.net.addrs[host], 443).String()]
}
