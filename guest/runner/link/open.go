package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

const (
	openTimeout = 30 * time.Second
	// firstBackoff doubles with each failure up to lastBackoff.
	firstBackoff = 2 * time.Second
	lastBackoff  = 5 * time.Minute
	// steadyAfter is how long a link has to last to count as one that works.
	steadyAfter = time.Minute
	// evictAfter is how long a link must not have been used to make room for another.
	evictAfter = 30 * time.Second
)

var errNoRoom = errors.New("all links are in use")

// openLink gives a sandbox its link, and takes in what became of that.
func (s *Set) openLink(id sandbox.ID, b *box) {
	select {
	case s.places <- struct{}{}:
	case <-s.ctx.Done():
		return
	}
	defer func() { <-s.places }()
	ctx, cancel := context.WithTimeout(s.ctx, openTimeout)
	defer cancel()
	var ends io.ReadWriteCloser
	err := s.makeRoom()
	if err == nil {
		ends, err = s.connect(ctx, id)
	}
	if err == nil && !s.attach(id, b, ends) {
		_ = ends.Close()
		return
	}
	if err != nil {
		s.failed(b, err)
		s.options.Logger.Debug("No link to a guest", "error", err)
		return
	}
	s.options.Logger.Debug("Opened a link to a guest")
}

// connect opens both sides of a link.
func (s *Set) connect(ctx context.Context, id sandbox.ID) (io.ReadWriteCloser, error) {
	program, err := s.program()
	if err != nil {
		return nil, err
	}
	calls, replies, ends, err := s.options.Opener.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("opening a link: %w", err)
	}
	err = s.invite(ctx, id, program.content, wire.LinkRequest{Calls: calls, Replies: replies, ProgramDigest: program.digest})
	if err != nil {
		_ = ends.Close()
		return nil, fmt.Errorf("having the guest open a link: %w", err)
	}
	return ends, nil
}

// invite has the guest open its ends, for which it may need the program.
func (s *Set) invite(ctx context.Context, id sandbox.ID, program []byte, request wire.LinkRequest) error {
	err := s.ask(ctx, id, request)
	var failure *wire.Failure
	if !errors.As(err, &failure) || failure.Kind != wire.NoProgram {
		return err
	}
	err = s.options.Provider.WriteFile(ctx, id, sandbox.WriteFileRequest{
		Path: s.options.Agent.LinkPath(), Mode: 0o755,
		Content: bytes.NewReader(program), Size: int64(len(program)),
	})
	if err != nil {
		return fmt.Errorf("writing the program: %w", err)
	}
	return s.ask(ctx, id, request)
}

func (s *Set) ask(ctx context.Context, id sandbox.ID, request wire.LinkRequest) error {
	command := s.options.Agent.Link(request)
	result, err := s.options.Provider.Exec(ctx, id, sandbox.ExecRequest{
		Argv: command.Argv, Stdin: command.Stdin, Timeout: command.Timeout, Workdir: "/",
	})
	if err != nil {
		return err
	}
	reply, err := guest.ParseReply(result.Stdout)
	if err != nil {
		return err
	}
	if reply.Error != nil {
		return reply.Error
	}
	return nil
}

// attach makes a connection the sandbox's link, unless the sandbox has been
// forgotten or the set closed.
func (s *Set) attach(id sandbox.ID, b *box, ends io.ReadWriteCloser) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.opening = false
	if s.closed || s.boxes[id] != b {
		return false
	}
	now := s.options.Now()
	b.opened, b.used = now, now
	b.pace.renew()
	b.link = start(ends, &s.loops, s.options.Permit, s.options.Now, func(l *link) { s.broke(b, l) })
	s.open++
	return true
}

// broke takes in that a link ended that was not taken from its sandbox before.
func (s *Set) broke(b *box, l *link) {
	s.mu.Lock()
	broken := b.link == l
	if broken {
		s.detach(b)
		if now := s.options.Now(); now.Sub(b.opened) >= steadyAfter {
			b.failures = 0
		}
		s.backOff(b)
	}
	s.mu.Unlock()
	if broken {
		s.options.Logger.Debug("A link to a guest broke")
	}
}

// failed takes in that a link could not be opened.
func (s *Set) failed(b *box, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b.opening = false
	var failure *wire.Failure
	if errors.As(err, &failure) && failure.Kind == wire.NoBus {
		b.never = true
		return
	}
	s.backOff(b)
}

// backOff must be called with the lock held.
func (s *Set) backOff(b *box) {
	wait := min(firstBackoff<<min(b.failures, 16), lastBackoff)
	b.failures++
	b.notBefore = s.options.Now().Add(wait)
}

// makeRoom closes the link that has not been used for longest, if there are as many
// as may be.
func (s *Set) makeRoom() error {
	s.mu.Lock()
	full := s.open+len(s.places) > s.limit // the openings, this one among them
	var l *link
	if full {
		if oldest := s.leastUsed(); oldest != nil && s.options.Now().Sub(oldest.used) >= evictAfter {
			l = s.detach(oldest)
		}
	}
	s.mu.Unlock()
	if l != nil {
		l.fail()
	} else if full {
		return errNoRoom
	}
	return nil
}

// leastUsed is the sandbox with the link that is idle for longest, nil for none. The
// caller holds the lock.
func (s *Set) leastUsed() *box {
	var oldest *box
	for _, b := range s.boxes {
		if b.link != nil && b.link.idle() && (oldest == nil || b.used.Before(oldest.used)) {
			oldest = b
		}
	}
	return oldest
}
