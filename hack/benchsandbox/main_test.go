package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

func TestMain(m *testing.M) {
	namespaces.RunInitIfAsked()
	os.Exit(m.Run())
}

// TestMeasure runs every measurement a few times and wants its numbers.
func TestMeasure(t *testing.T) {
	output := filepath.Join(t.TempDir(), "out", "bench.json")
	var table strings.Builder
	if err := measure(t.Context(), options{rounds: 3, held: 8, cycles: 20, output: output}, &table, os.Stderr); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	var got figures.Metrics
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"sandbox.create_ms", "sandbox.stop_ms", "sandbox.exec_ms", "sandbox.spawn_ms", "sandbox.concurrent_32_ms", "sandbox.idle_mb", "sandbox.held_mb", "sandbox.cycle_ms"} {
		if got[name] <= 0 {
			t.Errorf("%s is %v", name, got[name])
		}
		if !strings.Contains(table.String(), name+" ") {
			t.Errorf("the table lacks %s", name)
		}
	}
	if leaked, there := got["sandbox.leaked"]; !there || leaked != 0 {
		t.Errorf("leaked is %v, %t", leaked, there)
	}
}
