package catalog_test

import (
	"fmt"
	"os"

	"github.com/openbot-build/openbot-go/catalog"
)

func ExampleBuild() {
	data, err := catalog.Build(&catalog.Host{DisplayName: "Example Apps"}, []catalog.Item{{
		Identifier:  "urn:air:apps.example.com:mcp:calendar",
		DisplayName: "Example Calendar",
		URL:         "https://apps.example.com/mcp/calendar/server-card",
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	os.Stdout.Write(data)
	// Output:
	// {
	//   "specVersion": "1.0",
	//   "host": {
	//     "displayName": "Example Apps"
	//   },
	//   "entries": [
	//     {
	//       "identifier": "urn:air:apps.example.com:mcp:calendar",
	//       "displayName": "Example Calendar",
	//       "type": "application/mcp-server-card+json",
	//       "url": "https://apps.example.com/mcp/calendar/server-card"
	//     }
	//   ]
	// }
}

// An entry that cannot be used costs only itself.
func ExampleParse() {
	c, err := catalog.Parse([]byte(`{
		"specVersion": "1.0",
		"entries": [
			{"identifier": "urn:air:apps.example.com:mcp:old", "mediaType": "application/mcp-server-card+json", "url": "/old"},
			{"identifier": "urn:air:apps.example.com:mcp:new", "type": "application/mcp-server-card+json", "url": "/new"}
		]
	}`), "https://apps.example.com/.well-known/ai-catalog.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	for e := range c.Cards() {
		fmt.Println(e.URL)
	}
	for _, s := range c.Skipped {
		fmt.Println(s.Reason, "-", s.Detail)
	}
	// Output:
	// https://apps.example.com/new
	// old_media_type - entry 0 has the member mediaType of an older draft; rename it to type
}

func ExampleHeaderLinks() {
	fmt.Println(catalog.HeaderLinks(
		[]string{`</style.css>; rel=preload, <catalog.json>; rel="ai-catalog"`},
		"https://apps.example.com/apps/calendar"))
	// Output: [https://apps.example.com/apps/catalog.json]
}
