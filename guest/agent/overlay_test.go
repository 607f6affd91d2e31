package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const overlayHelper = "AGENT_TEST_OVERLAY_ROOT"

// The overlays are made in a mount namespace of a helper process, whose mounts
// end with it. It is this test binary again, see TestMain.
func TestOverlaySharedFolders(t *testing.T) {
	root := t.TempDir()
	helper := exec.Command(os.Args[0], "-test.run=^$")
	helper.Env = append(os.Environ(), overlayHelper+"="+root)
	helper.SysProcAttr = rootOfNamespace(syscall.CLONE_NEWNS)
	output, err := helper.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	want := "shared: original\ninner: inner\nprivate: changed\nagain: no change\n"
	if diff := cmp.Diff(want, string(output)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// overlayInNamespace plays a sandbox whose image folder is shared.
func overlayInNamespace(root string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := syscall.Mount("tmpfs", root, "tmpfs", 0, ""); err != nil {
		return err
	}
	image, shared, upper := filepath.Join(root, "image"), filepath.Join(root, "etc"), filepath.Join(root, "upper")
	steps := []func() error{
		func() error { return os.MkdirAll(image, 0o755) },
		func() error { return os.MkdirAll(shared, 0o755) },
		func() error { return os.WriteFile(filepath.Join(image, "file"), []byte("original"), 0o644) },
		func() error { return os.WriteFile(filepath.Join(image, "resolv.conf"), nil, 0o644) },
		func() error { return os.WriteFile(filepath.Join(root, "own"), []byte("inner"), 0o644) },
		func() error { return syscall.Mount(image, shared, "", syscall.MS_BIND, "") },
		func() error {
			return syscall.Mount(filepath.Join(root, "own"), filepath.Join(shared, "resolv.conf"), "", syscall.MS_BIND, "")
		},
		func() error {
			return overlaySharedFolders(upper, []string{shared, filepath.Join(root, "missing")})
		},
		func() error { return os.WriteFile(filepath.Join(shared, "file"), []byte("changed"), 0o644) },
	}
	for number, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", number, err)
		}
	}
	return reportOverlay(image, shared, upper)
}

func reportOverlay(image, shared, upper string) error {
	original, _ := os.ReadFile(filepath.Join(image, "file"))
	inner, _ := os.ReadFile(filepath.Join(shared, "resolv.conf"))
	private, _ := os.ReadFile(filepath.Join(shared, "file"))
	fmt.Printf("shared: %s\ninner: %s\nprivate: %s\n", original, inner, private)
	before, _ := os.ReadFile("/proc/self/mountinfo")
	if err := overlaySharedFolders(upper, []string{shared}); err != nil {
		return err
	}
	if after, _ := os.ReadFile("/proc/self/mountinfo"); bytes.Equal(after, before) {
		fmt.Println("again: no change")
	}
	return nil
}

// The agent itself is tried, because the test binary may be linked with C,
// where Go cannot change the capabilities of all threads.
func TestRun_withoutSysAdmin(t *testing.T) {
	guest := newGuest(t)
	body, _ := wire.Marshal(wire.RunRequest{Language: wire.Python, TimeoutMs: testTimeout.Milliseconds(),
		Source: "result = [int(line.split()[1], 16) for line in open('/proc/self/status') if line.startswith('CapEff')][0]\n"})
	command := exec.Command(filepath.Join(guest.home, "agent"), wire.CommandRun)
	command.Env, command.Stdin = guest.env, strings.NewReader(string(body))
	command.SysProcAttr = rootOfNamespace(0)
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	reply, err := wire.DecodeReply(output)
	if err != nil || reply.Run == nil {
		t.Fatalf("%+v %v", reply.Error, err)
	}
	var capabilities uint64
	if err := json.Unmarshal(reply.Result, &capabilities); err != nil {
		t.Fatalf("%v: %s", err, reply.Run.Stderr)
	}
	if capabilities == 0 || capabilities&(1<<capSysAdmin) != 0 {
		t.Errorf("capabilities of a guest program: %x", capabilities)
	}
}

// rootOfNamespace gives a process all capabilities in a user namespace of its own.
func rootOfNamespace(more uintptr) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | more,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
}
