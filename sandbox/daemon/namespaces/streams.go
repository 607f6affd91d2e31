package namespaces

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// streams are the three pipes of a program, which it gets itself: what it writes
// never passes through the agent.
type streams struct {
	input          []byte
	stdin          *os.File
	stdout, stderr capture
	guest          []int
	drained        chan struct{}
}

// capture keeps the start of a stream and drops the rest.
type capture struct {
	pipe  *os.File
	limit int
	bytes []byte
}

func newStreams(input []byte, limit int) (*streams, error) {
	s := &streams{input: input, drained: make(chan struct{})}
	s.stdout.limit, s.stderr.limit = limit, limit
	for i, ours := range []**os.File{&s.stdin, &s.stdout.pipe, &s.stderr.pipe} {
		var pair [2]int
		if err := unix.Pipe2(pair[:], unix.O_CLOEXEC); err != nil {
			s.close()
			return nil, fmt.Errorf("making a pipe: %w", err)
		}
		mine, theirs := pair[0], pair[1]
		if i == 0 {
			mine, theirs = theirs, mine
		}
		s.guest = append(s.guest, theirs)
		// Only the daemon's end: the flag would surprise programs at theirs.
		_ = unix.SetNonblock(mine, true)
		*ours = os.NewFile(uintptr(mine), "pipe")
	}
	return s, nil
}

// guestEnds are the descriptors for the program, standard input first.
func (s *streams) guestEnds() []int { return s.guest }

// start feeds and reads the pipes once the guest's ends are sent.
func (s *streams) start() {
	s.closeGuestEnds()
	go s.feed()
	var reading sync.WaitGroup
	reading.Go(s.stdout.read)
	reading.Go(s.stderr.read)
	go func() {
		reading.Wait()
		close(s.drained)
	}()
}

// feed ignores a program that stops reading: its exit tells what matters.
func (s *streams) feed() {
	_, _ = s.stdin.Write(s.input)
	_ = s.stdin.Close()
}

func (c *capture) read() {
	kept, _ := io.ReadAll(io.LimitReader(c.pipe, int64(c.limit)))
	c.bytes = kept
	_, _ = io.Copy(io.Discard, c.pipe)
}

func (s *streams) closeGuestEnds() {
	closeAll(s.guest)
	s.guest = nil
}

// close frees the pipes; it also ends start's goroutines.
func (s *streams) close() {
	s.closeGuestEnds()
	for _, pipe := range []*os.File{s.stdin, s.stdout.pipe, s.stderr.pipe} {
		if pipe != nil {
			_ = pipe.Close()
		}
	}
}
