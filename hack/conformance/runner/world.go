package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/hack/conformance/clients"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

const (
	// readyPatience bounds the wait for the operator's and daemon's functions.
	readyPatience = 60 * time.Second
	// callerName is the worker that makes the calls of most rows.
	callerName = "conformance-runner"
)

// world is what all rows share: the whole stack, with a tap between the engine
// and the daemon and another between the engine and the operator, and callers.
type world struct {
	stack                  *stack.Stack
	daemonTap, operatorTap *tap
	callers                *driver
	kube                   client.Client
	connections            *http.Client
	root, dir              string
}

// startWorld starts everything; after an error nothing is left.
func startWorld(ctx context.Context, progress io.Writer) (*world, error) {
	modules, err := clients.Node(ctx, progress, files)
	if err != nil {
		return nil, err
	}
	w := &world{}
	if err := w.start(ctx, modules); err != nil {
		return nil, errors.Join(err, w.stop(context.WithoutCancel(ctx)))
	}
	return w, nil
}

func (w *world) start(ctx context.Context, modules string) (err error) {
	if w.dir, err = os.MkdirTemp("", "conformance-runner-"); err != nil {
		return err
	}
	for _, each := range []**tap{&w.daemonTap, &w.operatorTap} {
		if *each, err = startTap(ctx); err != nil {
			return err
		}
	}
	if w.root, err = repositoryRoot(); err != nil {
		return err
	}
	if err := w.startStack(ctx); err != nil {
		return err
	}
	if err := w.connectKube(); err != nil {
		return err
	}
	if w.callers, err = startDriver(w.stack.BusURL, modules); err != nil {
		return err
	}
	if _, err := w.callers.do(ctx, "connect", m{"worker": callerName}); err != nil {
		return err
	}
	return w.awaitFunctions(ctx)
}

// startStack gives the stack small programs in the place of daemon and operator,
// which start the real ones on the taps.
func (w *world) startStack(ctx context.Context) error {
	daemon, operator := filepath.Join(w.dir, "daemon"), filepath.Join(w.dir, "operator")
	scripts := map[string]string{
		daemon: fmt.Sprintf("shift\nexec '%s' --engine=%s \"$@\"\n", filepath.Join(w.root, "bin", "sandbox-daemon"), w.daemonTap.URL),
		operator: fmt.Sprintf("exec '%s' \"$@\" --bus-url=%s $(cat '%s')\n",
			filepath.Join(w.root, "bin", "manager"), w.operatorTap.URL, w.flagsFile()),
	}
	for path, text := range scripts {
		if err := os.WriteFile(path, []byte("#!/bin/sh\nset -e\n"+text), 0o700); err != nil {
			return err
		}
	}
	if err := w.setOperatorFlags(); err != nil {
		return err
	}
	logs := filepath.Join(w.root, "out", "conformance-runner-logs")
	var err error
	w.stack, err = stack.Start(ctx, stack.Options{
		Root: w.root, Dir: filepath.Join(w.dir, "stack"), LogDir: logs, DaemonProgram: daemon, OperatorProgram: operator,
		Progress: func(step stack.Step) {
			if step.Name == string(stack.Engine) {
				w.daemonTap.lead(step.Detail)
				w.operatorTap.lead(step.Detail)
			}
		},
	})
	return err
}

func (w *world) flagsFile() string { return filepath.Join(w.dir, "operator.flags") }

// setOperatorFlags are what the operator is started with from now on, after the
// stack's own flags.
func (w *world) setOperatorFlags(flags ...string) error {
	return os.WriteFile(w.flagsFile(), []byte(strings.Join(append(flags, "--zap-log-level=debug"), " ")), 0o600)
}

// restartOperator ends the operator in good order and starts it with the flags.
func (w *world) restartOperator(ctx context.Context, flags ...string) error {
	if err := w.setOperatorFlags(flags...); err != nil {
		return err
	}
	if err := w.stack.StopPart(ctx, stack.Operator); err != nil {
		return err
	}
	return w.startOperator(ctx)
}

func (w *world) startOperator(ctx context.Context) error {
	if err := w.stack.StartPart(ctx, stack.Operator); err != nil {
		return err
	}
	return w.awaitFunctions(ctx)
}

// awaitFunctions waits until the bus has the functions of the daemon and the
// operator.
func (w *world) awaitFunctions(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	for {
		var missing error
		for _, id := range []string{"sandbox::stop", "sandbox::list", runID, teardownID, registerID} {
			_, err := w.callers.do(ctx, "trigger", m{"worker": callerName, "function_id": "engine::functions::info", "payload": m{"function_id": id}})
			if err != nil {
				missing = fmt.Errorf("%s is not on the bus: %w", id, err)
			}
		}
		if missing == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return missing
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (w *world) connectKube() error {
	config, err := clientcmd.BuildConfigFromFlags("", w.stack.Kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return err
	}
	config.QPS = -1 // rows poll
	if w.connections, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	w.kube, err = client.New(config, client.Options{Scheme: scheme, HTTPClient: w.connections})
	return err
}

// stop ends what runs, in the reverse order of its start.
func (w *world) stop(ctx context.Context) error {
	var errs []error
	if w.callers != nil {
		errs = append(errs, w.callers.stop())
	}
	if w.connections != nil {
		w.connections.CloseIdleConnections()
	}
	if w.stack != nil {
		errs = append(errs, w.stack.Stop(ctx))
	}
	for _, each := range []*tap{w.daemonTap, w.operatorTap} {
		if each != nil {
			errs = append(errs, each.stop())
		}
	}
	if w.dir != "" {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}

// repositoryRoot is the folder with config/crd at or above the working
// directory.
func repositoryRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "config", "crd")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("not inside the repository")
		}
		dir = filepath.Dir(dir)
	}
}
