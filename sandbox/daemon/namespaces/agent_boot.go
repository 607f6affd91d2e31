package namespaces

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

const guestHostname = "sandbox"

// boot makes this process's namespaces a guest. The order matters: what needs
// the host's files comes before the root moves, what needs capabilities before
// they go.
func boot(config bootConfig, joins []int, result *bootResult) error {
	if err := openOwnFiles(); err != nil {
		return err
	}
	if err := openTunnel(config.Outbound); err != nil {
		return fmt.Errorf("opening %s: %w", tunDevice, err)
	}
	trees, err := cloneTrees(append(config.Image.Trees, sources(config.Mounts)...))
	if err != nil {
		return err
	}
	defer closeAll(trees)
	layer, err := takeLayer(config.Layer)
	defer layer.close()
	if err != nil {
		return fmt.Errorf("taking the layer: %w", err)
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"becoming the guest's root", func() error { return becomeRoot(config.UserNamespace) }},
		{"dying with the daemon", dieWithParent},
		{"making the network", func() (err error) {
			result.network, err = makeNetwork(config)
			return err
		}},
		{"joining the control groups", func() error { return joinGroups(joins) }},
		{"making the root", func() error { return makeRoot(config, layer, trees, result) }},
		{"leaving the host's names", leaveNames},
		{"starting process 1", startProcessOne},
		{"hiding parts of proc", maskProc},
		{"moving to the root", enterRoot},
		{"opening the root", openGuestTree},
		{"bounding resources", boundResources},
		{"dropping privileges", func() error { return dropPrivileges(config.Capabilities) }},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	processLimits, uploadPause = config.ProcessLimits, config.UploadPause
	return nil
}

// becomeRoot takes the guest's first user number. Without a user namespace the
// agent is the host's root already and stays it.
func becomeRoot(userNamespace bool) error {
	if !userNamespace {
		return syscall.Setgroups(nil)
	}
	if err := syscall.Setgroups(nil); err != nil && err != syscall.EPERM {
		// An ordinary user's namespace forbids it; root's does not.
		return err
	}
	if err := syscall.Setresgid(0, 0, 0); err != nil {
		return err
	}
	return syscall.Setresuid(0, 0, 0)
}

// dieWithParent is said again here because a change of user takes it back. It
// also closes the agent to its equals: nothing may trace it or read its memory.
func dieWithParent() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// joinGroups moves this thread into the control groups of the guest's programs.
func joinGroups(files []int) error {
	defer closeAll(files)
	for _, fd := range files {
		if _, err := unix.Write(fd, []byte("0")); err != nil {
			return err
		}
	}
	return nil
}

// leaveNames gives the guest its host name, and what this thread starts a view
// of control groups and processes that begins with the guest.
func leaveNames() error {
	if err := unix.Sethostname([]byte(guestHostname)); err != nil {
		return err
	}
	if err := unix.Setdomainname([]byte("(none)")); err != nil {
		return err
	}
	return unix.Unshare(unix.CLONE_NEWCGROUP | unix.CLONE_NEWPID)
}

const openFilesLimit = 65536

// boundResources sets what holds for agent and programs alike. Neither writes
// core files.
func boundResources() error {
	unix.Umask(0o022)
	if err := syscall.Setrlimit(unix.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return err
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(unix.RLIMIT_NOFILE, &files); err != nil {
		return err
	}
	files.Max = min(files.Max, openFilesLimit)
	files.Cur = files.Max
	return syscall.Setrlimit(unix.RLIMIT_NOFILE, &files)
}

// ownScore is the agent's own badness for the kernel's out-of-memory killer, and
// ownSize its memory in pages, opened while the host's /proc is there.
var ownScore, ownSize *os.File

func openOwnFiles() (err error) {
	if ownSize, err = os.Open("/proc/self/statm"); err != nil {
		return err
	}
	ownScore, err = os.OpenFile("/proc/self/oom_score_adj", os.O_RDWR, 0)
	return err
}
