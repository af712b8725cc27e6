package search_test

import (
	"context"
	"fmt"
	"time"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/search"
)

// notes is a store that holds one app and never changes.
type notes struct{}

func (notes) Snapshot(_ context.Context, fn func(*index.Entry) error) (index.Head, error) {
	err := fn(&index.Entry{
		ID: index.ID("https://notes.example.com/card"), CardURL: "https://notes.example.com/card", State: index.Listed,
		Name: "com.example.notes/app", DisplayName: "Quick Notes", Description: "记录待办事项 and ideas",
	})
	return index.Head{Epoch: "e", Seq: 1}, err
}

func (notes) Head(context.Context) (index.Head, error) { return index.Head{Epoch: "e", Seq: 1}, nil }

func (notes) Changes(context.Context, int64, int) ([]index.Change, error) { return nil, nil }

func (notes) Watch(context.Context) <-chan struct{} { return nil }

func ExampleIndex() {
	x := search.New(nil)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go x.Follow(ctx, notes{}) // until ctx ends
	for !x.Status().Loaded {
		time.Sleep(time.Millisecond)
	}
	for _, text := range []string{"notes", "idea", "待办", "calendar"} {
		page, err := x.Search(ctx, search.Query{Text: text, Limit: 10})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(text, len(page.Hits))
	}
	// Output:
	// notes 1
	// idea 1
	// 待办 1
	// calendar 0
}

func ExampleCleanText() {
	fmt.Printf("%q\n", search.CleanText("invoice\u202Efdp.exe\nline two"))
	// Output: "invoicefdp.exe line two"
}
