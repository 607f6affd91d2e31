package iii_test

import (
	"os"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/daemontest"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
	"github.com/sandbox-operator/sandbox-operator/sandbox/iii"
	"github.com/sandbox-operator/sandbox-operator/sandbox/providertest"
)

// TestMain lets the test binary be the first process of its own guests.
func TestMain(m *testing.M) {
	namespaces.RunInitIfAsked()
	os.Exit(m.Run())
}

func TestProvider_contract(t *testing.T) {
	backend, err := namespaces.New(namespaces.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Errorf("closing the back end: %v", err)
		}
	})
	s := daemontest.Start(t, daemontest.Options{Backend: backend, Config: daemontest.Config()})
	p := iii.New(iii.Options{Client: s.Client})
	providertest.Run(t, p)
	if infos, err := p.List(t.Context()); err != nil || len(infos) != 0 {
		t.Errorf("%d sandboxes are left, %v", len(infos), err)
	}
}
