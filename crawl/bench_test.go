package crawl

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/sqlite"
	"github.com/openbot-build/openbot-go/internal/fakenet"
	"github.com/openbot-build/openbot-go/publicnet"
)

// BenchmarkVisit is one host with a catalog and a card, in real time: robots.txt,
// two documents, evidence, and its share of a transaction. Server and TLS are
// part of it.
func BenchmarkVisit(b *testing.B) {
	net := fakenet.New()
	defer net.Close()
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "index.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	var docs []index.NewDoc
	for i := range b.N {
		origin := fmt.Sprintf("https://h%d.example%d.com", i, i%1000)
		net.Set(origin+wellKnownPath, fakenet.Answer{Body: catalogJSON(origin + "/card")})
		net.Set(origin+"/card", fakenet.Answer{Body: cardJSON("com.example/notes", "")})
		docs = append(docs, index.NewDoc{URL: origin + wellKnownPath, Kind: index.CatalogDoc, Class: index.ClassUser})
	}
	if _, err := store.AddSource(b.Context(), time.Now(), docs...); err != nil {
		b.Fatal(err)
	}
	c, err := New(&Config{Store: store, About: "https://c.example.org/", Contact: "c@example.org", Network: &publicnet.Options{Below: net.Below()}})
	if err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	if err := c.Settle(ctx, 5*time.Second); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	stats, err := store.Stats(b.Context(), time.Now())
	if err != nil || stats.Entries[index.Listed] != int64(b.N) {
		b.Fatalf("listed %d of %d, %v", stats.Entries[index.Listed], b.N, err)
	}
}
