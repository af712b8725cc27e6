package cimd

import (
	"encoding/json"
	"testing"

	"github.com/openbot-build/openbot-go/internal/webtest"
)

type vector struct {
	ID    string          `json:"id"`
	Op    string          `json:"op"`
	Input json.RawMessage `json:"input"`
	Want  json.RawMessage `json:"want"`
	Why   string          `json:"why"`
}

// vectorsOf runs each case of an operation; an operation without one fails.
func vectorsOf(t *testing.T, op string, run func(t *testing.T, v vector)) {
	found := 0
	for _, file := range webtest.Vectors[struct {
		Vectors []vector `json:"vectors"`
	}](t, "oauth-vectors.json") {
		for _, v := range file.Vectors {
			if v.Op == op {
				found++
				t.Run(v.ID, func(t *testing.T) { run(t, v) })
			}
		}
	}
	if found == 0 {
		t.Fatalf("there is no case of %s", op)
	}
}

func decode(t *testing.T, raw json.RawMessage, to any) {
	t.Helper()
	if err := json.Unmarshal(raw, to); err != nil {
		t.Fatal(err)
	}
}

func TestVectorsClientID(t *testing.T) {
	vectorsOf(t, "as.cimd_client_id", func(t *testing.T, v vector) {
		var in struct {
			ClientID string `json:"client_id"`
		}
		var want bool
		decode(t, v.Input, &in)
		decode(t, v.Want, &want)
		if err := CheckID(in.ClientID); (err == nil) != want {
			t.Errorf("CheckID(%q) = %v, want accepted: %v (%s)", in.ClientID, err, want, v.Why)
		}
	})
}

func TestVectorsDocument(t *testing.T) {
	vectorsOf(t, "as.cimd_doc", func(t *testing.T, v vector) {
		var in struct {
			ClientID    string `json:"client_id"`
			Status      int    `json:"status"`
			ContentType string `json:"content_type"`
			Body        string `json:"body"`
		}
		var want struct{ Accept bool }
		decode(t, v.Input, &in)
		decode(t, v.Want, &want)
		_, err := Parse(in.ClientID, in.Status, in.ContentType, []byte(in.Body))
		if (err == nil) != want.Accept {
			t.Errorf("Parse(%q) = %v, want accepted: %v (%s)", in.ClientID, err, want.Accept, v.Why)
		}
	})
}

func TestVectorsRedirect(t *testing.T) {
	vectorsOf(t, "as.redirect_match", func(t *testing.T, v vector) {
		var in struct {
			Registered []string `json:"registered"`
			Presented  string   `json:"presented"`
		}
		var want bool
		decode(t, v.Input, &in)
		decode(t, v.Want, &want)
		if got := MatchRedirect(in.Registered, in.Presented); got != want {
			t.Errorf("MatchRedirect(%q, %q) = %v, want %v (%s)", in.Registered, in.Presented, got, want, v.Why)
		}
	})
}
