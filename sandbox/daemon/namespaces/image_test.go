package namespaces_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/namespaces"
)

func TestImage_both_interpreters_and_their_package_managers_run(t *testing.T) {
	machine := newMachine(t)
	for script, want := range map[string]string{
		`node -e 'console.log(require("crypto").createHash("md5").update("x").digest("hex"))'`:                                    "9dd4e461268c8034f5c8564e155c67a6\n",
		`python3 -c 'import ssl, json, sqlite3, asyncio; print(ssl.create_default_context().cert_store_stats()["x509_ca"] >= 0)'`: "True\n",
		"npm --version >/dev/null && echo npm": "npm\n",
		"cd /usr/local/lib && mkdir -p node_modules/own && echo 'module.exports = 5' > node_modules/own/index.js && node -e 'console.log(require(\"/usr/local/lib/node_modules/own\"))'": "5\n",
		"id -un; hostname": "root\nsandbox\n",
		"printf x | tee /dev/null /dev/stdout | cat; echo; test -c /dev/ptmx && echo pty":   "xx\npty\n",
		`python3 -c 'import pty; print(len(pty.openpty()))'`:                                "2\n",
		`python3 -c 'import multiprocessing as m; q = m.Queue(); q.put(3); print(q.get())'`: "3\n",
	} {
		if outcome := shell(t, machine, script); string(outcome.Stdout) != want {
			t.Errorf("%s: %q %s", script, outcome.Stdout, outcome.Stderr)
		}
	}
}

// TestImage_interpreter_outside_usr gives guests an installation in a folder
// that only this user may enter, as version managers make them.
func TestImage_interpreter_outside_usr(t *testing.T) {
	home := t.TempDir()
	if err := os.Chmod(home, 0o700); err != nil {
		t.Fatal(err)
	}
	prefix := filepath.Join(home, "versions", "1.0")
	program := filepath.Join(prefix, "bin", "node")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	const script = "#!/bin/sh\ncase $1 in -p) dirname $(dirname $0);; *) echo own node;; esac\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "private"), []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(program)+":"+os.Getenv("PATH"))
	found := namespaces.InterpreterPrefix("node")
	if found != prefix {
		t.Fatalf("found %q", found)
	}
	machine := boot(t, newBackend(t, func(b *namespaces.Backend) { namespaces.AddPrefix(b, found) }))
	if got := output(t, machine, "node; touch "+prefix+"/x 2>/dev/null || echo read-only; ls "+home); got != "own node\nread-only\nversions\n" {
		t.Errorf("got %q", got)
	}
}

func TestImage_environment_of_the_guest_reaches_programs(t *testing.T) {
	machine := boot(t, newBackend(t), func(s *daemon.BootSpec) { s.Env = map[string]string{"A": "guest", "B": "guest"} })
	outcome := run(t, machine, daemon.ExecSpec{Argv: []string{"sh", "-c", "echo $A $B"}, Env: map[string]string{"B": "own"}})
	if string(outcome.Stdout) != "guest own\n" {
		t.Errorf("got %q", outcome.Stdout)
	}
}

func TestImage_mounts_are_there_and_read_only(t *testing.T) {
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "data"), []byte("of the image\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	machine := boot(t, newBackend(t), func(s *daemon.BootSpec) {
		s.Mounts = []daemon.Mount{{Source: source, Target: "/opt/image"}, {Source: source, Target: "/var/run/image"}}
	})
	got := output(t, machine, "cat /opt/image/data /run/image/data; echo x 2>/dev/null >/opt/image/data || echo read-only")
	if got != "of the image\nof the image\nread-only\n" {
		t.Errorf("got %q", got)
	}
}
