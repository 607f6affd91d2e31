package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestControlGroupLimit(t *testing.T) {
	tests := map[string]struct {
		membership string
		files      map[string]string
		want       int64
	}{
		"nothing to be seen":          {"0::/a/b\n", nil, math.MaxInt64},
		"no limit":                    {"0::/a\n", map[string]string{"a/memory.max": "max\n"}, math.MaxInt64},
		"a limit":                     {"0::/a\n", map[string]string{"a/memory.max": "1048576\n"}, 1 << 20},
		"a limit further up is lower": {"0::/a/b\n", map[string]string{"a/memory.max": "1024\n", "a/b/memory.max": "4096\n"}, 1024},
		"the guest's own root":        {"0::/\n", map[string]string{"memory.max": "2048\n"}, 2048},
		"the first version":           {"5:cpu:/x\n4:memory:/x\n", map[string]string{"memory/x/memory.limit_in_bytes": "4096\n"}, 4096},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for path, content := range tc.files {
				if err := writeAtomically(filepath.Join(folder, path), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			membership := filepath.Join(folder, "membership")
			if err := os.WriteFile(membership, []byte(tc.membership), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := controlGroupLimit(folder, membership); got != tc.want {
				t.Errorf("want %d, got %d", tc.want, got)
			}
		})
	}
}

func TestWarmBudget(t *testing.T) {
	total := machineMemory("/proc/meminfo")
	if total <= 0 || warmBudget() <= 0 || warmBudget() > total/warmShare {
		t.Errorf("%d of %d bytes", warmBudget(), total)
	}
	if own := ownBytes(os.Getpid()); own <= 0 || own > total {
		t.Errorf("this process has %d bytes", own)
	}
}
