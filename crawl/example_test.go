package crawl_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/openbot-build/openbot-go/crawl"
	"github.com/openbot-build/openbot-go/index/sqlite"
)

// A crawler that works until it is interrupted.
func Example() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	store, err := sqlite.Open(ctx, "index.db", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	c, err := crawl.New(&crawl.Config{
		Store:   store,
		About:   "https://crawler.your.domain/",
		Contact: "crawler@your.domain",
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Run(ctx); err != nil {
		log.Fatal(err)
	}
}

// A domain stands for the catalog at its well-known place; any other address
// is visited as it is and tells by its answer what it is.
func ExampleAddSource() {
	for _, input := range []string{"apps.example.com", "https://apps.example.com/apps/calendar"} {
		doc, err := crawl.AddSource(input)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(doc.URL)
	}
	// Output:
	// https://apps.example.com/.well-known/ai-catalog.json
	// https://apps.example.com/apps/calendar
}
