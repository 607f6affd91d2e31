package namespaces

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"

	"golang.org/x/sys/unix"
)

const (
	agentName   = "sandbox-agent"
	agentMarker = "SANDBOX_NAMESPACES_AGENT"
	// controlDescriptor is where the agent finds its end of the control socket.
	controlDescriptor = 3
)

// RunInitIfAsked turns this process into a guest's agent, and does not return,
// when a Backend started it as one. Call it first in main and in TestMain.
func RunInitIfAsked() {
	if os.Args[0] != agentName || os.Getenv(agentMarker) == "" {
		return
	}
	os.Clearenv()
	if err := runAgent(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// runAgent boots the guest and serves requests until the daemon is gone.
func runAgent() error {
	unix.CloseOnExec(controlDescriptor)
	control, err := unixConn(controlDescriptor)
	if err != nil {
		return err
	}
	go func() { _, _ = compiledFilters() }()
	payload, joins, err := receivePacket(control)
	if err != nil {
		return err
	}
	var config bootConfig
	if err := json.Unmarshal(payload, &config); err != nil {
		return err
	}
	booted := make(chan bootResult, 1)
	spawns := make(chan spawnJob)
	go bootAndSpawn(config, joins, booted, spawns)
	result := <-booted
	if err := answerBoot(control, result); err != nil {
		return err
	}
	return serve(control, &spawner{jobs: spawns})
}

// bootResult is what booting made.
type bootResult struct {
	network     networkDescriptors
	readOnlyUsr bool
	err         error
}

// bootAndSpawn boots the guest on a thread that never does anything else again:
// the process namespace, the missing capabilities and the filter of the guest's
// programs are those of the thread that starts them.
func bootAndSpawn(config bootConfig, joins []int, booted chan<- bootResult, jobs <-chan spawnJob) {
	runtime.LockOSThread()
	var result bootResult
	result.err = boot(config, joins, &result)
	booted <- result
	if result.err != nil {
		return
	}
	for job := range jobs {
		job.result <- job.start()
	}
}

func answerBoot(control *net.UnixConn, result bootResult) error {
	answer := bootReply{Device: result.network.device >= 0, ReadOnlyUsr: result.readOnlyUsr}
	if result.err != nil {
		answer = bootReply{Error: result.err.Error()}
	}
	payload, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	fds := result.network.all()
	defer closeAll(fds)
	return errors.Join(result.err, sendPacket(control, payload, fds...))
}

// serve handles sessions until the daemon's end of the control socket closes.
func serve(control *net.UnixConn, spawner *spawner) error {
	for {
		_, fds, err := receivePacket(control)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(fds) == 0 {
			continue
		}
		go serveSession(spawner, fds[0], fds[1:])
	}
}

func serveSession(spawner *spawner, fd int, streams []int) {
	session, err := unixConn(fd)
	if err != nil {
		closeAll(streams)
		return
	}
	defer session.Close()
	var r request
	if wire.ReadJSON(session, &r) != nil {
		closeAll(streams)
		return
	}
	if r.Op == wire.OpExec && len(streams) == 3 {
		serveExec(session, spawner, r, streams)
		return
	}
	closeAll(streams)
	serveFile(session, r)
}
