package fake

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"time"

	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// Create implements sandbox.Provider.
func (p *Provider) Create(ctx context.Context, req sandbox.CreateRequest) (sandbox.ID, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	req.Env = maps.Clone(req.Env)
	if err := p.begin(ctx, Call{Method: Create, Create: req}); err != nil {
		return sandbox.ID{}, err
	}
	if err := p.room(req.Image); err != nil {
		return sandbox.ID{}, err
	}
	return p.add(req.Marker.String(), req.Image), nil
}

// List implements sandbox.Provider.
func (p *Provider) List(ctx context.Context) ([]sandbox.Info, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.begin(ctx, Call{Method: List}); err != nil {
		return nil, err
	}
	infos := make([]sandbox.Info, 0, len(p.sandboxes))
	for _, b := range p.sandboxes {
		info := b.info
		info.Age = p.now().Sub(b.created).Truncate(time.Second)
		infos = append(infos, info)
	}
	return infos, nil
}

// Exec implements sandbox.Provider. Over the slots it is a BusyError; when the
// sandbox is lost under a running program, a TransientError as of S300.
func (p *Provider) Exec(ctx context.Context, id sandbox.ID, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
	b, info, run, err := p.admit(ctx, id, req)
	if err != nil {
		return sandbox.ExecResult{}, err
	}
	result, err := run(ctx, info, req)
	p.mu.Lock()
	defer p.mu.Unlock()
	b.info.ExecInFlight--
	b.info.ExecSlotsFree++
	if _, alive := p.sandboxes[id.Reveal()]; !alive && err == nil {
		return sandbox.ExecResult{}, sandbox.NewTransientError("S300", "the guest has ended")
	}
	return result, err
}

// admit takes a slot and returns the sandbox's row as it is then.
func (p *Provider) admit(ctx context.Context, id sandbox.ID, req sandbox.ExecRequest) (*box, sandbox.Info, ExecFunc, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.beginIn(ctx, Call{Method: Exec, ID: id, Exec: req})
	if err != nil {
		return nil, sandbox.Info{}, nil, err
	}
	if b.info.ExecSlotsFree == 0 {
		return nil, sandbox.Info{}, nil, sandbox.NewBusyError()
	}
	b.info.ExecInFlight++
	b.info.ExecSlotsFree--
	return b, b.info, p.execFunc, nil
}

// WriteFile implements sandbox.Provider.
func (p *Provider) WriteFile(ctx context.Context, id sandbox.ID, req sandbox.WriteFileRequest) error {
	content, err := readAll(req)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.beginIn(ctx, Call{Method: WriteFile, ID: id, Path: req.Path})
	if err != nil {
		return err
	}
	b.files[req.Path] = content
	return nil
}

func readAll(req sandbox.WriteFileRequest) ([]byte, error) {
	if req.Content == nil {
		return nil, nil
	}
	content, err := io.ReadAll(req.Content)
	if err == nil && int64(len(content)) != req.Size {
		err = errors.New("the content does not have the announced size")
	}
	return content, err
}

// ReadFile implements sandbox.Provider.
func (p *Provider) ReadFile(ctx context.Context, id sandbox.ID, path string) (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := p.beginIn(ctx, Call{Method: ReadFile, ID: id, Path: path})
	if err != nil {
		return nil, err
	}
	content, there := b.files[path]
	if !there {
		return nil, sandbox.NewFileError(path, "S211: file not found")
	}
	return io.NopCloser(bytes.NewReader(bytes.Clone(content))), nil
}

// Stop implements sandbox.Provider.
func (p *Provider) Stop(ctx context.Context, id sandbox.ID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.beginIn(ctx, Call{Method: Stop, ID: id}); err != nil {
		return err
	}
	delete(p.sandboxes, id.Reveal())
	return nil
}

// Touch implements sandbox.Provider.
func (p *Provider) Touch(ctx context.Context, id sandbox.ID) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := p.beginIn(ctx, Call{Method: Touch, ID: id})
	return err
}

// Capabilities implements sandbox.Provider.
func (p *Provider) Capabilities(ctx context.Context) (sandbox.Capabilities, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.promises, p.begin(ctx, Call{Method: Capabilities})
}
