package gateway

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxRounds bounds how often one call may ask an older client for input.
const maxRounds = 10

// round runs one request: a new call, or one that has waited for input.
func (g *Gateway) round(ctx context.Context, l *link, method string, params, meta object, c *client) (json.RawMessage, error) {
	if l.modern {
		return g.modernRound(ctx, l, method, params, meta, c)
	}
	key, who := bind(method, params, c.principal), c.principal
	var running *call
	if state := params.text("requestState"); state != "" {
		p := g.waiting.take(state, key)
		if p == nil {
			return nil, &jsonrpc.Error{
				Code:    jsonrpc.CodeInvalidParams,
				Message: "this requestState is unknown, used, expired, or another request's: make the call again without it",
			}
		}
		answers := params.object("inputResponses")
		for name, question := range p.questions {
			answer, ok := answers[name]
			if !ok {
				continue
			}
			if question.ID != nil {
				p.link.reply(question.ID, answer, nil)
			}
			delete(p.questions, name)
		}
		if len(p.questions) > 0 { // an answer is missing: ask again (mcp P15)
			return g.park(p, key, who)
		}
		if p.call != nil {
			l, running = p.link, p.call
			l.park(running, false)
			running.touch()
		}
	}
	if running == nil {
		running = g.begin(ctx, l, method, params, meta, c)
	}
	for {
		question, err := g.wait(ctx, l, running, c)
		if question == nil {
			if pages := g.pagesToOpen(err, c); pages != nil {
				return g.park(&parked{link: l, questions: pages}, key, who)
			}
			return running.result, err
		}
		switch {
		case !g.canAnswer(c, question):
			l.reply(question.ID, nil, &jsonrpc.Error{
				Code:    jsonrpc.CodeMethodNotFound,
				Message: fmt.Sprintf("the client that made this call has not declared that it can answer %s", question.Method),
			})
		case c.modern && method != methodComplete:
			return g.park(&parked{link: l, call: running, questions: map[string]*message{"input": question}}, key, who)
		default:
			go g.askSession(ctx, l, running, c, question)
		}
	}
}

// modernRound runs one request at an upstream that knows input requests itself:
// clients that know them too get them as they are, older ones are asked.
func (g *Gateway) modernRound(ctx context.Context, l *link, method string, params, meta object, c *client) (json.RawMessage, error) {
	for range maxRounds {
		running := g.begin(ctx, l, method, params, meta, c)
		for {
			question, err := g.wait(ctx, l, running, c)
			if err != nil {
				return nil, err
			}
			if question == nil {
				break
			}
			l.reply(question.ID, nil, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "this revision has input requests for that"})
		}
		var answer object
		if err := json.Unmarshal(running.result, &answer); err != nil || c.modern || answer.text("resultType") != typeInputRequired {
			return running.result, nil
		}
		var asked map[string]*message
		_ = json.Unmarshal(answer["inputRequests"], &asked) // none, or of another form: state alone
		responses := object{}
		for name, question := range asked {
			if question == nil || !g.canAnswer(c, question) {
				return nil, callError("unknown", "the app's server wants input that this client has not declared")
			}
			response, err := c.ask(ctx, question)
			if err != nil {
				return nil, callError("unknown", "the client did not answer the app's server")
			}
			responses[name] = response
		}
		params = maps.Clone(params)
		params.set("inputResponses", responses)
		delete(params, "requestState")
		if state, ok := answer["requestState"]; ok {
			params["requestState"] = state
		}
	}
	return nil, callError("unknown", "the app's server asked for input %d times", maxRounds)
}

// askSession takes a question to an older client, as that client knows it.
func (g *Gateway) askSession(ctx context.Context, l *link, running *call, c *client, question *message) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.CallTimeout)
	defer cancel()
	answered := make(chan struct{})
	defer close(answered)
	go func() { // a person who thinks is a sign of life
		tick := time.NewTicker(max(g.opts.CallTimeout/4, time.Millisecond))
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				running.touch()
			case <-answered:
				return
			}
		}
	}()
	answer, err := c.ask(ctx, question)
	running.touch()
	if err != nil {
		rpc, ok := errors.AsType[*jsonrpc.Error](err)
		if !ok {
			rpc = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the client did not answer"}
		}
		l.reply(question.ID, nil, rpc)
		return
	}
	l.reply(question.ID, answer, nil)
}

// ask sends a question to the session of an older client.
func (c *client) ask(ctx context.Context, question *message) (json.RawMessage, error) {
	var answer any
	var err error
	params := question.Params
	if len(params) == 0 {
		params = json.RawMessage("{}")
	}
	switch question.Method {
	case methodElicit:
		var p mcp.ElicitParams
		if err = json.Unmarshal(params, &p); err == nil {
			err = checkForm(p.RequestedSchema)
		}
		if err == nil {
			answer, err = c.session.Elicit(ctx, &p)
		}
	case methodSample:
		var p mcp.CreateMessageWithToolsParams
		if err = json.Unmarshal(params, &p); err == nil {
			answer, err = c.session.CreateMessageWithTools(ctx, &p)
		}
	case methodRoots:
		answer, err = c.session.ListRoots(ctx, &mcp.ListRootsParams{})
	}
	if err != nil {
		return nil, err
	}
	return encode(answer), nil
}

// checkForm refuses a form with references, which the protocol's forms have not:
// the SDK checks the client's answer by the form, and at a reference that leads
// back to itself the stack would overflow, which ends the whole process.
func checkForm(schema any) error {
	switch v := schema.(type) {
	case map[string]any:
		for name, below := range v {
			if name == "$ref" || name == "$dynamicRef" {
				return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the schema of a form has no references"}
			}
			if err := checkForm(below); err != nil {
				return err
			}
		}
	case []any:
		for _, below := range v {
			if err := checkForm(below); err != nil {
				return err
			}
		}
	}
	return nil
}

// canAnswer tells whether the client has declared what a question needs.
func (g *Gateway) canAnswer(c *client, question *message) bool {
	var p object
	_ = json.Unmarshal(question.Params, &p) // none
	switch question.Method {
	case methodElicit:
		e := c.caps.Elicitation
		if e == nil {
			return false
		}
		if p.text("mode") == "url" {
			return e.URL != nil
		}
		return e.Form != nil || e.URL == nil // an empty declaration means forms
	case methodSample:
		s := c.caps.Sampling
		_, tools := p["tools"]
		return s != nil && (!tools || s.Tools != nil)
	case methodRoots:
		return c.caps.RootsV2 != nil && g.opts.Roots
	}
	return false
}

// pagesToOpen turns the refusal of 2025-11-25 that names pages to be opened
// first into input requests. The call has not run; the client's next one will
// be a new one.
func (g *Gateway) pagesToOpen(err error, c *client) map[string]*message {
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || refused.Code != mcp.CodeURLElicitationRequired || !c.modern {
		return nil
	}
	var data struct{ Elicitations []json.RawMessage }
	_ = json.Unmarshal(refused.Data, &data) // of another form: no pages
	pages := map[string]*message{}
	for i, e := range data.Elicitations {
		m := &message{Method: methodElicit, Params: e}
		if !g.canAnswer(c, m) {
			return nil
		}
		pages[fmt.Sprintf("page-%d", i+1)] = m
	}
	if len(pages) == 0 {
		return nil
	}
	return pages
}

// bind gives what a requestState is bound to: the method, the parameters
// without what changes from round to round, and the principal.
func bind(method string, params object, principal string) [sha256.Size]byte {
	same := maps.Clone(params)
	delete(same, "_meta")
	delete(same, "inputResponses")
	delete(same, "requestState")
	dec := json.NewDecoder(bytes.NewReader(encode(same)))
	dec.UseNumber()
	var v any
	_ = dec.Decode(&v) // it was encoded above
	return sha256.Sum256(encode([]any{method, principal, v}))
}

// parked is a call that waits for a client's next request.
type parked struct {
	link      *link
	call      *call               // nil when the upstream has refused it
	questions map[string]*message // by the key that the client answers to; without an id nobody waits
	key       [sha256.Size]byte
	who       string // the principal
	expiry    *time.Timer
}

// waiting holds the parked calls by requestState, which is random, and serves
// once.
type waiting struct {
	mu    sync.Mutex
	calls map[string]*parked
}

// park keeps a call, and gives the result that asks the client.
func (g *Gateway) park(p *parked, key [sha256.Size]byte, who string) (json.RawMessage, error) {
	state := rand.Text() + rand.Text()
	p.key, p.who = key, who
	if p.call != nil {
		p.link.park(p.call, true)
	}
	if !g.waiting.put(state, p, g.opts.CallTimeout) {
		p.refuse("too many calls are waiting for input")
		return nil, callError("unknown", "too many calls are waiting for input; this one was cancelled")
	}
	requests := map[string]object{}
	for name, q := range p.questions {
		requests[name] = object{"method": encode(q.Method)}
		if len(q.Params) > 0 {
			requests[name]["params"] = g.secrets.result(q.Params)
		}
	}
	return encode(map[string]any{
		"resultType": typeInputRequired, "inputRequests": requests, "requestState": state,
	}), nil
}

// refuse ends a call whose questions nobody will answer.
func (p *parked) refuse(why string) {
	for _, q := range p.questions {
		if q.ID != nil {
			p.link.reply(q.ID, nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: why})
		}
	}
	if p.call != nil {
		p.link.abandon(p.call, why)
	}
}

func (w *waiting) put(state string, p *parked, life time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	own := 0
	for _, other := range w.calls {
		if p.who != "" && other.who == p.who {
			own++
		}
	}
	if len(w.calls) >= maxWaiting || own >= maxOfOne {
		return false
	}
	if w.calls == nil {
		w.calls = map[string]*parked{}
	}
	w.calls[state] = p
	p.expiry = time.AfterFunc(life, func() {
		w.mu.Lock()
		_, there := w.calls[state]
		delete(w.calls, state)
		w.mu.Unlock()
		if there {
			p.refuse("the client did not come back with an answer")
		}
	})
	return true
}

// take gives the call of a state that is bound to key, once; nil is none.
func (w *waiting) take(state string, key [sha256.Size]byte) *parked {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.calls[state]
	if p == nil || p.key != key {
		return nil
	}
	delete(w.calls, state)
	p.expiry.Stop()
	return p
}

func (w *waiting) clear() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range slices.Collect(maps.Values(w.calls)) {
		p.expiry.Stop()
	}
	w.calls = nil
}
