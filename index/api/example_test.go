package api_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/api"
	"github.com/openbot-build/openbot-go/index/search"
)

// empty is a store without entries.
type empty struct{}

func (empty) AddSource(_ context.Context, _ time.Time, docs ...index.NewDoc) ([]index.NewDoc, error) {
	fmt.Println("to visit:", docs[0].URL)
	return nil, nil
}

func (empty) Get(context.Context, string) (*index.Entry, error) { return nil, index.ErrNotFound }

func (empty) Stats(context.Context, time.Time) (*index.Stats, error) { return &index.Stats{}, nil }

func (empty) Head(context.Context) (index.Head, error) { return index.Head{}, nil }

func ExampleNew() {
	handler, err := api.New(&api.Options{Store: empty{}, Search: search.New(nil)})
	if err != nil {
		fmt.Println(err)
		return
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("GET", "/v1/apps?q=calendar&colour=blue", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output:
	// 400 {"title":"Bad Request","status":400,"detail":"colour is no parameter of this address","faults":[{"name":"colour","reason":"colour is no parameter of this address"}]}
}
