// Package providertest has the tests that every sandbox.Provider passes, so that
// the fake one and the real ones keep to the same contract.
package providertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// Run tests a provider with sandboxes of the node image, which it leaves none
// of.
func Run(t *testing.T, p sandbox.Provider) {
	for name, test := range map[string]func(*testing.T, sandbox.Provider){
		"a sandbox is found by its marker":        marked,
		"a stopped sandbox is not found":          stopped,
		"programs run":                            executes,
		"files come back whole":                   files,
		"a missing file names itself":             missingFile,
		"sandboxes are made at the same time":     parallel,
		"errors do not give the sandbox id away":  discreet,
		"the back end says what it promises":      capabilities,
		"a content of another size is not taken":  wrongSize,
		"a sandbox keeps its files to itself":     apart,
		"a file is replaced with its permissions": replaced,
	} {
		t.Run(name, func(t *testing.T) { test(t, p) })
	}
}

func newMarker() sandbox.Marker {
	return sandbox.Marker{Operator: uuid.NewString(), Object: uuid.NewString(), Ordinal: 3, Nonce: sandbox.NewNonce()}
}

// create makes a sandbox that ends with the test.
func create(t *testing.T, p sandbox.Provider) (sandbox.ID, sandbox.Marker) {
	t.Helper()
	marker := newMarker()
	id, err := p.Create(t.Context(), sandbox.CreateRequest{
		Image: "node", MemoryMiB: 128, Marker: marker, IdleTimeout: time.Minute,
	})
	if err != nil {
		t.Fatalf("creating: %v", err)
	}
	t.Cleanup(func() {
		err := p.Stop(context.WithoutCancel(t.Context()), id)
		if err = sandbox.IgnoreNotFound(err); err != nil {
			t.Errorf("stopping: %v", err)
		}
	})
	return id, marker
}

func find(t *testing.T, p sandbox.Provider, marker sandbox.Marker) (sandbox.Info, bool) {
	t.Helper()
	infos, err := p.List(t.Context())
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	for _, info := range infos {
		if parsed, err := sandbox.ParseMarker(info.Name); err == nil && parsed == marker {
			return info, true
		}
	}
	return sandbox.Info{}, false
}

func marked(t *testing.T, p sandbox.Provider) {
	id, marker := create(t, p)
	info, found := find(t, p, marker)
	if !found || info.ID != id || info.Image != "node" || info.Stopped {
		t.Errorf("row is %+v, found %t", info, found)
	}
	if info.ExecInFlight != 0 || info.ExecSlotsFree < 1 {
		t.Errorf("a new sandbox has %d programs and %d slots", info.ExecInFlight, info.ExecSlotsFree)
	}
	if err := p.Touch(t.Context(), id); err != nil {
		t.Errorf("touching: %v", err)
	}
}

func stopped(t *testing.T, p sandbox.Provider) {
	id, marker := create(t, p)
	if err := p.Stop(t.Context(), id); err != nil {
		t.Fatalf("stopping: %v", err)
	}
	if _, found := find(t, p, marker); found {
		t.Error("it is still listed")
	}
	_, execErr := p.Exec(t.Context(), id, sandbox.ExecRequest{Argv: []string{"/bin/true"}})
	_, readErr := p.ReadFile(t.Context(), id, "/a")
	for what, err := range map[string]error{
		"Stop": p.Stop(t.Context(), id), "Touch": p.Touch(t.Context(), id), "WriteFile": write(t, p, id, "/a", nil),
		"Exec": execErr, "ReadFile": readErr,
	} {
		if !sandbox.IsNotFound(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func executes(t *testing.T, p sandbox.Provider) {
	id, _ := create(t, p)
	result, err := p.Exec(t.Context(), id, sandbox.ExecRequest{Argv: []string{"/bin/true"}, Timeout: 10 * time.Second})
	if err != nil || result.ExitCode != 0 {
		t.Errorf("result is %+v, %v", result, err)
	}
}

func write(t *testing.T, p sandbox.Provider, id sandbox.ID, path string, content []byte) error {
	t.Helper()
	return p.WriteFile(t.Context(), id, sandbox.WriteFileRequest{
		Path: path, Mode: 0o700, Content: bytes.NewReader(content), Size: int64(len(content)),
	})
}

func read(t *testing.T, p sandbox.Provider, id sandbox.ID, path string) ([]byte, error) {
	t.Helper()
	reader, err := p.ReadFile(t.Context(), id, path)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(reader)
	return content, errors.Join(err, reader.Close())
}

func files(t *testing.T, p sandbox.Provider) {
	id, _ := create(t, p)
	for _, size := range []int{0, 1, 512 << 10, 512<<10 + 1, 6 << 20} {
		content := bytes.Repeat([]byte{0, 255, '\n'}, size/3+1)[:size]
		path := fmt.Sprintf("/new/folder/%d", size)
		if err := write(t, p, id, path, content); err != nil {
			t.Errorf("writing %d bytes: %v", size, err)
			continue
		}
		if got, err := read(t, p, id, path); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d of %d bytes came back: %v", len(got), size, err)
		}
	}
}

func replaced(t *testing.T, p sandbox.Provider) {
	id, _ := create(t, p)
	for _, content := range []string{"first and longer", "second"} {
		if err := write(t, p, id, "/f", []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := read(t, p, id, "/f"); err != nil || string(got) != "second" {
		t.Errorf("file is %q, %v", got, err)
	}
}

func missingFile(t *testing.T, p sandbox.Provider) {
	id, _ := create(t, p)
	_, err := read(t, p, id, "/none")
	var file *sandbox.FileError
	if !errors.As(err, &file) || file.Path != "/none" {
		t.Errorf("error is %v", err)
	}
}

func wrongSize(t *testing.T, p sandbox.Provider) {
	id, _ := create(t, p)
	for _, size := range []int64{1, 3} {
		err := p.WriteFile(t.Context(), id, sandbox.WriteFileRequest{Path: "/f", Content: strings.NewReader("ab"), Size: size})
		if err == nil {
			t.Errorf("2 bytes announced as %d were taken", size)
		}
	}
	var file *sandbox.FileError
	if _, err := read(t, p, id, "/f"); !errors.As(err, &file) {
		t.Errorf("a refused content left a file: %v", err)
	}
}

func apart(t *testing.T, p sandbox.Provider) {
	one, _ := create(t, p)
	other, _ := create(t, p)
	if err := write(t, p, one, "/opt/secret", []byte("x")); err != nil {
		t.Fatal(err)
	}
	var file *sandbox.FileError
	if _, err := read(t, p, other, "/opt/secret"); !errors.As(err, &file) {
		t.Errorf("another sandbox's file: %v", err)
	}
}

func parallel(t *testing.T, p sandbox.Provider) {
	var makers sync.WaitGroup
	for range 8 {
		makers.Go(func() {
			marker := newMarker()
			id, err := p.Create(t.Context(), sandbox.CreateRequest{Image: "node", MemoryMiB: 128, Marker: marker})
			if err != nil {
				t.Errorf("creating: %v", err)
				return
			}
			if info, found := find(t, p, marker); !found || info.ID != id {
				t.Errorf("row is %+v, found %t", info, found)
			}
			if err := p.Stop(t.Context(), id); err != nil {
				t.Errorf("stopping: %v", err)
			}
		})
	}
	makers.Wait()
}

func discreet(t *testing.T, p sandbox.Provider) {
	id, _ := create(t, p)
	if err := p.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	err := p.Stop(t.Context(), id)
	if err == nil || strings.Contains(err.Error(), id.Reveal()) {
		t.Errorf("error is %v", err)
	}
}

func capabilities(t *testing.T, p sandbox.Provider) {
	got, err := p.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.PrivateImages && got.Isolation == "" {
		t.Error("private images are promised without a word for the isolation")
	}
}
