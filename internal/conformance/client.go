package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/openbot-build/openbot-go/oauth"
)

// What the suite tells a client besides the address, which is its last argument.
const (
	scenarioVariable = "MCP_CONFORMANCE_SCENARIO"
	contextVariable  = "MCP_CONFORMANCE_CONTEXT"
)

const (
	// clientDocument is where the suite expects a client's document to be. It is
	// a name only: the suite does not fetch it.
	clientDocument = "https://conformance-test.local/client-metadata.json"

	// redirectURI is where nobody listens: the redirect is read, not followed.
	redirectURI = "http://127.0.0.1:8787/callback"

	user = "conformance"
)

// scenario is what the suite tells of one.
type scenario struct {
	name         string
	ClientID     string `json:"client_id"`     // registered by hand
	ClientSecret string `json:"client_secret"` // of it
	Issuer       string `json:"issuer"`        // where
	ToolCalls    []struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	} `json:"toolCalls"`
}

// clientCommand runs this program as the client.
func clientCommand() (string, error) {
	self, err := os.Executable()
	if err == nil && strings.ContainsAny(self, " \t") {
		err = fmt.Errorf("the suite takes no command with a space in its path: %s", self)
	}
	return self + " client", err
}

// client is the command that the suite runs against its servers. It uses what
// the server at an address offers, as a host would: the product's network and
// sign-in below the SDK's client.
func client(ctx context.Context, address string) (err error) {
	t := newTranslator()
	defer t.close()
	endpoint, err := t.toClient(address)
	if err != nil {
		return err
	}
	about, err := t.toClient(os.Getenv(contextVariable))
	if err != nil {
		return err
	}
	s := scenario{name: os.Getenv(scenarioVariable)}
	if about != "" {
		if err := json.Unmarshal([]byte(about), &s); err != nil {
			return fmt.Errorf("read the suite's context: %w", err)
		}
	}
	v, err := newVisitor(ctx, t, endpoint, &s)
	if err != nil {
		return err
	}
	defer v.http.CloseIdleConnections()
	if err := v.call(ctx, v.connect); err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	return errors.Join(v.visit(ctx, &s), v.session.Close())
}

// visitor is a host's part for one user and one app.
type visitor struct {
	http    *http.Client
	oauth   *oauth.Client
	conn    oauth.Connection
	session *mcp.ClientSession

	// browse is the user: it opens an authorization URL and gives the redirect
	// that ends the visit there.
	browse func(ctx context.Context, address string) (redirect string, err error)
}

func newVisitor(ctx context.Context, t *translator, endpoint string, s *scenario) (*visitor, error) {
	network, err := t.network()
	if err != nil {
		return nil, err
	}
	o := &oauth.ClientOptions{
		Network: network, Store: oauth.NewMemoryStore(), ClientID: clientDocument, RedirectURI: redirectURI,
		Dynamic: &oauth.DynamicRegistration{ClientName: "OpenBot conformance client"},
	}
	if s.Issuer != "" {
		o.Registered = []oauth.Registration{{Issuer: s.Issuer, ClientID: s.ClientID, Secret: oauth.Secret(s.ClientSecret), AuthMethod: "client_secret_basic"}}
	}
	v := &visitor{http: network.Client(), conn: oauth.Connection{ID: "app", User: user, CardURL: endpoint, Endpoint: endpoint}}
	v.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	v.browse = v.open
	if v.oauth, err = oauth.NewClient(o); err != nil {
		return nil, err
	}
	return v, o.Store.Add(ctx, v.conn)
}

// open is the browser of a user who has nothing to do: the suite's servers ask
// nothing and send it straight back.
func (v *visitor) open(ctx context.Context, address string) (redirect string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	answer, err := v.http.Do(r)
	if err != nil {
		return "", err
	}
	return answer.Header.Get("Location"), answer.Body.Close()
}

// connect opens a session of the revision that apps are for.
func (v *visitor) connect(ctx context.Context) error {
	c := mcp.NewClient(&mcp.Implementation{Name: "openbot-conformance", Version: "1.0.0"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{Form: &mcp.FormElicitationCapabilities{}}},
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			return &mcp.ElicitResult{Action: "accept", Content: arguments(r.Params.RequestedSchema)}, nil
		},
	})
	app := *v.http
	app.Transport = v.oauth.Transport(v.conn, v.http.Transport)
	session, err := c.Connect(ctx, &mcp.StreamableClientTransport{
		Endpoint: v.conn.Endpoint, HTTPClient: &app, OAuthHandler: v.oauth.Handler(v.conn), DisableStandaloneSSE: true, MaxRetries: -1,
	}, &mcp.ClientSessionOptions{ProtocolVersion: modern})
	if err != nil {
		return err
	}
	if got := session.InitializeResult().ProtocolVersion; got != modern {
		return errors.Join(fmt.Errorf("the server speaks %s", got), session.Close())
	}
	v.session = session
	return nil
}

// call makes a request of the app. Where it needs its user, the user signs in
// and the request is made again: once to sign in and once for more access.
func (v *visitor) call(ctx context.Context, request func(context.Context) error) error {
	var signedIn, steppedUp bool
	for {
		err := request(ctx)
		need := new(oauth.SignInRequired)
		if !errors.As(err, &need) {
			return err
		}
		done := &signedIn
		if need.StepUp {
			done = &steppedUp
		}
		if *done {
			return err
		}
		*done = true
		if err := v.signIn(ctx, need); err != nil {
			return fmt.Errorf("sign in: %w", err)
		}
	}
}

// signIn is what the user does.
func (v *visitor) signIn(ctx context.Context, need *oauth.SignInRequired) error {
	s, err := v.oauth.Begin(ctx, v.conn, &oauth.BeginOptions{Challenge: &need.Challenge})
	if err != nil {
		return err
	}
	redirect, err := v.browse(ctx, s.URL)
	if err != nil {
		return err
	}
	query, back := strings.CutPrefix(redirect, redirectURI+"?")
	if !back {
		return errors.New("the authorization server does not send the user back")
	}
	_, err = v.oauth.Finish(ctx, v.conn.User, query)
	return err
}

// visit uses all that the app offers.
func (v *visitor) visit(ctx context.Context, s *scenario) error {
	var tools []*mcp.Tool
	err := v.call(ctx, func(ctx context.Context) (err error) {
		tools, err = all(v.session.Tools(ctx, nil))
		return err
	})
	if err != nil {
		return fmt.Errorf("list the tools: %w", err)
	}
	var calls []*mcp.CallToolParams
	for _, tool := range tools {
		calls = append(calls, &mcp.CallToolParams{Name: tool.Name, Arguments: arguments(tool.InputSchema)})
	}
	if s.ToolCalls != nil {
		calls = nil
		for _, c := range s.ToolCalls {
			calls = append(calls, &mcp.CallToolParams{Name: c.Name, Arguments: c.Arguments})
		}
	}
	switch s.name {
	case "json-schema-ref-no-deref":
		calls = nil // there is no tool behind that list
	case "json-schema-2020-12-preservation":
		calls = echo(tools)
	}
	var errs []error
	for _, p := range calls {
		errs = append(errs, v.call(ctx, func(ctx context.Context) error {
			_, err := v.session.CallTool(ctx, p)
			return err
		}))
	}
	capabilities := v.session.InitializeResult().Capabilities
	if capabilities.Resources != nil {
		errs = append(errs, v.read(ctx))
	}
	if capabilities.Prompts != nil {
		errs = append(errs, v.prompt(ctx))
	}
	return errors.Join(errs...)
}

// echo tells the server which schema the client has of a tool.
func echo(tools []*mcp.Tool) []*mcp.CallToolParams {
	var calls []*mcp.CallToolParams
	for _, t := range tools {
		if t.Name == "json_schema_2020_12_tool" {
			calls = append(calls, &mcp.CallToolParams{Name: "json_schema_echo", Arguments: map[string]any{"schema": t.InputSchema}})
		}
	}
	return calls
}

func (v *visitor) read(ctx context.Context) error {
	list, err := all(v.session.Resources(ctx, nil))
	errs := []error{err}
	for _, r := range list {
		_, err := v.session.ReadResource(ctx, &mcp.ReadResourceParams{URI: r.URI})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (v *visitor) prompt(ctx context.Context) error {
	list, err := all(v.session.Prompts(ctx, nil))
	errs := []error{err}
	for _, p := range list {
		_, err := v.session.GetPrompt(ctx, &mcp.GetPromptParams{Name: p.Name})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// all collects a list of several pages.
func all[T any](pages func(func(T, error) bool)) ([]T, error) {
	var list []T
	for item, err := range pages {
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

// arguments gives something for every property of a schema whose type is plain.
func arguments(schema any) map[string]any {
	object, _ := schema.(map[string]any)
	properties, _ := object["properties"].(map[string]any)
	given := map[string]any{}
	for name, p := range properties {
		property, _ := p.(map[string]any)
		kind, _ := property["type"].(string)
		if i := slices.Index([]string{"string", "number", "integer", "boolean"}, kind); i >= 0 {
			given[name] = []any{"text", 2.5, 2, true}[i]
		}
	}
	return given
}
