package namespaces

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestfiles"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

// uploadPause is how long content may pause before the agent gives the upload up;
// set once by boot.
var uploadPause time.Duration

// guestTree is the guest's root; set once by boot, after the root has moved.
var guestTree *guestfiles.Tree

func openGuestTree() (err error) {
	guestTree, err = guestfiles.Open("/")
	return err
}

// fileOperations are those whose arguments and result are each one JSON text.
var fileOperations = map[wire.Operation]func(context.Context, json.RawMessage) (any, error){
	wire.OpList: withArguments(func(_ context.Context, path string) ([]daemon.FileInfo, error) {
		return guestTree.List(path)
	}),
	wire.OpMakeDir: withArguments(func(_ context.Context, spec daemon.MakeDirSpec) (bool, error) {
		return guestTree.MakeDir(spec)
	}),
	wire.OpRemove: withArguments(func(ctx context.Context, spec daemon.RemoveSpec) (bool, error) {
		return true, guestTree.Remove(ctx, spec)
	}),
	wire.OpChangeMode: withArguments(func(ctx context.Context, spec daemon.ModeSpec) (int, error) {
		return guestTree.ChangeMode(ctx, spec)
	}),
	wire.OpMove: withArguments(func(ctx context.Context, spec daemon.MoveSpec) (bool, error) {
		return true, guestTree.Move(ctx, spec)
	}),
	wire.OpGrep: withArguments(func(ctx context.Context, spec daemon.GrepSpec) (daemon.GrepResult, error) {
		return guestTree.Grep(ctx, spec)
	}),
	wire.OpSed: withArguments(func(ctx context.Context, spec daemon.SedSpec) (daemon.SedResult, error) {
		return guestTree.Sed(ctx, spec)
	}),
}

func withArguments[A, R any](do func(context.Context, A) (R, error)) func(context.Context, json.RawMessage) (any, error) {
	return func(ctx context.Context, text json.RawMessage) (any, error) {
		var arguments A
		if err := json.Unmarshal(text, &arguments); err != nil {
			return nil, err
		}
		return do(ctx, arguments)
	}
}

// serveFile answers a file request, in the guest's root and with the rights of
// its programs.
func serveFile(session *net.UnixConn, r request) {
	var err error
	switch r.Op {
	case wire.OpStat:
		err = serveStat(session, r.Path)
	case wire.OpOpen:
		err = serveOpen(session, r.Path)
	case wire.OpWrite:
		err = serveWrite(session, r)
	default:
		err = serveOperation(session, r)
	}
	if err != nil {
		_ = wire.WriteJSON(session, reply{Failure: wire.Classify(err), Message: err.Error()})
		// Content still on its way would turn the close into a reset, and the
		// answer would be lost.
		_ = session.CloseWrite()
		_ = session.SetReadDeadline(time.Now().Add(uploadPause))
		_, _ = io.Copy(io.Discard, session)
	}
}

// serveOperation ends the operation when the daemon hangs up.
func serveOperation(session *net.UnixConn, r request) error {
	do, known := fileOperations[r.Op]
	if !known {
		return fmt.Errorf("unknown operation %q", r.Op)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = io.Copy(io.Discard, session)
		cancel()
	}()
	result, err := do(ctx, r.Arguments)
	if err != nil {
		return err
	}
	return sendResult(session, result)
}

func sendResult(session *net.UnixConn, result any) error {
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	if len(text) > wire.ResultLimit {
		return fmt.Errorf("the result has %d bytes, at most %d fit", len(text), wire.ResultLimit)
	}
	deliver(session, reply{}, bytes.NewReader(text))
	return nil
}

// deliver sends a reply with content. A daemon that hung up is not told; it sees a
// cut by the missing end mark.
func deliver(session *net.UnixConn, r reply, content io.Reader) {
	if wire.WriteJSON(session, r) == nil {
		_ = wire.SendChunks(session, content)
	}
}

func serveStat(session *net.UnixConn, path string) error {
	info, err := guestTree.Stat(path)
	if err != nil {
		return err
	}
	return wire.WriteJSON(session, reply{Info: &info})
}

func serveOpen(session *net.UnixConn, path string) error {
	file, info, err := guestTree.OpenFile(path)
	if err != nil {
		return err
	}
	defer file.Close()
	deliver(session, reply{Info: &info}, file)
	return nil
}

func serveWrite(session *net.UnixConn, r request) error {
	upload, err := guestTree.Create(daemon.WriteSpec{Path: r.Path, Mode: r.Mode, Parents: r.Parents})
	if err != nil {
		return err
	}
	defer upload.Abort()
	if wire.WriteJSON(session, reply{}) != nil {
		return nil // the daemon hung up
	}
	written, err := io.Copy(upload, &wire.ChunkReader{Source: &pauseReader{session: session}})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return daemon.ErrUploadStalled
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := upload.Commit(); err != nil {
		return err
	}
	return wire.WriteJSON(session, reply{Written: written})
}

// pauseReader bounds the pauses of a session's content.
type pauseReader struct{ session *net.UnixConn }

// Read implements io.Reader.
func (r *pauseReader) Read(p []byte) (int, error) {
	if err := r.session.SetReadDeadline(time.Now().Add(uploadPause)); err != nil {
		return 0, err
	}
	return r.session.Read(p)
}
