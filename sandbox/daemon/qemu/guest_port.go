package qemu

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// port is a serial port of the machine, seen from within. Its other end may go
// away and come back: a saved state has none until a new QEMU holds it.
type port struct{ file *os.File }

var _ io.ReadWriteCloser = (*port)(nil)

// openPort finds a port by its name.
func openPort(name string) (*port, error) {
	deadline := time.Now().Add(deviceWait)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		device := findPort(name)
		if device != "" {
			file, err := os.OpenFile(device, os.O_RDWR|unix.O_CLOEXEC, 0)
			if err == nil {
				return &port{file: file}, nil
			}
			// The port's device is made a moment after its entry.
			if time.Now().After(deadline) {
				return nil, err
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("there is no serial port %q", name)
		}
		<-tick.C
	}
}

func findPort(name string) string {
	entries, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
	for _, entry := range entries {
		text, err := os.ReadFile(entry)
		if err == nil && strings.TrimSpace(string(text)) == name {
			return "/dev/" + filepath.Base(filepath.Dir(entry))
		}
	}
	return ""
}

// unheldPause is how long a read waits before it looks again whether the other end
// is back.
const unheldPause = 10 * time.Millisecond

// Read implements io.Reader. It waits while nobody holds the other end.
func (p *port) Read(buffer []byte) (int, error) {
	for {
		n, err := p.file.Read(buffer)
		if n > 0 || err == nil || !errors.Is(err, io.EOF) {
			return n, err
		}
		<-time.After(unheldPause)
	}
}

// Write implements io.Writer.
func (p *port) Write(content []byte) (int, error) { return p.file.Write(content) }

// Close implements io.Closer.
func (p *port) Close() error { return p.file.Close() }
