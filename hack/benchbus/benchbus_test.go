package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestMain lets the test binary play the roles too.
func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(playRole(role))
	}
	os.Exit(m.Run())
}

// TestRun runs the whole benchmark, small.
func TestRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "out", "bench-bus.json")
	s := sizes{rounds: 2, roundCalls: 20, loadCalls: 500, workers: 5, functions: 100}
	if err := run(t.Context(), s, out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	var numbers map[string]float64
	if err := json.Unmarshal(text, &numbers); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"bus.p50_ratio", "bus.calls_per_s", "bus.rss_mb_10k", "bus.rss_mb_idle", "floor.1.p50_us", "bus.1.p99_us",
		"bus.16.p50_us", "bus.256.p99_us", "bus.allocs_per_call_engine", "bus.allocs_per_call_engine_10k",
	} {
		if numbers[name] <= 0 {
			t.Errorf("%s is %v", name, numbers[name])
		}
	}
	// A call crosses two sockets, the floor one.
	if ratio := numbers["bus.p50_ratio"]; ratio <= 1 {
		t.Errorf("a call is said to be faster than a bare echo: %v", ratio)
	}
}

func TestDrive(t *testing.T) {
	for name, tc := range map[string]struct {
		fail      error
		wantError bool
	}{
		"all calls are made":      {nil, false},
		"a failed call ends them": {errors.New("no"), true},
	} {
		t.Run(name, func(t *testing.T) {
			calls := make(chan struct{}, 50)
			l, err := drive(t.Context(), 4, 50, func(context.Context) error {
				calls <- struct{}{}
				return tc.fail
			})
			if (err != nil) != tc.wantError {
				t.Fatalf("error %v", err)
			}
			if made := len(calls); (made == 50) == tc.wantError {
				t.Errorf("%d calls were made", made)
			}
			if !tc.wantError && l.perSecond() <= 0 {
				t.Error("no throughput")
			}
		})
	}
}

func TestLoad_percentile(t *testing.T) {
	l := load{latencies: []time.Duration{5, 1, 4, 2, 3}}
	for p, want := range map[float64]time.Duration{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := l.percentile(p); got != want {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
}
