package controllers

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestWithAPI takes the time that it says, on a virtual clock.
func TestWithAPI(t *testing.T) {
	down := errors.New("connection refused")
	hangs := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for name, tc := range map[string]struct {
		// act is what the attempt of this number does, counted from 1.
		act               func(ctx context.Context, number int) error
		wantErr           string
		wantTries         int
		atLeast, lessThan time.Duration
		cancelAfter       time.Duration
	}{
		"a server that answers": {
			act: func(context.Context, int) error { return nil }, wantTries: 1, lessThan: time.Millisecond,
		},
		"one that comes": {
			act: func(_ context.Context, number int) error {
				if number < 4 {
					return down
				}
				return nil
			}, wantTries: 4, atLeast: 1750 * time.Millisecond, lessThan: 2 * time.Second,
		},
		"one that accepts and does not answer, once": {
			act: func(ctx context.Context, number int) error {
				if number == 1 {
					return hangs(ctx)
				}
				return nil
			}, wantTries: 2, atLeast: attemptTimeout, lessThan: attemptTimeout + time.Second,
		},
		"one that never comes": {
			act:       func(context.Context, int) error { return down },
			wantErr:   "the API server could not be used for 50s: connection refused",
			wantTries: 12, atLeast: startPatience, lessThan: startPatience + time.Millisecond,
		},
		"one that refuses and then hangs for good": {
			act: func(ctx context.Context, number int) error {
				if number < 10 {
					return down
				}
				return hangs(ctx)
			}, wantErr: "deadline exceeded", wantTries: 10, atLeast: startPatience, lessThan: startPatience + time.Millisecond,
		},
		"a process that is told to end": {
			act:     func(context.Context, int) error { return down },
			wantErr: "context canceled", wantTries: 3, atLeast: time.Second, lessThan: time.Second + time.Millisecond, cancelAfter: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.cancelAfter > 0 {
					time.AfterFunc(tc.cancelAfter, cancel)
				}
				tries, began := 0, time.Now()
				err := withAPI(ctx, func(ctx context.Context) error {
					tries++
					return tc.act(ctx, tries)
				})
				took := time.Since(began)
				if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
					t.Errorf("error %v, want %q", err, tc.wantErr)
				}
				// The pauses are jittered.
				if most := tc.wantTries + tc.wantTries/4; tries < tc.wantTries || tries > most {
					t.Errorf("%d attempts, want %d to %d", tries, tc.wantTries, most)
				}
				if took < tc.atLeast || took >= tc.lessThan {
					t.Errorf("took %s, want at least %s and less than %s", took, tc.atLeast, tc.lessThan)
				}
			})
		})
	}
}
