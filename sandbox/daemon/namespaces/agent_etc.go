package namespaces

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/guestnet"
)

// etcFiles are the guest's own; nothing of the host's names or users is in them.
var etcFiles = map[string]string{
	"passwd":        "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
	"group":         "root:x:0:\nnogroup:x:65534:\n",
	"hostname":      guestHostname + "\n",
	"hosts":         "127.0.0.1 localhost " + guestHostname + "\n::1 localhost\n" + guestnet.GatewayAddress + " gateway.internal\n",
	"resolv.conf":   "nameserver " + guestnet.GatewayAddress + "\noptions timeout:2 attempts:2\n",
	"nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
	"services":      "ssh 22/tcp\ndomain 53/tcp\ndomain 53/udp\nhttp 80/tcp\nhttps 443/tcp\n",
	"protocols":     "ip 0 IP\nicmp 1 ICMP\ntcp 6 TCP\nudp 17 UDP\n",
	// Node refuses to start when OpenSSL cannot read its configuration.
	"ssl/openssl.cnf": "openssl_conf = default_conf\n[default_conf]\n",
}

func makeEtc() error {
	for name, content := range etcFiles {
		path := filepath.Join("etc", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return os.Symlink("/proc/self/mounts", "etc/mtab")
}

// makeDev gives the harmless devices, each bound from the host's: making nodes
// is not for a user namespace.
func makeDev() error {
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		path := "dev/" + name
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			return err
		}
		if err := unix.Mount("/"+path, path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", path, err)
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, "dev/"+name); err != nil {
			return err
		}
	}
	for name, mode := range map[string]os.FileMode{"shm": os.ModeSticky | 0o777, "pts": 0o755} {
		if err := os.Mkdir("dev/"+name, mode); err != nil {
			return err
		}
	}
	return unix.Mount("devpts", "dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
}
