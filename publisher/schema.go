package publisher

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Bounds of one schema (mcp P16). What is larger helps no model, and hosts
// refuse it or cut it.
const (
	maxSchemaBytes = 64 << 10
	maxSchemaDepth = 32
)

// checkSchema bounds a schema, and refuses references to elsewhere, which
// nobody fetches, and those that lead back to where they stand, at which a
// validator does not end. It reports whether the schema has defaults.
func checkSchema(wire json.RawMessage) (defaults bool, err error) {
	if len(wire) > maxSchemaBytes {
		return false, fmt.Errorf("the schema has %d bytes; %d are the limit", len(wire), maxSchemaBytes)
	}
	var root any
	if err := json.Unmarshal(wire, &root); err != nil {
		return false, fmt.Errorf("the schema is no JSON: %w", err)
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	same := map[string][]string{}    // pointer -> schemas that the same value must meet
	anchors := map[string][]string{} // name -> pointers
	walkSchema(root, place{}, func(at place, s map[string]any) {
		_, has := s["default"]
		defaults = defaults || has
		if at.depth == maxSchemaDepth {
			fault("the schema is nested deeper than %d levels at %s", maxSchemaDepth, at.pointer)
		}
		if _, has := s["$id"]; has && at.depth > 0 {
			fault("%s/$id: a schema within a tool's schema has no address of its own; leave it out", at.pointer)
		}
		for _, key := range []string{"$anchor", "$dynamicAnchor"} {
			if name, ok := s[key].(string); ok {
				anchors["#"+name] = append(anchors["#"+name], at.pointer)
			}
		}
		for _, key := range []string{"$ref", "$dynamicRef"} {
			ref, ok := s[key].(string)
			switch {
			case ok && !strings.HasPrefix(ref, "#"):
				fault("%s/%s: %q is elsewhere, and nobody fetches it; put it under $defs", at.pointer, key, ref)
			case ok:
				same[at.pointer] = append(same[at.pointer], ref)
			}
		}
		if at.same {
			same[at.parent] = append(same[at.parent], "#"+at.pointer)
		}
	})
	if at, found := loop(same, anchors); found {
		fault("%s: this reference leads back to itself without going into the value, so no check of it ends", at)
	}
	return defaults, errors.Join(faults...)
}

// loop finds a schema that a value must meet in order to meet that schema.
func loop(same, anchors map[string][]string) (pointer string, found bool) {
	const open, done = 1, 2
	state := map[string]int{}
	var visit func(string) bool
	visit = func(at string) bool {
		switch state[at] {
		case open:
			pointer = at
			return true
		case done:
			return false
		}
		state[at] = open
		for _, ref := range same[at] {
			targets, named := anchors[ref]
			if !named {
				target := ref[1:]
				if plain, err := url.PathUnescape(target); err == nil {
					target = plain
				}
				targets = []string{target}
			}
			if slices.ContainsFunc(targets, visit) {
				return true
			}
		}
		state[at] = done
		return false
	}
	for _, at := range slices.Sorted(maps.Keys(same)) {
		if visit(at) {
			return pointer, true
		}
	}
	return "", false
}

// checkParamHeaders judges the x-mcp-header annotations of an input schema:
// hosts drop a tool with an invalid one (mcp P7, H9). A schema that cannot be
// encoded is judged elsewhere.
func checkParamHeaders(input any) (faults []error) {
	var root any
	if wire, err := json.Marshal(input); err != nil || json.Unmarshal(wire, &root) != nil {
		return nil
	}
	taken := map[string]string{} // lower-case name -> pointer
	walkSchema(root, place{properties: true}, func(at place, s map[string]any) {
		annotation, ok := s["x-mcp-header"]
		if !ok {
			return
		}
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("%s/x-mcp-header: "+format, append([]any{at.pointer}, args...)...))
		}
		name, isText := annotation.(string)
		kind, _ := s["type"].(string)
		switch {
		case !at.properties || at.depth == 0:
			fault("only a property that is reached through properties alone can be sent as a header")
		case !isText || !isToken(name):
			fault("%v is no header name: use letters, digits and '-'", annotation)
		case kind != "string" && kind != "integer" && kind != "boolean":
			fault("only a string, integer or boolean can be sent as a header")
		case taken[strings.ToLower(name)] != "":
			fault("%q is already the header of %s", name, taken[strings.ToLower(name)])
		default:
			taken[strings.ToLower(name)] = at.pointer
		}
	})
	return faults
}

// isToken reports whether s can be part of a header's name (RFC 9110 section 5.6.2).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !('0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return s != ""
}

// place is where a schema stands within its root.
type place struct {
	pointer    string // JSON Pointer
	depth      int
	properties bool // the way here is through properties alone
	parent     string
	same       bool // it judges the value that its parent judges, not a part of it
}

// The keywords of JSON Schema 2020-12 whose value is a schema, a list of them,
// or an object of them. draft-07's are among them.
var (
	schemaKeys = []string{
		"additionalProperties", "contains", "contentSchema", "else", "if", "items", "not",
		"propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
	}
	schemaListKeys = []string{"allOf", "anyOf", "items", "oneOf", "prefixItems"}
	schemaMapKeys  = []string{"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"}

	// Those that judge the value itself and not a part of it.
	sameValueKeys = []string{"allOf", "anyOf", "dependentSchemas", "else", "if", "not", "oneOf", "then"}
)

// walkSchema visits a schema and those in it, down to maxSchemaDepth, in the
// same order each time.
func walkSchema(v any, at place, visit func(place, map[string]any)) {
	s, ok := v.(map[string]any)
	if !ok || at.depth > maxSchemaDepth {
		return
	}
	visit(at, s)
	deeper := func(v any, properties bool, path ...string) {
		p := at.pointer
		for _, step := range path {
			p += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
		}
		walkSchema(v, place{
			pointer: p, depth: at.depth + 1, properties: properties && at.properties,
			parent: at.pointer, same: slices.Contains(sameValueKeys, path[0]),
		}, visit)
	}
	for _, key := range schemaMapKeys {
		members, _ := s[key].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			deeper(members[name], key == "properties", key, name)
		}
	}
	for _, key := range schemaListKeys {
		list, _ := s[key].([]any)
		for i, v := range list {
			deeper(v, false, key, fmt.Sprint(i))
		}
	}
	for _, key := range schemaKeys {
		deeper(s[key], false, key)
	}
}
