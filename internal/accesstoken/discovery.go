package accesstoken

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// discovery keeps the addresses of an issuer's metadata. What is known is used
// at once, even when it is old, while one flight looks for news: an issuer whose
// metadata hangs holds up nobody who can do without.
type discovery struct {
	ask func(ctx context.Context) (Endpoints, error)
	now func() time.Time

	mu     sync.Mutex
	e      Endpoints
	at     time.Time // when e was asked for; zero when nothing is known
	tried  time.Time // when the last attempt ended
	err    error     // of the last attempt
	flight chan struct{}
}

// address gives one of the addresses. The issuer is asked at most once an hour,
// and after a failure not within the short cool-down; only who would have no
// address otherwise waits for it.
func (d *discovery) address(ctx context.Context, member string, of func(Endpoints) string) (string, error) {
	if d.ask == nil {
		return "", errors.New("the issuer's metadata is not looked for")
	}
	e, flight, err := d.known(ctx)
	if s := of(e); s != "" {
		return s, nil
	}
	if flight != nil {
		select {
		case <-flight:
		case <-ctx.Done():
			return "", ctx.Err()
		}
		d.mu.Lock()
		e, err = d.e, d.err
		d.mu.Unlock()
	}
	if s := of(e); s != "" {
		return s, nil
	}
	if err != nil {
		return "", err
	}
	return "", fmt.Errorf("the issuer's metadata has no %s", member)
}

// known gives what there is, and the flight that looks for more, if there is
// one.
func (d *discovery) known(ctx context.Context) (Endpoints, chan struct{}, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	old := d.at.IsZero() || now.Sub(d.at) >= refreshFirst
	if old && d.flight == nil && (d.err == nil || now.Sub(d.tried) >= coolDownNone) {
		d.flight = make(chan struct{})
		go d.fly(context.WithoutCancel(ctx), now)
	}
	return d.e, d.flight, d.err
}

// fly asks once. It belongs to nobody: others wait for it too. What was known
// before a failure stays.
func (d *discovery) fly(ctx context.Context, began time.Time) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	e, err := d.ask(ctx)
	ended := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.e, d.at = e, began
	}
	d.err, d.tried = err, ended
	close(d.flight)
	d.flight = nil
}
