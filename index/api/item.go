package api

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/index/search"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// item is one app in an answer (OB-141). Every text is the publisher's own.
type item struct {
	ID          string         `json:"id" doc:"Hex SHA-256 of cardUrl; the path of /v1/apps/{id}"`
	CardURL     string         `json:"cardUrl" doc:"Address of the Server Card: the app's identity"`
	FinalURL    string         `json:"finalUrl,omitempty" doc:"Where the card was read, if cardUrl redirects"`
	Origin      string         `json:"origin" doc:"Origin of cardUrl: who really publishes the app. Show it beside the title"`
	Name        string         `json:"name" doc:"Name in the card. Names are not unique and prove nothing"`
	Version     string         `json:"version" doc:"Version in the card"`
	Title       string         `json:"title" doc:"Title to show: the catalog's displayName, else the card's title, else the name; at most 200 characters. Untrusted plain text"`
	Description string         `json:"description" doc:"The catalog's, else the card's; at most 500 characters. Untrusted plain text"`
	Icons       []icon         `json:"icons,omitempty" nullable:"false" doc:"At most 16, https addresses only; made by the publisher"`
	WebsiteURL  string         `json:"websiteUrl,omitempty" doc:"https address of the app's page"`
	Remotes     []string       `json:"remotes" nullable:"false" doc:"Origins of the app's MCP endpoints, each once"`
	Evidence    *evidence      `json:"evidence" doc:"Why the app is in the index: its publisher's own catalog that lists it"`
	State       string         `json:"state" enum:"listed,stale" doc:"stale: card or evidence cannot be read at present"`
	Reason      string         `json:"reason,omitempty" doc:"Why it is stale: card_unreachable or unconfirmed"`
	StaleSince  *time.Time     `json:"staleSince,omitempty"`
	CheckedAt   time.Time      `json:"checkedAt" doc:"Last visit that could judge the app. A visit without news is shown at most once in seven days"`
	UpdatedAt   time.Time      `json:"updatedAt" doc:"When readers of the index last saw a change"`
	Tags        []string       `json:"tags,omitempty" nullable:"false" doc:"Tags of the catalog entry; at most 32 of at most 64 characters"`
	Examples    []card.Example `json:"examples,omitempty" nullable:"false" doc:"What to ask the app for; at most 12. Untrusted plain text"`
}

type icon struct {
	Src      string   `json:"src"`
	MimeType string   `json:"mimeType,omitempty"`
	Sizes    []string `json:"sizes,omitempty" nullable:"false"`
	Theme    string   `json:"theme,omitempty"`
}

// evidence says which document of the publisher lists the card, and how the
// card leads to it (OB-112).
type evidence struct {
	Kind      string    `json:"kind" enum:"well-known,link-header,website" doc:"well-known: the catalog of the card's own origin; link-header: a catalog named in the card's answer; website: a catalog linked from the app's website"`
	Catalog   string    `json:"catalog" doc:"Address of the catalog"`
	Chain     []string  `json:"chain,omitempty" nullable:"false" doc:"Every address from the card's word to the listing document"`
	CheckedAt time.Time `json:"checkedAt"`
}

// detail is an item with the card.
type detail struct {
	item
	Card json.RawMessage `json:"card"`
}

// Schema describes a detail: an item and one member more.
func (detail) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{AllOf: []*huma.Schema{
		r.Schema(reflect.TypeFor[item](), true, "Item"),
		{Type: huma.TypeObject, Required: []string{"card"}, Properties: map[string]*huma.Schema{"card": {
			Type:        huma.TypeObject,
			Description: "The card as parsed: members of Server Card v1 and the presentation block; others are left out. Untrusted data.",
		}}},
	}}
}

// Bounds on what an item shows of its documents, in characters and in number.
// What is beyond is cut: an answer of a hundred items stays a small one,
// whatever strangers write.
const (
	showTitle       = 200
	showDescription = 500
	showTag         = 64
	showTags        = 32
	showIcons       = 16
	showExamples    = 12
	showPrompt      = 2000
	showVersion     = 255
	showShort       = 100 // sizes, types and the like
	showLinks       = 32  // remotes, sizes of an icon
	showChain       = 16
	showAddress     = 2048
)

// itemOf makes the item of an entry and gives its card; the card is nil if it
// does not parse.
func itemOf(e *index.Entry) (*item, *card.Card) {
	it := &item{
		ID: e.ID, CardURL: e.CardURL, Name: cut(e.Name, showTitle), Version: cut(e.Version, showVersion),
		Description: cut(e.Description, showDescription), Remotes: []string{},
		State: string(e.State), CheckedAt: e.CheckedAt.UTC(), UpdatedAt: e.UpdatedAt.UTC(),
	}
	if e.FinalURL != e.CardURL {
		it.FinalURL = e.FinalURL
	}
	if u, err := weburl.Parse(e.CardURL); err == nil {
		it.Origin = u.Origin()
	}
	if e.State == index.Stale {
		it.Reason = string(e.Reason)
		if !e.StaleSince.IsZero() {
			since := e.StaleSince.UTC()
			it.StaleSince = &since
		}
	}
	if ev := e.Evidence; ev != nil {
		it.Evidence = &evidence{Kind: string(ev.Kind), Catalog: ev.CatalogURL, Chain: first(ev.Chain, showChain), CheckedAt: ev.CheckedAt.UTC()}
	}
	for _, tag := range first(e.Tags, showTags) {
		it.Tags = append(it.Tags, cut(tag, showTag))
	}
	c, err := card.Parse(e.Document)
	if err != nil {
		it.Title = titleOf(e, "")
		return it, nil
	}
	it.Title = titleOf(e, c.Title)
	if strings.TrimSpace(it.Description) == "" {
		it.Description = cut(c.Description, showDescription)
	}
	it.WebsiteURL = httpsURL(c.WebsiteURL)
	for _, i := range c.Icons {
		if src := httpsURL(i.Src); src != "" && len(it.Icons) < showIcons {
			o := icon{Src: src, MimeType: cut(i.MimeType, showShort), Theme: cut(i.Theme, showShort)}
			for _, size := range first(i.Sizes, showLinks) {
				o.Sizes = append(o.Sizes, cut(size, showShort))
			}
			it.Icons = append(it.Icons, o)
		}
	}
	for _, r := range c.Remotes {
		if o, err := r.Origin(); err == nil && len(it.Remotes) < showLinks && !slices.Contains(it.Remotes, o) {
			it.Remotes = append(it.Remotes, o)
		}
	}
	if p, err := c.Presentation(); err == nil && p != nil {
		for _, x := range first(p.Examples, showExamples) {
			it.Examples = append(it.Examples, exampleOf(x))
		}
	}
	return it, c
}

func exampleOf(x card.Example) card.Example {
	x.ID, x.Title = cut(x.ID, showShort), cut(x.Title, showTitle)
	x.Prompt, x.Description = cut(x.Prompt, showPrompt), cut(x.Description, showDescription)
	if x.Preview != nil {
		v := *x.Preview
		v.Alt, v.MimeType, v.Src = cut(v.Alt, showDescription), cut(v.MimeType, showShort), httpsURL(v.Src)
		x.Preview = &v
		if v.Src == "" {
			x.Preview = nil
		}
	}
	return x
}

// titleOf gives the title to show, as catalog.Entry.Label does: what the
// catalog calls the app, else the card's title, else its name, else the end of
// its identifier (K2).
func titleOf(e *index.Entry, title string) string {
	text := func(s string) string { return strings.TrimSpace(cut(s, showTitle)) }
	named := catalog.Entry{DisplayName: text(e.DisplayName), Identifier: clean(e.Identifier)}
	if s := text(named.Label(text(title), text(e.Name))); s != "" {
		return s
	}
	return "(no title)"
}

// cut gives a text as it may be shown, of at most n characters.
func cut(s string, n int) string {
	if end := 16*n + 64; len(s) > end { // no need to clean what is not shown
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end]
	}
	s = clean(s)
	if len(s) <= n {
		return s
	}
	at := 0
	for i := range s {
		if at == n-1 {
			if utf8.RuneCountInString(s[i:]) > 1 {
				return s[:i] + "…"
			}
			return s
		}
		at++
	}
	return s
}

func first[T any](list []T, n int) []T { return list[:min(n, len(list))] }

func clean(s string) string { return search.CleanText(s) }

// httpsURL gives an address in normal form, or nothing if it is no public-style
// https URL.
func httpsURL(s string) string {
	u, err := weburl.Parse(s)
	if err != nil || len(s) > showAddress {
		return ""
	}
	return u.String()
}

// encode gives JSON without HTML escapes: it is no HTML and is not served as it.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// detailOf gives the JSON of an item with its card. c is nil if it does not
// parse, and changed.
func detailOf(it *item, c *card.Card) ([]byte, error) {
	d := detail{item: *it, Card: json.RawMessage("null")}
	if c != nil {
		p, err := c.Presentation()
		c.Meta = nil
		if err == nil && p != nil {
			if err := c.SetPresentation(p); err != nil {
				return nil, err
			}
		}
		body, err := encode(c)
		if err != nil {
			return nil, err
		}
		d.Card = cleanJSON(body)
	}
	return encode(d)
}

// cleanJSON cleans every string of our own JSON, as CleanText does.
func cleanJSON(data []byte) []byte {
	data = []byte(search.CleanText(string(data)))
	out := data[:0]
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' || i+1 == len(data) {
			out = append(out, data[i])
			continue
		}
		i++
		switch {
		case data[i] == 'n' || data[i] == 'r' || data[i] == 't':
			out = append(out, ' ')
		case data[i] == 'b' || data[i] == 'f':
		case data[i] == 'u' && i+4 < len(data):
			// The encoder writes so only control characters and U+2028 and 2029.
			if data[i+1] == '2' {
				out = append(out, ' ')
			}
			i += 4
		default:
			out = append(out, '\\', data[i])
		}
	}
	return out
}
