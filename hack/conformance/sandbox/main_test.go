package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

func TestMain(m *testing.M) {
	namespaces.RunInitIfAsked()
	serveIfAsked()
	os.Exit(m.Run())
}

// leastRows is fewer than one mode has in a short run, and more than a suite that
// lost a file of rows.
const leastRows = 230

// TestConformance runs the rows without those that wait for the reaper.
func TestConformance(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	var out strings.Builder
	sum, err := run(ctx, options{backend: "namespaces", short: true}, &out, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	if least := leastRows * len(modes()); sum.failed > 0 || sum.passed < least {
		t.Errorf("%d rows failed, %d passed, want at least %d:\n%s", sum.failed, sum.passed, least, failures(out.String()))
	}
	if last := fmt.Sprintf("%d passed, %d failed\n", sum.passed, sum.failed); !strings.HasSuffix(out.String(), last) {
		t.Errorf("the last line is not %q", last)
	}
}

// failures are the lines that are not of passed rows.
func failures(output string) string {
	var kept []string
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "  ok  ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func TestRun_refusesUnknownBackEnds(t *testing.T) {
	_, err := run(t.Context(), options{backend: "chroot"}, os.Stdout, os.Stderr)
	if err == nil || err.Error() != `back end "chroot" is not one of namespaces, qemu` {
		t.Errorf("error is %v", err)
	}
}
