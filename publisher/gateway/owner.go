package gateway

import (
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// departed is an abandoned call for which the upstream may still speak.
type departed struct {
	who string
	at  time.Time
}

// afterlife is how long that may be.
const afterlife = 30 * time.Second

// forget drops departed calls that are over. The caller holds l.mu.
func (l *link) forget() {
	maps.DeleteFunc(l.left, func(_ string, d departed) bool { return time.Since(d.at) > afterlife })
}

// owner gives the call that a message belongs to: the one it came with, the one
// of its progress token, or the only one that it can be of. Calls that are
// parked, or were abandoned a moment ago, count: the message may be theirs, and
// must not reach another client. They do not count against a call of the same
// principal, who would see nothing that is not his own.
func (l *link) owner(m *message, from *call) *call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from != nil {
		return from
	}
	if m.Method == noteProgress {
		var p object
		_ = json.Unmarshal(m.Params, &p)
		if c := l.calls[string(p[progressToken])]; c != nil && c.token {
			return c
		}
		return nil
	}
	var running, waiting []*call
	for _, c := range l.calls {
		switch {
		case c.own:
		case c.parked:
			waiting = append(waiting, c)
		default:
			running = append(running, c)
		}
	}
	if len(running) == 0 {
		running, waiting = waiting, nil
	}
	if len(running) != 1 {
		return nil
	}
	only := running[0]
	other := func(who string) bool { return who == "" || who != only.who }
	l.forget()
	for _, d := range l.left {
		if other(d.who) {
			return nil
		}
	}
	if slices.ContainsFunc(waiting, func(c *call) bool { return other(c.who) }) {
		return nil
	}
	return only
}
