package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const methodCall = "tools/call"

// scopeTable is what each operation needs, prepared (G16).
type scopeTable struct {
	basic   *need
	methods map[string]*need
	tools   map[string]*need
	// holders are, for each scope that is needed, the others that hold it (S7).
	holders map[string][]string
	// refusal fills in the refusal of a need that is made for one request.
	refusal func(*need)
}

// need is a set of scopes and its answer to a token with less.
type need struct {
	scopes  []string // sorted
	refusal *refusal // set by Guard.prepare
}

func newScopeTable(s *Scopes) *scopeTable {
	t := &scopeTable{methods: map[string]*need{}, tools: map[string]*need{}, holders: map[string][]string{}}
	t.basic = &need{scopes: union(s.Basic)}
	for method, scopes := range s.Methods {
		t.methods[method] = &need{scopes: union(s.Basic, scopes)}
	}
	for name, scopes := range s.Tools {
		t.tools[name] = &need{scopes: union(s.Basic, s.Methods[methodCall], scopes)}
	}
	for holder := range s.Implies {
		for _, held := range closure(s.Implies, holder) {
			t.holders[held] = append(t.holders[held], holder)
		}
	}
	return t
}

// closure gives all that a scope implies, over any number of steps.
func closure(implies map[string][]string, scope string) []string {
	seen := map[string]bool{scope: true}
	var all []string
	for next := []string{scope}; len(next) > 0; {
		for _, held := range implies[next[0]] {
			if !seen[held] {
				seen[held] = true
				all, next = append(all, held), append(next, held)
			}
		}
		next = next[1:]
	}
	return all
}

// union is sorted, and has each scope once.
func union(sets ...[]string) []string {
	all := slices.Concat(sets...)
	slices.Sort(all)
	return slices.Compact(all)
}

// of gives what one operation needs.
func (t *scopeTable) of(method, name string) *need {
	if method == methodCall {
		if n := t.tools[name]; n != nil {
			return n
		}
	}
	if n := t.methods[method]; n != nil {
		return n
	}
	return t.basic
}

// one reports whether all operations need the same.
func (t *scopeTable) one() bool { return len(t.methods) == 0 && len(t.tools) == 0 }

// enough reports whether have covers need.
func (t *scopeTable) enough(have, need []string) bool {
	for _, scope := range need {
		if !slices.Contains(have, scope) && !slices.ContainsFunc(t.holders[scope], func(holder string) bool { return slices.Contains(have, holder) }) {
			return false
		}
	}
	return true
}

// check reports the faults of scopes by field.
func (s *Scopes) check(fault func(field, format string, args ...any)) {
	each := func(field string, scopes []string) {
		for _, scope := range scopes {
			switch {
			case !isScopeToken(scope):
				fault(field, "%q is no scope: write visible ASCII without spaces, quotes and backslashes", scope)
			case scope == offlineAccess:
				fault(field, "%s is the client's to ask for, never a resource's (oauth S8)", offlineAccess)
			}
		}
	}
	if len(s.Basic) == 0 {
		fault("Scopes.Basic", "name at least one scope: the metadata must list what a sign-in asks for")
	}
	each("Scopes.Basic", s.Basic)
	for _, list := range []struct {
		field string
		by    map[string][]string
	}{{"Scopes.Methods", s.Methods}, {"Scopes.Tools", s.Tools}, {"Scopes.Implies", s.Implies}} {
		for _, name := range slices.Sorted(maps.Keys(list.by)) {
			if name == "" {
				fault(list.field, "a name is empty")
			}
			each(list.field+"["+name+"]", list.by[name])
		}
	}
	each("Scopes.Implies", slices.Sorted(maps.Keys(s.Implies)))
}

// ScopeError is an operation that needs more than the token gives.
type ScopeError struct {
	Need []string // all that the operation needs, sorted
	Have []string
}

// Error names what the operation needs, and not what the caller has.
func (e *ScopeError) Error() string {
	return fmt.Sprintf("this operation needs the scopes %s", strings.Join(e.Need, " "))
}

// Check judges an operation by a caller's token: nil, or a *ScopeError. name is
// the tool of tools/call and "" for other methods. info nil is nobody, who may
// do nothing.
func (g *Guard) Check(info *auth.TokenInfo, method, name string) error {
	n := g.scopes.of(method, name)
	switch {
	case info == nil:
		return &ScopeError{Need: slices.Clone(n.scopes)}
	case !g.scopes.enough(info.Scopes, n.scopes):
		return &ScopeError{Need: slices.Clone(n.scopes), Have: slices.Clone(info.Scopes)}
	}
	return nil
}

// Middleware checks each operation once more inside the server, where no header
// can have lied about it. It refuses everything that did not come through
// Protect, calls in memory included.
func (g *Guard) Middleware() mcp.Middleware {
	return func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			var info *auth.TokenInfo
			if extra := r.GetExtra(); extra != nil {
				info = extra.TokenInfo
			}
			name := ""
			if p, ok := r.GetParams().(*mcp.CallToolParamsRaw); ok && p != nil {
				name = p.Name
			}
			if err := g.Check(info, method, name); err != nil {
				return nil, rpcError(err)
			}
			return next(ctx, method, r)
		}
	}
}

// rpcError is a refusal inside the server. The scopes are told once more as
// data, for programs.
func rpcError(err error) error {
	e := &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: err.Error()}
	if need, ok := err.(*ScopeError); ok { //nolint:errorlint // Check gives nothing else
		e.Data, _ = json.Marshal(map[string]any{"error": errorScope, "scope": strings.Join(need.Need, " ")}) // strings only
	}
	return e
}
