package publishercmd

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/openbot-build/openbot-go/internal/weburl"
	"github.com/openbot-build/openbot-go/publisher"
)

// deadPictures finds the icons and previews of app i that would be served from
// its assets folder, and cannot be.
func (c *configFile) deadPictures(i int, app *publisher.App) (faults faultList) {
	origin, err := weburl.Parse(c.settings.Origin)
	if err != nil {
		return nil // the origin's own fault is reported
	}
	a := &c.settings.Apps[i]
	assets := origin.Origin() + "/apps/" + a.Slug + "/assets/"
	look := func(member, src string) {
		u, err := weburl.Parse(src)
		if err != nil {
			return
		}
		escaped, ours := strings.CutPrefix(u.String(), assets)
		if !ours {
			return
		}
		if a.Card != "" {
			member = "card"
		}
		path := fmt.Sprintf("apps[%d].%s", i, member)
		name, err := url.PathUnescape(escaped)
		switch {
		case err != nil || app.Assets == nil:
			faults = append(faults, c.fault(path, fmt.Sprintf("assets/%s is served from no folder: name it with assets:", name)))
		case !isFolder(c.path(a.Assets)): // is said of the folder
		default:
			if err := publisher.CheckAsset(app.Assets, name); err != nil {
				faults = append(faults, c.fault(path, fmt.Sprintf("assets/%s in %s: %v", name, a.Assets, err)))
			}
		}
	}
	for n, icon := range app.Card.Icons {
		look(fmt.Sprintf("icons[%d].src", n), icon.Src)
	}
	if p, err := app.Card.Presentation(); err == nil && p != nil {
		for n, e := range p.Examples {
			if e.Preview != nil {
				look(fmt.Sprintf("examples[%d].preview.src", n), e.Preview.Src)
			}
		}
	}
	return faults
}
