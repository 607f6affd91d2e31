package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

func TestChunks(t *testing.T) {
	for _, size := range []int{0, 1, ChunkSize, ChunkSize + 1, 3 * ChunkSize} {
		content := strings.Repeat("x", size)
		var stream bytes.Buffer
		if err := SendChunks(&stream, strings.NewReader(content)); err != nil {
			t.Fatal(err)
		}
		stream.WriteString("next")
		sent := stream.String()
		got, err := io.ReadAll(&ChunkReader{Source: &stream})
		if err != nil || string(got) != content || stream.String() != "next" {
			t.Errorf("%d bytes came as %d, %v, and %q is left", size, len(got), err, stream.String())
		}
		reader := &ChunkReader{Source: strings.NewReader(sent)}
		var copied bytes.Buffer
		first := make([]byte, min(size, 7))
		_, err = io.ReadFull(reader, first)
		copied.Write(first)
		n, copyErr := io.Copy(&copied, reader)
		if err := errors.Join(err, copyErr); err != nil || copied.String() != content || int(n) != size-len(first) {
			t.Errorf("%d bytes were copied as %d, %v", size, n, err)
		}
	}
}

// failingWriter takes so many bytes.
type failingWriter int

func (w *failingWriter) Write(p []byte) (int, error) {
	n := min(int(*w), len(p))
	if *w -= failingWriter(n); n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, nil
}

func TestChunks_fullDisk(t *testing.T) {
	var stream bytes.Buffer
	if err := SendChunks(&stream, strings.NewReader(strings.Repeat("x", 3*ChunkSize))); err != nil {
		t.Fatal(err)
	}
	disk := failingWriter(ChunkSize + 10)
	n, err := io.Copy(&disk, &ChunkReader{Source: &stream})
	if n != ChunkSize+10 || !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("copied %d bytes, %v", n, err)
	}
}

func TestChunks_cut(t *testing.T) {
	var whole bytes.Buffer
	if err := SendChunks(&whole, strings.NewReader("content")); err != nil {
		t.Fatal(err)
	}
	for n := range whole.Len() {
		_, err := io.ReadAll(&ChunkReader{Source: bytes.NewReader(whole.Bytes()[:n])})
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %d bytes the error is %v", n, err)
		}
		if _, err := io.Copy(io.Discard, &ChunkReader{Source: bytes.NewReader(whole.Bytes()[:n])}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("copying after %d bytes: %v", n, err)
		}
	}
	broken := errors.New("broken")
	var stream bytes.Buffer
	if err := SendChunks(&stream, iotest.ErrReader(broken)); !errors.Is(err, broken) || stream.Len() != 0 {
		t.Errorf("a broken source: %v and %d bytes", err, stream.Len())
	}
}

func TestReadFrame_bound(t *testing.T) {
	var stream bytes.Buffer
	if err := WriteFrame(&stream, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadFrame(&stream, 99); err == nil {
		t.Error("a frame over the bound is read")
	}
	if err := WriteJSON(io.Discard, strings.Repeat("x", RequestLimit)); err == nil {
		t.Error("a frame over the bound is written")
	}
}

func TestFileError(t *testing.T) {
	for _, want := range []error{
		daemon.ErrFileMissing, daemon.ErrParentMissing, daemon.ErrWrongType, daemon.ErrPermission,
		daemon.ErrExists, daemon.ErrNotEmpty, daemon.ErrUploadStalled,
	} {
		got := FileError(Classify(fmt.Errorf("acting: %w", want)), "why")
		if !errors.Is(got, want) || !strings.Contains(got.Error(), "why") {
			t.Errorf("%v came as %v", want, got)
		}
	}
	var argument *daemon.ArgumentError
	if err := FileError(Classify(&daemon.ArgumentError{Reason: "x"}), "why"); !errors.As(err, &argument) {
		t.Errorf("an argument's error came as %v", err)
	}
	if err := FileError("", ""); err != nil {
		t.Errorf("success came as %v", err)
	}
}
