package daemon_test

import (
	"os"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

// TestMain lets the test binary be the first process of its own guests.
func TestMain(m *testing.M) {
	namespaces.RunInitIfAsked()
	os.Exit(m.Run())
}
