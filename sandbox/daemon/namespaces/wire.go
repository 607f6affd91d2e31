package namespaces

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/wire"
)

const (
	// packetLimit bounds a packet on the control socket, in bytes.
	packetLimit = 64 << 10
	// descriptorLimit is what the kernel passes along with one packet.
	descriptorLimit = 253
)

// bootConfig is what the daemon tells a new agent, in one packet, along with
// the descriptors of the cgroup files that the spawning thread joins.
type bootConfig struct {
	Image RootPlan
	// Layer is where the guest's own layer is mounted already; nil has the agent make
	// one.
	Layer *Layer
	// Mounts are further host folders, read-only.
	Mounts        []daemon.Mount
	UserNamespace bool
	// Capabilities are what the guest's programs keep.
	Capabilities []uintptr
	// DiskBytes bounds everything the guest can write.
	DiskBytes int64
	Network   bool
	Ports     []int
	// Outbound asks for a network device whose packets the daemon carries.
	Outbound bool
	// ProcessLimits hold where no cgroup does.
	ProcessLimits []processLimit
	// UploadPause is how long the content of a file may pause.
	UploadPause time.Duration
}

// processLimit is one resource limit of every program of a guest.
type processLimit struct {
	Resource int
	Value    uint64
}

// bootReply is the agent's answer to bootConfig. With it travel the listening
// sockets of Ports, in their order, and then the device of Outbound.
type bootReply struct {
	Error string
	// Device says that the last descriptor is the network device.
	Device bool
	// ReadOnlyUsr says that the kernel refused a writable layer over /usr.
	ReadOnlyUsr bool
}

// request is the first frame on a session's socket.
type request struct {
	Op      wire.Operation
	Path    string   `json:",omitempty"`
	Mode    uint32   `json:",omitempty"`
	Parents bool     `json:",omitempty"`
	Argv    []string `json:",omitempty"`
	Env     []string `json:",omitempty"`
	Workdir string   `json:",omitempty"`
	// Arguments are a daemon.…Spec.
	Arguments json.RawMessage `json:",omitempty"`
}

// reply answers a request. An exec has two: one once the program runs, one when
// it has ended.
type reply struct {
	Failure  wire.FailureKind `json:",omitempty"`
	Message  string           `json:",omitempty"`
	ExitCode int              `json:",omitempty"`
	Exited   bool             `json:",omitempty"`
	Written  int64            `json:",omitempty"`
	Info     *daemon.FileInfo `json:",omitempty"`
}

// socketPair returns two connected sockets that programs do not inherit.
func socketPair(kind int) (ours, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, -1, fmt.Errorf("making a socket pair: %w", err)
	}
	return pair[0], pair[1], nil
}

// unixConn takes over descriptor fd.
func unixConn(fd int) (*net.UnixConn, error) {
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}

// sendPacket writes one packet with descriptors, which stay the caller's.
func sendPacket(conn *net.UnixConn, payload []byte, fds ...int) error {
	if len(payload) > packetLimit {
		return fmt.Errorf("control packet of %d bytes is over %d", len(payload), packetLimit)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err := conn.WriteMsgUnix(payload, rights, nil)
	return err
}

// receivePacket reads one packet with its descriptors, which become the
// caller's. It returns io.EOF when the other side is gone.
func receivePacket(conn *net.UnixConn) ([]byte, []int, error) {
	payload := make([]byte, packetLimit)
	rights := make([]byte, unix.CmsgSpace(descriptorLimit*4))
	n, rightsLen, flags, _, err := conn.ReadMsgUnix(payload, rights)
	if err != nil {
		return nil, nil, err
	}
	fds, err := parseRights(rights[:rightsLen])
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = errors.New("a control packet was cut")
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, err
	}
	return payload[:n], fds, nil
}

func parseRights(rights []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var all []int
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return all, err
		}
		all = append(all, fds...)
	}
	return all, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}
