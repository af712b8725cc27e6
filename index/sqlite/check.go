package sqlite

import (
	"errors"
	"fmt"

	"github.com/openbot-build/openbot-go/index"
	"github.com/openbot-build/openbot-go/internal/weburl"
)

// visitError is a visit whose data the database refuses.
type visitError struct {
	i    int // place in the batch
	host string
	err  error
}

func (e *visitError) Error() string { return "visit of " + e.host + ": " + e.err.Error() }
func (e *visitError) Unwrap() error { return e.err }

// checkVisit tells how a visit breaks the contract.
func checkVisit(v *index.Visit) error {
	switch {
	case v.Owner == "" || v.No == 0:
		return errors.New("it names no lease")
	case v.At.IsZero():
		return errors.New("it names no time")
	}
	for i := range v.Docs {
		d := &v.Docs[i]
		if d.Host != v.Host || authority(d.URL) != v.Host {
			return fmt.Errorf("document %s is on another host", d.URL)
		}
		if err := checkURL(d.URL); err != nil {
			return fmt.Errorf("document: %w", err)
		}
		if err := checkClass(d.Class); err != nil {
			return fmt.Errorf("document %s: %w", d.URL, err)
		}
	}
	for _, url := range v.Drop {
		if authority(url) != v.Host {
			return fmt.Errorf("document %s to drop is on another host", url)
		}
	}
	for i := range v.Found {
		if err := checkNew(&v.Found[i]); err != nil {
			return fmt.Errorf("found: %w", err)
		}
	}
	for i := range v.Entries {
		e := &v.Entries[i]
		switch e.State {
		case index.Listed, index.Stale, index.Hidden, index.Removed, index.Blocked:
		default:
			return fmt.Errorf("entry %s has no state that an entry can have: %q", e.CardURL, e.State)
		}
		if e.ID != "" && e.ID != index.ID(e.CardURL) {
			return fmt.Errorf("entry %s has the id of another card", e.CardURL)
		}
	}
	return nil
}

func checkNew(d *index.NewDoc) error {
	if err := checkURL(d.URL); err != nil {
		return err
	}
	return checkClass(d.Class)
}

func checkURL(url string) error {
	u, err := weburl.Parse(url)
	if err == nil && u.String() != url {
		err = fmt.Errorf("%q is not in normal form, which is %q", url, u.String())
	}
	return err
}

func checkClass(c index.Class) error {
	if c < index.ClassUser || c > index.ClassNew {
		return fmt.Errorf("there is no class %d", c)
	}
	return nil
}

// authority is the host of an URL; empty when it is none.
func authority(url string) string {
	u, _ := weburl.Parse(url)
	return u.Authority()
}
