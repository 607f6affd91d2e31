// Command sandbox proves the embedded sandbox daemon: with the published iii-sdk
// client it drives every row of contracts/iii-sandbox.md, and from inside guests,
// in shell, Node and Python, it tries to get out. It prints a line for each row
// and ends with "N passed, N failed".
//
// As root it does so twice: with a daemon of root and with one of an ordinary user.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/conformance/clients"
	"github.com/sandbox-operator/sandbox-operator/hack/conformance/rows"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/qemu"
)

// longest bounds the whole program, the first installation of the packages
// included; a back end's patience multiplies it.
const longest = 15 * time.Minute

func main() {
	namespaces.RunInitIfAsked()
	qemu.RunInitIfAsked()
	serveIfAsked()
	ctx, stopSignals := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	code := execute(ctx)
	stopSignals()
	os.Exit(code)
}

func execute(ctx context.Context) int {
	o := options{}
	flag.StringVar(&o.backend, "backend", firstSet(os.Getenv("BACKEND"), "namespaces"), "what isolates guests (environment: BACKEND)")
	flag.BoolVar(&o.short, "short", os.Getenv("SHORT") != "", "leave out the rows that take long (environment: SHORT)")
	flag.StringVar(&o.only, "only", "", "run only rows whose id contains this")
	flag.Parse()
	ctx, cancel := context.WithTimeout(ctx, longest*time.Duration(max(1, backends[o.backend].patience)))
	defer cancel()
	sum, err := run(ctx, o, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance-sandbox:", err)
		return 1
	}
	if sum.failed > 0 {
		return 1
	}
	return 0
}

// options are what a person chooses.
type options struct {
	backend string
	// short leaves out the rows that take long.
	short bool
	// only selects rows by a part of their id; empty selects all.
	only string
}

// totals counts rows.
type totals struct{ passed, failed int }

// run installs the client and runs the rows in every mode that this user has, at
// the same time where the back end bears it, and prints them one mode after the
// other. An
// error means that the rows could not be run, not that one failed.
func run(ctx context.Context, o options, out, progress io.Writer) (totals, error) {
	if _, known := backends[o.backend]; !known {
		return totals{}, fmt.Errorf("back end %q is not one of %s", o.backend, knownBackends())
	}
	modules, err := clients.Node(ctx, progress, files)
	if err != nil {
		return totals{}, err
	}
	all := modes()
	if o.short && backends[o.backend].oneByOne {
		all = all[:1]
	}
	reports := make([]rows.Report, len(all))
	var group sync.WaitGroup
	for i, m := range all {
		group.Go(func() { reports[i] = m.run(ctx, o, modules, progress) })
		if backends[o.backend].oneByOne {
			group.Wait()
		}
	}
	group.Wait()
	var sum totals
	for i, r := range reports {
		r.Print(out, o.backend+", "+all[i].name)
		sum.passed += r.Count(true)
		sum.failed += r.Count(false)
	}
	_, _ = fmt.Fprintf(out, "%d passed, %d failed\n", sum.passed, sum.failed)
	return sum, nil
}

func firstSet(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
