package namespaces

import (
	"errors"
	"fmt"

	landlock "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// The second layer: what mounts, namespaces and the filter forbid already, said
// once more to a part of the kernel that knows nothing of them. Programs may make
// no device nodes, drive no device but terminals, and neither signal nor trace
// what was not started as a program of their guest.
const (
	// leastLandlock is the first version under which files can move between
	// folders; an older one would break programs.
	leastLandlock = 2
	// versions from which these are known.
	landlockTruncate = 3
	landlockDevices  = 5
	landlockScopes   = 6
)

// terminals are the devices that programs may drive, not only read and write.
var terminals = []string{"/dev/pts", "/dev/tty", "/dev/ptmx"}

// landlockVersion is that of the running kernel, 0 where it has none that is fit.
func landlockVersion() int {
	version, err := landlock.LandlockGetABIVersion()
	if err != nil || version < leastLandlock {
		return 0
	}
	return version
}

// restrictPrograms puts this thread, and all it starts, under Landlock.
func restrictPrograms() error {
	version := landlockVersion()
	if version == 0 {
		return nil
	}
	handled := fileRights(version)
	attributes := landlock.RulesetAttr{HandledAccessFS: handled}
	if version >= landlockScopes {
		attributes.Scoped = landlock.ScopeSignal | landlock.ScopeAbstractUnixSocket
	}
	ruleset, err := landlock.LandlockCreateRuleset(&attributes, 0)
	if err != nil {
		return fmt.Errorf("making the Landlock rules: %w", err)
	}
	defer unix.Close(ruleset)
	const nodesAndDevices = landlock.AccessFSMakeChar | landlock.AccessFSMakeBlock | landlock.AccessFSIoctlDev
	if err := allowBelow(ruleset, "/", handled&^nodesAndDevices); err != nil {
		return err
	}
	for _, path := range terminals {
		if err := allowBelow(ruleset, path, handled&landlock.AccessFSIoctlDev); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return landlock.LandlockRestrictSelf(ruleset, 0)
}

// fileRights are all that a version knows and that this package does.
func fileRights(version int) uint64 {
	rights := uint64(landlock.AccessFSRefer<<1 - 1)
	if version >= landlockTruncate {
		rights |= landlock.AccessFSTruncate
	}
	if version >= landlockDevices {
		rights |= landlock.AccessFSIoctlDev
	}
	return rights
}

func allowBelow(ruleset int, path string, rights uint64) error {
	if rights == 0 {
		return nil
	}
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return landlock.LandlockAddPathBeneathRule(ruleset, &landlock.PathBeneathAttr{AllowedAccess: rights, ParentFd: fd}, 0)
}
