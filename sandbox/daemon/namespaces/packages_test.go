package namespaces_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMachine_installs_packages builds a package with a program, documentation
// and a script that gives a file away, and installs it.
func TestMachine_installs_packages(t *testing.T) {
	backend := newBackend(t)
	if _, err := exec.LookPath("dpkg-deb"); err != nil || !strings.Contains(backend.Layers(), "capabilities over its own files") {
		t.Logf("dpkg-deb: %v; layers: %s", err, backend.Layers())
		if os.Geteuid() == 0 && os.Getenv(modeVariable) == "" && err == nil {
			t.Error("root's guests cannot install packages")
		}
		return
	}
	machine := boot(t, backend)
	got := output(t, machine, `set -e
mkdir -p /b/DEBIAN /b/opt/hello /b/usr/bin /b/usr/share/doc/hello /var/lib/dpkg/info /var/lib/dpkg/updates; touch /var/lib/dpkg/status
printf 'Package: hello\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n' > /b/DEBIAN/control
printf '#!/bin/sh\nchown 33:33 /opt/hello/x\n' > /b/DEBIAN/postinst; chmod 755 /b/DEBIAN/postinst
echo hi > /b/opt/hello/x; echo doc > /b/usr/share/doc/hello/readme; printf '#!/bin/sh\necho hello\n' > /b/usr/bin/hello-x; chmod 755 /b/usr/bin/hello-x
dpkg-deb --root-owner-group -b /b /h.deb >/dev/null; dpkg -i /h.deb >/dev/null 2>&1
hello-x; stat -c %u:%g /opt/hello/x; cat /usr/share/doc/hello/readme`)
	if got != "hello\n33:33\ndoc\n" {
		t.Errorf("got %q", got)
	}
	if _, err := os.Lstat("/usr/bin/hello-x"); err == nil {
		t.Error("the package is on the host")
	}
}
