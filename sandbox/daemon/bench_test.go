package daemon_test

import (
	"testing"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/daemontest"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

// BenchmarkExec measures one program by a call over the bus.
func BenchmarkExec(b *testing.B) {
	backend, err := namespaces.New(namespaces.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer backend.Close()
	s := daemontest.Start(b, daemontest.Options{Backend: backend, Config: daemontest.Config()})
	answer, err := tryCall(s, "sandbox::create", object{"image": "node"})
	if err != nil {
		b.Fatal(err)
	}
	request := object{"sandbox_id": answer["sandbox_id"], "cmd": "/bin/true"}
	for b.Loop() {
		if _, err := tryCall(s, "sandbox::exec", request); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCreate measures a sandbox from its creation to its end.
func BenchmarkCreate(b *testing.B) {
	backend, err := namespaces.New(namespaces.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer backend.Close()
	s := daemontest.Start(b, daemontest.Options{Backend: backend, Config: daemontest.Config()})
	for b.Loop() {
		answer, err := tryCall(s, "sandbox::create", object{"image": "node"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := tryCall(s, "sandbox::stop", object{"sandbox_id": answer["sandbox_id"]}); err != nil {
			b.Fatal(err)
		}
	}
}
