package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/hack/bench/results"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// original is the way of the worker that ours replaces, without that worker: what
// it asks of the daemon, asked directly, so that it is a hop shorter. Sandboxes, files
// and envelope are those of contracts/code-runner.md §9 to §11.
type original struct {
	language  language
	sandboxes []sandbox.ID
	// places are those for execs, by the number of sandboxes in use.
	places map[int]chan sandbox.ID
}

const (
	runnerFolder = "/opt/sandbox-code-runner"
	// originalTimeout is a limit that no call comes near.
	originalTimeout = time.Minute
)

// newOriginal boots sandboxes like those of the published functions, and plants
// runner, SDK and handlers.
func (b *bench) newOriginal(ctx context.Context, l language, instances int, busURL string) (*original, error) {
	o := &original{language: l, places: map[int]chan sandbox.ID{}}
	files, err := originalFiles(ctx, b.root, l)
	if err != nil {
		return nil, err
	}
	for ordinal := range instances {
		id, err := b.provider.Create(ctx, sandbox.CreateRequest{
			Image: l.name, Network: true, Env: map[string]string{"III_URL": busURL}, IdleTimeout: time.Hour,
			Marker: sandbox.Marker{Operator: "bench", Object: "original-" + l.name, Ordinal: ordinal, Nonce: sandbox.NewNonce()},
		})
		if err != nil {
			return nil, err
		}
		o.sandboxes = append(o.sandboxes, id)
		for name, content := range files {
			if err := b.write(ctx, id, name, content); err != nil {
				return nil, err
			}
		}
	}
	return o, nil
}

func (b *bench) write(ctx context.Context, id sandbox.ID, name, content string) error {
	return b.provider.WriteFile(ctx, id, sandbox.WriteFileRequest{
		Path: name, Mode: 0o644, Content: strings.NewReader(content), Size: int64(len(content)),
	})
}

// originalFiles are the guest files of contracts/code-runner.md §10, and the mark.
func originalFiles(ctx context.Context, root string, l language) (map[string]string, error) {
	files := map[string]string{markPath: markOf(l.name, results.Original)}
	scripts := map[string][]string{"node": {"invoke.mjs", "iii.mjs"}, "python": {"invoke.py", "sandbox_code_runner_iii.py"}}
	for _, script := range scripts[l.name] {
		content, err := guestFile("original/" + script)
		if err != nil {
			return nil, err
		}
		files[path.Join(runnerFolder, script)] = content
	}
	for _, w := range works {
		files[sourcePath(w, l)] = w.sources[l.name]
	}
	if l.name == "node" {
		return files, addSDK(ctx, files, root)
	}
	return files, nil // The image brings the SDK of Python.
}

func sourcePath(w work, l language) string {
	return path.Join(runnerFolder, "fns", w.name+"."+l.extension)
}

// addSDK adds the Node SDK, bundled as the original does it. What our agent brings is
// made to be loaded at first use, and takes twice as long.
func addSDK(ctx context.Context, files map[string]string, root string) error {
	var stderr bytes.Buffer
	command := exec.CommandContext(ctx, filepath.Join(root, "hack/bench/bundle.sh"))
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return fmt.Errorf("bundling the Node SDK: %w: %s", err, stderr.String())
	}
	for _, name := range []string{"package.json", "dist/index.mjs"} {
		content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(output)), name))
		if err != nil {
			return err
		}
		files[path.Join(guest.ModuleDirectory, "iii-sdk", name)] = string(content)
	}
	return nil
}

// way runs the handler in the first sandboxes, in each as much at once as it takes.
func (o *original) way(b *bench, w work, instances int) way {
	places := o.places[instances]
	if places == nil {
		places = make(chan sandbox.ID, execsPerSandbox*instances)
		for range execsPerSandbox {
			for _, id := range o.sandboxes[:instances] {
				places <- id
			}
		}
		o.places[instances] = places
	}
	return way{name: results.Original, call: func(ctx context.Context, caller int, payload json.RawMessage) ([]byte, error) {
		select {
		case id := <-places:
			defer func() { places <- id }()
			return o.invoke(ctx, b.callerOf(caller).provider, id, w, payload)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

// exec is that of the runner with a handler.
func (o *original) exec(w work) sandbox.ExecRequest {
	runner, source := path.Join(runnerFolder, "invoke."+o.language.extension), sourcePath(w, o.language)
	request := sandbox.ExecRequest{Argv: []string{"node", runner, source}, Timeout: originalTimeout}
	if o.language.name == "python" {
		request.Argv[0] = "python3"
		request.Env = map[string]string{"PYTHONPATH": guest.PackagesDirectory}
	}
	return request
}

func (o *original) invoke(ctx context.Context, provider sandbox.Provider, id sandbox.ID, w work, payload json.RawMessage) ([]byte, error) {
	sentinel := uuid.NewString()
	envelope, err := json.Marshal(map[string]any{"sentinel": sentinel, "payload": payload})
	if err != nil {
		return nil, err
	}
	request := o.exec(w)
	request.Stdin = envelope
	result, err := provider.Exec(ctx, id, request)
	if err != nil {
		return nil, err
	}
	return unframe(result, sentinel)
}

// unframe takes the result out of an exec's output (contracts/code-runner.md §11).
func unframe(result sandbox.ExecResult, sentinel string) ([]byte, error) {
	_, frame, found := bytes.Cut(result.Stdout, []byte("\n"+sentinel+"\n"))
	line, _, ended := bytes.Cut(frame, []byte("\n"))
	if !found || !ended || result.ExitCode != 0 {
		return nil, fmt.Errorf("the original's runner ends with %d, %q and %q", result.ExitCode, cut(result.Stdout), cut(result.Stderr))
	}
	return line, nil
}

// stop destroys the sandboxes.
func (o *original) stop(ctx context.Context, b *bench) error {
	var errs []error
	for _, id := range o.sandboxes {
		errs = append(errs, b.provider.Stop(ctx, id))
	}
	o.sandboxes = nil
	return errors.Join(errs...)
}
