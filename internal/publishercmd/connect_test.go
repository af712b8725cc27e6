package publishercmd

import (
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
)

// Whatever an upstream says of itself, a card can be made of it (OB-13).
func TestFilledCardIsValid(t *testing.T) {
	long := strings.Repeat("word ", 100)
	for _, tt := range []struct {
		impl                              mcp.Implementation
		instructions                      string
		name, title, version, description string
	}{
		{mcp.Implementation{Name: "com.acme/files", Version: "1.2.3", Description: "Files."}, "Ignored.", "com.acme/files", "", "1.2.3", "Files."},
		{mcp.Implementation{Name: "@acme/My Server!", Title: "My", Version: "^1"}, "Does this. And that.", "com.example/my-server", "My", "0.0.0", "Does this."},
		{mcp.Implementation{Name: "文件", Title: "文件服务"}, "# Heading\nText", "com.example/app", "文件服务", "0.0.0", "文件服务"},
		{mcp.Implementation{}, "", "com.example/app", "", "0.0.0", "An MCP server."},
		{mcp.Implementation{Name: "x\x1b[2J", Title: "a\nb\u202e", Version: "1"}, "", "com.example/x-2j", `a b\u202e`, "1", `a b\u202e`},
		{mcp.Implementation{Name: strings.Repeat("n", 300), Title: long, Version: strings.Repeat("1", 300)}, long, "com.example/" + strings.Repeat("n", 60), "", "0.0.0", ""},
	} {
		a := (&appConfig{}).filled(tt.impl, tt.instructions, "https://apps.example.com")
		c := card.Card{
			Schema: card.SchemaURL, Name: a.Name, Title: a.Title, Version: string(a.Version), Description: a.Description,
			Remotes: []card.Remote{{Type: "streamable-http", URL: "https://apps.example.com/mcp", Versions: []string{card.ProtocolVersion}}},
		}
		if err := card.Validate(&c); err != nil {
			t.Errorf("%q: %v", tt.impl.Name, err)
		}
		if a.Name != tt.name || string(a.Version) != tt.version || tt.title != "" && a.Title != tt.title || tt.description != "" && a.Description != tt.description {
			t.Errorf("%q: %q %q %q %q", tt.impl.Name, a.Name, a.Title, a.Version, a.Description)
		}
	}
	// What the file says stands.
	a := (&appConfig{Name: "org.me/x", Title: "T", Version: "9", Description: "D."}).filled(mcp.Implementation{Name: "a/b", Version: "1"}, "I.", "https://apps.example.com")
	if a.Name != "org.me/x" || a.Title != "T" || a.Version != "9" || a.Description != "D." {
		t.Errorf("%+v", a)
	}
}
