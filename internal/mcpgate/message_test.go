package mcpgate

import (
	"encoding/json"
	"net/http"
	"testing"
)

// FuzzParse: what is accepted is JSON that every reader reads alike, and the gate
// reads it as they do.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		callOne(""), withMeta(callOne(""), `"progressToken":"a",`), listenBody, `[{}]`, `null`, `{"params":[]}`, `{"params":{"_meta":7}}`, `{"id":`, "", "\ufeff{}",
		`{"jsonrpc":"2.0","id":1,"result":{}}`, `{"jsonrpc":"2.0","id":1e2,"method":"x","\u0069d":2}`, `{"jsonrpc":"2.0","method":"notifications/x","params":{"a":[{"b":{}}]}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		m, fault := parse(body)
		if fault != nil {
			if fault.status != 400 || !json.Valid(errorText(m.ID, fault.err)) {
				t.Errorf("%q: %d %v", body, fault.status, fault)
			}
			return
		}
		if m.kind == batchKind {
			return
		}
		var all map[string]json.RawMessage // by exact case
		if err := json.Unmarshal(body, &all); err != nil {
			t.Fatalf("%q is no JSON and was accepted: %v", body, err)
		}
		var method string
		_ = json.Unmarshal(all["method"], &method)
		if m.Method != method || string(m.ID) != string(all["id"]) || string(m.Params) != string(all["params"]) {
			t.Errorf("%q was read as %+v", body, m.Request)
		}
		if (m.kind == callKind || m.kind == responseKind) != (m.ID != nil) {
			t.Errorf("%q is of kind %d with id %s", body, m.kind, m.ID)
		}
		var params map[string]json.RawMessage
		_ = json.Unmarshal(all["params"], &params)
		if named(m.Method) && m.kind == callKind {
			member := "name"
			if m.Method == methodRead {
				member = "uri"
			}
			var name string
			if json.Unmarshal(params[member], &name) == nil && m.Name != name {
				t.Errorf("%q names %q, read as %q", body, name, m.Name)
			}
		}
		_ = checkHeaders(http.Header{}, m)
		if _, fault := checkMeta(m); fault == nil && m.ClientCapabilities == nil {
			t.Errorf("%q was accepted without capabilities", body)
		}
	})
}
