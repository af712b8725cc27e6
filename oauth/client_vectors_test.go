package oauth

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/internal/webtest"
)

// opOwners are all ops of the vector files and the package that runs each.
var opOwners = map[string]string{
	"client.challenge": "oauth", "client.prm_urls": "oauth", "client.prm_accept": "oauth", "client.as_urls": "oauth", "client.as_accept": "oauth",
	"client.authz_response": "oauth", "client.step_up": "oauth", "scenario.refresh": "oauth", "scenario.binding": "oauth", "scenario.delete": "oauth",
	"rs.request": "oauth", "jwks.usable": "internal/accesstoken", "scenario.cors": "oauth",
	"as.cimd_client_id": "oauth/cimd", "as.cimd_doc": "oauth/cimd", "as.redirect_match": "oauth/cimd",
}

type clientVector struct {
	ID, Op, Why string
	Input, Want json.RawMessage
}

func readClientVectors(t *testing.T) []clientVector {
	t.Helper()
	var all []clientVector
	for _, file := range webtest.VectorFiles(t, "oauth*vectors.json") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var set struct{ Vectors []clientVector }
		if err := json.Unmarshal(data, &set); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, set.Vectors...)
	}
	return all
}

// TestVectorsEveryOpHasAnOwner fails for an op that no package runs.
func TestVectorsEveryOpHasAnOwner(t *testing.T) {
	for _, v := range readClientVectors(t) {
		if opOwners[v.Op] == "" {
			t.Errorf("%s: nobody runs the op %q", v.ID, v.Op)
		}
	}
}

// TestVectorsClient runs the cases on the host side.
func TestVectorsClient(t *testing.T) {
	run := map[string]func(*testing.T, clientVector){
		"client.challenge": vectorChallenge, "client.prm_urls": vectorResourceURLs, "client.prm_accept": vectorResourceAccept, "client.as_urls": vectorServerURLs,
		"client.as_accept": vectorServerAccept, "client.authz_response": vectorCallback, "client.step_up": vectorStepUp,
		"scenario.refresh": vectorRefresh, "scenario.binding": vectorBinding, "scenario.delete": vectorDelete,
	}
	seen := map[string]int{}
	for _, v := range readClientVectors(t) {
		if run[v.Op] == nil {
			continue
		}
		seen[v.Op]++
		t.Run(v.ID, func(t *testing.T) { run[v.Op](t, v) })
	}
	for op := range run {
		if seen[op] == 0 {
			t.Errorf("no case of %s", op)
		}
	}
}

// in decodes input and want.
func (v clientVector) in(t *testing.T, input, want any) {
	t.Helper()
	for _, d := range []struct {
		raw json.RawMessage
		to  any
	}{{v.Input, input}, {v.Want, want}} {
		if err := json.Unmarshal(d.raw, d.to); err != nil {
			t.Fatal(err)
		}
	}
}

func vectorChallenge(t *testing.T, v clientVector) {
	var in struct {
		Lines []string `json:"www_authenticate"`
	}
	var want struct {
		Present  bool
		Error    string
		Scope    []string
		Metadata string `json:"resource_metadata"`
	}
	v.in(t, &in, &want)
	got := ParseChallenge(http.Header{"Www-Authenticate": in.Lines})
	if d := cmp.Diff(Challenge{Present: want.Present, Error: want.Error, Scope: want.Scope, ResourceMetadata: want.Metadata}, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Challenge{})); d != "" {
		t.Errorf("%s\n%s", v.Why, d)
	}
}

func vectorResourceURLs(t *testing.T, v clientVector) {
	type form struct {
		URL    string `json:"url"`
		Expect string `json:"expect_resource"`
	}
	var in struct {
		Endpoint  string
		Challenge string `json:"challenge_url"`
	}
	var want, got []form
	v.in(t, &in, &want)
	probes, err := resourceProbes(in.Endpoint, in.Challenge, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range probes {
		got = append(got, form{p.URL, p.Expect})
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s\n%s", v.Why, d)
	}
}

func wantVerdict(t *testing.T, v clientVector, want string, err error) {
	t.Helper()
	if (want == "accept") != (err == nil) {
		t.Errorf("%s: want %s, got %v", v.Why, want, err)
	}
}

func vectorResourceAccept(t *testing.T, v clientVector) {
	var in struct {
		Doc    json.RawMessage
		Expect string `json:"expect_resource"`
	}
	var want string
	v.in(t, &in, &want)
	doc := &resourceMetadata{}
	err := strictjson.Unmarshal(in.Doc, doc)
	if err == nil {
		err = acceptResource(doc, in.Expect, newWorld(t).client.check)
	}
	wantVerdict(t, v, want, err)
}

func vectorServerURLs(t *testing.T, v clientVector) {
	var in struct{ Issuer string }
	var want []string
	v.in(t, &in, &want)
	if d := cmp.Diff(want, serverURLs(in.Issuer)); d != "" {
		t.Errorf("%s\n%s", v.Why, d)
	}
}

func vectorServerAccept(t *testing.T, v clientVector) {
	var in struct {
		Doc    json.RawMessage
		Issuer string
	}
	var want string
	v.in(t, &in, &want)
	doc := &serverMetadata{}
	err := strictjson.Unmarshal(in.Doc, doc)
	if err == nil {
		err = errors.Join(acceptServer(doc, in.Issuer, newWorld(t).client.check), doc.usable())
	}
	wantVerdict(t, v, want, err)
}

func vectorCallback(t *testing.T, v clientVector) {
	var in struct {
		Query, State, Issuer string
		Advertised           bool `json:"iss_advertised"`
	}
	var want struct {
		Action string
		Show   bool `json:"show_error"`
	}
	v.in(t, &in, &want)
	q, state, err := parseCallback(in.Query)
	if err == nil && state != in.State {
		err = ErrNotFound
	}
	if err == nil {
		_, err = judgeCallback(q, in.Issuer, in.Advertised)
	}
	var theirs *callbackError
	shown := errors.As(err, &theirs)
	rejected := err != nil && !shown
	if shown != want.Show || !shown && rejected != (want.Action == "reject") {
		t.Errorf("%s: want %+v, got %v", v.Why, want, err)
	}
	if rejected && q != nil && q.Get("error_description") != "" && strings.Contains(err.Error(), q.Get("error_description")) {
		t.Errorf("the error of a stranger is shown: %v", err)
	}
}

func vectorStepUp(t *testing.T, v clientVector) {
	var in struct {
		Status, Attempts int
		Error            string
		Challenged       []string `json:"challenge_scope"`
		Before           []string `json:"requested_before"`
	}
	var want struct {
		Action string
		Scopes []string `json:"request_scopes"`
	}
	v.in(t, &in, &want)
	ch := Challenge{Present: true, Status: in.Status, Error: in.Error, Scope: in.Challenged}
	got, scopes := "fail", []string(nil)
	if in.Attempts == 0 && ch.asksForMore() {
		got = "authorize"
		scopes = scopesToAsk(&ch, &resourceMetadata{}, &serverMetadata{}, &Tokens{Requested: in.Before})
	}
	if got != want.Action || !slices.Equal(scopes, want.Scopes) {
		t.Errorf("%s: got %s %q, want %+v", v.Why, got, scopes, want)
	}
}
