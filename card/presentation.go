package card

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/openbot-build/openbot-go/internal/strictjson"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// PresentationKey is the member of _meta that holds the presentation block.
const PresentationKey = "openbot/presentation"

const presentationPointer = "/_meta/openbot~1presentation"

// Presentation is the examples that an app shows.
type Presentation struct {
	Version  string    `json:"version"`  // "1"
	Examples []Example `json:"examples"` // 1 to 12
}

// Example is one thing to ask the app for. All texts are data, shown as plain
// text; choosing an example starts nothing (OB-26). Lengths are in code points.
type Example struct {
	ID          string   `json:"id"`                    // unique in the block; 1 to 100 ASCII letters, digits, '.', '_', '-'
	Title       string   `json:"title"`                 // 1 to 100
	Prompt      string   `json:"prompt"`                // 1 to 2000
	Description string   `json:"description,omitempty"` // up to 500
	Preview     *Preview `json:"preview,omitempty"`
}

// Preview is a picture of an example's result. All five members are required.
type Preview struct {
	Src      string `json:"src"`      // absolute https URL
	Alt      string `json:"alt"`      // up to 500 code points
	Width    int    `json:"width"`    // 1 to 8192 pixels
	Height   int    `json:"height"`   // 1 to 8192 pixels
	MimeType string `json:"mimeType"` // PNG, JPEG, WebP, AVIF or SVG
}

// Presentation reads the presentation block. No block: nil, nil. A faulty
// block: nil and Errors; the card stays usable (OB-25). Pointers start at the
// card's root.
//
// Source: OB-20 to OB-27, documents V7.
func (c *Card) Presentation() (*Presentation, error) {
	raw, ok := c.Meta[PresentationKey]
	if !ok {
		return nil, nil
	}
	doc, err := strictjson.Parse(raw)
	if err != nil {
		return nil, Errors{notJSON(presentationPointer, err)}
	}
	var r reader
	p := r.presentation(doc.Root(), presentationPointer)
	if err := r.err(); err != nil {
		return nil, err
	}
	return p, nil
}

// SetPresentation stores p as the card's presentation block; nil removes it.
// An empty Version stands for "1". When p is at fault the card stays as it
// was and the error is Errors.
func (c *Card) SetPresentation(p *Presentation) error {
	if p == nil {
		delete(c.Meta, PresentationKey)
		return nil
	}
	block := *p
	if block.Version == "" {
		block.Version = "1"
	}
	raw, err := json.Marshal(block)
	if err != nil {
		return fmt.Errorf("encode presentation: %w", err)
	}
	trial := Card{Meta: map[string]json.RawMessage{PresentationKey: raw}}
	if _, err := trial.Presentation(); err != nil {
		return err
	}
	if c.Meta == nil {
		c.Meta = make(map[string]json.RawMessage, 1)
	}
	c.Meta[PresentationKey] = raw
	return nil
}

func (r *reader) presentation(v strictjson.Value, at string) *Presentation {
	if !r.object(v, at) {
		return nil
	}
	p := &Presentation{}
	var version, examples strictjson.Value
	for key, v := range v.Members() {
		switch string(key) {
		case "version":
			version = v
		case "examples":
			examples = v
		}
	}
	var ok bool
	if p.Version, ok = r.required(version, at, "version", `write "1"`); ok && p.Version != "1" {
		r.fault(at+"/version", `is %s; only version "1" is known`, strictjson.Quote(p.Version))
	}
	if examples.Kind() == strictjson.None {
		r.fault(at+"/examples", "is missing; list 1 to 12 examples, or leave the block out")
	}
	if !r.array(examples, at+"/examples") {
		return p
	}
	switch n := examples.Len(); {
	case n == 0:
		r.fault(at+"/examples", "is empty; list 1 to 12 examples, or leave the block out")
	case n > 12:
		r.fault(at+"/examples", "has %d items; at most 12 are allowed, remove %d", n, n-12)
		return p
	}
	first := make(map[string]int)
	for i, v := range examples.Elements() {
		e, at := Example{}, at+"/examples/"+strconv.Itoa(i)
		r.example(v, at, &e)
		if e.ID != "" {
			if before, ok := first[e.ID]; ok {
				r.fault(at+"/id", "is %s like the id of example %d; give each example its own", strictjson.Quote(e.ID), before)
			} else {
				first[e.ID] = i
			}
		}
		p.Examples = append(p.Examples, e)
	}
	return p
}

func (r *reader) example(v strictjson.Value, at string, e *Example) {
	if !r.object(v, at) {
		return
	}
	var id, title, prompt, description, preview strictjson.Value
	for key, v := range v.Members() {
		switch string(key) {
		case "id":
			id = v
		case "title":
			title = v
		case "prompt":
			prompt = v
		case "description":
			description = v
		case "preview":
			preview = v
		}
	}
	var ok bool
	if e.ID, ok = r.required(id, at, "id", "give the example a short id"); ok &&
		r.length(e.ID, at, "id", 100) && (!isAlnum(e.ID[0]) || !only(e.ID, "._-")) {
		r.fault(at+"/id", "is %s; use ASCII letters, digits, '.', '_' and '-', beginning with a letter or digit", strictjson.Quote(e.ID))
	}
	if e.Title, ok = r.required(title, at, "title", "write 1 to 100 characters"); ok {
		r.length(e.Title, at, "title", 100)
	}
	if e.Prompt, ok = r.required(prompt, at, "prompt", "write 1 to 2000 characters"); ok {
		r.length(e.Prompt, at, "prompt", 2000)
	}
	if e.Description, ok = r.text(description, at, "description"); ok && e.Description != "" {
		r.length(e.Description, at, "description", 500)
	}
	if preview.Kind() != strictjson.None {
		e.Preview = r.preview(preview, at+"/preview")
	}
}

func (r *reader) preview(v strictjson.Value, at string) *Preview {
	if !r.object(v, at) {
		return nil
	}
	p := &Preview{}
	var src, alt, width, height, mimeType strictjson.Value
	for key, v := range v.Members() {
		switch string(key) {
		case "src":
			src = v
		case "alt":
			alt = v
		case "width":
			width = v
		case "height":
			height = v
		case "mimeType":
			mimeType = v
		}
	}
	var ok bool
	if p.Src, ok = r.required(src, at, "src", "write the picture's https address"); ok {
		if _, err := weburl.Parse(p.Src); err != nil {
			r.fault(at+"/src", "cannot be used: %v", err)
		}
	}
	if p.Alt, ok = r.required(alt, at, "alt", "say in up to 500 characters what the picture shows"); ok && utf8.RuneCountInString(p.Alt) > 500 {
		r.length(p.Alt, at, "alt", 500)
	}
	p.Width = r.pixels(width, at, "width")
	p.Height = r.pixels(height, at, "height")
	if p.MimeType, ok = r.required(mimeType, at, "mimeType", `write the picture's type, such as "image/webp"`); ok {
		r.oneOf(strings.ToLower(p.MimeType), at, "mimeType", "image/png", "image/jpeg", "image/webp", "image/avif", "image/svg+xml")
	}
	return p
}

func (r *reader) pixels(v strictjson.Value, at, name string) int {
	const most = 8192
	if v.Kind() == strictjson.None {
		r.faultIn(at, name, "is missing; write a whole number from 1 to %d", most)
		return 0
	}
	n, ok := v.Int()
	if !ok || n < 1 || n > most {
		got := string(v.Raw())
		if v.Kind() != strictjson.Number {
			got = v.Kind().String()
		} else if len(got) > 40 {
			got = got[:40] + "..."
		}
		r.faultIn(at, name, "is %s; it must be a whole number from 1 to %d", got, most)
	}
	return n
}
