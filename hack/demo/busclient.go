package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// busClient is the Node process of client/client.mjs. One call at a time.
type busClient struct {
	command *exec.Cmd
	stdin   io.WriteCloser
	answers chan answer
	printed bytes.Buffer
	lastID  int
}

type request struct {
	ID        int    `json:"id"`
	Function  string `json:"function"`
	Payload   any    `json:"payload"`
	TimeoutMS int64  `json:"timeoutMs"`
}

type answer struct {
	ID    int             `json:"id"`
	Value json.RawMessage `json:"value"`
	Error string          `json:"error"`
	// MS is the time of the call as the client saw it.
	MS float64 `json:"ms"`
}

func startClient(dir, busURL string) (*busClient, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command := exec.Command("node", filepath.Join(dir, "client.mjs")) //nolint:noctx // close ends it in good order
	c := &busClient{command: command, answers: make(chan answer)}
	c.command.Env = append(os.Environ(), "III_URL="+busURL, "OTEL_ENABLED=false")
	c.command.Stdout, c.command.Stderr = &c.printed, &c.printed
	c.command.ExtraFiles = []*os.File{write}
	// Ctrl-C is for the demo, which then ends the client; if the demo is killed,
	// the client sees the end of its input.
	c.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.stdin, err = c.command.StdinPipe(); err == nil {
		err = c.command.Start()
	}
	closeErr := write.Close()
	if err = errors.Join(err, closeErr); err != nil {
		return nil, errors.Join(err, read.Close())
	}
	go c.readAnswers(read)
	return c, nil
}

func (c *busClient) readAnswers(from *os.File) {
	defer close(c.answers)
	defer func() { _ = from.Close() }()
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var a answer
		if err := json.Unmarshal(line, &a); err != nil {
			a = answer{Error: fmt.Sprintf("unreadable answer of the client: %v", err)}
		}
		c.answers <- a
	}
}

// call returns the value of a function and what the call took.
func (c *busClient) call(ctx context.Context, function string, payload any, timeout time.Duration) (json.RawMessage, float64, error) {
	c.lastID++
	line, err := json.Marshal(request{c.lastID, function, payload, timeout.Milliseconds()})
	if err != nil {
		return nil, 0, err
	}
	if _, err := c.stdin.Write(append(line, '\n')); err != nil {
		return nil, 0, fmt.Errorf("the client is gone: %w", err)
	}
	select {
	case a, open := <-c.answers:
		switch {
		case !open:
			return nil, 0, errors.New("the client ended before it answered")
		case a.Error != "":
			return nil, 0, fmt.Errorf("%s answers: %s", function, a.Error)
		case a.ID != c.lastID:
			return nil, 0, fmt.Errorf("the client answered call %d instead of %d", a.ID, c.lastID)
		}
		return a.Value, a.MS, nil
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
}

// clientGrace is how long the client gets to part from the bus.
const clientGrace = 10 * time.Second

// close ends the client by the end of its input, as a shell pipe would.
func (c *busClient) close() error {
	_ = c.stdin.Close()
	kill := time.AfterFunc(clientGrace, func() { _ = c.command.Process.Kill() })
	defer kill.Stop()
	for range c.answers { // nobody waits for these any more
	}
	if err := c.command.Wait(); err != nil {
		return fmt.Errorf("the iii-sdk client: %w: %s", err, c.printed.Bytes())
	}
	return nil
}
