package guestfiles

import (
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxDepth bounds how deep a tree may be: every level takes a descriptor.
const maxDepth = 8192

// entry is a name of a folder with its description at the time of reading.
type entry struct {
	base   string
	status unix.Stat_t
}

// openFolderAt opens a folder below another one; a link is not followed.
func openFolderAt(folder int, base string, depth int) (*os.File, error) {
	if depth > maxDepth {
		return nil, unix.ENAMETOOLONG
	}
	fd, err := unix.Openat(folder, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), base), nil
}

// readFolderAt opens a folder and returns what it holds, sorted.
func readFolderAt(folder int, base string, depth int) (*os.File, []entry, error) {
	below, err := openFolderAt(folder, base, depth)
	if err != nil {
		return nil, nil, err
	}
	names, err := below.Readdirnames(-1)
	if err != nil {
		return nil, nil, errors.Join(err, below.Close())
	}
	entries := make([]entry, 0, len(names))
	for _, name := range names {
		// One that cannot be described has gone.
		if status, err := stat(int(below.Fd()), name); err == nil {
			entries = append(entries, entry{base: name, status: status})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.base, b.base) })
	return below, entries, nil
}
