package publisher_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/publisher"
)

type deleteIn struct {
	IDs  []string `json:"ids"`
	Soft bool     `json:"soft,omitempty"`
}

type deleted struct {
	Count int    `json:"count"`
	Why   string `json:"why"`
}

type confirm struct {
	Sure bool `json:"sure" jsonschema:"really delete them"`
}

type reason struct {
	Why string `json:"why"`
}

func newAsker(t *testing.T, opts *publisher.AskerOptions) *publisher.Asker {
	t.Helper()
	a, err := publisher.NewAsker(opts)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// addDelete is a tool that asks twice before it does anything.
func addDelete(t *testing.T, s *mcp.Server, asker *publisher.Asker, runs *atomic.Int32) {
	t.Helper()
	addTool(t, s, "delete", func(ctx context.Context, r *mcp.CallToolRequest, in deleteIn) (*mcp.CallToolResult, deleted, error) {
		sure, err := publisher.Ask[confirm](ctx, asker, r, "sure", fmt.Sprintf("Delete %d notes?", len(in.IDs)))
		if err != nil {
			return nil, deleted{}, fmt.Errorf("delete: %w", err)
		}
		if !sure.Sure {
			return publisher.Text("Nothing was deleted."), deleted{}, nil
		}
		why, err := publisher.Ask[reason](ctx, asker, r, "why", "Why?")
		if err != nil {
			return nil, deleted{}, err
		}
		runs.Add(1)
		return nil, deleted{Count: len(in.IDs), Why: why.Why}, nil
	})
}

// asks are clients that can be asked, by what they answer.
func asks(answer func(*mcp.ElicitParams) *mcp.ElicitResult) *mcp.ClientOptions {
	return &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return answer(r.Params), nil
		},
	}
}

func accept(name string, value any) *mcp.ElicitResult {
	return &mcp.ElicitResult{Action: "accept", Content: map[string]any{name: value}}
}

var threeIDs = map[string]any{"ids": []string{"a", "b", "c"}}

// mcp P15: one tool asks clients of both eras, more than once.
func TestRule_McpP15_AskInBothEras(t *testing.T) {
	var runs atomic.Int32
	eachEra(t, func(t *testing.T, s *mcp.Server) { addDelete(t, s, newAsker(t, nil), &runs) }, func(t *testing.T, app *testApp) {
		runs.Store(0)
		var asked []string
		cs := app.connect("", asks(func(p *mcp.ElicitParams) *mcp.ElicitResult {
			asked = append(asked, p.Message)
			if p.Message == "Why?" {
				return accept("why", "old")
			}
			if got := asJSON(t, p.RequestedSchema); !sameJSON(t, got, `{"type":"object","required":["sure"],"properties":{"sure":{"type":"boolean","description":"really delete them"}}}`) {
				t.Errorf("schema %s", got)
			}
			return accept("sure", true)
		}))
		res := call(t, cs, "delete", threeIDs)
		if res.IsError || !sameJSON(t, asJSON(t, res.StructuredContent), `{"count":3,"why":"old"}`) || runs.Load() != 1 {
			t.Errorf("%s after %d runs", asJSON(t, res), runs.Load())
		}
		if d := cmp.Diff([]string{"Delete 3 notes?", "Why?"}, asked); d != "" {
			t.Errorf("asked (-want +got):\n%s", d)
		}

		for _, action := range []string{"decline", "cancel"} {
			cs := app.connect("", asks(func(*mcp.ElicitParams) *mcp.ElicitResult { return &mcp.ElicitResult{Action: action} }))
			if res := call(t, cs, "delete", threeIDs); !res.IsError || textOf(res) != "delete: the user declined to answer (sure)" {
				t.Errorf("%s: %s", action, asJSON(t, res))
			}
		}
		no := app.connect("", asks(func(*mcp.ElicitParams) *mcp.ElicitResult { return accept("sure", false) }))
		if res := call(t, no, "delete", threeIDs); res.IsError || textOf(res) != "Nothing was deleted." {
			t.Errorf("no: %s", asJSON(t, res))
		}
		if runs.Load() != 1 {
			t.Errorf("%d runs", runs.Load())
		}
	})
}

// byHand is a client that sees the rounds (mcp P15).
func byHand() *mcp.ClientOptions {
	o := asks(func(*mcp.ElicitParams) *mcp.ElicitResult { return nil })
	o.MultiRoundTrip = &mcp.MultiRoundTripOptions{Disabled: true}
	return o
}

// round is one request of a call.
func round(t *testing.T, cs *mcp.ClientSession, args any, state string, answers mcp.InputResponseMap) (*mcp.CallToolResult, error) {
	t.Helper()
	return cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "delete", Arguments: args, RequestState: state, InputResponses: answers})
}

// asked is the one question of a result.
func asked(t *testing.T, res *mcp.CallToolResult, err error) string {
	t.Helper()
	if err != nil || !res.NeedsInput() || len(res.InputRequests) != 1 || res.RequestState == "" || len(res.Content) > 0 || res.StructuredContent != nil {
		t.Fatalf("no question: %s, %v", asJSON(t, res), err)
	}
	for key := range res.InputRequests {
		return key
	}
	return ""
}

func TestRule_McpP15_Rounds(t *testing.T) {
	var runs atomic.Int32
	app := newTestApp(t, func(t *testing.T, s *mcp.Server) {
		asker := newAsker(t, nil)
		addDelete(t, s, asker, &runs)
		addTool(t, s, "other", func(ctx context.Context, r *mcp.CallToolRequest, _ deleteIn) (*mcp.CallToolResult, any, error) {
			_, err := publisher.Ask[confirm](ctx, asker, r, "sure", "Delete 3 notes?")
			return publisher.Text("other"), nil, err
		})
	})
	cs := app.connect("ada", byHand())
	yes := mcp.InputResponseMap{"sure": accept("sure", true)}
	why := mcp.InputResponseMap{"why": accept("why", "old")}
	first, err := round(t, cs, threeIDs, "", nil)
	if got := asked(t, first, err); got != "sure" {
		t.Fatalf("asked %q", got)
	}

	// What the client keeps is not for reading, and new each time.
	if box, err := base64.RawURLEncoding.DecodeString(first.RequestState); err != nil || strings.Contains(string(box), "sure") || strings.Contains(string(box), "ada") {
		t.Errorf("state %q, %v", box, err)
	}
	if twin, err := round(t, cs, threeIDs, "", nil); asked(t, twin, err) == "" || twin.RequestState == first.RequestState {
		t.Error("two states are equal")
	}

	// An answer is missing, does not fit, answers nothing that was asked, or
	// came without the question: ask again.
	for name, again := range map[string]struct {
		state   string
		answers mcp.InputResponseMap
	}{
		"missing":    {first.RequestState, nil},
		"other key":  {first.RequestState, why},
		"wrong type": {first.RequestState, mcp.InputResponseMap{"sure": accept("sure", "yes")}},
		"no content": {first.RequestState, mcp.InputResponseMap{"sure": &mcp.ElicitResult{Action: "accept"}}},
		"action":     {first.RequestState, mcp.InputResponseMap{"sure": &mcp.ElicitResult{Action: "perhaps"}}},
		"roots":      {first.RequestState, mcp.InputResponseMap{"sure": &mcp.ListRootsResult{Roots: []*mcp.Root{}}}}, //nolint:staticcheck // deprecated, and a client may send it
		"no state":   {"", yes},
	} {
		if res, err := round(t, cs, threeIDs, again.state, again.answers); asked(t, res, err) != "sure" {
			t.Errorf("%s: asked something else", name)
		}
	}

	// The same arguments in another form are the same call.
	turned, err := round(t, cs, jsonText(`{"ids":["a","b","c"],"soft":false}`), "", nil)
	asked(t, turned, err)
	turned, err = round(t, cs, jsonText(`{"soft":false, "ids":["a","b","c"]}`), turned.RequestState, yes)
	if got := asked(t, turned, err); got != "why" {
		t.Errorf("asked %q", got)
	}
	second, err := round(t, cs, threeIDs, first.RequestState, yes)
	if got := asked(t, second, err); got != "why" {
		t.Fatalf("asked %q", got)
	}
	// An answer that was never asked for is no answer, also beside a state.
	if res, err := round(t, cs, threeIDs, first.RequestState, mcp.InputResponseMap{"sure": yes["sure"], "why": why["why"]}); asked(t, res, err) != "why" {
		t.Error("asked something else")
	}
	last, err := round(t, cs, threeIDs, second.RequestState, why)
	if err != nil || last.NeedsInput() || runs.Load() != 1 {
		t.Errorf("%s, %v", asJSON(t, last), err)
	}

	// A state is for one user, one tool and its arguments.
	refused := func(who, what string, cs *mcp.ClientSession, name string, args any, state string) {
		t.Helper()
		_, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: args, RequestState: state, InputResponses: yes})
		wantCode(t, err, jsonrpc.CodeInvalidParams, "requestState "+what)
		if t.Failed() {
			t.Log(who)
		}
	}
	refused("arguments", "belongs to another call or to other arguments: call again without it", cs, "delete", map[string]any{"ids": []string{"z"}}, first.RequestState)
	refused("tool", "belongs to another call", cs, "other", threeIDs, first.RequestState)
	refused("user", "belongs to another user", app.connect("bob", byHand()), "delete", threeIDs, first.RequestState)
	refused("nobody", "belongs to another user", app.connect("", byHand()), "delete", threeIDs, first.RequestState)
	flipped := []byte(first.RequestState)
	flipped[20] ^= 1
	refused("changed", "was not made here", cs, "delete", threeIDs, string(flipped))
	refused("no base64", "was not made here", cs, "delete", threeIDs, "???")
	refused("short", "was not made here", cs, "delete", threeIDs, "AAAA")
	refused("large", "was not made here", cs, "delete", threeIDs, strings.Repeat("A", 100_000))
	if runs.Load() != 1 {
		t.Errorf("%d runs", runs.Load())
	}
}

// jsonText is sent as it is.
type jsonText string

func (s jsonText) MarshalJSON() ([]byte, error) { return []byte(s), nil }

// A question that changed between two rounds is asked anew: the user agreed to
// something else.
func TestRule_McpP15_AnswersBelongToTheirQuestion(t *testing.T) {
	var notes, runs atomic.Int32
	notes.Store(3)
	app := newTestApp(t, func(t *testing.T, s *mcp.Server) {
		asker := newAsker(t, nil)
		addTool(t, s, "delete", func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			if _, err := publisher.Ask[confirm](ctx, asker, r, "sure", fmt.Sprintf("Delete %d notes?", notes.Load())); err != nil {
				return nil, nil, err
			}
			runs.Add(1)
			return publisher.Text("Deleted."), nil, nil
		})
	})
	cs := app.connect("", byHand())
	first, err := round(t, cs, nil, "", nil)
	asked(t, first, err)
	notes.Store(300)
	yes := mcp.InputResponseMap{"sure": accept("sure", true)}
	second, err := round(t, cs, nil, first.RequestState, yes)
	if asked(t, second, err); runs.Load() != 0 {
		t.Error("ran on an answer to another question")
	}
	if res, err := round(t, cs, nil, second.RequestState, yes); err != nil || textOf(res) != "Deleted." {
		t.Errorf("%s, %v", asJSON(t, res), err)
	}
}

// A state ends with its time, and with the key that sealed it.
func TestRule_McpP15_StatesEnd(t *testing.T) {
	key := func(b byte) publisher.Secret { return publisher.Secret(strings.Repeat(string(b), 32)) }
	var runs atomic.Int32
	tool := func(opts *publisher.AskerOptions) *mcp.ClientSession {
		return newTestApp(t, func(t *testing.T, s *mcp.Server) { addDelete(t, s, newAsker(t, opts), &runs) }).connect("", byHand())
	}
	yes := mcp.InputResponseMap{"sure": accept("sure", true)}

	brief := tool(&publisher.AskerOptions{Lifetime: time.Nanosecond})
	res, err := round(t, brief, threeIDs, "", nil)
	asked(t, res, err)
	_, err = round(t, brief, threeIDs, res.RequestState, yes)
	wantCode(t, err, jsonrpc.CodeInvalidParams, "requestState has expired: call again without it")

	old := tool(&publisher.AskerOptions{Keys: []publisher.Secret{key('a')}})
	res, err = round(t, old, threeIDs, "", nil)
	asked(t, res, err)
	rotated := tool(&publisher.AskerOptions{Keys: []publisher.Secret{key('b'), key('a')}})
	next, err := round(t, rotated, threeIDs, res.RequestState, yes)
	if asked(t, next, err) != "why" {
		t.Error("the older key does not open any more")
	}
	_, err = round(t, old, threeIDs, next.RequestState, nil)
	wantCode(t, err, jsonrpc.CodeInvalidParams, "under a key that is no longer in use")
	_, err = round(t, tool(nil), threeIDs, res.RequestState, yes)
	wantCode(t, err, jsonrpc.CodeInvalidParams, "under a key that is no longer in use")

	for want, opts := range map[string]*publisher.AskerOptions{
		"key 1 has 5 bytes; give at least 32": {Keys: []publisher.Secret{key('a'), publisher.Secret("short")}},
		"Lifetime -1s is negative":            {Lifetime: -time.Second},
	} {
		if _, err := publisher.NewAsker(opts); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "short") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// mcp P10, P15, S9: nothing is asked of a client that did not declare it.
func TestRule_McpP15_CapabilitiesAreChecked(t *testing.T) {
	var runs atomic.Int32
	add := func(t *testing.T, s *mcp.Server) {
		asker := newAsker(t, nil)
		addDelete(t, s, asker, &runs)
		addTool(t, s, "page", func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
			res, err := asker.Elicit(ctx, r, "pay", &mcp.ElicitParams{Message: "Pay there.", URL: "https://pay.example.com/7", ElicitationID: "7"})
			if err != nil {
				return nil, nil, err
			}
			return publisher.Text(res.Action), nil, nil
		})
	}
	eachEra(t, add, func(t *testing.T, app *testApp) {
		for _, tt := range []struct {
			tool, mode string
			caps       *mcp.ElicitationCapabilities
		}{
			{"delete", "form", nil},
			{"delete", "form", &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}},
			{"page", "url", nil},
			{"page", "url", &mcp.ElicitationCapabilities{}},
			{"page", "url", &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
		} {
			cs := app.connect("", &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{Elicitation: tt.caps}})
			res, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: tt.tool, Arguments: map[string]any{"ids": []string{}}})
			if tt.tool == "page" {
				res, err = cs.CallTool(t.Context(), &mcp.CallToolParams{Name: tt.tool})
			}
			if app.version != eras[0] {
				if err != nil || !res.IsError || !strings.Contains(textOf(res), "needs the client capability elicitation ("+tt.mode+")") {
					t.Errorf("%s: %s, %v", tt.tool, asJSON(t, res), err)
				}
				continue
			}
			protocol := wantCode(t, err, mcp.CodeMissingRequiredClientCapabilities, "elicitation ("+tt.mode+")")
			if want := `{"requiredCapabilities":{"elicitation":{"` + tt.mode + `":{}}}}`; string(protocol.Data) != want {
				t.Errorf("data %s, want %s", protocol.Data, want)
			}
		}
		url := asks(func(p *mcp.ElicitParams) *mcp.ElicitResult {
			if p.Mode != "url" || p.URL != "https://pay.example.com/7" {
				t.Errorf("asked %s", asJSON(t, p))
			}
			return &mcp.ElicitResult{Action: "accept"}
		})
		url.Capabilities.Elicitation = &mcp.ElicitationCapabilities{URL: &mcp.URLElicitationCapabilities{}}
		if res := call(t, app.connect("", url), "page", nil); textOf(res) != "accept" {
			t.Errorf("page: %s", asJSON(t, res))
		}
	})
	app := newTestApp(t, add)
	status, body := app.post("tools/call", "delete", `"name":"delete","arguments":{"ids":[]},`, "{}")
	if status != http.StatusBadRequest || !strings.Contains(body, "-32021") {
		t.Errorf("status %d: %s", status, body)
	}
	// "elicitation" alone means forms; the result says that it is not complete (P4).
	status, body = app.post("tools/call", "delete", `"name":"delete","arguments":{"ids":[]},`, `{"elicitation":{}}`)
	if status != http.StatusOK || !strings.Contains(body, `"resultType":"input_required"`) || !strings.Contains(body, `"method":"elicitation/create"`) {
		t.Errorf("status %d: %s", status, body)
	}
	if runs.Load() != 0 {
		t.Errorf("%d runs", runs.Load())
	}
}

func TestRule_McpS9_AskOnlyWhatWasDeclared(t *testing.T) { TestRule_McpP15_CapabilitiesAreChecked(t) }

func TestRule_McpP4_EveryResultHasItsType(t *testing.T) {
	TestRule_McpP15_CapabilitiesAreChecked(t)
	TestRule_OB51_DiscoverListCall(t)
}

// Prompts and resources can ask as well.
func TestRule_McpP15_PromptsAndResourcesAsk(t *testing.T) {
	eachEra(t, func(t *testing.T, s *mcp.Server) {
		asker := newAsker(t, nil)
		addResource(t, s, "notes://why", func(ctx context.Context, r *mcp.ReadResourceRequest) (string, error) {
			in, err := publisher.Ask[reason](ctx, asker, r, "why", "Why?")
			return in.Why, err
		})
		if err := publisher.AddPrompt(s, &mcp.Prompt{Name: "why", Description: "W."}, func(ctx context.Context, r *mcp.GetPromptRequest, _ agendaIn) (string, error) {
			in, err := publisher.Ask[reason](ctx, asker, r, "why", "Why?")
			return in.Why, err
		}); err != nil {
			t.Fatal(err)
		}
	}, func(t *testing.T, app *testApp) {
		cs := app.connect("", asks(func(*mcp.ElicitParams) *mcp.ElicitResult { return accept("why", "old") }))
		read, err := cs.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "notes://why"})
		if err != nil || read.Contents[0].Text != "old" {
			t.Errorf("resource %s, %v", asJSON(t, read), err)
		}
		got, err := cs.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "why", Arguments: map[string]string{"topic": "x"}})
		if err != nil || got.Messages[0].Content.(*mcp.TextContent).Text != "old" {
			t.Errorf("prompt %s, %v", asJSON(t, got), err)
		}
	})
}

// Questions that no form can hold, and misuse, are errors and no questions.
func TestAskFaults(t *testing.T) {
	app := newTestApp(t, func(t *testing.T, s *mcp.Server) {
		asker := newAsker(t, nil)
		for name, try := range map[string]func(context.Context, mcp.Request) error{
			"nested": func(ctx context.Context, r mcp.Request) error {
				_, err := publisher.Ask[struct{ X confirm }](ctx, asker, r, "k", "?")
				return err
			},
			"text": func(ctx context.Context, r mcp.Request) error {
				_, err := publisher.Ask[string](ctx, asker, r, "k", "?")
				return err
			},
			"func": func(ctx context.Context, r mcp.Request) error {
				_, err := publisher.Ask[struct{ F func() }](ctx, asker, r, "k", "?")
				return err
			},
			"zero": func(ctx context.Context, r mcp.Request) error {
				_, err := publisher.Ask[confirm](ctx, &publisher.Asker{}, r, "k", "?")
				return err
			},
			"loop": func(ctx context.Context, r mcp.Request) error {
				_, err := asker.Elicit(ctx, r, "k", &mcp.ElicitParams{Message: "?", RequestedSchema: map[string]any{"type": "object", "$ref": "#"}})
				return err
			},
			"noschema": func(ctx context.Context, r mcp.Request) error {
				_, err := asker.Elicit(ctx, r, "k", &mcp.ElicitParams{Message: "?", RequestedSchema: map[string]any{"type": 7}})
				return err
			},
			"nokey": func(ctx context.Context, r mcp.Request) error {
				_, err := publisher.Ask[confirm](ctx, asker, r, "", "?")
				return err
			},
			"lists": func(ctx context.Context, _ mcp.Request) error {
				_, err := publisher.Ask[confirm](ctx, asker, &mcp.ListToolsRequest{}, "k", "?")
				return err
			},
		} {
			addTool(t, s, name, func(ctx context.Context, r *mcp.CallToolRequest, _ struct{}) (*mcp.CallToolResult, any, error) {
				return nil, nil, try(ctx, r)
			})
		}
	})
	cs := app.connect("", byHand())
	for name, want := range map[string]string{
		"nested": `field "X" is no string, number or boolean`, "text": "string is no struct", "func": "no schema for",
		"zero": "an asker made by NewAsker", "nokey": "a key", "loop": "leads back to itself", "noschema": "is no JSON Schema", "lists": "only a tool, a prompt or a resource can ask",
	} {
		if res := call(t, cs, name, nil); !res.IsError || !strings.Contains(textOf(res), want) {
			t.Errorf("%s: %s", name, asJSON(t, res))
		}
	}
}

// Key material does not get into a log by any road.
func TestSecretsDoNotPrint(t *testing.T) {
	secret := publisher.Secret("0123456789abcdef0123456789abcdef")
	log, text := newTestLog()
	log.Info("x", "direct", secret, "inside", publisher.AskerOptions{Keys: []publisher.Secret{secret}}, "any", []any{secret})
	asker := newAsker(t, &publisher.AskerOptions{Keys: []publisher.Secret{secret}})
	all := text() + asJSON(t, publisher.AskerOptions{Keys: []publisher.Secret{secret}}) + secret.String() + secret.GoString()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		all += fmt.Sprintf(verb, secret) + fmt.Sprintf(verb, publisher.AskerOptions{Keys: []publisher.Secret{secret}}) + fmt.Sprintf(verb, asker)
	}
	all += fmt.Sprint(errors.Join(fmt.Errorf("key %v", secret)))
	for _, part := range []string{"0123456789", "30313233343536", "48 49 50 51 52", "MDEyMzQ1Njc4"} {
		if strings.Contains(strings.ToLower(all), strings.ToLower(part)) {
			t.Errorf("%q is in %s", part, all)
		}
	}
	if !strings.Contains(all, "[secret]") {
		t.Errorf("got %s", all)
	}
}
