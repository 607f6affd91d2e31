package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// patience bounds the whole demo; it takes about half a minute.
const patience = 10 * time.Minute

func main() {
	root := flag.String("root", ".", "folder of the repository")
	logs := flag.String("logs", "out/demo-logs", "folder for the logs of the parts")
	flag.Parse()
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stopSignals()
	if err := run(ctx, *root, *logs); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		stopSignals()
		os.Exit(1) //nolint:gocritic // the signals were given back the line before
	}
}

// run plays the demo in a folder of its own, which is gone afterwards, so that it
// can run beside `make dev` and other demos.
func run(ctx context.Context, root, logs string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if root, err = filepath.Abs(root); err != nil {
		return err
	}
	if logs, err = filepath.Abs(logs); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "sandbox-operator-demo-")
	if err != nil {
		return err
	}
	d := &demo{root: root, dir: dir, logs: logs, out: newPrinter(os.Stdout), report: newReport()}
	if err = d.play(ctx, d.steps()); err != nil {
		// Before the end of the parts fills their logs.
		d.printLogs()
	}
	if closeErr := d.close(); err == nil && closeErr != nil {
		err = fmt.Errorf("step %q: %w", "clean up", closeErr)
	}
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		return err
	}
	// The result comes last, after everything is gone: nothing may fail after it.
	return json.NewEncoder(os.Stdout).Encode(d.report)
}
