package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/publicnet"
	"github.com/openbot-build/openbot-go/publisher"
)

// site is one publisher of the demo: a host name and what it serves.
type site struct {
	host   string
	config *publisher.Config
}

// sites are the two example apps, each on a domain of its own. Users of the notes
// app sign in; network reaches where.
func sites(network *publicnet.Network) []site {
	return []site{
		{host: "apps.example.com", config: &publisher.Config{
			Origin: "https://apps.example.com",
			Host:   &catalog.Host{DisplayName: "Example Apps"},
			Apps:   []publisher.App{calendar()},
		}},
		{host: "notes.example.com", config: &publisher.Config{
			Origin: "https://notes.example.com",
			Host:   &catalog.Host{DisplayName: "示例笔记"},
			Apps:   []publisher.App{notes(network)},
			Lang:   "zh",
		}},
	}
}

// event is one thing in the calendar.
type event struct {
	Title string `json:"title" jsonschema:"what it is"`
	Start string `json:"start" jsonschema:"date and time, RFC 3339"`
}

type findInput struct {
	Word string `json:"word,omitempty" jsonschema:"a word of the title; all events when empty"`
}

type findOutput struct {
	Events []event `json:"events"`
}

// calendar is the app of the protocol page: look schedules up, create events.
func calendar() publisher.App {
	var mu sync.Mutex
	events := []event{
		{Title: "Team meeting", Start: "2026-12-07T09:00:00Z"},
		{Title: "Dentist", Start: "2026-12-08T15:30:00Z"},
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "com.example/calendar", Title: "Example Calendar", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{
		Name: "find_events", Description: "List the events whose title holds a word.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, func(_ context.Context, _ *mcp.CallToolRequest, in findInput) (*mcp.CallToolResult, findOutput, error) {
		mu.Lock()
		defer mu.Unlock()
		out := findOutput{Events: []event{}}
		for _, e := range events {
			if strings.Contains(strings.ToLower(e.Title), strings.ToLower(in.Word)) {
				out.Events = append(out.Events, e)
			}
		}
		return text("%d events found", len(out.Events)), out, nil
	})
	mcp.AddTool(server, &mcp.Tool{
		Name: "create_event", Description: "Create an event. The same event twice is one event.",
	}, func(_ context.Context, _ *mcp.CallToolRequest, in event) (*mcp.CallToolResult, event, error) {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Contains(events, in) {
			events = append(events, in)
		}
		return text("created %q at %s", in.Title, in.Start), in, nil
	})
	return publisher.App{
		Slug: "calendar",
		Card: card.Card{
			Name: "com.example/calendar", Title: "Example Calendar", Version: "1.0.0",
			Description: "Look up schedules and create calendar events.",
			Meta: examples(card.Example{
				ID: "meeting-plan", Title: "Plan the next team meeting",
				Prompt:      "Find a free 30-minute slot next week and draft an agenda.",
				Description: "A sample week with one proposed meeting.",
			}),
		},
		Server:         server,
		AllowedOrigins: []string{"https://host.example.com"},
	}
}

type noteInput struct {
	Text string `json:"text" jsonschema:"笔记内容"`
}

type noteOutput struct {
	Number int `json:"number"`
}

// notes is an app whose words are Chinese, and that wants a sign-in.
func notes(network *publicnet.Network) publisher.App {
	var mu sync.Mutex
	kept := []string{"团队周会：每周一上午九点", "下周采购清单"}
	server := mcp.NewServer(&mcp.Implementation{Name: "com.example/notes", Title: "团队笔记助手", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{
		Name: "add_note", Description: "记下一条笔记。",
	}, func(_ context.Context, _ *mcp.CallToolRequest, in noteInput) (*mcp.CallToolResult, noteOutput, error) {
		mu.Lock()
		defer mu.Unlock()
		kept = append(kept, in.Text)
		return text("已记下第 %d 条笔记", len(kept)), noteOutput{Number: len(kept)}, nil
	})
	server.AddResource(&mcp.Resource{
		URI: "notes://all", Name: "all", Title: "全部笔记", Description: "每行一条笔记。", MIMEType: "text/plain",
	}, func(_ context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		mu.Lock()
		defer mu.Unlock()
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{
			URI: r.Params.URI, MIMEType: "text/plain", Text: strings.Join(kept, "\n"),
		}}}, nil
	})
	return publisher.App{
		Slug: "notes",
		Card: card.Card{
			Name: "com.example/notes", Title: "团队笔记助手", Version: "1.0.0",
			Description: "记录会议纪要，整理团队笔记，随时查找内容。",
			Meta: examples(card.Example{
				ID: "minutes", Title: "整理会议纪要", Prompt: "把今天的会议纪要整理成三条要点，记到团队笔记里。",
			}),
		},
		Server:     server,
		Protection: protectNotes(network),
	}
}

func text(format string, args ...any) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf(format, args...)}}}
}

// examples is the _meta of a card with a presentation block.
func examples(list ...card.Example) map[string]json.RawMessage {
	block, err := json.Marshal(card.Presentation{Version: "1", Examples: list})
	if err != nil {
		panic(err) // strings only
	}
	return map[string]json.RawMessage{card.PresentationKey: block}
}
