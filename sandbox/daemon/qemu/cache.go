package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// cache is a folder of things that take long to make, named by what they depend on.
// Any number of daemons of one user may share it, and all of it may be deleted at
// any time: what is in use is open.
type cache struct{ folder string }

// keptOf bounds how many things of a kind the cache keeps, the last used ones.
var keptOf = map[string]int{"usr": 2, "parts": 8, "state": 24, "runtime": 3}

const lockPoll = 20 * time.Millisecond

func newCache(folder string) (cache, error) {
	if folder == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return cache{}, fmt.Errorf("finding a folder for images: %w", err)
		}
		folder = filepath.Join(user, "sandbox-operator", "machines")
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return cache{}, fmt.Errorf("making the folder for images: %w", err)
	}
	c := cache{folder: folder}
	c.sweep()
	return c, nil
}

// sweep deletes what daemons that were killed had begun to make.
func (c cache) sweep() {
	paths, _ := filepath.Glob(filepath.Join(c.folder, "*-*.*"))
	for _, path := range paths {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Ext(path), "."))
		if err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
			_ = os.RemoveAll(path)
		}
	}
}

func (c cache) path(kind, key string) string { return filepath.Join(c.folder, kind+"-"+key) }

// file opens a file of the cache, which produce writes if it is not there.
func (c cache) file(ctx context.Context, kind, key string, produce func(path string) error) (*os.File, error) {
	path, err := c.ensure(ctx, kind, key, produce)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// ensure returns the path of a file or folder of the cache. Of several daemons that
// want the same at once, one makes it.
func (c cache) ensure(ctx context.Context, kind, key string, produce func(path string) error) (string, error) {
	path := c.path(kind, key)
	if c.touch(path) {
		return path, nil
	}
	unlock, err := c.lock(ctx, kind+"-"+key)
	if err != nil {
		return "", err
	}
	defer unlock()
	if c.touch(path) {
		return path, nil
	}
	staged := fmt.Sprintf("%s.%d", path, os.Getpid())
	err = produce(staged)
	if err == nil {
		err = os.Rename(staged, path)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(staged))
	}
	c.prune(kind)
	return path, nil
}

// touch says whether something is there, and marks it as used now.
func (c cache) touch(path string) bool {
	if _, err := os.Stat(path); err != nil {
		return false
	}
	now := time.Now()
	// Another user's cannot be marked, nor will it be pruned.
	_ = os.Chtimes(path, now, now)
	return true
}

// lock keeps other daemons from making the same thing.
func (c cache) lock(ctx context.Context, name string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(c.folder, "lock-"+name), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(lockPoll)
	defer tick.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { _, _ = os.Remove(file.Name()), file.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errors.Join(err, file.Close())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		}
	}
}

// prune deletes what was not used for longest.
func (c cache) prune(kind string) {
	paths, _ := filepath.Glob(c.path(kind, "*"))
	used := map[string]time.Time{}
	for _, path := range paths {
		// What is being made has a further part in its name.
		if info, err := os.Stat(path); err == nil && filepath.Ext(path) == "" {
			used[path] = info.ModTime()
		}
	}
	paths = slices.DeleteFunc(paths, func(path string) bool { return used[path].IsZero() })
	slices.SortFunc(paths, func(a, b string) int { return used[b].Compare(used[a]) })
	for i, path := range paths {
		if i >= keptOf[kind] {
			_ = os.RemoveAll(path)
		}
	}
}
