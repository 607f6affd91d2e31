// Command link connects a guest's supervisor with the operator: it opens two data
// channels of the bus (contracts/iii-bus.md §8) and passes bytes between them and
// descriptor 3. It is a program of its own because a WebSocket client would make
// the agent, which starts for every call, half as slow again to start.
//
// Standard input holds a wire.LinkProgram. Once both channels are open a
// wire.LinkPong is written to descriptor 3, and then what comes. It ends when
// either side does.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	supervisor = 3
	// openWait bounds the opening of both channels.
	openWait = 8 * time.Second
	// frameBytes is the size of a channel's binary frames (§1.3).
	frameBytes = 64 << 10
	// maxFrameBytes bounds what is taken in one frame, far above what a writer sends.
	maxFrameBytes = 16 << 20

	prSetDumpable = 4
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "link:", err)
		os.Exit(1)
	}
}

func run() error {
	// The channels' keys must not be reached through /proc.
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetDumpable, 0, 0); errno != 0 {
		return os.NewSyscallError("prctl(PR_SET_DUMPABLE)", errno)
	}
	_ = os.WriteFile("/proc/self/comm", []byte("agent-link"), 0)
	var program wire.LinkProgram
	if err := json.NewDecoder(os.Stdin).Decode(&program); err != nil {
		return errors.New("standard input holds no program")
	}
	stream := os.NewFile(supervisor, "supervisor")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	calls, replies, err := open(ctx, program)
	if err != nil {
		return err
	}
	defer func() { _ = errors.Join(calls.CloseNow(), replies.CloseNow()) }()
	pong, err := wire.LinkPacket{Kind: wire.LinkPong}.Append(nil)
	if err == nil {
		_, err = stream.Write(pong)
	}
	if err != nil {
		return err
	}
	return pass(ctx, stream, calls, replies)
}

// open dials both channels. Its errors hold no address: that has keys in it.
func open(ctx context.Context, program wire.LinkProgram) (calls, replies *websocket.Conn, err error) {
	ctx, cancel := context.WithTimeout(ctx, openWait)
	defer cancel()
	if calls, err = dial(ctx, program.CallsURL); err != nil {
		return nil, nil, fmt.Errorf("opening the channel of calls: %w", err)
	}
	if replies, err = dial(ctx, program.RepliesURL); err != nil {
		_ = calls.CloseNow()
		return nil, nil, fmt.Errorf("opening the channel of replies: %w", err)
	}
	return calls, replies, nil
}

var errDial = errors.New("the bus cannot be reached or does not know it")

func dial(ctx context.Context, address string) (*websocket.Conn, error) {
	conn, response, err := websocket.Dial(ctx, address, &websocket.DialOptions{CompressionMode: websocket.CompressionDisabled})
	if response != nil && response.Body != nil {
		_ = response.Body.Close()
	}
	if err != nil {
		return nil, errDial
	}
	conn.SetReadLimit(maxFrameBytes)
	return conn, nil
}

// pass copies both ways until one of the three ends.
func pass(ctx context.Context, stream *os.File, calls, replies *websocket.Conn) error {
	ended := make(chan error, 3)
	go func() { ended <- receive(ctx, calls, stream) }()
	go func() { ended <- send(ctx, stream, replies) }()
	// Nothing is expected there, but pings and the close frame must be answered.
	gone := replies.CloseRead(ctx)
	go func() {
		<-gone.Done()
		ended <- nil
	}()
	err := <-ended
	if errors.Is(err, io.EOF) || websocket.CloseStatus(err) != -1 {
		return nil
	}
	return err
}

func receive(ctx context.Context, calls *websocket.Conn, stream io.Writer) error {
	for {
		_, data, err := calls.Read(ctx)
		if err != nil {
			return err
		}
		if _, err := stream.Write(data); err != nil {
			return err
		}
	}
}

func send(ctx context.Context, stream io.Reader, replies *websocket.Conn) error {
	buffer := make([]byte, frameBytes)
	for {
		n, err := stream.Read(buffer)
		if err != nil {
			return err
		}
		if err := replies.Write(ctx, websocket.MessageBinary, buffer[:n]); err != nil {
			return err
		}
	}
}
