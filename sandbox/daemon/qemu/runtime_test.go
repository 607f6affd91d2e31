package qemu

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// TestPrograms_closure collects a program of this machine and runs it with nothing
// but what was collected.
func TestPrograms_closure(t *testing.T) {
	const tool = "/usr/bin/env"
	loader, libraries, err := programs{}.closure([]string{tool})
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, path := range libraries {
		if err := copyFile(path, filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	output, err := exec.CommandContext(t.Context(), loader, "--inhibit-cache", "--library-path", folder, tool, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(output), "env") {
		t.Errorf("it said %q, %v", output, err)
	}
}

func TestPrograms_closure_missing(t *testing.T) {
	_, _, err := programs{}.closure([]string{"/proc/self/maps"})
	if err == nil || !strings.Contains(err.Error(), "/proc/self/maps") {
		t.Errorf("error is %v", err)
	}
}

func TestCheckStatic(t *testing.T) {
	dynamic, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := checkStatic(dynamic); err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("a dynamic program: %v", err)
	}
	folder := t.TempDir()
	write(t, filepath.Join(folder, "main.go"), "package main\n\nfunc main() {}\n")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(folder, "static"), filepath.Join(folder, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GO111MODULE=off")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	static, err := os.ReadFile(filepath.Join(folder, "static"))
	if err != nil {
		t.Fatal(err)
	}
	if err := checkStatic(static); err != nil {
		t.Errorf("a static program: %v", err)
	}
}

func TestBackend_check(t *testing.T) {
	b := &Backend{available: map[string]bool{"node": true}}
	good := daemon.BootSpec{Image: "node", CPUs: 1, MemoryMiB: 64}
	if err := b.check(good); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*daemon.BootSpec){
		"no processor":        func(s *daemon.BootSpec) { s.CPUs = 0 },
		"too many processors": func(s *daemon.BootSpec) { s.CPUs = 65 },
		"hardly any memory":   func(s *daemon.BootSpec) { s.MemoryMiB = 31 },
		"too many ports":      func(s *daemon.BootSpec) { s.HostPorts = make([]int, 65) },
	} {
		t.Run(name, func(t *testing.T) {
			spec := good
			change(&spec)
			if b.check(spec) == nil {
				t.Error("it is accepted")
			}
		})
	}
	if err := b.check(daemon.BootSpec{Image: "python", CPUs: 1, MemoryMiB: 64}); !errors.Is(err, daemon.ErrNoImage) {
		t.Errorf("an image without files: %v", err)
	}
}

func TestInside(t *testing.T) {
	got := inside(daemon.BootSpec{Image: "node", HostPorts: []int{80}, Mounts: []daemon.Mount{{Source: "/host/a", Target: "/a"}, {Source: "/host/b", Target: "/b"}}})
	if got.HostPorts != nil || len(got.Mounts) != 2 || got.Mounts[1] != (daemon.Mount{Source: mountsFolder + "/1", Target: "/b"}) {
		t.Errorf("the machine is told %+v", got)
	}
}
