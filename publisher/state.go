package publisher

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Secret is key material. Printed, logged or encoded it is "[secret]"; convert
// it to []byte to get at it.
type Secret []byte

const redacted = "[secret]"

func (Secret) String() string               { return redacted }
func (Secret) GoString() string             { return redacted }
func (Secret) Format(f fmt.State, _ rune)   { _, _ = io.WriteString(f, redacted) }
func (Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// minSecret is the least length of key material.
const minSecret = 32

// maxState bounds a requestState: it travels with each round, and the client
// may hand back anything.
const maxState = 64 << 10

// sealer seals what a client keeps for us between two rounds (mcp P15).
type sealer struct {
	keys     []cipher.AEAD // the first seals, all open
	lifetime time.Duration
}

// newSealer takes key material, newest first; none is a random key.
func newSealer(keys []Secret, lifetime time.Duration) (*sealer, error) {
	if len(keys) == 0 {
		random := make(Secret, minSecret)
		_, _ = rand.Read(random) // never fails
		keys = []Secret{random}
	}
	s := &sealer{lifetime: lifetime}
	for i, k := range keys {
		if len(k) < minSecret {
			return nil, fmt.Errorf("key %d has %d bytes; give at least %d random ones", i, len(k), minSecret)
		}
		key, err := hkdf.Key(sha256.New, k, nil, "openbot-go requestState 1", 32)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

// state is what is sealed.
type state struct {
	Expires int64             `json:"x"` // Unix time
	Who     string            `json:"p,omitempty"`
	Call    string            `json:"c"` // digest of method, name and arguments
	Answers map[string]answer `json:"a,omitempty"`
	Asked   map[string]string `json:"q,omitempty"` // key -> digest of the question that is open
}

// answer is a user's answer and the question it belongs to.
type answer struct {
	Question string            `json:"q"`
	Result   *mcp.ElicitResult `json:"r"`
}

func (s *sealer) seal(c *caller, st *state) (string, error) {
	st.Expires = time.Now().Add(s.lifetime).Unix()
	st.Who, st.Call = c.principal, c.digest
	data, err := json.Marshal(st)
	if err != nil {
		return "", err
	}
	text := base64.RawURLEncoding.EncodeToString(s.keys[0].Seal(nil, nil, data, nil)) //nolint:gosec // it makes its nonce itself
	if len(text) > maxState {
		return "", fmt.Errorf("the answers of one call exceed %d bytes", maxState)
	}
	return text, nil
}

// open gives the state that came with c, an empty one for none. A state that is
// not for this very call is refused: the client may have kept it, changed it or
// got it from somebody.
func (s *sealer) open(c *caller) (*state, error) {
	if c.state == "" {
		return &state{}, nil
	}
	refuse := func(why string) (*state, error) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState " + why + ": call again without it"}
	}
	box, err := base64.RawURLEncoding.DecodeString(c.state)
	if err != nil || len(c.state) > maxState {
		return refuse("was not made here")
	}
	for _, k := range s.keys {
		data, err := k.Open(nil, nil, box, nil)
		if err != nil {
			continue
		}
		var st state
		if err := json.Unmarshal(data, &st); err != nil {
			return refuse("cannot be read any more")
		}
		switch {
		case time.Now().Unix() >= st.Expires:
			return refuse("has expired")
		case st.Who != c.principal:
			return refuse("belongs to another user")
		case st.Call != c.digest:
			return refuse("belongs to another call or to other arguments")
		}
		return &st, nil
	}
	return refuse("was not made here, or under a key that is no longer in use")
}

// caller is what this package needs of a request, whatever its method.
type caller struct {
	principal string
	name      string
	digest    string // of method, name and arguments
	modern    bool
	caps      *mcp.ClientCapabilities
	session   *mcp.ServerSession
	state     string
	responses mcp.InputResponseMap
}

func callerOf(r mcp.Request) (*caller, error) {
	switch r := r.(type) {
	case *mcp.CallToolRequest:
		return newCaller(r, "tools/call", r.Params.Name, r.Params.Arguments, r.Params.RequestState, r.Params.InputResponses)
	case *mcp.GetPromptRequest:
		args, err := json.Marshal(r.Params.Arguments)
		if err != nil {
			return nil, err
		}
		return newCaller(r, "prompts/get", r.Params.Name, args, r.Params.RequestState, r.Params.InputResponses)
	case *mcp.ReadResourceRequest:
		return newCaller(r, "resources/read", r.Params.URI, nil, r.Params.RequestState, r.Params.InputResponses)
	}
	return nil, errors.New("only a tool, a prompt or a resource can ask")
}

func newCaller[P mcp.Params](r *mcp.ServerRequest[P], method, name string, args json.RawMessage, st string, responses mcp.InputResponseMap) (*caller, error) {
	plain, err := canonical(args)
	if err != nil {
		return nil, err
	}
	version := r.ProtocolVersion()
	return &caller{
		principal: User(r), name: name, digest: digestOf(method, name, string(plain)),
		modern: version == "" || version >= "2026-07-28",
		caps:   r.ClientCapabilities(), session: r.Session, state: st, responses: responses,
	}, nil
}

// canonical writes JSON in one form: members sorted, no white space. A client
// may encode the same arguments anew.
func canonical(data json.RawMessage) ([]byte, error) {
	if len(data) == 0 {
		return []byte("{}"), nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("read the arguments: %w", err)
	}
	return json.Marshal(v)
}

// digestOf gives one short name for a list of texts.
func digestOf(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
