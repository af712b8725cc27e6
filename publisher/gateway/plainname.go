package gateway

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/net/http/httpguts"
)

// doNamed sends a request of 2026-07-28 whose Mcp-Name is set. Some servers take
// a name outside ASCII for another one when it comes in Base64, as the protocol
// has it (mcp S1): what they refuse for that has not run, and is sent once more
// with the name as it is.
func (h *web) doNamed(req *http.Request, c *call, name string) (*http.Response, error) {
	resp, err := h.do(req, c)
	if err != nil || resp.StatusCode != http.StatusBadRequest || req.Header.Get("Mcp-Name") == name || mediaType(resp) != "application/json" ||
		strings.TrimSpace(name) != name || !httpguts.ValidHeaderFieldValue(name) {
		return resp, err
	}
	start, err := io.ReadAll(io.LimitReader(resp.Body, maxHeader))
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	var m message
	if json.Unmarshal(start, &m) != nil || m.Error == nil || m.Error.Code != mcp.CodeHeaderMismatch {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(bytes.NewReader(start), resp.Body), resp.Body}
		return resp, nil
	}
	_ = resp.Body.Close()
	again := req.Clone(req.Context())
	if again.Body, err = req.GetBody(); err != nil {
		return nil, err
	}
	again.Header.Set("Mcp-Name", name)
	return h.do(again, c)
}
