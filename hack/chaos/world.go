package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/hack/chaos/apiproxy"
	"github.com/sandbox-operator/sandbox-operator/hack/chaos/link"
	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// replicas are the parts that are operators.
var replicas = []stack.Part{stack.Operator, stack.Standby}

// world is the whole stack with two replicas of the operator, and what stands
// between its parts.
type world struct {
	stack  *stack.Stack
	keeper *keeper
	// operatorLinks are between the engine and each replica, daemonLink is between
	// the engine and the daemon.
	operatorLinks map[stack.Part]*link.Link
	daemonLink    *link.Link
	ledger        *ledger
	api           *apiproxy.Proxy
	kube          client.Client
	connections   *http.Client
	caller        *bus.Client
	dir           string
	// ends undo what start did, in reverse.
	ends []func(context.Context) error
}

// startPatience bounds the start on a machine where builds may run beside it.
const startPatience = 5 * time.Minute

// startWorld starts everything; after an error nothing is left.
func startWorld(ctx context.Context) (*world, error) {
	w := &world{operatorLinks: map[stack.Part]*link.Link{}, ledger: newLedger()}
	bounded, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	if err := w.start(ctx, bounded); err != nil {
		stopCtx, stop := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
		defer stop()
		return nil, errors.Join(err, w.stop(stopCtx), os.RemoveAll(w.dir))
	}
	return w, nil
}

// start bounds its steps by one context; what goes on afterwards gets the other.
func (w *world) start(ctx, bounded context.Context) (err error) {
	if err := w.makeFolders(); err != nil {
		return err
	}
	for _, part := range replicas {
		if w.operatorLinks[part], err = w.openLink(bounded, nil); err != nil {
			return err
		}
	}
	if w.daemonLink, err = w.openLink(bounded, w.ledger); err != nil {
		return err
	}
	if err := w.startStack(bounded); err != nil {
		return err
	}
	if err := w.openAPI(bounded); err != nil {
		return err
	}
	if err := w.connect(ctx, bounded); err != nil {
		return err
	}
	w.startKeeper(ctx)
	return w.keeper.awaitAll(bounded)
}

// makeFolders gives the parts a folder for temporary files of their own, so that
// a forgotten one is found.
func (w *world) makeFolders() (err error) {
	if w.dir, err = os.MkdirTemp("", "sandbox-operator-chaos-"); err != nil {
		return err
	}
	w.atEnd(func(context.Context) error { return os.RemoveAll(w.stackDir()) })
	if err := os.Mkdir(w.temporary(), 0o700); err != nil {
		return err
	}
	before, was := os.LookupEnv("TMPDIR")
	w.atEnd(func(context.Context) error {
		if was {
			return os.Setenv("TMPDIR", before)
		}
		return os.Unsetenv("TMPDIR")
	})
	return os.Setenv("TMPDIR", w.temporary())
}

func (w *world) temporary() string { return filepath.Join(w.dir, "tmp") }
func (w *world) stackDir() string  { return filepath.Join(w.dir, "stack") }

func (w *world) openLink(ctx context.Context, observer link.Observer) (*link.Link, error) {
	l, err := link.New(ctx, observer)
	if err == nil {
		w.atEnd(func(context.Context) error { return l.Close() })
	}
	return l, err
}

// startStack starts what the links and the proxy need first.
func (w *world) startStack(ctx context.Context) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	daemon := filepath.Join(w.dir, "daemon")
	script := fmt.Sprintf("#!/bin/sh\nexec '%s' \"$@\" --engine=%s\n", filepath.Join(root, "bin", "sandbox-daemon"), w.daemonLink.URL)
	if err := os.WriteFile(daemon, []byte(script), 0o700); err != nil {
		return err
	}
	w.stack, err = stack.Start(ctx, stack.Options{
		Dir: w.stackDir(), LogDir: filepath.Join(root, "out", "chaos-logs"),
		DaemonProgram: daemon, SkipDaemon: true, SkipOperator: true,
	})
	if err != nil {
		return err
	}
	w.atEnd(w.stack.Stop)
	for _, l := range append([]*link.Link{w.daemonLink}, w.operatorLinks[stack.Operator], w.operatorLinks[stack.Standby]) {
		l.Lead(w.stack.BusURL)
	}
	return nil
}

func (w *world) openAPI(ctx context.Context) (err error) {
	keys := filepath.Join(w.stackDir(), "state", "pki")
	w.api, err = apiproxy.New(ctx, apiproxy.Files{
		Certificate: filepath.Join(keys, "apiserver.crt"), Key: filepath.Join(keys, "apiserver.key"),
		Kubeconfig: w.stack.OperatorKubeconfig, Rewritten: w.rewritten(),
	})
	if err == nil {
		w.atEnd(func(context.Context) error { return w.api.Close() })
	}
	return err
}

func (w *world) rewritten() string { return filepath.Join(w.dir, "operator.kubeconfig") }

func (w *world) startKeeper(ctx context.Context) {
	flags := map[stack.Part][]string{}
	for part, l := range w.operatorLinks {
		flags[part] = []string{"--bus-url=" + l.URL, "--kubeconfig=" + w.rewritten(), "--leader-elect=true"}
	}
	w.keeper = newKeeper(w.stack, flags)
	keepCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { w.keeper.keep(keepCtx) })
	w.atEnd(func(ctx context.Context) error {
		cancel()
		keeping.Wait()
		return w.stopKept(ctx)
	})
}

// stopKept ends the parts that need the links and the proxy for a good end.
func (w *world) stopKept(ctx context.Context) error {
	var errs []error
	for _, part := range []stack.Part{stack.Standby, stack.Operator, stack.Daemon} {
		if w.stack.PID(part) != 0 {
			errs = append(errs, w.stack.StopPart(ctx, part))
		}
	}
	return errors.Join(errs...)
}

// connect makes the clients that calls and checks use; faults spare them, but for
// those of the engine and the API server themselves.
func (w *world) connect(ctx, bounded context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", w.stack.Kubeconfig)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return err
	}
	config.QPS, config.Timeout = -1, apiTimeout
	if w.connections, err = rest.HTTPClientFor(config); err != nil {
		return err
	}
	w.atEnd(func(context.Context) error {
		w.connections.CloseIdleConnections()
		return nil
	})
	if w.kube, err = client.New(config, client.Options{Scheme: scheme, HTTPClient: w.connections}); err != nil {
		return err
	}
	return w.connectBus(ctx, bounded)
}

// apiTimeout bounds one request of the checks.
const apiTimeout = 20 * time.Second

func (w *world) connectBus(ctx, bounded context.Context) (err error) {
	w.caller, err = bus.New(bus.Options{
		URL: w.stack.BusURL, Name: "chaos", DrainTimeout: time.Second, RetryNameConflict: true,
		Backoff: bus.Backoff{Initial: 100 * time.Millisecond, Max: time.Second},
	})
	if err != nil {
		return err
	}
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- w.caller.Run(runCtx) }()
	w.atEnd(func(context.Context) error {
		cancel()
		return <-ended
	})
	return w.caller.WaitConnected(bounded)
}

func (w *world) atEnd(end func(context.Context) error) { w.ends = append(w.ends, end) }

// stop ends what runs, in the reverse order of its start. The folder of temporary
// files stays for leftovers.
func (w *world) stop(ctx context.Context) error {
	var errs []error
	for i := len(w.ends) - 1; i >= 0; i-- {
		errs = append(errs, w.ends[i](ctx))
	}
	w.ends = nil
	return errors.Join(errs...)
}

// leader is the replica that is on the bus, or the first one while none is.
func (w *world) leader() (part, other stack.Part) {
	if w.operatorLinks[stack.Standby].Workers() > 0 && w.operatorLinks[stack.Operator].Workers() == 0 {
		return stack.Standby, stack.Operator
	}
	return stack.Operator, stack.Standby
}
