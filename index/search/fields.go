package search

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/idna"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/catalog"
	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/publicnet"
)

// The fields of BM25F.
const (
	fieldTitle = iota
	fieldName
	fieldPublisher
	fieldTags
	fieldDescription
	fieldPrompts
	fieldCount
)

// fields holds weight and fixed mean length in terms (index.md section 5).
// Weights are doubled, so that 1.5 is a whole number.
var fields = [fieldCount]struct{ weight2, mean int64 }{
	fieldTitle:       {10, 5},
	fieldName:        {8, 8},
	fieldPublisher:   {6, 4},
	fieldTags:        {6, 6},
	fieldDescription: {3, 30},
	fieldPrompts:     {2, 22},
}

const (
	maxFieldTexts = 400       // of one field; later ones are not indexed
	maxFieldTerms = 400       // as its length counts them; likewise
	partOne       = 1<<15 - 1 // a part of 1.0, which no term reaches
)

// Keys of the dictionary that are no words: no word begins with a control
// character. They find entries for the boosts of IX-30.
const (
	keyTitle     = "\x01"
	keyPublisher = "\x02"
)

// termPart is one term of an entry with its share of the score before idf:
// v / (k1 + v), from 0 to partOne.
type termPart struct {
	term string
	part uint16
}

// terms gives what the index keeps of e, by term. It is the same for equal
// entries, and an entry that it cannot analyze has no terms: it is listed, but
// not found.
func (a *analyzer) terms(e *index.Entry) (out []termPart) {
	defer func() {
		if recover() != nil {
			// Entries come from strangers. One that trips a bug costs itself only.
			out = nil
		}
	}()
	doc := docTerms{a: a, in: make(map[string]uint8, 128)}
	texts := textsOf(e)
	for f, list := range texts.fields {
		doc.field = uint8(f)
		for _, text := range list {
			if doc.len[f] >= maxFieldTerms {
				break
			}
			a.tokens(text, doc.add)
		}
	}
	return doc.parts(a, texts)
}

// docTerms collects the terms of one entry.
type docTerms struct {
	a     *analyzer
	field uint8
	in    map[string]uint8 // fields that hold a term, as bits (IX-28: once a field)
	len   [fieldCount]int64
}

func (d *docTerms) add(t token) bool {
	bit := uint8(1) << d.field
	d.in[t.text] |= bit
	if t.stem != "" {
		d.in[t.stem] |= bit
	}
	for _, part := range t.parts {
		d.in[part] |= bit
		if s := stem(part); s != part {
			d.in[s] |= bit
		}
	}
	if !t.single || t.alone {
		d.len[d.field]++
	}
	return d.len[d.field] < maxFieldTerms
}

// parts works out v = sum of weight / (1 - b + b * length / mean) with b = 0.5
// and v / (k1 + v) with k1 = 1.2, in integers (IX-27, IX-29).
func (d *docTerms) parts(a *analyzer, texts *entryTexts) []termPart {
	const one = 1 << 12
	var share [fieldCount]int64
	for f := range share {
		share[f] = fields[f].weight2 * fields[f].mean * one / (fields[f].mean + d.len[f])
	}
	out := make([]termPart, 0, len(d.in)+4)
	for term, in := range d.in {
		var v int64
		for f := range share {
			if in&(1<<f) != 0 {
				v += share[f]
			}
		}
		out = append(out, termPart{term, uint16(partOne * 5 * v / (6*one + 5*v))})
	}
	seen := make(map[string]bool, 5)
	key := func(kind, text string) {
		if k := kind + a.phrase(text); len(k) > 1 && !seen[k] {
			seen[k] = true
			out = append(out, termPart{k, partOne})
		}
	}
	for _, title := range texts.fields[fieldTitle] {
		key(keyTitle, title)
	}
	for _, name := range texts.publisherNames {
		key(keyPublisher, name)
	}
	slices.SortFunc(out, func(x, y termPart) int { return strings.Compare(x.term, y.term) })
	return out
}

// entryTexts are the texts of an entry by field.
type entryTexts struct {
	fields         [fieldCount][]string
	publisherNames []string // host, domain, domain label: each may be a whole query
}

func textsOf(e *index.Entry) *entryTexts {
	t := new(entryTexts)
	add := func(f int, texts ...string) {
		for _, s := range texts {
			// A catalog that repeats the card's words says them once.
			if s != "" && len(t.fields[f]) < maxFieldTexts && !slices.Contains(t.fields[f], s) {
				t.fields[f] = append(t.fields[f], s)
			}
		}
	}
	// The store keeps valid cards only; should one not parse, what the catalog
	// says of it still finds it.
	if c, err := card.Parse(e.Document); err == nil {
		add(fieldTitle, c.Title)
		add(fieldDescription, c.Description)
		if p, err := c.Presentation(); err == nil && p != nil {
			for _, x := range p.Examples {
				add(fieldPrompts, x.Title, x.Prompt)
			}
		}
	}
	add(fieldTitle, e.DisplayName)
	add(fieldName, e.Name)
	add(fieldDescription, e.Description)
	add(fieldTags, e.Tags...)
	if host := publisherHost(e); host != "" {
		domain := publicnet.RegistrableDomain(host)
		label, _, _ := strings.Cut(domain, ".")
		add(fieldPublisher, host)
		t.publisherNames = []string{host, domain, label}
		if u, err := idna.ToUnicode(host); err == nil && u != host {
			add(fieldPublisher, u)
			domain, err := idna.ToUnicode(domain)
			if err == nil {
				label, _, _ = strings.Cut(domain, ".")
				t.publisherNames = append(t.publisherNames, u, domain, label)
			}
		}
	}
	return t
}

// publisherHost is the host whose catalog proves e: the one name in an entry
// that nobody else can claim.
func publisherHost(e *index.Entry) string {
	if e.Evidence == nil {
		return ""
	}
	u, err := url.Parse(e.Evidence.CatalogURL)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// publisherDomain is the registrable domain of publisherHost.
func publisherDomain(e *index.Entry) string {
	host := publisherHost(e)
	if host == "" {
		return ""
	}
	return publicnet.RegistrableDomain(host)
}

// standing is the factor for evidence and liveness in hundredths (IX-31).
func standing(e *index.Entry) uint8 {
	switch {
	case e.State != index.Listed:
		return 85
	case e.Evidence != nil && e.Evidence.Kind == catalog.WellKnown:
		return 105
	}
	return 100
}
