package cimd_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/openbot-build/openbot-go/oauth/cimd"
)

// A host on its user's computer publishes what it is. The redirects are
// registered without a port, and any port may be used.
func ExampleNew() {
	doc, err := cimd.New("https://host.example/client.json", "My Host", "http://127.0.0.1/callback", "http://[::1]/callback")
	if err != nil {
		log.Fatal(err)
	}
	handler, err := doc.Handler()
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("GET /client.json", handler)

	body, err := doc.Encode()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(string(body))
	// Output:
	// {
	//   "client_id": "https://host.example/client.json",
	//   "client_name": "My Host",
	//   "redirect_uris": [
	//     "http://127.0.0.1/callback",
	//     "http://[::1]/callback"
	//   ],
	//   "grant_types": [
	//     "authorization_code",
	//     "refresh_token"
	//   ],
	//   "response_types": [
	//     "code"
	//   ],
	//   "token_endpoint_auth_method": "none",
	//   "application_type": "native"
	// }
}

func ExampleMatchRedirect() {
	registered := []string{"http://127.0.0.1/callback"}
	fmt.Println(cimd.MatchRedirect(registered, "http://127.0.0.1:43117/callback"))
	fmt.Println(cimd.MatchRedirect(registered, "http://127.0.0.1:80@evil.example/callback"))
	// Output:
	// true
	// false
}
