package card

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/openbot-build/openbot-go/internal/strictjson"
)

// Change is one difference between two cards that matters to a person who
// reviewed the first (OB-92).
type Change struct {
	Pointer string // where, in the new card if it is there, else in the old
	Kind    ChangeKind
	Old     string // what was there, "" for nothing; text from the card, which is data
	New     string
}

// ChangeKind sorts changes by what they ask of a host.
type ChangeKind string

// The kinds of Change.
const (
	Wider    ChangeKind = "wider"    // needs a new review: new endpoint, new input, unclear
	Narrower ChangeKind = "narrower" // silent
	Noted    ChangeKind = "noted"    // text, icon, order, version
)

// Changed lists the differences from old to new, widest first, and in the
// order of the card's members within a kind. A nil card is an empty one.
//
// Wider are: an endpoint that was not there or has another type; a header or
// variable that was not there or is now required; an input that is no longer
// secret; more or no more choices; another format; and another default or
// fixed value, because it is sent without the user's word. The opposite of
// each, as far as it has one, is Narrower. Endpoints are paired by URL and
// headers by name without case, so that order alone asks for no review.
//
// Source: D24, OB-91, OB-92.
func Changed(old, new *Card) []Change {
	if old == nil {
		old = &Card{}
	}
	if new == nil {
		new = &Card{}
	}
	var d differ
	d.text("/name", old.Name, new.Name)
	d.text("/version", old.Version, new.Version)
	d.text("/title", old.Title, new.Title)
	d.text("/description", old.Description, new.Description)
	d.text("/websiteUrl", old.WebsiteURL, new.WebsiteURL)
	d.value("/repository", old.Repository, new.Repository, repositoryText)
	d.value("/icons", old.Icons, new.Icons, iconsText)
	d.remotes(old.Remotes, new.Remotes)
	if a, b := old.Meta[PresentationKey], new.Meta[PresentationKey]; !bytes.Equal(a, b) {
		d.add(presentationPointer, Noted, string(a), string(b))
	}

	rank := func(k ChangeKind) int { return slices.Index([]ChangeKind{Wider, Narrower, Noted}, k) }
	slices.SortStableFunc(d, func(a, b Change) int { return rank(a.Kind) - rank(b.Kind) })
	return d
}

type differ []Change

func (d *differ) add(pointer string, kind ChangeKind, old, new string) {
	*d = append(*d, Change{Pointer: pointer, Kind: kind, Old: old, New: new})
}

func (d *differ) text(pointer, old, new string) { d.strings(pointer, Noted, old, new) }

func (d *differ) strings(pointer string, kind ChangeKind, old, new string) {
	if old != new {
		d.add(pointer, kind, old, new)
	}
}

// value notes a difference between two values that are only shown.
func (d *differ) value(pointer string, old, new any, text func(any) string) {
	a, b := text(old), text(new)
	if a+b != "" && !reflect.DeepEqual(old, new) { // an empty list is like none
		d.add(pointer, Noted, a, b)
	}
}

func repositoryText(v any) string {
	r := v.(*Repository)
	if r == nil {
		return ""
	}
	return r.URL
}

func iconsText(v any) string {
	var list []string
	for _, icon := range v.([]Icon) {
		list = append(list, icon.Src)
	}
	return strings.Join(list, " ")
}

// match pairs each key of new with the first key of old that equals it and
// has no partner yet. It gives the index into old, or -1, for each of new, and
// which of old found a partner. It takes linear time: a card may be hostile.
func match[K comparable](old, new []K) (partner []int, taken []bool) {
	waiting := make(map[K][]int, len(old))
	for j, key := range old {
		waiting[key] = append(waiting[key], j)
	}
	partner, taken = make([]int, len(new)), make([]bool, len(old))
	for i, key := range new {
		partner[i] = -1
		if list := waiting[key]; len(list) > 0 {
			partner[i], waiting[key] = list[0], list[1:]
			taken[list[0]] = true
		}
	}
	return partner, taken
}

// remotes pairs the endpoints by URL and compares the pairs.
func (d *differ) remotes(old, new []Remote) {
	list := func(remotes []Remote, text func(*Remote) string) []string {
		texts := make([]string, len(remotes))
		for i := range remotes {
			texts[i] = text(&remotes[i])
		}
		return texts
	}
	typed := func(r *Remote) string { return r.Type + " " + r.URL }
	url := func(r *Remote) string { return r.URL }
	partner, taken := match(list(old, typed), list(new, typed))
	// What is left over is paired by the URL alone: a type that changed.
	var leftOld, leftNew []Remote
	var atOld, atNew []int
	for j := range old {
		if !taken[j] {
			leftOld, atOld = append(leftOld, old[j]), append(atOld, j)
		}
	}
	for i := range new {
		if partner[i] < 0 {
			leftNew, atNew = append(leftNew, new[i]), append(atNew, i)
		}
	}
	again, _ := match(list(leftOld, url), list(leftNew, url))
	for i, j := range again {
		if j >= 0 {
			partner[atNew[i]], taken[atOld[j]] = atOld[j], true
		}
	}
	last, ordered := -1, true
	for i := range new {
		at := "/remotes/" + strconv.Itoa(i)
		if partner[i] < 0 {
			d.add(at, Wider, "", typed(&new[i]))
			continue
		}
		ordered = ordered && partner[i] > last
		last = partner[i]
		d.remote(at, &old[partner[i]], &new[i])
	}
	for j := range old {
		if !taken[j] {
			d.add("/remotes/"+strconv.Itoa(j), Narrower, typed(&old[j]), "")
		}
	}
	if !ordered {
		d.add("/remotes", Noted, strings.Join(list(old, typed), ", "), strings.Join(list(new, typed), ", "))
	}
}

func (d *differ) remote(at string, old, new *Remote) {
	d.strings(at+"/type", Wider, old.Type, new.Type)
	name := func(headers []Header) []string {
		list := make([]string, len(headers))
		for i := range headers {
			list[i] = strings.ToLower(headers[i].Name)
		}
		return list
	}
	partner, taken := match(name(old.Headers), name(new.Headers))
	for i := range new.Headers {
		h, at := &new.Headers[i], at+"/headers/"+strconv.Itoa(i)
		if j := partner[i]; j < 0 {
			d.add(at, Wider, "", h.Name)
		} else {
			d.input(at, &old.Headers[j].Input, &h.Input)
			d.inputs(at+"/variables", old.Headers[j].Variables, h.Variables)
		}
	}
	for j := range old.Headers {
		if !taken[j] {
			d.add(at+"/headers/"+strconv.Itoa(j), Narrower, old.Headers[j].Name, "")
		}
	}
	d.inputs(at+"/variables", old.Variables, new.Variables)
	d.text(at+"/supportedProtocolVersions", strings.Join(old.Versions, " "), strings.Join(new.Versions, " "))
}

func (d *differ) inputs(at string, old, new map[string]Input) {
	for _, name := range slices.Sorted(maps.Keys(new)) {
		now, below := new[name], strictjson.Member(at, name)
		if before, ok := old[name]; ok {
			d.input(below, &before, &now)
		} else {
			d.add(below, Wider, "", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(old)) {
		if _, ok := new[name]; !ok {
			d.add(strictjson.Member(at, name), Narrower, name, "")
		}
	}
}

func (d *differ) input(at string, old, new *Input) {
	d.flag(at+"/isRequired", old.IsRequired, new.IsRequired, true)
	d.flag(at+"/isSecret", old.IsSecret, new.IsSecret, false)
	d.strings(at+"/format", Wider, old.Format, new.Format)
	d.strings(at+"/default", Wider, old.Default, new.Default)
	d.strings(at+"/value", Wider, old.Value, new.Value)
	if !slices.Equal(old.Choices, new.Choices) {
		d.add(at+"/choices", choicesKind(old.Choices, new.Choices), strings.Join(old.Choices, ", "), strings.Join(new.Choices, ", "))
	}
	d.text(at+"/description", old.Description, new.Description)
	d.text(at+"/placeholder", old.Placeholder, new.Placeholder)
}

// flag notes a changed flag; wide is the state that asks for a review.
func (d *differ) flag(at string, old, new, wide bool) {
	if old == new {
		return
	}
	kind := Narrower
	if new == wide {
		kind = Wider
	}
	d.add(at, kind, strconv.FormatBool(old), strconv.FormatBool(new))
}

// choicesKind compares two different lists of choices. No list allows
// everything.
func choicesKind(old, new []string) ChangeKind {
	within := func(small, big []string) bool {
		set := make(map[string]bool, len(big))
		for _, s := range big {
			set[s] = true
		}
		return !slices.ContainsFunc(small, func(s string) bool { return !set[s] })
	}
	switch {
	case len(old) == 0 && len(new) > 0:
		return Narrower
	case len(new) == 0 || !within(new, old):
		return Wider
	case within(old, new):
		return Noted // only the order
	}
	return Narrower
}
