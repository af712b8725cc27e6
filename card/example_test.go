package card_test

import (
	"errors"
	"fmt"

	"github.com/openbot-build/openbot-go/card"
)

// A faulty card gives every fault with its place, and what it lacks to be a
// usable app.
func ExampleParse_invalid() {
	_, err := card.Parse([]byte(`{
		"$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
		"name": "calendar",
		"version": "1.x",
		"description": "",
		"remotes": [{"type": "streamable-http", "url": "https://{team}.example.com/mcp"}]
	}`))
	var faults card.Errors
	if errors.As(err, &faults) {
		for _, fault := range faults {
			fmt.Println(fault.Pointer)
		}
	}
	// Output:
	// /name
	// /version
	// /description
	// /remotes
	// /remotes/0/url
	// /remotes/0/supportedProtocolVersions
}

func ExampleParse() {
	c, err := card.Parse([]byte(`{
		"$schema": "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json",
		"name": "com.example/calendar",
		"version": "1.0.0",
		"description": "Finds free slots and writes events.",
		"remotes": [{
			"type": "streamable-http",
			"url": "https://apps.example.com/mcp",
			"supportedProtocolVersions": ["2026-07-28"]
		}]
	}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	remote, _, err := c.Usable()
	fmt.Println(c.Name, remote.URL, err)
	// Output: com.example/calendar https://apps.example.com/mcp <nil>
}

// What is not faulty may still deserve advice.
func ExampleFindings() {
	c := &card.Card{
		Name:  "com.example/calendar",
		Title: "Calendar",
		Remotes: []card.Remote{{
			Type: "streamable-http", URL: "https://apps.example.com/{team}/mcp",
			Headers: []card.Header{{Name: "Authorization"}},
		}},
	}
	for _, f := range card.Findings(c) {
		fmt.Println(f)
	}
	// Output:
	// /remotes/0/url: uses {team}, which no variables declare; declare it, or hosts cannot fill it
	// /remotes/0/headers/0/name: is "Authorization", a header that a card may not set; hosts leave it out
}
