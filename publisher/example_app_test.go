package publisher_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/publisher"
)

var exampleCard = card.Card{Name: "com.example/calendar", Title: "Calendar", Version: "1.0.0", Description: "Find free time."}

// exampleServer is a server to add things to.
func exampleServer() *mcp.Server {
	server, err := publisher.NewServer(&exampleCard, nil)
	if err != nil {
		panic(err)
	}
	return server
}

// exampleClient is a host, here in the same process. It says yes to questions.
func exampleClient(server *mcp.Server) *mcp.ClientSession {
	ctx := context.Background()
	near, far := mcp.NewInMemoryTransports()
	if _, err := server.Connect(ctx, far, nil); err != nil {
		panic(err)
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			fmt.Println("asked:", r.Params.Message)
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"sure": true}}, nil
		},
	})
	session, err := client.Connect(ctx, near, nil)
	if err != nil {
		panic(err)
	}
	return session
}

// show calls a tool and prints the text and the value of its answer.
func show(session *mcp.ClientSession, tool string, args any) {
	res, err := session.CallTool(context.Background(), &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Content[0].(*mcp.TextContent).Text)
	if res.StructuredContent != nil {
		fmt.Println(res.StructuredContent)
	}
}

type freeInput struct {
	Week string `json:"week" jsonschema:"ISO week, for instance 2026-W48"`
}

type freeOutput struct {
	Slots []string `json:"slots"`
}

func findFree(context.Context, *mcp.CallToolRequest, freeInput) (*mcp.CallToolResult, freeOutput, error) {
	return nil, freeOutput{Slots: []string{"Mon 10:00", "Tue 14:00"}}, nil
}

// A tool is a Go function. Its answer has a text beside the value, made from the
// value unless the handler gives one.
func ExampleAddTool() {
	server := exampleServer()
	err := publisher.AddTool(server, &mcp.Tool{Name: "find_free_time", Description: "Find free time in a week."}, findFree)
	if err != nil {
		fmt.Println(err)
		return
	}
	host := exampleClient(server)
	defer host.Close()
	show(host, "find_free_time", map[string]any{"week": "2026-W48"})
	show(host, "find_free_time", map[string]any{"week": 48})
	// Output:
	// slots:
	//   - Mon 10:00
	//   - Tue 14:00
	// map[slots:[Mon 10:00 Tue 14:00]]
	// the arguments do not fit: validating root: validating /properties/week: type: 48 has type "integer", want "string"
}

// What hosts could not use is an error at start, which says what to do.
func ExampleAddTool_faults() {
	fmt.Println(publisher.AddTool(exampleServer(), &mcp.Tool{
		Name: "find free time",
		Meta: mcp.Meta{"ui": map[string]any{"resourceUri": "week.html", "visibility": []string{"user"}}},
	}, findFree))
	// Output:
	// add tool "find free time": name it with letters, digits, '_', '.' and '-', at most 128
	// add tool "find free time": has no description; say what it does
	// add tool "find free time": _meta.ui.visibility [user]: list "model", "app" or both
	// add tool "find free time": "week.html" is no address of a view: write ui://, a name of your app and a path
}

// The server and its card say the same.
func ExampleNewServer() {
	c := card.Card{Name: "com.example/calendar", Title: "Calendar", Version: "1.0.0", Description: "Find free time."}
	server, err := publisher.NewServer(&c, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := publisher.AddTool(server, &mcp.Tool{Name: "find_free_time", Description: "Find free time in a week."}, findFree); err != nil {
		fmt.Println(err)
		return
	}
	_, err = publisher.New(&publisher.Config{
		Origin: "https://apps.example.com",
		Apps:   []publisher.App{{Slug: "calendar", Card: c, Server: server}},
	})
	fmt.Println(err)
	// Output: <nil>
}

type sureInput struct {
	Sure bool `json:"sure" jsonschema:"Yes, cancel it"`
}

// A handler asks in one line. It runs again once the answer is there.
func ExampleAsk() {
	asker, err := publisher.NewAsker(nil) // or with Keys, for several processes
	if err != nil {
		fmt.Println(err)
		return
	}
	server := exampleServer()
	err = publisher.AddTool(server, &mcp.Tool{Name: "cancel", Description: "Cancel a meeting."},
		func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			answer, err := publisher.Ask[sureInput](ctx, asker, r, "sure", "Cancel the meeting at 10:00?")
			if err != nil {
				return nil, nil, err
			}
			if !answer.Sure {
				return publisher.Text("It takes place."), nil, nil
			}
			return publisher.Text("It is cancelled."), nil, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	host := exampleClient(server)
	defer host.Close()
	show(host, "cancel", nil)
	// Output:
	// asked: Cancel the meeting at 10:00?
	// It is cancelled.
}

type bookInput struct {
	Slot string `json:"slot"`
	Key  string `json:"key" jsonschema:"a new UUID for each booking; the same one when a call is repeated"`
}

// A host that does not know whether its call arrived repeats it with the same
// key, and nothing is booked twice.
func ExampleOnce() {
	store := &publisher.MemoryStore{}
	booked := 0
	server := exampleServer()
	err := publisher.AddTool(server, &mcp.Tool{Name: "book", Description: "Book a slot."},
		func(ctx context.Context, r *mcp.CallToolRequest, in bookInput) (*mcp.CallToolResult, any, error) {
			number, err := publisher.Once(ctx, store, r, in.Key, func(context.Context) (int, error) {
				booked++
				return booked, nil
			})
			if err != nil {
				return nil, nil, err
			}
			return publisher.Text(fmt.Sprintf("Booking %d: %s", number, in.Slot)), nil, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	host := exampleClient(server)
	defer host.Close()
	show(host, "book", bookInput{Slot: "Mon 10:00", Key: "4f6e"})
	show(host, "book", bookInput{Slot: "Mon 10:00", Key: "4f6e"})
	show(host, "book", bookInput{Slot: "Tue 14:00", Key: "4f6e"})
	// Output:
	// Booking 1: Mon 10:00
	// Booking 1: Mon 10:00
	// this idempotency key was used with other arguments; take a new one for a new write
}

// A template serves many resources; what is not there is said by fs.ErrNotExist.
func ExampleAddResource() {
	rooms := map[string]string{"calendar://room/blue": "12 seats"}
	server := exampleServer()
	err := publisher.AddResource(server, &mcp.Resource{URI: "calendar://room/{name}", Name: "room", Description: "A meeting room."},
		func(_ context.Context, r *mcp.ReadResourceRequest) (string, error) {
			text, ok := rooms[r.Params.URI]
			if !ok {
				return "", fs.ErrNotExist
			}
			return text, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	host := exampleClient(server)
	defer host.Close()
	for _, uri := range []string{"calendar://room/blue", "calendar://room/red"} {
		res, err := host.ReadResource(context.Background(), &mcp.ReadResourceParams{URI: uri})
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(res.Contents[0].Text, res.Contents[0].MIMEType)
	}
	// Output:
	// 12 seats text/plain
	// calling "resources/read": Resource not found
}

// A view shows what a tool answers. It reaches the network only where it says.
func ExampleAddView() {
	week := &publisher.View{
		URI: "ui://calendar/week.html", Name: "week",
		HTML:           "<!doctype html><title>Week</title> ...",
		ConnectDomains: []string{"https://api.example.com"},
	}
	server := exampleServer()
	fmt.Println(errors.Join(
		publisher.AddView(server, week),
		publisher.AddTool(server, &mcp.Tool{Name: "find_free_time", Description: "Find free time in a week.", Meta: week.Meta()}, findFree),
	))
	week.ConnectDomains = append(week.ConnectDomains, "*")
	fmt.Println(publisher.AddView(server, week))
	// Output:
	// <nil>
	// add view "ui://calendar/week.html": connectDomains: hosts refuse "*"; write https://host or https://*.host, without a path
}

// A prompt is a function from Go strings to a text.
func ExampleAddPrompt() {
	server := exampleServer()
	err := publisher.AddPrompt(server, &mcp.Prompt{Name: "agenda", Description: "Draft an agenda."},
		func(_ context.Context, _ *mcp.GetPromptRequest, in struct {
			Topic string `json:"topic" jsonschema:"what the meeting is about"`
		},
		) (string, error) {
			return "Draft an agenda for a meeting about " + in.Topic + ".", nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	host := exampleClient(server)
	defer host.Close()
	res, err := host.GetPrompt(context.Background(), &mcp.GetPromptParams{Name: "agenda", Arguments: map[string]string{"topic": "tea"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(res.Messages[0].Content.(*mcp.TextContent).Text)
	// Output: Draft an agenda for a meeting about tea.
}

// Report as often as you like: callers that did not ask get nothing, others at
// most ten notifications a second.
func ExampleProgress() {
	server := exampleServer()
	err := publisher.AddTool(server, &mcp.Tool{Name: "sync", Description: "Fetch all calendars."},
		func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			report := publisher.Progress(r)
			calendars := []string{"work", "home", "school"}
			for i, name := range calendars {
				report(ctx, float64(i), float64(len(calendars)), "fetching "+name)
				if err := wait(ctx, time.Millisecond); err != nil { // the caller went away
					return nil, nil, err
				}
			}
			return publisher.Text("All calendars are here."), nil, nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	host := exampleClient(server)
	defer host.Close()
	show(host, "sync", nil)
	// Output: All calendars are here.
}

// wait stands for work that takes time.
func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
