package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// document is an answer whose body is JSON already.
type document struct {
	Status       int
	ContentType  string `header:"Content-Type"`
	ETag         string `header:"ETag"`
	CacheControl string `header:"Cache-Control"`
	Body         []byte
}

const (
	jsonType  = "application/json"
	keepShort = "public, max-age=30, stale-while-revalidate=300" // IX-62
)

// answer makes a document, or a 304 for a client that has it.
func answer(ifNoneMatch, tag string, body func() ([]byte, error)) (*document, error) {
	d := &document{Status: http.StatusOK, ETag: tag, CacheControl: keepShort}
	if matches(ifNoneMatch, tag) {
		d.Status = http.StatusNotModified
		return d, nil
	}
	var err error
	d.ContentType = jsonType
	d.Body, err = body()
	return d, err
}

// Shapes of the API description; the bytes of answers are put together by hand.
type (
	appsPage struct {
		Items      []item    `json:"items" nullable:"false" doc:"Apps, best first; without q in the order of their ids"`
		NextCursor string    `json:"nextCursor,omitempty" doc:"Give it as cursor for the next page; it needs no other parameter. Absent on the last page"`
		Query      queryEcho `json:"query"`
	}
	queryEcho struct {
		Tier  string   `json:"tier,omitempty" enum:"all,any" doc:"all: every result has all words of the query; any: the last ones have some of them. Absent without q"`
		Words []string `json:"words,omitempty" nullable:"false" doc:"The words that were searched for"`
	}
	statistics struct {
		Entries    map[string]int64 `json:"entries" doc:"Entries by state; lead counts cards without an entry yet"`
		Tombstones int64            `json:"tombstones" doc:"Removed entries of which the index still knows the reason"`
		Hosts      int64            `json:"hosts"`
		Documents  int64            `json:"documents"`
		Epoch      string           `json:"epoch" doc:"New when the database is new or restored"`
		Seq        int64            `json:"seq" doc:"Last change"`
		UpdatedAt  *time.Time       `json:"updatedAt,omitempty" doc:"When that was"`
	}
	health struct {
		Status string `json:"status" enum:"ok"`
	}
	readiness struct {
		Ready          bool    `json:"ready"`
		Loaded         bool    `json:"loaded" doc:"The search index is there"`
		Epoch          string  `json:"epoch,omitempty"`
		Seq            int64   `json:"seq" doc:"Last change that the search index holds"`
		Head           int64   `json:"head" doc:"Last change in the store; 0 while it cannot be read"`
		LagSeconds     float64 `json:"lagSeconds" doc:"Time since the search index was at the head"`
		StoreReachable bool    `json:"storeReachable"`
		Live           int     `json:"live" doc:"Entries that the search index holds"`
	}
)

type (
	listInput struct {
		Q      string `query:"q" maxLength:"200" doc:"What to look for: words of any language, at most 200 characters. All words are asked for first; the last one may be a beginning. Without q the answer lists all apps." example:"team calendar"`
		Limit  int    `query:"limit" minimum:"1" maximum:"100" doc:"Results on a page; 20 by default"`
		Cursor string `query:"cursor" maxLength:"2048" pattern:"^[A-Za-z0-9_-]*$" doc:"nextCursor of the page before. It needs no other parameter; a different q or limit is an error."`
		Have   string `header:"If-None-Match" doc:"ETags of answers that the client has"`
	}
	idInput struct {
		ID   string `path:"id" pattern:"^[0-9a-f]{64}$" minLength:"64" maxLength:"64" doc:"Hex SHA-256 of the card's address" example:"b5bb9d8014a0f9b1d61e21e796d78dccdf1352f23cd32812f4850b878ae4944c"`
		Have string `header:"If-None-Match" doc:"ETags of answers that the client has"`
	}
	cardInput struct {
		URL  string `query:"url" required:"true" minLength:"1" doc:"Address of the card; it need not be in normal form" example:"https://app.example.com/card.json"`
		Have string `header:"If-None-Match" doc:"ETags of answers that the client has"`
	}
	statsInput struct {
		Have string `header:"If-None-Match" doc:"ETags of answers that the client has"`
	}
	submitInput struct {
		Type    string `header:"Content-Type" hidden:"true"`
		RawBody []byte `contentType:"application/json"`
	}
)

// install registers the operations of /v1 and of health.
func (h *handler) install(mux *http.ServeMux) error {
	errorShape()
	config := huma.DefaultConfig("OpenBot index", h.opts.Version)
	config.CreateHooks = nil // they would add $schema to every answer
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.RejectUnknownQueryParameters = true
	config.Info.Description = describeIndex(h.opts.About, h.opts.Contact)
	api := humago.New(mux, config)
	at := operations{api: api, registry: api.OpenAPI().Components.Schemas}

	reads := []int{http.StatusBadRequest, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}
	lookups := append([]int{http.StatusNotFound, http.StatusGone}, reads...)
	huma.Register(api, at.op("searchApps", http.MethodGet, "/v1/apps", "Search or list apps", describeApps,
		http.StatusOK, appsPage{}, append([]int{http.StatusGone}, reads...), true), h.listApps)
	huma.Register(api, at.op("getApp", http.MethodGet, "/v1/apps/{id}", "One app, with its card", describeApp,
		http.StatusOK, detail{}, lookups, true), h.getApp)
	huma.Register(api, at.op("getAppByCard", http.MethodGet, "/v1/apps/by-card", "One app by the address of its card", describeByCard,
		http.StatusOK, detail{}, lookups, true), h.getByCard)
	submit := at.op("submit", http.MethodPost, "/v1/submissions", "Tell the crawler of an address", describeSubmit,
		http.StatusAccepted, accepted{}, append([]int{http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType}, reads...), false)
	submit.MaxBodyBytes, submit.SkipValidateBody = maxBody+1, true // huma refuses a body of exactly its limit
	huma.Register(api, submit, h.postSubmission)
	huma.Register(api, at.op("getStats", http.MethodGet, "/v1/stats", "Counts", describeStats,
		http.StatusOK, statistics{}, reads, true), h.getStats)
	for id, path := range map[string]string{"health": "/healthz", "healthV1": "/v1/healthz"} {
		huma.Register(api, at.op(id, http.MethodGet, path, "Does the process live?", "Says nothing about the index: see /readyz.",
			http.StatusOK, health{}, []int{http.StatusBadRequest}, false), h.getHealth)
	}
	huma.Register(api, at.op("ready", http.MethodGet, "/readyz", "Is the search index loaded and current?", describeReady,
		http.StatusOK, readiness{}, []int{http.StatusBadRequest}, false, http.StatusServiceUnavailable), h.getReady)

	schemas := at.registry.Map()
	delete(schemas, "ErrorModel") // huma's own error, which no operation uses
	delete(schemas, "ErrorDetail")
	for _, schema := range schemas {
		schema.AdditionalProperties = nil // members may be added later
	}
	for _, path := range api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post} {
			if op == nil {
				continue
			}
			delete(op.Responses, "422") // huma's status for failed validation; here it is 400
			for _, r := range op.Responses {
				delete(r.Headers, "Content-Type") // content says so
				if op.Responses["304"] == nil {
					delete(r.Headers, "ETag")
				}
			}
		}
	}
	// huma sees only bytes in a body that it does not read itself.
	api.OpenAPI().Paths["/v1/submissions"].Post.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		jsonType: {Schema: at.registry.Schema(reflect.TypeFor[submission](), true, "")},
	}}
	var err error
	if h.describe, err = json.MarshalIndent(api.OpenAPI(), "", "  "); err != nil {
		return err
	}
	mux.HandleFunc("GET /openapi.json", h.getDescription)
	return nil
}

// operations describes operations.
type operations struct {
	api      huma.API
	registry huma.Registry
}

// op describes one operation. shape is the body of its good answer, and of the
// statuses alike; errors are problems.
func (o operations) op(id, method, path, summary, description string, status int, shape any, errors []int, cached bool, alike ...int) huma.Operation {
	op := huma.Operation{
		OperationID: id, Method: method, Path: path, Summary: summary, Description: description,
		DefaultStatus: status, Metadata: map[string]any{ours: true}, Responses: map[string]*huma.Response{},
	}
	body := func(kind string, v any) map[string]*huma.MediaType {
		return map[string]*huma.MediaType{kind: {Schema: o.registry.Schema(reflect.TypeOf(v), true, id)}}
	}
	header := func(text string) *huma.Param {
		return &huma.Param{Description: text, Schema: &huma.Schema{Type: huma.TypeString}}
	}
	for _, s := range append([]int{status}, alike...) {
		op.Responses[strconv.Itoa(s)] = &huma.Response{Description: http.StatusText(s), Content: body(jsonType, shape)}
	}
	if cached {
		tag := map[string]*huma.Param{"ETag": header("Weak tag of the answer"), "Cache-Control": header("How long it may be kept")}
		op.Responses[strconv.Itoa(status)].Headers = tag
		op.Responses["304"] = &huma.Response{Description: "The client has this answer", Headers: tag}
	}
	for _, s := range errors {
		r := &huma.Response{Description: http.StatusText(s), Content: body(problemType, problem{})}
		if s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable {
			r.Headers = map[string]*huma.Param{"Retry-After": header("Seconds to wait")}
		}
		op.Responses[strconv.Itoa(s)] = r
	}
	return op
}
