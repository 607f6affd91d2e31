package cork

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// recorder is a connection that notes each write.
type recorder struct {
	net.Conn
	writes []string
	err    error
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.err != nil {
		return 0, r.err
	}
	r.writes = append(r.writes, string(p))
	return len(p), nil
}

func write(t *testing.T, c *Conn, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if n, err := io.WriteString(c, text); n != len(text) || err != nil {
			t.Errorf("writing %d bytes: %d, %v", len(text), n, err)
		}
	}
}

func TestConn(t *testing.T) {
	half := strings.Repeat("x", capacity/2+1)
	for name, tc := range map[string]struct {
		act  func(*testing.T, *Conn)
		want []string
	}{
		"what is not held leaves at once": {
			func(t *testing.T, c *Conn) { write(t, c, "a", "b") }, []string{"a", "b"},
		},
		"what is held leaves together": {
			func(t *testing.T, c *Conn) {
				c.Hold()
				write(t, c, "a", "b")
				if err := c.Release(); err != nil {
					t.Error(err)
				}
				write(t, c, "c")
			}, []string{"ab", "c"},
		},
		"nothing held is nothing written": {
			func(t *testing.T, c *Conn) {
				c.Hold()
				if err := c.Release(); err != nil {
					t.Error(err)
				}
			}, nil,
		},
		"too much does not wait": {
			func(t *testing.T, c *Conn) {
				c.Hold()
				write(t, c, half, half)
				if err := c.Release(); err != nil {
					t.Error(err)
				}
			}, []string{half, half},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inner := &recorder{}
			tc.act(t, New(inner))
			if diff := cmp.Diff(tc.want, inner.writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConn_lateErrorIsNotLost(t *testing.T) {
	broken := errors.New("broken")
	inner := &recorder{err: broken}
	c := New(inner)
	c.Hold()
	write(t, c, "kept")
	if err := c.Release(); !errors.Is(err, broken) {
		t.Errorf("releasing: %v", err)
	}
	inner.err = nil
	if _, err := c.Write([]byte("next")); !errors.Is(err, broken) {
		t.Errorf("writing after a loss: %v", err)
	}
	if err := c.Release(); !errors.Is(err, broken) {
		t.Errorf("releasing again: %v", err)
	}
}
