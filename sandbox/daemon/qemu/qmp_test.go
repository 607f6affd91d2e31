package qemu

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// pair is two ends of a socket.
func pair(t *testing.T) (ours, theirs *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		file := os.NewFile(uintptr(fd), "end")
		conn, err := net.FileConn(file)
		_ = file.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = conn.(*net.UnixConn)
		t.Cleanup(func() { _ = conn.Close() })
	}
	return ends[0], ends[1]
}

// player answers a monitor's commands, the last answer again and again, and tells
// what they were.
func player(conn *net.UnixConn, answers map[string][]string, commands chan<- string) {
	_, _ = fmt.Fprintln(conn, `{"QMP": {"version": {}, "capabilities": []}}`)
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var command struct{ Execute string }
		if json.Unmarshal(lines.Bytes(), &command) != nil {
			return
		}
		commands <- command.Execute
		answer := `{"return": {}}`
		if list := answers[command.Execute]; len(list) > 0 {
			answer = list[0]
			if len(list) > 1 {
				answers[command.Execute] = list[1:]
			}
		}
		_, _ = fmt.Fprintf(conn, "%s\n%s\n", `{"event": "STOP", "timestamp": {}}`, answer)
	}
}

func TestMonitor_save(t *testing.T) {
	const saving, saved = `{"return": {"status": "active"}}`, `{"return": {"status": "completed"}}`
	whole := []string{"qmp_capabilities", "migrate-set-parameters", "getfd", "migrate", "query-migrate"}
	for name, tc := range map[string]struct {
		answers map[string][]string
		want    []string
		wantErr string
	}{
		"at once":       {map[string][]string{"query-migrate": {saved}}, whole, ""},
		"after a while": {map[string][]string{"query-migrate": {saving, saving, saved}}, append(append([]string{}, whole...), "query-migrate", "query-migrate"), ""},
		"refused":       {map[string][]string{"migrate": {`{"error": {"class": "GenericError", "desc": "blocked"}}`}}, whole[:4], "QEMU refuses migrate: blocked"},
		"failed":        {map[string][]string{"query-migrate": {`{"return": {"status": "failed", "error-desc": "disk full"}}`}}, whole, "disk full"},
		"no JSON":       {map[string][]string{"getfd": {"what?"}}, whole[:3], "invalid character"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := pair(t)
			commands := make(chan string, 99)
			go player(theirs, tc.answers, commands)
			file, err := os.Create(filepath.Join(t.TempDir(), "state"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			qmp, err := newMonitor(t.Context(), ours)
			if err == nil {
				err = qmp.save(t.Context(), file)
			}
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("error is %v, want %q", err, tc.wantErr)
			}
			_ = ours.Close()
			var got []string
			for len(commands) > 0 {
				got = append(got, <-commands)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("commands (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMonitor_silence(t *testing.T) {
	ours, _ := pair(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := newMonitor(ctx, ours); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without a greeting the error is %v", err)
	}
	other, theirs := pair(t)
	_ = theirs.Close()
	if _, err := newMonitor(t.Context(), other); !errors.Is(err, io.EOF) {
		t.Errorf("after the end of QEMU the error is %v", err)
	}
}
