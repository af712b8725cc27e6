package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/openbot-build/openbot-go/oauth"
)

// The suite runs this test program again as the client.
func TestMain(m *testing.M) {
	if os.Getenv(scenarioVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// Every required client scenario passes with the product's network and sign-in
// below the SDK's client, and the client gives up in exactly those whose server
// is not to be trusted.
func TestClientConformance(t *testing.T) {
	b := packages(t)
	command, err := clientCommand()
	if err != nil {
		t.Fatal(err)
	}
	passes(t, b, clients, command)
}

// A client that does nothing passes nothing, though the suite itself has a good
// word for it in one scenario.
func TestClientConformanceCatches(t *testing.T) {
	v, err := packages(t).judge(t.Context(), clients, "false")
	if err != nil {
		t.Fatal(err)
	}
	if len(v.passed) != 0 || v.check() == nil {
		t.Errorf("passed: %q", v.passed)
	}
}

// The SDK answers a refused server/discover with an initialize. Where that one
// needs no token the challenge would be lost; oauth.Client.Transport keeps it.
func TestConnectKeepsTheChallenge(t *testing.T) {
	n := newLoopback(t)
	var mu sync.Mutex
	var methods []string
	n.serve("apps.example.com", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var message struct{ Method string }
		_ = json.NewDecoder(r.Body).Decode(&message)
		mu.Lock()
		methods = append(methods, message.Method)
		mu.Unlock()
		if message.Method == "initialize" {
			http.Error(w, "only 2026-07-28", http.StatusBadRequest)
			return
		}
		w.Header().Set("WWW-Authenticate", `Bearer scope="notes.read"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	f := &flow{T: t, authority: &authority{}, net: n, network: n.network(t)}
	v := f.visitor()

	need := new(oauth.SignInRequired)
	if err := v.connect(t.Context()); !errors.As(err, &need) || !slices.Equal(need.Challenge.Scope, []string{"notes.read"}) {
		t.Errorf("the challenge is lost: %v", err)
	}
	if !slices.Equal(methods, []string{"server/discover"}) {
		t.Errorf("requests %q", methods)
	}
}
