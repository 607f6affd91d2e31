package main

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/sandbox-operator/sandbox-operator/hack/conformance/rows"
)

// The rows, without what an installation may have put beside them.
//
//go:embed node/*.json node/*.mjs
var files embed.FS

// drive runs the rows' program in a folder of its own, beside its packages.
func drive(ctx context.Context, name, world, modules string, progress io.Writer) rows.Report {
	dir, err := os.MkdirTemp("", "conformance-sandbox-")
	if err != nil {
		return rows.Broken(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := stage(dir, modules); err != nil {
		return rows.Broken(err)
	}
	var output collected
	var complaints bytes.Buffer
	reporting, done := context.WithCancel(ctx)
	defer done()
	go output.report(reporting, name, progress)
	command := exec.CommandContext(ctx, "node", "main.mjs")
	command.Dir, command.Stdout, command.Stderr = dir, &output, &complaints
	command.Env = append(os.Environ(), "CONFORMANCE_WORLD="+world)
	// Its whole group goes when the context ends.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = dying
	err = command.Run()
	return rows.Read(&output.output, err, complaints.String())
}

func stage(dir, modules string) error {
	sources, err := fs.Sub(files, "node")
	if err != nil {
		return err
	}
	if err := os.CopyFS(dir, sources); err != nil {
		return fmt.Errorf("writing the rows: %w", err)
	}
	return os.Symlink(modules, filepath.Join(dir, "node_modules"))
}
