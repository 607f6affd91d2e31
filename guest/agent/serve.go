package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

const (
	keeperFlag = "--keeper"
	// quickAnswer bounds what a supervisor answers at once.
	quickAnswer = time.Second
)

// resident reports whether the arguments ask for a process that stays, and runs
// it. Unlike a subcommand it has no request and no reply.
func resident(args []string) (bool, error) {
	switch {
	case len(args) == 1 && args[0] == wire.CommandServe:
		return true, prepareResident("supervisor", supervise)
	case len(args) == 2 && args[0] == wire.CommandServe && args[1] == keeperFlag:
		return true, prepareResident("keeper", keep)
	default:
		return false, nil
	}
}

// prepareResident also names the process for those who look at the guest's: it may
// have been started by a path that says nothing.
func prepareResident(name string, serve func(folder) error) error {
	if err := harden(); err != nil {
		return err
	}
	_ = os.WriteFile("/proc/self/comm", []byte("agent-"+name), 0)
	home, err := findHome()
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	return serve(home)
}

// startSupervisor starts one that outlives this process and its exec. If there is
// one already, the new one finds that out. It must come after the processes of a
// call have been ended, since it would be taken for one of them.
func startSupervisor(home folder) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer null.Close()
	command := &exec.Cmd{
		Path: home.join(agentName), Args: []string{home.join(agentName), wire.CommandServe}, Dir: "/", Env: os.Environ(),
		Stdin: null, Stdout: null, Stderr: null, SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if command.Start() == nil {
		_ = command.Process.Release()
	}
}

// tellSupervisor lets one that is there know of a change, and is nothing otherwise.
func tellSupervisor(home folder, kind byte, body []byte) { _ = ask(home, kind, body) }

// supervise runs the supervisor until its folder is gone or another replaces it.
func supervise(home folder) error {
	lock, err := lockSupervisor(home)
	if errors.Is(err, errServed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("locking: %w", err)
	}
	defer lock.Close()
	listener, err := listen(home)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	dismissOthers(home)
	return newSupervisor(home, listener).run()
}
