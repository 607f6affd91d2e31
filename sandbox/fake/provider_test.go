package fake_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

var request = sandbox.CreateRequest{
	Image: "node", Marker: sandbox.Marker{Operator: "op", Object: "obj", Ordinal: 2, Nonce: "n"},
}

func create(t *testing.T, p *fake.Provider) sandbox.ID {
	t.Helper()
	id, err := p.Create(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestProvider_lifecycle(t *testing.T) {
	p := fake.New()
	id := create(t, p)
	infos, err := p.List(t.Context())
	if err != nil || len(infos) != 1 || infos[0].ID != id || infos[0].Name != "sbx/op/obj/2/n" || infos[0].Image != "node" {
		t.Errorf("list is %+v, %v", infos, err)
	}
	if err := errors.Join(p.Touch(t.Context(), id), p.Stop(t.Context(), id)); err != nil {
		t.Error(err)
	}
	if err := p.Stop(t.Context(), id); !sandbox.IsNotFound(err) {
		t.Errorf("a second stop: %v", err)
	}
	var methods []fake.Method
	for _, call := range p.Calls() {
		methods = append(methods, call.Method)
	}
	want := []fake.Method{fake.Create, fake.List, fake.Touch, fake.Stop, fake.Stop}
	if diff := cmp.Diff(want, methods); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if creates := p.Calls(fake.Create); len(creates) != 1 || creates[0].Create.Marker != request.Marker {
		t.Errorf("creates are %+v", creates)
	}
}

func TestProvider_faults(t *testing.T) {
	p := fake.New()
	p.NextCreateErr(sandbox.NewCapacityError("full"))
	if _, err := p.Create(t.Context(), request); !sandbox.IsCapacity(err) {
		t.Errorf("the next create: %v", err)
	}
	id := create(t, p)
	p.NextExecErr(sandbox.NewBusyError())
	if _, err := p.Exec(t.Context(), id, sandbox.ExecRequest{}); !sandbox.IsBusy(err) {
		t.Errorf("the next exec: %v", err)
	}
	if _, err := p.Exec(t.Context(), id, sandbox.ExecRequest{}); err != nil {
		t.Errorf("the exec after it: %v", err)
	}
	if !p.Lose(id) || p.Lose(id) {
		t.Error("a sandbox is lost once")
	}
	if err := p.Touch(t.Context(), id); !sandbox.IsNotFound(err) {
		t.Errorf("a lost sandbox: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.List(ctx); !sandbox.IsUnavailable(err) {
		t.Errorf("a caller that left: %v", err)
	}
}

func TestProvider_exec(t *testing.T) {
	p := fake.New()
	id := create(t, p)
	running, goOn := make(chan struct{}), make(chan struct{})
	p.OnExec(func(_ context.Context, _ sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
		running <- struct{}{}
		<-goOn
		return sandbox.ExecResult{Stdout: []byte(req.Argv[0])}, nil
	})
	results := make(chan error, fake.ExecSlots)
	var programs sync.WaitGroup
	for range fake.ExecSlots {
		programs.Go(func() {
			_, err := p.Exec(t.Context(), id, sandbox.ExecRequest{Argv: []string{"a"}})
			results <- err
		})
		<-running
	}
	if _, err := p.Exec(t.Context(), id, sandbox.ExecRequest{}); !sandbox.IsBusy(err) {
		t.Errorf("one program too many: %v", err)
	}
	p.Lose(id)
	close(goOn)
	programs.Wait()
	for range fake.ExecSlots {
		var lost *sandbox.TransientError
		if err := <-results; !errors.As(err, &lost) {
			t.Errorf("a program in a lost sandbox: %v", err)
		}
	}
}

func TestProvider_files(t *testing.T) {
	p := fake.New()
	id := p.Adopt("stranger", "python")
	write := sandbox.WriteFileRequest{Path: "/a", Content: strings.NewReader("hi"), Size: 2}
	if err := p.WriteFile(t.Context(), id, write); err != nil {
		t.Fatal(err)
	}
	reader, err := p.ReadFile(t.Context(), id, "/a")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(reader); err != nil || string(got) != "hi" {
		t.Errorf("file is %q, %v", got, err)
	}
	if got, there := p.File(id, "/a"); !there || string(got) != "hi" {
		t.Errorf("file is %q, %t", got, there)
	}
	var missing *sandbox.FileError
	if _, err := p.ReadFile(t.Context(), id, "/b"); !errors.As(err, &missing) {
		t.Errorf("a missing file: %v", err)
	}
	write.Content = strings.NewReader("longer")
	if err := p.WriteFile(t.Context(), id, write); err == nil {
		t.Error("a content of another size was taken")
	}
}
