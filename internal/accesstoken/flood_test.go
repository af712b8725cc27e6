package accesstoken

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Callers who leave at once leave nothing behind but the questions that are
// being asked.
func TestAttackIntrospectionLeavers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t)
		v := is.asking(false, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			answer(t, w, is.lives(nil))
		})
		in := v.issuers[0].ask
		before := runtime.NumGoroutine()
		for i := range 2000 {
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			if _, err := v.Verify(ctx, fmt.Sprint(opaque, i)); !errors.Is(err, context.Canceled) {
				t.Fatalf("error %v", err)
			}
		}
		synctest.Wait()
		in.mu.Lock()
		flights, waiting := len(in.flights), in.waiting
		in.mu.Unlock()
		if flights > maxQuestions || waiting != 0 {
			t.Errorf("%d flights, %d of them wait", flights, waiting)
		}
		if n := runtime.NumGoroutine() - before; n > 10*maxQuestions {
			t.Errorf("%d more goroutines", n)
		}
		check(t, v, opaque, nil)
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := v.Verify(gone, opaque+"gone"); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(in.flights) != 0 || in.waiting != 0 || len(in.places) != 0 || len(in.reserved) != 0 {
			t.Errorf("%d flights, %d waiting, %d and %d places at the end", len(in.flights), in.waiting, len(in.places), len(in.reserved))
		}
	})
}

// Who stays while others leave gets the answer.
func TestIntrospectionOneOfTwoLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t)
		v := is.asking(false, func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Second)
			answer(t, w, is.lives(nil))
		})
		for i := range maxQuestions { // so that the next one waits for a place
			go func() { _, _ = v.Verify(t.Context(), fmt.Sprint(opaque, i)) }()
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() {
			if _, err := v.Verify(ctx, opaque); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		})
		wait.Go(func() {
			if _, err := v.Verify(t.Context(), opaque); err != nil {
				t.Errorf("error %v", err)
			}
		})
		synctest.Wait()
		cancel()
		wait.Wait()
	})
}

// A flood of made-up tokens meets a bounded queue; what is beyond it is told so
// at once. Tokens that were good before still get their turn.
func TestAttackIntrospectionQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := newIssuer(t)
		var slow atomic.Bool
		v := is.asking(false, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.FormValue("token"), "good") {
				answer(t, w, is.lives(member{"exp": nil}))
				return
			}
			if slow.Load() {
				time.Sleep(4 * time.Second)
			}
			answer(t, w, member{"active": false})
		})
		for i := range 20 {
			check(t, v, fmt.Sprint("good", i), nil)
		}
		is.pass(keepIntrospection)
		slow.Store(true)
		var full atomic.Int64
		began := time.Now()
		for i := range 1000 {
			go func() {
				_, err := v.Verify(t.Context(), fmt.Sprint("bad", i))
				if err == nil {
					t.Error("accepted")
				}
				if errors.Is(err, ErrUnavailable) && time.Since(began) == 0 {
					full.Add(1)
				}
			}()
		}
		synctest.Wait()
		if n := full.Load(); n != 1000-maxWaiting-(maxQuestions-reserved) {
			t.Errorf("%d were told at once", n)
		}
		for i := range 20 {
			check(t, v, fmt.Sprint("good", i), nil)
		}
		if d := time.Since(began); d > 0 {
			t.Errorf("good tokens waited %v", d)
		}
		check(t, v, "good but new", ErrUnavailable)
		time.Sleep(time.Minute)
	})
}
