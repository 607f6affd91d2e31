package namespaces

import (
	"context"
	"errors"
	"io"
	"net"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

// ask opens a session, sends one request and gives it a deadline by the context.
func (m *machine) ask(ctx context.Context, r request) (*net.UnixConn, func() bool, error) {
	session, err := m.openSession()
	if err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = session.SetDeadline(time.Unix(1, 0)) })
	if err := wire.WriteJSON(session, r); err != nil {
		stop()
		_ = session.Close()
		return nil, nil, m.lost(ctx, err)
	}
	return session, stop, nil
}

// lost tells a caller that gave up from a guest that ended.
func (m *machine) lost(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return m.gone(err)
}

// answer reads the agent's reply to a file request.
func (m *machine) answer(ctx context.Context, session *net.UnixConn) (reply, error) {
	var r reply
	if err := wire.ReadJSON(session, &r); err != nil {
		return r, m.lost(ctx, err)
	}
	return r, wire.FileError(r.Failure, r.Message)
}

// Stat describes a path of the guest.
func (m *machine) Stat(ctx context.Context, path string) (daemon.FileInfo, error) {
	session, stop, err := m.ask(ctx, request{Op: wire.OpStat, Path: path})
	if err != nil {
		return daemon.FileInfo{}, err
	}
	defer session.Close()
	defer stop()
	r, err := m.answer(ctx, session)
	if err != nil {
		return daemon.FileInfo{}, err
	}
	return r.info(), nil
}

// WriteFile writes a file whole or not at all. It returns how many bytes it was.
func (m *machine) WriteFile(ctx context.Context, spec daemon.WriteSpec, content io.Reader) (int64, error) {
	session, stop, err := m.ask(ctx, request{Op: wire.OpWrite, Path: spec.Path, Mode: spec.Mode, Parents: spec.Parents})
	if err != nil {
		return 0, err
	}
	defer session.Close()
	defer stop()
	// The agent says first whether it can take the content at all.
	if _, err := m.answer(ctx, session); err != nil {
		return 0, err
	}
	sent := make(chan error, 1)
	source := &remembering{source: content}
	go func() { sent <- source.send(session) }()
	r, err := m.answer(ctx, session)
	// A sender that waits for its source would wait for ever.
	if errors.Is(err, daemon.ErrUploadStalled) || ctx.Err() != nil {
		return 0, err
	}
	if sendErr := <-sent; err != nil && errors.Is(err, daemon.ErrMachineGone) {
		err = errors.Join(err, sendErr)
	}
	if source.err != nil {
		return 0, source.err
	}
	return r.Written, err
}

// remembering tells a failing source from a failing connection.
type remembering struct {
	source io.Reader
	err    error
}

// send passes all on. When the source fails it hangs up, at which the agent
// gives up too; a full disk ends the sending, and the reason is in the answer.
func (r *remembering) send(session *net.UnixConn) error {
	err := wire.SendChunks(session, r)
	if r.err != nil {
		_ = session.CloseWrite()
	}
	return err
}

// Read implements io.Reader.
func (r *remembering) Read(p []byte) (int, error) {
	n, err := r.source.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// OpenFile opens a regular file of the guest for reading. The context bounds the
// reading too.
func (m *machine) OpenFile(ctx context.Context, path string) (daemon.FileInfo, io.ReadCloser, error) {
	session, stop, err := m.ask(ctx, request{Op: wire.OpOpen, Path: path})
	if err != nil {
		return daemon.FileInfo{}, nil, err
	}
	r, err := m.answer(ctx, session)
	if err != nil {
		stop()
		_ = session.Close()
		return daemon.FileInfo{}, nil, err
	}
	return r.info(), &guestFile{ChunkReader: wire.ChunkReader{Source: session}, session: session, stop: stop}, nil
}

type guestFile struct {
	wire.ChunkReader
	session *net.UnixConn
	stop    func() bool
}

func (f *guestFile) Close() error {
	f.stop()
	return f.session.Close()
}

func (r reply) info() daemon.FileInfo {
	if r.Info == nil {
		return daemon.FileInfo{}
	}
	return *r.Info
}
