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
	for _, line := range d.curlLines() {
		fmt.Fprintf(d.out, "    %s\n\n", line)
	}
	fmt.Fprintf(d.out, "See how an app came into the index:\n\n    go run ./cmd/crawler why --db %s apps.example.com\n\n",
		filepath.Join(d.dir, "index.db"))
	fmt.Fprint(d.out, "Press Ctrl-C to stop.\n")
}

// curlLines are three requests that work as printed while the demo runs: the
// catalog, a tool call, a search.
func (d *demo) curlLines() []string {
	reach := fmt.Sprintf("curl -sSw '\\n' --cacert %s --connect-to apps.example.com:443:%s", d.caFile(), d.listener("apps.example.com"))
	return []string{
		reach + " https://apps.example.com/.well-known/ai-catalog.json",
		reach + " https://apps.example.com/mcp/calendar" +
			" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream'" +
			" -H 'MCP-Protocol-Version: 2026-07-28' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: find_events'" +
			` -d '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find_events","arguments":{},` +
			`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'`,
		fmt.Sprintf("curl -sSw '\\n' -G %s/v1/apps --data-urlencode 'q=笔记'", d.index),
	}
}

// listener is the loopback address behind a host's name.
func (d *demo) listener(host string) string {
	return d.net.ports[netip.AddrPortFrom(d.net.addrs[host], 443).String()]
}
