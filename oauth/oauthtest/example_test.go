package oauthtest_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/oauth/oauthtest"
	"github.com/openbot-build/openbot-go/publicnet"
)

// A test of an app needs tokens, and the keys to check them with.
func ExampleServer_Token() {
	internet := fakenet.New() // a program under development has the real one
	defer internet.Close()
	network, err := publicnet.New(&publicnet.Options{UserAgent: "Example/1.0 (+https://example.com/bot)", Below: internet.Below()})
	if err != nil {
		log.Fatal(err)
	}
	server, err := oauthtest.New(&oauthtest.Options{
		Issuer:    "https://as.example.com",
		Resources: []string{"https://apps.example.com/mcp/notes"},
		Scopes:    []string{"notes.read"},
		Network:   network,
	})
	if err != nil {
		log.Fatal(err)
	}
	internet.Handle("as.example.com", server)

	token, err := server.Token("ada", "https://apps.example.com/mcp/notes", "notes.read")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(strings.Split(token, ".")), "parts")
	_, err = server.Token("ada", "https://apps.example.com/mcp/other")
	fmt.Println(err)
	// Output:
	// 3 parts
	// mint token: "https://apps.example.com/mcp/other" is no resource of this server
}

// Approve is the user in a test: it gives what the browser would have been sent
// back to the host with.
func ExampleServer_Approve() {
	internet := fakenet.New()
	defer internet.Close()
	network, err := publicnet.New(&publicnet.Options{UserAgent: "Example/1.0 (+https://example.com/bot)", Below: internet.Below()})
	if err != nil {
		log.Fatal(err)
	}
	internet.Set("https://host.example.com/client.json", fakenet.Answer{
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   `{"client_id":"https://host.example.com/client.json","client_name":"Host","redirect_uris":["http://127.0.0.1/callback"]}`,
	})
	server, err := oauthtest.New(&oauthtest.Options{Issuer: "https://as.example.com", Resources: []string{"https://apps.example.com/mcp/notes"}, Network: network})
	if err != nil {
		log.Fatal(err)
	}
	redirect, err := server.Approve(context.Background(), nil, "https://as.example.com/authorize?response_type=code&client_id=https://host.example.com/client.json"+
		"&redirect_uri=http://127.0.0.1:43117/callback&resource=https://apps.example.com/mcp/notes&state=s"+
		"&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256", "ada")
	if err != nil {
		log.Fatal(err)
	}
	back := httptest.NewRequest(http.MethodGet, redirect, nil)
	fmt.Println(back.Host, back.FormValue("iss"), back.FormValue("state"), back.FormValue("code") != "")
	// Output:
	// 127.0.0.1:43117 https://as.example.com s true
}
