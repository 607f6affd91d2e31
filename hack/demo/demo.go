package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// demo is what its steps share.
type demo struct {
	root, dir, logs string
	out             *printer
	report          *report
	stack           *stack.Stack
	client          *busClient
}

// step is one numbered part of the demo. Its action fails on any deviation.
type step struct {
	title string
	act   func(context.Context) error
}

func (d *demo) steps() []step {
	return []step{
		{"Start Kubernetes, the bus, the sandbox daemon and the operator", d.startStack},
		{"Connect a worker made with the published iii-sdk", d.connectClient},
		{"Apply two functions, one in Node and one in Python", d.applySamples},
		{"Call them on the bus", d.callFunctions},
		{"Call one over HTTP", d.callOverHTTP},
		{"Run a program with kubectl", d.runWithKubectl},
		{"Run a program from the bus", d.runFromBus},
		{"See it all", d.showObjects},
		{"Edit the source of a function", d.editSource},
		{"Delete everything", d.deleteAll},
	}
}

// play runs the steps in order and stops at the first that fails.
func (d *demo) play(ctx context.Context, steps []step) error {
	for i, s := range steps {
		d.out.title(i+1, len(steps), s.title)
		began := time.Now()
		if err := s.act(ctx); err != nil {
			return fmt.Errorf("step %d, %q: %w", i+1, s.title, err)
		}
		d.out.done(time.Since(began))
		d.report.Steps++
	}
	return nil
}

// startStack starts every part, each a process of its own.
func (d *demo) startStack(ctx context.Context) error {
	began := time.Now()
	var err error
	d.stack, err = stack.Start(ctx, stack.Options{
		Root: d.root, Dir: d.dir, LogDir: d.logs,
		Progress: func(s stack.Step) { d.out.line("%-26s %5.1f s", s.Name, s.Took.Seconds()) },
	})
	d.report.StackMS = milliseconds(time.Since(began))
	return err
}

// stopPatience bounds the end of the stack, which also happens after a Ctrl-C.
const stopPatience = 2 * time.Minute

// close ends what the demo started.
func (d *demo) close() error {
	var errs []error
	if d.client != nil {
		errs = append(errs, d.client.close())
	}
	if d.stack != nil {
		d.out.heading("Stop everything")
		ctx, cancel := context.WithTimeout(context.Background(), stopPatience)
		defer cancel()
		errs = append(errs, d.stack.Stop(ctx))
	}
	return errors.Join(errs...)
}

// logTail is how much of each log is shown after a failure.
const logTail = 12

func (d *demo) printLogs() {
	for _, part := range []stack.Part{stack.Operator, stack.Daemon} {
		path := filepath.Join(d.logs, string(part)+".log")
		text, err := os.ReadFile(path)
		if err != nil || len(text) == 0 {
			continue
		}
		lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
		fmt.Fprintf(os.Stderr, "\nthe end of %s:\n%s\n", path, strings.Join(lines[max(0, len(lines)-logTail):], "\n"))
	}
}
