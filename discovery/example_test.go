package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"

	"github.com/openbot-build/openbot-go/discovery"
	"github.com/openbot-build/openbot-go/publicnet"
)

// The smallest program that finds an app. It reads from memory here; with the
// client of a publicnet.Network it reads the Internet.
func Example() {
	resolver, err := discovery.NewResolver(&discovery.Options{Fetch: fromMemory})
	if err != nil {
		log.Fatal(err)
	}
	for _, input := range []string{"https://apps.example.com/apps/calendar", "apps.example.com"} {
		result, err := resolver.Resolve(context.Background(), input)
		if err != nil {
			log.Fatal(err) // a sentence for the person who gave the address
		}
		fmt.Println(input, "is", result.Shape)
		for _, app := range result.Candidates {
			fmt.Printf("  %s: %s at %s\n", app.Card.Title, app.Card.Description, app.Endpoint.URL)
		}
	}
	// Output:
	// https://apps.example.com/apps/calendar is single
	//   Calendar: Plan your week. at https://apps.example.com/mcp/calendar
	// apps.example.com is multiple
	//   Calendar: Plan your week. at https://apps.example.com/mcp/calendar
	//   Notes: Keep notes. at https://apps.example.com/mcp/notes
}

// An address that is not on the public Internet is refused before anything is
// sent, and the error tells the kinds of failure apart.
func ExampleNewResolver() {
	network, err := publicnet.New(&publicnet.Options{UserAgent: "example/1.0 (+https://www.example.com/)"})
	if err != nil {
		log.Fatal(err)
	}
	resolver, err := discovery.NewResolver(&discovery.Options{Client: network.Client()})
	if err != nil {
		log.Fatal(err)
	}
	for _, input := range []string{"localhost", "https://metadata.google.internal/latest", "https://169.254.169.254/", "http://apps.example.com/"} {
		_, err = resolver.Resolve(context.Background(), input)
		if e, ok := errors.AsType[*discovery.Error](err); ok {
			fmt.Println(e.Kind)
		}
	}
	fmt.Println(errors.Is(err, discovery.NotHTTPS))
	// Output:
	// blocked_address
	// blocked_address
	// bad_input
	// not_https
	// true
}

// A crawler gives Confirm its own way to read documents.
func ExampleConfirm() {
	doc, err := fromMemory(context.Background(), "https://apps.example.com/mcp/notes/server-card", discovery.WantCard)
	if err != nil {
		log.Fatal(err)
	}
	app, err := discovery.ReadCard(doc)
	if err != nil {
		log.Fatal(err)
	}
	got, err := discovery.Confirm(context.Background(), &discovery.Subject{
		CardURL: doc.URL, Card: app, Link: doc.Header.Values("Link"), ResponseURL: doc.FinalURL,
	}, fromMemory)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(got.Evidence.Kind, got.Evidence.CatalogURL)
	// Output: well-known https://apps.example.com/.well-known/ai-catalog.json
}

// fromMemory is a discovery.FetchFunc.
func fromMemory(_ context.Context, url string, _ discovery.Want) (*discovery.Document, error) {
	const (
		catalogType = "application/ai-catalog+json"
		cardType    = "application/mcp-server-card+json"
		origin      = "https://apps.example.com"
	)
	entry := func(slug string) string {
		return fmt.Sprintf(`{"identifier":"urn:air:example.com:mcp:%s","type":%q,"url":"%s/mcp/%[1]s/server-card"}`, slug, cardType, origin)
	}
	server := func(slug, title, description string) string {
		return fmt.Sprintf(`{"$schema":"https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json","name":"com.example/%s","version":"1.0.0","title":%q,
			"description":%q,"remotes":[{"type":"streamable-http","url":"%s/mcp/%[1]s","supportedProtocolVersions":["2026-07-28"]}]}`, slug, title, description, origin)
	}
	document := func(mediaType, body string) (*discovery.Document, error) {
		return &discovery.Document{URL: url, FinalURL: url, Status: http.StatusOK, Header: http.Header{"Content-Type": {mediaType}}, Body: []byte(body)}, nil
	}
	switch url {
	case origin + "/.well-known/ai-catalog.json":
		return document(catalogType, `{"specVersion":"1.0","entries":[`+entry("calendar")+`,`+entry("notes")+`]}`)
	case origin + "/apps/calendar":
		return document("text/html", `<!doctype html><title>Calendar</title><link rel="ai-catalog" href="/apps/calendar/catalog.json">`)
	case origin + "/apps/calendar/catalog.json":
		return document(catalogType, `{"specVersion":"1.0","entries":[`+entry("calendar")+`]}`)
	case origin + "/mcp/calendar/server-card":
		return document(cardType, server("calendar", "Calendar", "Plan your week."))
	case origin + "/mcp/notes/server-card":
		return document(cardType, server("notes", "Notes", "Keep notes."))
	}
	return &discovery.Document{URL: url, FinalURL: url, Status: http.StatusNotFound}, nil
}
