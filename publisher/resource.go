package publisher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// AddResource adds a resource to a server, or a template where r.URI has
// {variables} (RFC 6570), for instance "notes://note/{id}". One with the same
// URI is replaced. r is copied.
//
// What read returns becomes the content: a string is text, []byte is binary, a
// *mcp.ReadResourceResult is sent as it is, and any other value as JSON. r.MIMEType
// defaults to text/plain, application/octet-stream or application/json.
//
// An error that is, or wraps, fs.ErrNotExist tells the client that there is no
// such resource; a *jsonrpc.Error is sent as it is; any other is an internal
// error with its text. [Ask] works in read as it does in tools. Answers to a
// request with an access token are private to its user.
//
// The error joins every fault: a URI that is not absolute or not ASCII, no name,
// no description, a ui:// resource of another type than MCP Apps has ([AddView]
// is for these).
//
// Source: MCP 2026-07-28, resources; RFC 3986.
func AddResource[T any](s *mcp.Server, r *mcp.Resource, read func(context.Context, *mcp.ReadResourceRequest) (T, error)) error {
	if s == nil || r == nil || read == nil {
		return errors.New("add resource: server, resource and read are required")
	}
	res := *r
	res.Meta = maps.Clone(r.Meta)
	if res.MIMEType == "" {
		res.MIMEType = mimeOf[T]()
	}
	faults := []error{checkURI(res.URI)}
	if res.Name == "" {
		faults = append(faults, errors.New("has no name; give a short one for lists"))
	}
	isView := strings.HasPrefix(res.URI, "ui:")
	if strings.TrimSpace(res.Description) == "" && !isView {
		faults = append(faults, errors.New("has no description; say what is in it"))
	}
	if isView && res.MIMEType != viewType {
		faults = append(faults, fmt.Errorf("a ui:// resource is of type %s; AddView makes one", viewType))
	}
	what := fmt.Sprintf("add resource %q", res.URI)
	if err := errors.Join(faults...); err != nil {
		return within(what, err)
	}
	handler := func(ctx context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		value, err := read(ctx, req)
		if err != nil {
			return readError(req, err)
		}
		return contents(req, res.MIMEType, value)
	}
	if !strings.Contains(res.URI, "{") {
		return guard(what, func() { s.AddResource(&res, handler) })
	}
	return guard(what, func() {
		s.AddResourceTemplate(&mcp.ResourceTemplate{
			Meta: res.Meta, Annotations: res.Annotations, Description: res.Description, MIMEType: res.MIMEType,
			Name: res.Name, Title: res.Title, URITemplate: res.URI, Icons: res.Icons,
		}, handler)
	})
}

func mimeOf[T any]() string {
	var zero T
	switch any(zero).(type) {
	case string:
		return "text/plain"
	case []byte:
		return "application/octet-stream"
	case *mcp.ReadResourceResult:
		return ""
	}
	return "application/json"
}

// checkURI judges a URI or URI template (mcp P16, S16).
func checkURI(uri string) error {
	plain, _, _ := strings.Cut(uri, "{")
	scheme, _, ok := strings.Cut(plain, ":")
	switch {
	case uri == "":
		return errors.New("has no URI; give an absolute one, for instance notes://today")
	case !isASCII(uri):
		return errors.New("percent-encode what is not ASCII in its URI")
	case strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("\"<>\\^`", r) }):
		return errors.New("percent-encode spaces and the like in its URI")
	case !ok || scheme == "":
		return errors.New("its URI is not absolute: begin it with a scheme, for instance notes://today")
	}
	if _, err := url.Parse(plain); err != nil {
		return fmt.Errorf("its URI does not parse: %w", err)
	}
	return nil
}

// contents makes the answer, always a value of its own (mcp S12).
func contents[T any](req *mcp.ReadResourceRequest, mime string, value T) (*mcp.ReadResourceResult, error) {
	content := &mcp.ResourceContents{URI: req.Params.URI, MIMEType: mime}
	switch v := any(value).(type) {
	case *mcp.ReadResourceResult:
		return copyRead(req, v)
	case string:
		content.Text = v
	case []byte:
		content.Blob = v
		if v == nil {
			content.Blob = []byte{} // empty is not absent
		}
	default:
		data, err := json.Marshal(v)
		if err != nil {
			return nil, internalError("encode the resource", err)
		}
		content.Text = string(data)
	}
	res := &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{content}}
	if hasToken(req) {
		res.CacheScope = "private"
	}
	return res, nil
}

func copyRead(req *mcp.ReadResourceRequest, given *mcp.ReadResourceResult) (*mcp.ReadResourceResult, error) {
	if given == nil {
		return nil, internalError("read the resource", errors.New("its handler gave nothing"))
	}
	res := *given
	res.Meta = maps.Clone(given.Meta)
	res.Contents = slices.Clone(given.Contents)
	for i, c := range res.Contents {
		if c != nil {
			one := *c
			res.Contents[i] = &one
		}
	}
	if hasToken(req) && res.CacheScope == "" {
		res.CacheScope = "private"
	}
	return &res, nil
}

func readError(req *mcp.ReadResourceRequest, err error) (*mcp.ReadResourceResult, error) {
	if asked, ok := errors.AsType[*inputRequired](err); ok {
		return &mcp.ReadResourceResult{InputRequests: asked.requests, RequestState: asked.state}, nil
	}
	return nil, requestError(err, func() error {
		return mcp.ResourceNotFoundError(req.Params.URI)
	})
}

// requestError is what fails a request that has no tool errors.
func requestError(err error, notFound func() error) error {
	if protocol, ok := errors.AsType[*jsonrpc.Error](err); ok {
		return protocol
	}
	if errors.Is(err, fs.ErrNotExist) && notFound != nil {
		return notFound()
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
}
