package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// savedState opens the state of a prepared machine, which is made once.
func (b *Backend) savedState(ctx context.Context, s shape) (*os.File, error) {
	key := newFingerprint("state", 1, b.digest, b.plan, b.available, b.maxProcesses, s.accelerator, s.cpus, s.memoryMiB, s.network)
	for _, image := range s.images {
		key.add(filepath.Base(image.Name()))
	}
	return b.makeState(ctx, s, key.String())
}

// saveTimeout bounds the saving of a state, the machine's boot included.
const saveTimeout = 10 * time.Minute

// makeState goes on when its caller has left: the next one of the same size finds
// what was made.
func (b *Backend) makeState(ctx context.Context, s shape, key string) (*os.File, error) {
	type result struct {
		file *os.File
		err  error
	}
	made := make(chan result, 1)
	images, err := duplicates(s.images)
	if err != nil {
		return nil, err
	}
	b.closing.Go(func() {
		defer closeFiles(images)
		s.images = images
		life, cancel := context.WithTimeout(b.life, saveTimeout)
		defer cancel()
		file, err := b.cache.file(life, "state", key, func(path string) error { return b.saveState(life, s, path) })
		made <- result{file, err}
	})
	select {
	case r := <-made:
		return r.file, r.err
	case <-ctx.Done():
		go func() {
			if r := <-made; r.file != nil {
				_ = r.file.Close()
			}
		}()
		return nil, ctx.Err()
	}
}

// duplicates are the same open files for an owner of their own.
func duplicates(files []*os.File) ([]*os.File, error) {
	var copies []*os.File
	for _, file := range files {
		fd, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			closeFiles(copies)
			return nil, err
		}
		copies = append(copies, os.NewFile(uintptr(fd), file.Name()))
	}
	return copies, nil
}

func closeFiles(files []*os.File) {
	for _, file := range files {
		_ = file.Close()
	}
}

func (b *Backend) saveState(ctx context.Context, s shape, path string) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	p, err := b.startAnew(ctx, s)
	if err != nil {
		return err
	}
	defer func() {
		p.kill()
		<-p.ended
	}()
	qmp, err := newMonitor(ctx, p.monitor)
	if err != nil {
		return p.why(err)
	}
	if err := qmp.save(ctx, file); err != nil {
		return fmt.Errorf("saving a machine's state: %w", p.why(err))
	}
	return nil
}
