// Command agent is the only program that the operator executes inside a
// sandbox (design rule 7). Each invocation serves one request: a subcommand as
// first argument, JSON on standard input or in the file named by
// --request-file, and one framed JSON reply on standard output. It starts
// interpreters, enforces their deadlines, keeps their streams apart from its
// own and leaves none of their processes behind.
package main

import (
	"fmt"
	"os"
	"runtime"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func main() {
	// Interpreters die with the thread that started them (Pdeathsig), so all
	// are started from the main thread, which lives as long as the process.
	runtime.LockOSThread()
	stays, err := resident(os.Args[1:])
	if !stays {
		err = serve(os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

// serve answers one request. An error means that there is no reply at all.
func serve(args []string) error {
	answer := answer(args)
	if answer.afterwards != nil {
		defer answer.afterwards()
	}
	frame, err := answer.encoded()
	if err != nil {
		return fmt.Errorf("encoding the reply: %w", err)
	}
	if _, err := os.Stdout.Write(frame); err != nil {
		return fmt.Errorf("writing the reply: %w", err)
	}
	return nil
}

// answered is a reply, or one that has its frame already.
type answered struct {
	reply wire.Reply
	frame []byte
	// afterwards is done once the reply is out; it may be nil.
	afterwards func()
}

func (a answered) encoded() ([]byte, error) {
	if a.frame != nil {
		return a.frame, nil
	}
	return fit(a.reply)
}

func answer(args []string) answered {
	if err := harden(); err != nil {
		return answered{reply: failed(wire.Failf(wire.Internal, "preparing: %v", err))}
	}
	home, err := findHome()
	if err != nil {
		return answered{reply: failed(wire.Failf(wire.Internal, "finding the private folder: %v", err))}
	}
	name, body, failure := readRequest(args, home)
	if failure != nil {
		return answered{reply: failed(failure)}
	}
	command, known := commands[name]
	if !known {
		return answered{reply: failed(wire.Failf(wire.BadRequest, "unknown subcommand %q", name))}
	}
	return command(home, body)
}

var commands = map[string]func(home folder, request []byte) answered{
	wire.CommandInit:    handle(initialize),
	wire.CommandPlant:   handle(plant),
	wire.CommandUnplant: handle(unplant),
	wire.CommandCall:    handleWith(call),
	wire.CommandRun:     handle(run),
	wire.CommandDiscard: handle(discard),
	wire.CommandCancel:  handle(cancel),
	wire.CommandInstall: handle(install),
	wire.CommandSetup:   handle(setup),
	wire.CommandLink:    handle(openLink),
	wire.CommandVersion: handle(version),
}

func failed(failure *wire.Failure) wire.Reply { return wire.Reply{Error: failure} }
