package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sandbox-operator/sandbox-operator/hack/conformance/rows"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// ordinaryUser is a user number without rights of its own.
const ordinaryUser = 65534

// mode is a user as which the daemon runs.
type mode struct {
	name string
	user int
}

func modes() []mode {
	if os.Geteuid() != 0 {
		return []mode{{"ordinary user", os.Geteuid()}}
	}
	return []mode{{"root", 0}, {"ordinary user", ordinaryUser}}
}

func (m mode) attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if m.user != os.Geteuid() {
		attributes.Credential = &syscall.Credential{Uid: uint32(m.user), Gid: uint32(m.user)}
	}
	return attributes
}

// world is what the rows know of the host, as the Node side reads it.
type world struct {
	Bus     string `json:"bus"`
	Strict  string `json:"strict"`
	Backend string `json:"backend"`
	Mode    string `json:"mode"`
	Short   bool   `json:"short"`
	Only    string `json:"only"`
	// Isolation, Layers and Network are the back end's own words.
	Isolation string `json:"isolation"`
	Layers    string `json:"layers"`
	Network   string `json:"network"`
	// Patience multiplies what rows wait for.
	Patience int `json:"patience"`
	// StrictTimeout is the strict daemon's ceiling of a timeout, in milliseconds.
	StrictTimeout uint64 `json:"strictTimeout"`
	// Secrets are files of the host, readable to all, that hold "secret".
	Secrets []string `json:"secrets"`
	// OpenPort greets whoever connects, and guests with a network may; ClosedPort
	// does the same, and no guest may.
	OpenPort   int `json:"openPort"`
	ClosedPort int `json:"closedPort"`
}

// mainConfig is roomy; strictConfig has every limit at its least.
func mainConfig(openPort int) daemon.Config {
	c := daemon.DefaultConfig()
	c.ImageAllowlist = []string{"python", "node", "absent"}
	c.CustomImages = map[string]string{"absent": "example/absent:1", "forbidden": "example/forbidden:1"}
	c.PerImageCaps = map[string]daemon.ImageCap{"python": {MaxCPUs: 2, MaxMemoryMiB: 1024}}
	c.DefaultMemoryMiB = 256
	c.MaxConcurrentSandboxes = 48
	c.GuestHostPorts = []int{openPort}
	return c
}

func strictConfig(timeout uint64) daemon.Config {
	c := daemon.DefaultConfig()
	c.AutoInstall = false
	c.ImageAllowlist = []string{"node", "absent"}
	c.CustomImages = map[string]string{"absent": "example/absent:1"}
	c.DefaultIdleTimeoutSecs = 2
	c.MaxConcurrentSandboxes = 2
	c.MaxConcurrentExecPerSandbox = 0
	c.MaxExecTimeoutMs = timeout
	c.DefaultMemoryMiB = 64
	return c
}

// run plants what guests must not reach, serves, and drives all rows.
func (m mode) run(ctx context.Context, o options, modules string, progress io.Writer) rows.Report {
	secrets, err := plantSecrets()
	defer removeAll(secrets)
	if err != nil {
		return rows.Broken(err)
	}
	open, closed, err := twoListeners(ctx)
	if err != nil {
		return rows.Broken(err)
	}
	defer open.Close()
	defer closed.Close()
	mounts, err := mountCount()
	if err != nil {
		return rows.Broken(err)
	}
	where, err := m.place(o)
	if err != nil {
		return rows.Broken(err)
	}
	defer func() { _ = where.remove() }()
	driven := backends[o.backend]
	roomy, err := m.start(ctx, served{where.config(o, mainConfig(portOf(open)))})
	if err != nil {
		return rows.Broken(err)
	}
	strict, err := m.start(ctx, served{where.config(o, strictConfig(driven.strictTimeout))})
	if err != nil {
		_ = roomy.stop()
		return rows.Broken(err)
	}
	text, err := json.Marshal(world{
		Bus: roomy.URL, Strict: strict.URL, Backend: o.backend, Mode: m.name, Short: o.short, Only: o.only,
		Isolation: roomy.Isolation, Layers: roomy.Layers, Network: roomy.Network,
		Patience: driven.patience, StrictTimeout: driven.strictTimeout,
		Secrets: secrets, OpenPort: portOf(open), ClosedPort: portOf(closed),
	})
	if err != nil {
		return rows.Broken(err)
	}
	r := drive(ctx, m.name, string(text), modules, progress)
	r.About = []string{"layers: " + roomy.Layers, "limits: " + roomy.Limits, "network: " + roomy.Network}
	r.Add(endRow("7.1 daemon killed", "a killed daemon takes its guests along", killed(strict)))
	r.Add(endRow("7.1 next daemon", "the next one removes the control groups of its guests", sweep(o.backend, where, strict)))
	r.Add(endRow("7.2 daemon ended", "an ended daemon leaves no process, mount and control group", ended(roomy, mounts)))
	return r
}

func endRow(id, name string, err error) rows.Row {
	if err != nil {
		return rows.Row{ID: id, Name: name, Error: err.Error()}
	}
	return rows.Row{ID: id, Name: name, OK: true}
}

// plantSecrets makes files where a host keeps its own.
func plantSecrets() ([]string, error) {
	folders := []string{os.TempDir()}
	if os.Geteuid() == 0 {
		folders = append(folders, "/etc", "/root", "/var/tmp", "/home")
	}
	var paths []string
	for _, folder := range folders {
		file, err := os.CreateTemp(folder, "conformance-secret-*")
		if err != nil {
			return paths, err
		}
		paths = append(paths, file.Name())
		_, err = file.WriteString("secret")
		if err == nil {
			err = file.Chmod(0o644)
		}
		_ = file.Close()
		if err != nil {
			return paths, err
		}
	}
	return paths, nil
}

func removeAll(paths []string) {
	for _, path := range paths {
		_ = os.Remove(filepath.Clean(path))
	}
}

func twoListeners(ctx context.Context) (open, closed net.Listener, err error) {
	if open, err = greeter(ctx); err != nil {
		return nil, nil, err
	}
	if closed, err = greeter(ctx); err != nil {
		_ = open.Close()
		return nil, nil, err
	}
	return open, closed, nil
}

// greeter listens on the host's loopback and tells everybody the secret.
func greeter(ctx context.Context) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = fmt.Fprint(conn, "secret")
			_ = conn.Close()
		}
	}()
	return listener, nil
}

func portOf(listener net.Listener) int { return listener.Addr().(*net.TCPAddr).Port }
