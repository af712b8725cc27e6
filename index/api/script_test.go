package api

import (
	"encoding/json"
	"testing"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/webtest"
)

// sample is the index that the scripts ask.
func sample(t testing.TB) *memory {
	m := newMemory()
	m.put(
		entryFor(t, "https://calendar.example.com/card", "Team Calendar", "Look up schedules and create events.", func(e *index.Entry, c *card.Card) {
			c.Name = "com.example.calendar/app"
			e.Tags = []string{"calendar", "meetings"}
			c.Icons = []card.Icon{{Src: "https://calendar.example.com/icon.png", MimeType: "image/png", Sizes: []string{"48x48"}}}
			if err := c.SetPresentation(&card.Presentation{Version: "1", Examples: []card.Example{{ID: "slot", Title: "Free slot", Prompt: "Find a free slot next week."}}}); err != nil {
				t.Fatal(err)
			}
			c.Meta["vendor"] = json.RawMessage(`{"stars":5}`)
		}),
		entryFor(t, "https://notes.example.com/card", "笔记本", "记录想法，整理待办事项", func(e *index.Entry, c *card.Card) {
			e.Evidence.Kind = catalog.LinkHeader
			e.Evidence.Chain = []string{"https://notes.example.com/card", "https://notes.example.com/cat.json"}
		}),
		entryFor(t, "https://weather.example.com/card", "Weather", "Hourly forecasts.", func(e *index.Entry, c *card.Card) {
			e.State, e.Reason, e.StaleSince = index.Stale, index.ReasonUnconfirmed, day.AddDate(0, 0, -10)
			e.Evidence.Kind = catalog.Website
		}),
		removed("https://old.example.com/card", index.Removed, index.ReasonDelisted),
	)
	return m
}

func TestScripts(t *testing.T) {
	webtest.Run(t, open(t, sample(t), nil), "testdata/*.txt")
}
