package accesstoken

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Metadata that hangs holds up nobody who knows the address from before.
func TestMetadataHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t)
		is.net.Handle("as.example.org", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			answer(t, w, is.lives(member{"exp": nil}))
		}))
		var hang atomic.Bool
		var asked atomic.Int64
		v := is.verifier(func(o *Options) {
			o.Now = time.Now
			o.Issuers[0].Discover = func(ctx context.Context) (Endpoints, error) {
				asked.Add(1)
				if hang.Load() {
					<-ctx.Done()
					return Endpoints{}, ctx.Err()
				}
				return Endpoints{JWKS: theKeys, Introspection: theQuestion}, nil
			}
			o.Issuers[0].Introspection = &Introspection{}
		})
		check(t, v, opaque, nil)
		time.Sleep(refreshFirst)
		hang.Store(true)
		for i := range 100 { // over 20 s
			began := time.Now()
			check(t, v, fmt.Sprint(opaque, i), nil)
			if d := time.Since(began); d > 0 {
				t.Errorf("token %d waited %v", i, d)
			}
			time.Sleep(200 * time.Millisecond)
		}
		// Each flight takes 10 s, and the next one begins 5 s after its end.
		if n := asked.Load(); n != 3 {
			t.Errorf("asked %d times", n)
		}
		hang.Store(false)
		time.Sleep(fetchTimeout + coolDownNone)
		check(t, v, opaque, nil)
		synctest.Wait()
		if n := asked.Load(); n != 4 {
			t.Errorf("asked %d times", n)
		}
		time.Sleep(time.Minute)
		check(t, v, opaque, nil)
		if n := asked.Load(); n != 4 {
			t.Errorf("asked %d times within the hour", n)
		}
	})
}

// Who knows no address waits, for one flight together, and as long as its own
// context allows.
func TestMetadataFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, down := 0, true
		d := &discovery{now: time.Now, ask: func(ctx context.Context) (Endpoints, error) {
			asked++
			time.Sleep(time.Second)
			if down {
				return Endpoints{}, errors.New("down")
			}
			return Endpoints{JWKS: theKeys}, ctx.Err()
		}}
		keys := func(e Endpoints) string { return e.JWKS }
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := d.address(ctx, "jwks_uri", keys); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v", err)
		}
		var wait sync.WaitGroup
		for range 5 {
			wait.Go(func() {
				if _, err := d.address(t.Context(), "jwks_uri", keys); err == nil || err.Error() != "down" {
					t.Errorf("error %v", err)
				}
			})
		}
		wait.Wait()
		// The cool-down begins when the attempt has ended.
		time.Sleep(coolDownNone - time.Millisecond)
		if _, err := d.address(t.Context(), "jwks_uri", keys); err == nil || asked != 1 {
			t.Errorf("asked %d times", asked)
		}
		time.Sleep(time.Millisecond)
		down = false
		if s, err := d.address(t.Context(), "jwks_uri", keys); err != nil || s != theKeys || asked != 2 {
			t.Errorf("%q, %v, asked %d times", s, err, asked)
		}
		if _, err := d.address(t.Context(), "x", func(Endpoints) string { return "" }); err == nil {
			t.Error("an address that nobody named")
		}
	})
}
