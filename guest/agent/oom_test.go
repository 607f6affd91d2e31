package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestOutOfMemoryKills(t *testing.T) {
	for name, tc := range map[string]struct {
		content string
		want    uint64
	}{
		"a kernel that counts":        {"pgfault 17\noom_kill 3\nnuma_hit 4\n", 3},
		"a kernel that does not":      {"pgfault 17\n", 0},
		"another counter of the name": {"oom_kill_other 9\n", 0},
		"a count that is none":        {"oom_kill many\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "vmstat")
			if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := outOfMemoryKills(path); got != tc.want {
				t.Errorf("%d kills, want %d", got, tc.want)
			}
		})
	}
	if got := outOfMemoryKills(filepath.Join(t.TempDir(), "absent")); got != 0 {
		t.Errorf("%d kills where nothing counts", got)
	}
}
