package sqlite_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/openbot-build/openbot-go/host/sqlite"
	"github.com/openbot-build/openbot-go/oauth"
)

// A setting of one user is not given for another target.
func Example() {
	dir, err := os.MkdirTemp("", "host")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	ctx := context.Background()
	store, err := sqlite.Open(ctx, filepath.Join(dir, "host.db"), &sqlite.Options{
		MasterKey: sqlite.KeyFile(filepath.Join(dir, "keys")), // better in another place
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()

	c := oauth.Connection{ID: "1", User: "ann", CardURL: "https://notes.example.com/card", Endpoint: "https://notes.example.com/mcp"}
	if err := store.Add(ctx, c); err != nil {
		fmt.Println(err)
		return
	}
	if err := store.PutSetting(ctx, c, sqlite.Header, "X-Key", "a secret"); err != nil {
		fmt.Println(err)
		return
	}
	value, err := store.Setting(ctx, c, sqlite.Header, "X-Key")
	fmt.Println(value, len(value.Reveal()), err)

	c.Endpoint = "https://elsewhere.example.net/mcp"
	_, err = store.Setting(ctx, c, sqlite.Header, "X-Key")
	fmt.Println(errors.Is(err, oauth.ErrReview))
	// Output:
	// [secret] 8 <nil>
	// true
}
