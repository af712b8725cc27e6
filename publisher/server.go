package publisher

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// toolName is what every host takes as a tool's name.
var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

// checkTime bounds the look at a server's lists; they are in memory.
const checkTime = 5 * time.Second

// checkServer refuses what hosts could not use, before anybody meets it: a tool
// or prompt without a description, a tool name or an address of another form
// (mcp section 4). The SDK keeps the lists to itself, so the server is asked
// over a connection in memory, by revision 2026-07-28, which opens no session.
// A server that does not show its lists to strangers is not judged.
func checkServer(s *mcp.Server) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	near, far := mcp.NewInMemoryTransports()
	served, err := s.Connect(ctx, far, nil)
	if err != nil {
		return fmt.Errorf("look at the server: %w", err)
	}
	defer served.Close()
	client := mcp.NewClient(&mcp.Implementation{Name: "publisher", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	session, err := client.Connect(ctx, near, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	if err != nil {
		return fmt.Errorf("the server does not speak MCP 2026-07-28: %w", err)
	}
	defer session.Close()

	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	for tool := range shown(session.Tools(ctx, nil)) {
		if !toolName.MatchString(tool.Name) {
			fault("tool %q: name it with letters, digits, '_', '.' and '-', at most 128", tool.Name)
		}
		if tool.Description == "" {
			fault("tool %q: has no description; say what it does", tool.Name)
		}
	}
	for prompt := range shown(session.Prompts(ctx, nil)) {
		if prompt.Description == "" {
			fault("prompt %q: has no description; say what it is for", prompt.Name)
		}
	}
	for resource := range shown(session.Resources(ctx, nil)) {
		if !isASCII(resource.URI) {
			fault("resource %q: percent-encode what is not ASCII in its URI", resource.URI)
		}
	}
	for template := range shown(session.ResourceTemplates(ctx, nil)) {
		if !isASCII(template.URITemplate) {
			fault("resource template %q: percent-encode what is not ASCII in it", template.URITemplate)
		}
	}
	return errors.Join(faults...)
}

// shown gives the items of a list up to its first error: a capability that is
// not there, or a list that is not for strangers.
func shown[T any](list iter.Seq2[T, error]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for item, err := range list {
			if err != nil || !yield(item) {
				return
			}
		}
	}
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
