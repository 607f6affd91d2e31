package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// monitor speaks QEMU's machine protocol, a line of JSON each way, on a socket that
// QEMU inherited. It has what saving a state takes; the libraries for it only dial
// paths. One caller at a time.
type monitor struct {
	conn  *net.UnixConn
	lines *bufio.Reader
}

// monitorLine bounds one line of QEMU's, in bytes.
const monitorLine = 1 << 20

// newMonitor takes over the connection and negotiates.
func newMonitor(ctx context.Context, conn *net.UnixConn) (*monitor, error) {
	m := &monitor{conn: conn, lines: bufio.NewReaderSize(io.LimitReader(conn, 64*monitorLine), monitorLine)}
	stop := m.bound(ctx)
	defer stop()
	// The greeting comes without being asked for.
	if _, err := m.lines.ReadSlice('\n'); err != nil {
		return nil, fmt.Errorf("QEMU's monitor: %w", err)
	}
	if err := m.execute(ctx, "qmp_capabilities", nil, nil); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *monitor) bound(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() { _ = m.conn.SetDeadline(time.Unix(1, 0)) })
}

type monitorReply struct {
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class       string `json:"class"`
		Description string `json:"desc"`
	} `json:"error"`
}

// execute runs a command and stores what it returns, if that is wanted.
func (m *monitor) execute(ctx context.Context, command string, arguments, result any, files ...*os.File) error {
	stop := m.bound(ctx)
	defer stop()
	request := map[string]any{"execute": command}
	if arguments != nil {
		request["arguments"] = arguments
	}
	text, err := json.Marshal(request)
	if err != nil {
		return err
	}
	var rights []byte
	for _, file := range files {
		rights = append(rights, unix.UnixRights(int(file.Fd()))...)
	}
	if _, _, err := m.conn.WriteMsgUnix(append(text, '\n'), rights, nil); err != nil {
		return fmt.Errorf("QEMU's monitor: %w", err)
	}
	return m.answer(command, result)
}

// answer reads on until a reply comes: events come between, and are of no concern.
func (m *monitor) answer(command string, result any) error {
	for {
		line, err := m.lines.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("QEMU's monitor: %w", err)
		}
		var reply monitorReply
		if err := json.Unmarshal(line, &reply); err != nil {
			return fmt.Errorf("QEMU's monitor: %w", err)
		}
		switch {
		case reply.Error != nil:
			return fmt.Errorf("QEMU refuses %s: %s", command, reply.Error.Description)
		case reply.Return == nil:
			continue
		case result == nil:
			return nil
		}
		return json.Unmarshal(reply.Return, result)
	}
}

const migrationPoll = 5 * time.Millisecond

// save writes the machine's state to a file. The machine stands still afterwards.
func (m *monitor) save(ctx context.Context, file *os.File) error {
	const name = "state"
	if err := m.execute(ctx, "migrate-set-parameters", map[string]any{"max-bandwidth": 1 << 40}, nil); err != nil {
		return err
	}
	if err := m.execute(ctx, "getfd", map[string]any{"fdname": name}, nil, file); err != nil {
		return err
	}
	if err := m.execute(ctx, "migrate", map[string]any{"uri": "fd:" + name}, nil); err != nil {
		return err
	}
	tick := time.NewTicker(migrationPoll)
	defer tick.Stop()
	for {
		var progress struct {
			Status string `json:"status"`
			Error  string `json:"error-desc"`
		}
		if err := m.execute(ctx, "query-migrate", nil, &progress); err != nil {
			return err
		}
		switch progress.Status {
		case "completed":
			return nil
		case "failed", "cancelled":
			return fmt.Errorf("QEMU's saving %s: %s", progress.Status, progress.Error)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
