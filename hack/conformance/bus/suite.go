package main

import (
	"bytes"
	"cmp"
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/conformance/clients"
	"github.com/sandbox-operator/sandbox-operator/hack/conformance/rows"
)

// The suites, without what an installation may have put beside them.
//
//go:embed node/*.json node/*.mjs python/*.py python/*.txt
var files embed.FS

// suitePatience bounds one suite, so that one that hangs is a failure and not a
// wait.
const suitePatience = 80 * time.Second

// dying is how long a suite that was told to end may take.
const dying = 5 * time.Second

// suite is one published client with the rows that drive the engine through it.
type suite struct {
	name string
	// folder holds the sources, within files.
	folder string
	// packages is the folder of installed packages.
	packages string
	// link is the name under which the sources find the packages beside them;
	// empty for none.
	link    string
	command []string
	env     []string
}

// allSuites installs what the suites need; a cached installation needs no
// network.
func allSuites(ctx context.Context, progress io.Writer) ([]suite, error) {
	modules, err := clients.Node(ctx, progress, files)
	if err != nil {
		return nil, err
	}
	suites := []suite{{
		name: "node iii-sdk 0.22.1", folder: "node", packages: modules, link: "node_modules",
		command: []string{"node", "main.mjs"},
	}}
	for _, version := range []string{"0.22.1", "0.25.0"} {
		packages, err := installPython(ctx, progress, version)
		if err != nil {
			return nil, err
		}
		suites = append(suites, suite{
			name: "python iii-sdk " + version, folder: "python", packages: packages,
			command: []string{python(), "main.py"},
			env:     []string{"PYTHONPATH=" + packages, "PYTHONDONTWRITEBYTECODE=1", "OTEL_ENABLED=false"},
		})
	}
	return suites, nil
}

// run starts an engine, runs the suite against it and ends both. Whatever goes
// wrong besides a row is a failed row of its own.
func (s suite) run(ctx context.Context) rows.Report {
	ctx, cancelSuite := context.WithTimeout(ctx, suitePatience)
	defer cancelSuite()
	e, urls, err := startEngine(ctx)
	if err != nil {
		return rows.Broken(err)
	}
	r := s.drive(ctx, urls)
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), dying)
	defer cancel()
	if err := e.Close(closing); err != nil {
		r.Add(rows.Row{ID: "4.2 close", Name: "the engine ends when all clients are gone", Error: err.Error()})
	}
	return r
}

// drive runs the suite's program in a folder of its own.
func (s suite) drive(ctx context.Context, urls string) rows.Report {
	dir, err := os.MkdirTemp("", "conformance-bus-")
	if err != nil {
		return rows.Broken(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := s.stage(dir); err != nil {
		return rows.Broken(err)
	}
	var output, complaints bytes.Buffer
	command := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	command.Dir, command.Stdout, command.Stderr = dir, &output, &complaints
	command.Env = append(append(os.Environ(), "CONFORMANCE_URLS="+urls), s.env...)
	// Its whole group goes when the context ends.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = dying
	err = command.Run()
	return rows.Read(&output, err, complaints.String())
}

// stage writes the suite's sources into dir, beside its packages.
func (s suite) stage(dir string) error {
	sources, err := fs.Sub(files, s.folder)
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, sources); err != nil {
		return fmt.Errorf("writing the suite: %w", err)
	}
	if s.link == "" {
		return nil
	}
	return os.Symlink(s.packages, filepath.Join(dir, s.link))
}

// python is the interpreter that the packages are made for.
func python() string {
	return cmp.Or(os.Getenv("PYTHON"), "python3")
}
