package main

import (
	"os"
	"testing"
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
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	passes(t, b, clients, self+" client")
}
