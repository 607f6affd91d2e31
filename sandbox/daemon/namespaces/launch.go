package namespaces

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/launch"
)

const (
	// firstOwner is the first user and group number that guests of root get:
	// above those of people, services and of other container managers.
	firstOwner = 0x70000000
	// ownersPerGuest is how many numbers a guest has.
	ownersPerGuest = 1 << 16
	maxOwnerSlots  = 4096
)

// ownerRange hands out ranges of user numbers, so that two guests of root share
// no user and nothing that the kernel counts by user.
type ownerRange struct {
	mu   sync.Mutex
	used map[int]bool
}

func (o *ownerRange) take() (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.used == nil {
		o.used = map[int]bool{}
	}
	for slot := range maxOwnerSlots {
		if !o.used[slot] {
			o.used[slot] = true
			return slot, nil
		}
	}
	return 0, errors.New("all user number ranges are taken")
}

func (o *ownerRange) give(slot int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.used, slot)
}

// bootCapabilities, all within its own user namespace, survive the start of an
// agent. It is at first the user who started it, no root there, so that it can
// still reach host folders that only this user may enter.
var bootCapabilities = []uintptr{
	unix.CAP_SYS_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP, unix.CAP_NET_ADMIN,
	unix.CAP_NET_BIND_SERVICE, unix.CAP_DAC_OVERRIDE, unix.CAP_CHOWN, unix.CAP_FOWNER,
	unix.CAP_FSETID, unix.CAP_KILL,
}

// agentCommand is this binary, started as an agent in namespaces of its own.
func agentCommand(control *os.File, userNamespace bool, slot int) *exec.Cmd {
	attributes := &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
		Pdeathsig:  syscall.SIGKILL,
		Setsid:     true,
	}
	if userNamespace {
		attributes.Cloneflags |= unix.CLONE_NEWUSER
		attributes.AmbientCaps = bootCapabilities
		setOwners(attributes, slot)
	}
	return &exec.Cmd{
		Path:        "/proc/self/exe",
		Args:        []string{agentName},
		Env:         []string{agentMarker + "=1", "GOMAXPROCS=2"},
		Dir:         "/",
		ExtraFiles:  []*os.File{control},
		Stderr:      &launch.Tail{Limit: 4096},
		WaitDelay:   time.Second,
		SysProcAttr: attributes,
	}
}

// setOwners maps the guest's root to a number that owns nothing on the host;
// an ordinary user has only itself to give.
func setOwners(attributes *syscall.SysProcAttr, slot int) {
	users := syscall.SysProcIDMap{ContainerID: 0, HostID: os.Geteuid(), Size: 1}
	groups := syscall.SysProcIDMap{ContainerID: 0, HostID: os.Getegid(), Size: 1}
	if os.Geteuid() == 0 {
		users.HostID, users.Size = firstOwner+slot*ownersPerGuest, ownersPerGuest
		groups.HostID, groups.Size = users.HostID, users.Size
		attributes.GidMappingsEnableSetgroups = true
	}
	attributes.UidMappings = []syscall.SysProcIDMap{users}
	attributes.GidMappings = []syscall.SysProcIDMap{groups}
}

// userNamespaceRefused tells a kernel that does not let root make a user
// namespace from other failures.
func userNamespaceRefused(err error) bool {
	return os.Geteuid() == 0 && (errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) ||
		errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EUSERS))
}

func startError(err error) error {
	return fmt.Errorf("starting a guest's namespaces: %w", err)
}
