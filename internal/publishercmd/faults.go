package publishercmd

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/openbot-build/openbot-go/card"
	"github.com/openbot-build/openbot-go/publisher"
)

var fieldForm = regexp.MustCompile(`^(Apps|Hosted)\[(\d+)\](?:\.(\w+))?$`)

// members are the names in the file of fields of publisher.Config.
var members = map[string]string{
	"Origin": "origin", "Host": "publisher", "Lang": "lang", "CacheControl": "cache_control", "Apps": "apps",
	"Slug": "slug", "Identifier": "identifier", "CardURL": "card_url", "PageURL": "page_url", "CatalogURL": "catalog_url", "MCPURL": "endpoint",
	"AllowedOrigins": "allowed_origins", "ETag": "etag", "Card": "",
}

// fieldNamed finds a field that a message of publisher.New ends with.
var fieldNamed = regexp.MustCompile(`(?:Apps|Hosted)\[\d+\](?:\.\w+)?$`)

// fileField is the path in the file of a field such as "Apps[0].CardURL".
func fileField(field string, apps, hostedAt []int) string {
	m := fieldForm.FindStringSubmatch(field)
	if m == nil {
		return field
	}
	n, _ := strconv.Atoi(m[2]) // digits by the form
	switch {
	case m[1] == "Hosted" && n < len(hostedAt):
		return fmt.Sprintf("apps[%d].hosted%s", hostedAt[n], map[string]string{"CardURL": ".card", "DisplayName": ".title", "Identifier": ".identifier"}[m[3]])
	case m[1] == "Apps" && n < len(apps):
		path := fmt.Sprintf("apps[%d]", apps[n])
		if member := members[m[3]]; member != "" {
			path += "." + member
		}
		return path
	}
	return field
}

// translate gives the faults of publisher.New in the words of the file.
func (c *configFile) translate(err error, apps, hostedAt []int) faultList {
	if err == nil {
		return nil
	}
	list, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return faultList{c.fault("", err.Error())}
	}
	var out faultList
	for _, e := range list.Unwrap() {
		var f *publisher.Error
		if !errors.As(e, &f) {
			out = append(out, c.fault("", e.Error()))
			continue
		}
		path, message := members[f.Field], f.Err.Error()
		if m := protectionField.FindStringSubmatch(f.Field); m != nil {
			n, _ := strconv.Atoi(m[1]) // digits by the form
			out = append(out, c.fault(fmt.Sprintf("apps[%d].%s", apps[n], authPath(m[2])), message))
			continue
		}
		if m := fieldForm.FindStringSubmatch(f.Field); m != nil {
			path = fileField(f.Field, apps, hostedAt)
			n, _ := strconv.Atoi(m[2]) // digits by the form
			if at, ok := errors.AsType[*card.Error](f.Err); ok && m[1] == "Apps" && n < len(apps) {
				path, message = c.cardMember(apps[n], path, at)
			}
		}
		if strings.HasSuffix(path, ".endpoint") && slices.ContainsFunc(out, func(f fault) bool { return f.Pointer == path }) {
			continue // the card repeats the address, and so its fault
		}
		out = append(out, c.fault(path, fieldNamed.ReplaceAllStringFunc(message, func(field string) string {
			return fileField(field, apps, hostedAt)
		})))
	}
	return out
}

// cardMember finds the member of the file that a card's pointer speaks of.
func (c *configFile) cardMember(app int, path string, e *card.Error) (string, string) {
	if c.settings.Apps[app].Card != "" {
		return path + ".card", c.settings.Apps[app].Card + ": " + e.Error()
	}
	steps := strings.Split(strings.TrimPrefix(e.Pointer, "/"), "/")
	if len(steps) >= 2 && steps[0] == "_meta" {
		steps = steps[2:]
	}
	if len(steps) >= 1 && steps[0] == "remotes" {
		switch {
		case len(steps) >= 4 && steps[2] == "headers":
			steps = append([]string{"settings"}, steps[3:]...)
			if steps[len(steps)-1] == "name" {
				steps[len(steps)-1] = "header"
			}
		default:
			steps = []string{"endpoint"}
		}
	}
	rename := map[string]string{"websiteUrl": "website", "mimeType": "type", "isRequired": "required", "isSecret": "secret"}
	for _, s := range steps {
		if _, err := strconv.Atoi(s); err == nil {
			path += "[" + s + "]"
			continue
		}
		if r, ok := rename[s]; ok {
			s = r
		}
		if s != "" {
			path += "." + s
		}
	}
	return path, e.Message
}
