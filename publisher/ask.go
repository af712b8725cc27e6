package publisher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// ErrDeclined is what [Ask] gives when the user does not want to answer. As a
// tool's error it says just that.
var ErrDeclined = errors.New("the user declined to answer")

// defaultLifetime is how long a question may stay unanswered.
const defaultLifetime = time.Hour

// AskerOptions configure an Asker. The zero value works in one process.
type AskerOptions struct {
	// Keys seal what the client keeps between question and answer, each at
	// least 32 random bytes. The first one seals, all of them open: to change
	// the key put the new one in front and drop the old one after Lifetime.
	//
	// None means a random key of this process: then questions that are open
	// when it restarts must be asked anew, and several replicas behind one
	// address do not understand each other.
	Keys []Secret

	// Lifetime is how long an answer may take; 0 is one hour.
	Lifetime time.Duration
}

// Asker asks users while a call is running. It is safe for concurrent use.
type Asker struct{ sealer *sealer }

// NewAsker makes an Asker. nil means the zero options. A key that is too short
// is an error.
func NewAsker(opts *AskerOptions) (*Asker, error) {
	var o AskerOptions
	if opts != nil {
		o = *opts
	}
	if o.Lifetime < 0 {
		return nil, fmt.Errorf("new asker: Lifetime %v is negative", o.Lifetime)
	}
	if o.Lifetime == 0 {
		o.Lifetime = defaultLifetime
	}
	s, err := newSealer(o.Keys, o.Lifetime)
	if err != nil {
		return nil, fmt.Errorf("new asker: %w", err)
	}
	return &Asker{sealer: s}, nil
}

// Ask asks the user for a T: a struct of strings, numbers and booleans, whose
// `jsonschema` tags describe the fields. key names the question within the
// call; message is what the user reads.
//
//	answer, err := publisher.Ask[confirm](ctx, asker, r, "confirm", "Delete 3 notes?")
//	if err != nil {
//		return nil, deleted{}, err
//	}
//
// Return its error as it is, or wrapped: it may be the question itself. A
// request of MCP 2026-07-28 ends with it and comes back with the answer, so the
// handler runs again from its top, once for each question: do nothing lasting
// before the last Ask, and ask the same words each time. A question that
// changed is asked again, as is one whose answer is missing or does not fit. A
// client of an older revision is asked in the middle of the call.
//
// What the client keeps in between is encrypted and bound to the user (by access
// token), the tool, its arguments and a time. With anything else it is refused.
// Within that time it can be used twice: use [Once] for writes.
//
// The error is ErrDeclined when the user says no or closes the question. A
// client that cannot ask users gets MCP's error -32021, or a tool error if it is
// of an older revision.
//
// Ask works in handlers of [AddTool], [AddResource] and [AddPrompt].
//
// Source: MCP 2026-07-28, multi-round-trip requests and elicitation.
func Ask[T any](ctx context.Context, a *Asker, r mcp.Request, key, message string) (T, error) {
	var out T
	s, err := jsonschema.For[T](&jsonschema.ForOptions{})
	if err != nil {
		return out, fmt.Errorf("ask %q: no schema for %T: %w", key, out, err)
	}
	if s.Type != "object" {
		return out, fmt.Errorf("ask %q: %T is no struct", key, out)
	}
	s.AdditionalProperties = nil // not among the keywords of a form
	for name, field := range s.Properties {
		switch field.Type {
		case "string", "number", "integer", "boolean":
		default:
			return out, fmt.Errorf("ask %q: field %q is no string, number or boolean, and forms have nothing else", key, name)
		}
	}
	res, err := a.Elicit(ctx, r, key, &mcp.ElicitParams{Mode: "form", Message: message, RequestedSchema: s})
	if err != nil {
		return out, err
	}
	if res.Action != "accept" {
		return out, fmt.Errorf("%w (%s)", ErrDeclined, key)
	}
	data, err := json.Marshal(res.Content)
	if err == nil {
		err = strictjson.Unmarshal(data, &out)
	}
	if err != nil {
		return out, fmt.Errorf("ask %q: read the answer: %w", key, err)
	}
	return out, nil
}

// Elicit is [Ask] with a question and an answer as MCP has them, for a schema
// of your own or for a page the user is sent to (mode "url"). An answer with
// action "accept" fits the schema; "decline" and "cancel" are no errors here.
func (a *Asker) Elicit(ctx context.Context, r mcp.Request, key string, q *mcp.ElicitParams) (*mcp.ElicitResult, error) {
	if a == nil || a.sealer == nil || q == nil || key == "" {
		return nil, errors.New("ask: an asker made by NewAsker, a key and a question are required")
	}
	c, err := callerOf(r)
	if err != nil {
		return nil, fmt.Errorf("ask %q: %w", key, err)
	}
	question := *q
	if question.Mode == "" {
		question.Mode = "form"
		if question.URL != "" {
			question.Mode = "url"
		}
	}
	form, err := formOf(question.RequestedSchema)
	if err != nil {
		return nil, fmt.Errorf("ask %q: %w", key, err)
	}
	if !canAsk(c.caps, question.Mode) {
		return nil, cannotAsk(c, question.Mode)
	}
	if !c.modern {
		res, err := c.session.Elicit(ctx, &question)
		if err != nil {
			return nil, fmt.Errorf("ask %q: %w", key, err)
		}
		return res, nil
	}
	text, err := json.Marshal(&question)
	if err != nil {
		return nil, fmt.Errorf("ask %q: encode the question: %w", key, err)
	}
	digest := digestOf(string(text))
	st, err := a.sealer.open(c)
	if err != nil {
		return nil, err
	}
	answers := st.with(c.responses)
	if given, ok := answers[key]; ok && given.Question == digest && fits(given.Result, form) {
		return given.Result, nil
	}
	delete(answers, key)
	sealed, err := a.sealer.seal(c, &state{Answers: answers, Asked: map[string]string{key: digest}})
	if err != nil {
		return nil, fmt.Errorf("ask %q: %w", key, err)
	}
	return nil, &inputRequired{key: key, requests: mcp.InputRequestMap{key: &question}, state: sealed}
}

// inputRequired is a question on its way out of a handler.
type inputRequired struct {
	key      string
	requests mcp.InputRequestMap
	state    string
}

func (e *inputRequired) Error() string {
	return fmt.Sprintf("the question %q is open; return this error from a handler that publisher has added", e.key)
}

// with adds to the answers of earlier rounds those that came with this one, to
// questions that were asked in the one before. Others are nobody's answers.
func (st *state) with(responses mcp.InputResponseMap) map[string]answer {
	all := map[string]answer{}
	for key, a := range st.Answers {
		all[key] = a
	}
	for key, question := range st.Asked {
		if res, ok := responses[key].(*mcp.ElicitResult); ok && res != nil {
			all[key] = answer{Question: question, Result: res}
		}
	}
	return all
}

// formOf reads the schema of a question; nil is none.
func formOf(wanted any) (*jsonschema.Resolved, error) {
	if wanted == nil {
		return nil, nil
	}
	data, err := json.Marshal(wanted)
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	if _, err := checkSchema(data); err != nil {
		return nil, err
	}
	var s jsonschema.Schema
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, fmt.Errorf("the schema is no JSON Schema: %w", err)
	}
	return s.Resolve(nil)
}

// fits reports whether a result answers a question.
func fits(res *mcp.ElicitResult, form *jsonschema.Resolved) bool {
	switch {
	case res == nil:
		return false
	case res.Action == "decline" || res.Action == "cancel":
		return true
	case res.Action != "accept":
		return false
	case form == nil:
		return true
	}
	content := res.Content
	if content == nil {
		content = map[string]any{}
	}
	return form.Validate(content) == nil
}

// canAsk reports whether the client declared what a question needs. Elicitation
// without a mode means forms, as older clients write it.
func canAsk(caps *mcp.ClientCapabilities, mode string) bool {
	if caps == nil || caps.Elicitation == nil {
		return false
	}
	e := caps.Elicitation
	if mode == "url" {
		return e.URL != nil
	}
	return e.Form != nil || e.URL == nil
}

// cannotAsk is the error for a client that did not (mcp P10, P15, S9).
func cannotAsk(c *caller, mode string) error {
	text := fmt.Sprintf("%s asks the user a question, which needs the client capability elicitation (%s)", c.name, mode)
	if !c.modern {
		return errors.New(text)
	}
	// Not mcp.MissingRequiredClientCapabilityData: it would always name roots.
	data, err := json.Marshal(map[string]any{"requiredCapabilities": map[string]any{"elicitation": map[string]any{mode: struct{}{}}}})
	if err != nil {
		return err
	}
	return &jsonrpc.Error{Code: mcp.CodeMissingRequiredClientCapabilities, Message: text, Data: data}
}
