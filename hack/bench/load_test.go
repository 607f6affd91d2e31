package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// at is so many milliseconds after the start of a made-up slot, whose window is from
// 100 to 200.
func at(ms int) time.Time { return time.Unix(0, 0).Add(time.Duration(ms) * time.Millisecond) }

func TestLoad_add(t *testing.T) {
	type call struct{ began, ended int }
	for sentence, tc := range map[string]struct {
		calls               []call
		done, latencies, ms int
		ramp                int
	}{
		"calls of the warm-up do not count":         {calls: []call{{0, 90}, {0, 99}}, ms: 100},
		"one that ends in the window is an answer":  {calls: []call{{50, 100}, {50, 150}, {50, 160}, {50, 170}}, done: 4, latencies: 0, ms: 100},
		"one that begins in it is a latency too":    {calls: []call{{100, 110}, {110, 120}, {120, 130}, {130, 199}}, done: 4, latencies: 4, ms: 100},
		"one that ends after it is a latency only":  {calls: []call{{100, 110}, {110, 120}, {120, 130}, {130, 140}, {140, 300}}, done: 4, latencies: 5, ms: 100},
		"with too few answers the window is longer": {calls: []call{{100, 150}, {150, 250}, {250, 300}, {300, 400}}, done: 4, latencies: 4, ms: 300},
		"the window opens after the first answers": {
			calls: []call{{0, 150}, {0, 160}, {150, 240}, {160, 250}, {240, 255}, {250, 260}}, ramp: 2, done: 4, latencies: 3, ms: 100,
		},
		"which ends with the last of those that were missing": {calls: []call{{100, 150}, {150, 250}, {250, 300}, {300, 400}, {300, 500}}, done: 4, latencies: 5, ms: 300},
	} {
		t.Run(sentence, func(t *testing.T) {
			l := &load{opens: at(100), closes: at(200), window: 100 * time.Millisecond, ramp: tc.ramp}
			for _, c := range tc.calls {
				l.add(at(c.began), at(c.ended), nil)
			}
			window := int(l.closes.Sub(l.opens) / time.Millisecond)
			if l.slot.Done != tc.done || len(l.slot.Latencies) != tc.latencies || window != tc.ms || l.slot.Calls != len(tc.calls) {
				t.Errorf("%d answers, %d latencies, %d calls and a window of %d ms", l.slot.Done, len(l.slot.Latencies), l.slot.Calls, window)
			}
		})
	}
}

// TestLoad_repeat has callers at once, some of whose answers are wrong.
func TestLoad_repeat(t *testing.T) {
	b := &bench{}
	var mu sync.Mutex
	calls := 0
	answer := func(_ context.Context, _ int, payload json.RawMessage) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		var request struct{ N int }
		if calls++; calls%10 == 0 {
			return []byte("7.5"), nil
		}
		if calls%10 == 5 {
			return nil, errors.New("refused")
		}
		err := json.Unmarshal(payload, &request)
		return fmt.Append(nil, request.N), err
	}
	now := time.Now()
	l := &load{bench: b, way: way{call: answer}, work: works[0], opens: now, closes: now.Add(50 * time.Millisecond)}
	var group sync.WaitGroup
	for caller := range 3 {
		group.Go(func() { l.repeat(t.Context(), caller) })
	}
	group.Wait()
	if l.slot.Calls != calls || l.slot.Failed != calls/10+(calls+5)/10 || len(l.slot.Latencies) != calls-l.slot.Failed {
		t.Errorf("of %d calls %d are counted, %d failed, %d measured", calls, l.slot.Calls, l.slot.Failed, len(l.slot.Latencies))
	}
	if b.verdict() == nil {
		t.Error("wrong answers pass")
	}
}

func TestLoad_repeat_ends(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := &load{bench: &bench{}, closes: time.Now().Add(time.Hour)}
	l.repeat(ctx, 0)
	if l.slot.Calls != 0 {
		t.Error("it called")
	}
}

func TestBench_steadyLength(t *testing.T) {
	b := &bench{plan: plan{steady: 10 * time.Second}}
	for rate, want := range map[float64]time.Duration{100: 10 * time.Second, 10: 15 * time.Second, 1: 30 * time.Second} {
		if got := b.steadyLength(rate); got != want {
			t.Errorf("at %v/s it is %s, want %s", rate, got, want)
		}
	}
}
