package main

import (
	"runtime/debug"
	"testing"
)

func TestCollectSooner(t *testing.T) {
	former := debug.SetGCPercent(100)
	defer debug.SetGCPercent(former)
	for _, tc := range []struct {
		gogc string
		want int
	}{{"200", 100}, {"off", 100}, {"", gcPercent}} {
		collectSooner(func(string) string { return tc.gogc })
		if got := debug.SetGCPercent(100); got != tc.want {
			t.Errorf("with GOGC=%q the heap grows by %d %%, want %d", tc.gogc, got, tc.want)
		}
	}
}
