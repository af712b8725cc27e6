package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
)

// notebooks is the app: one notebook for each user. Nobody signs in to this
// example as it stands, so all callers are the one user "". Put
// auth.RequireBearerToken of the SDK around the handler, and each user has a
// notebook of their own: whose it is is decided here, from the token, and never
// from an argument.
type notebooks struct {
	asker *publisher.Asker
	once  publisher.OnceStore

	mu     sync.Mutex
	byUser map[string]*notebook
}

type notebook struct {
	last  int
	notes []note // oldest first
}

type note struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// list is what tools answer with. Its String is the text beside the value.
type list struct {
	Notes []note `json:"notes"`
}

func (l list) String() string {
	if len(l.Notes) == 0 {
		return "No notes."
	}
	var lines []string
	for _, n := range l.Notes {
		lines = append(lines, n.ID+": "+n.Text)
	}
	return strings.Join(lines, "\n")
}

//go:embed view.html
var viewHTML string

// register adds all that the app offers to a server.
func (n *notebooks) register(s *mcp.Server) error {
	view := &publisher.View{URI: "ui://notes/list.html", Name: "list", Title: "Notes", HTML: viewHTML}
	yes := true
	return errors.Join(
		publisher.AddView(s, view),
		publisher.AddTool(s, &mcp.Tool{
			Name: "find_notes", Title: "Find notes", Meta: view.Meta(),
			Description: "List the user's notes, all of them or those that contain a text.",
			Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
		}, n.find),
		publisher.AddTool(s, &mcp.Tool{
			Name: "add_notes", Title: "Add notes", Meta: view.Meta(),
			Description: "Add one or more notes. Repeat a call whose outcome is unknown with the same key.",
			Annotations: &mcp.ToolAnnotations{DestructiveHint: new(bool), IdempotentHint: true},
		}, n.add),
		publisher.AddTool(s, &mcp.Tool{
			Name: "delete_notes", Title: "Delete notes",
			Description: "Delete notes for good, after asking the user.",
			Annotations: &mcp.ToolAnnotations{DestructiveHint: &yes},
		}, n.delete),
		publisher.AddResource(s, &mcp.Resource{
			URI: "notes://note/{id}", Name: "note", Description: "The text of one note.",
		}, n.read),
		publisher.AddPrompt(s, &mcp.Prompt{
			Name: "summarize", Description: "Summarize the user's notes.",
		}, summarize),
	)
}

type findInput struct {
	Text string `json:"text,omitempty" jsonschema:"what the notes contain; all notes without it"`
}

func (n *notebooks) find(_ context.Context, r *mcp.CallToolRequest, in findInput) (*mcp.CallToolResult, list, error) {
	return nil, list{Notes: n.search(publisher.User(r), in.Text)}, nil
}

type addInput struct {
	Texts []string `json:"texts" jsonschema:"the notes, one text each"`
	Key   string   `json:"key" jsonschema:"a new UUID for each call; the same one when a call is repeated"`
}

func (n *notebooks) add(ctx context.Context, r *mcp.CallToolRequest, in addInput) (*mcp.CallToolResult, list, error) {
	if slices.Contains(in.Texts, "") {
		return nil, list{}, errors.New("a note needs a text")
	}
	report := publisher.Progress(r)
	added, err := publisher.Once(ctx, n.once, r, in.Key, func(ctx context.Context) (list, error) {
		var added list
		for i, text := range in.Texts {
			added.Notes = append(added.Notes, n.write(publisher.User(r), text))
			report(ctx, float64(i+1), float64(len(in.Texts)), "added "+text)
		}
		return added, nil
	})
	if err != nil {
		return nil, list{}, err
	}
	return publisher.Text(fmt.Sprintf("Added %d notes.", len(added.Notes))), added, nil
}

type deleteInput struct {
	IDs []string `json:"ids" jsonschema:"of the notes to delete"`
}

type deleteOutput struct {
	Deleted []string `json:"deleted"`
}

type confirmation struct {
	Sure bool `json:"sure" jsonschema:"Yes, delete them"`
}

func (n *notebooks) delete(ctx context.Context, r *mcp.CallToolRequest, in deleteInput) (*mcp.CallToolResult, deleteOutput, error) {
	answer, err := publisher.Ask[confirmation](ctx, n.asker, r, "sure",
		fmt.Sprintf("Delete %d notes (%s)? They cannot be brought back.", len(in.IDs), strings.Join(in.IDs, ", ")))
	if err != nil {
		return nil, deleteOutput{}, err
	}
	if !answer.Sure {
		return publisher.Text("Nothing was deleted."), deleteOutput{Deleted: []string{}}, nil
	}
	deleted := n.remove(publisher.User(r), in.IDs)
	return publisher.Text(fmt.Sprintf("Deleted %d notes.", len(deleted))), deleteOutput{Deleted: deleted}, nil
}

func (n *notebooks) read(_ context.Context, r *mcp.ReadResourceRequest) (string, error) {
	id := strings.TrimPrefix(r.Params.URI, "notes://note/")
	for _, note := range n.search(publisher.User(r), "") {
		if note.ID == id {
			return note.Text, nil
		}
	}
	return "", fs.ErrNotExist
}

type summarizeInput struct {
	Topic string `json:"topic,omitempty" jsonschema:"what the summary is about"`
}

func summarize(_ context.Context, _ *mcp.GetPromptRequest, in summarizeInput) (string, error) {
	if in.Topic == "" {
		return "Read my notes with find_notes and summarize them in five sentences.", nil
	}
	return "Read my notes with find_notes and summarize in five sentences what they say about " + in.Topic + ".", nil
}

// search gives a user's notes that contain text.
func (n *notebooks) search(user, text string) []note {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := []note{}
	for _, one := range n.of(user).notes {
		if strings.Contains(one.Text, text) {
			found = append(found, one)
		}
	}
	return found
}

func (n *notebooks) write(user, text string) note {
	n.mu.Lock()
	defer n.mu.Unlock()
	book := n.of(user)
	book.last++
	one := note{ID: strconv.Itoa(book.last), Text: text}
	book.notes = append(book.notes, one)
	return one
}

func (n *notebooks) remove(user string, ids []string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	deleted := []string{}
	book := n.of(user)
	book.notes = slices.DeleteFunc(book.notes, func(one note) bool {
		if slices.Contains(ids, one.ID) {
			deleted = append(deleted, one.ID)
			return true
		}
		return false
	})
	return deleted
}

// of is a user's notebook. The caller holds the lock.
func (n *notebooks) of(user string) *notebook {
	if n.byUser[user] == nil {
		n.byUser[user] = &notebook{}
	}
	return n.byUser[user]
}
