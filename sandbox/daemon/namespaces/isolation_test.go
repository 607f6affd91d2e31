package namespaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
)

// probes looks at a list of paths from inside, each in the way of one language.
// They print, as JSON, what they could read or list.
var probes = map[string][]string{
	"shell": {"/bin/sh", "-c", `sep=; printf '['; for p in "$@"; do
		if cat "$p" >/dev/null 2>&1 || ls "$p/" >/dev/null 2>&1; then printf '%s"%s"' "$sep" "$p"; sep=,; fi; done; printf ']'`, "sh"},
	"node": {"node", "-e", `const fs = require('fs'), seen = [];
		for (const p of process.argv.slice(1)) { let ok = false;
			try { fs.readFileSync(p); ok = true } catch {} try { fs.readdirSync(p); ok = true } catch {}
			if (ok) seen.push(p) } console.log(JSON.stringify(seen))`},
	"python": {"python3", "-c", `import json, os, sys
seen = []
for p in sys.argv[1:]:
    for look in (lambda: open(p, 'rb').read(1), lambda: os.listdir(p)):
        try: look(); seen.append(p); break
        except OSError: pass
print(json.dumps(seen))`},
}

func TestIsolation_host_files_cannot_be_read(t *testing.T) {
	secrets := plantSecrets(t)
	machine := newMachine(t)
	hidden := append(slices.Clone(secrets), "/etc/shadow", "/etc/machine-id", "/etc/ssh", "/var/lib/dpkg", "/sys", "/boot",
		"/proc/1/environ", "/proc/1/mem", "/proc/1/maps", "/proc/1/fd/0", "/proc/1/root", "/proc/1/cwd", "/proc/kcore",
		"/dev/vda", "/dev/mem", "/dev/kmsg", "/dev/net/tun")
	for language, argv := range probes {
		t.Run(language, func(t *testing.T) {
			// The probe must be able to see what is there.
			if diff := cmp.Diff([]string{"/etc/hostname", "/tmp"}, look(t, machine, argv, "/etc/hostname", "/tmp")); diff != "" {
				t.Fatal(diff)
			}
			if seen := look(t, machine, argv, hidden...); len(seen) > 0 {
				t.Errorf("could read %v", seen)
			}
		})
	}
}

func look(t *testing.T, machine daemon.Machine, argv []string, paths ...string) []string {
	t.Helper()
	outcome := run(t, machine, daemon.ExecSpec{Argv: append(append([]string{}, argv...), paths...)})
	var seen []string
	if err := json.Unmarshal(outcome.Stdout, &seen); err != nil {
		t.Fatalf("the probe said %q %q", outcome.Stdout, outcome.Stderr)
	}
	return seen
}

// plantSecrets makes files where the host keeps its own, readable to all, so
// that only their absence can hide them.
func plantSecrets(t *testing.T) []string {
	t.Helper()
	folders := []string{os.TempDir()}
	if os.Geteuid() == 0 {
		folders = append(folders, "/etc", "/root", "/var/tmp", "/home")
	}
	var paths []string
	for _, folder := range folders {
		file, err := os.CreateTemp(folder, "secret-*")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(file.Name()) })
		_, _ = file.WriteString("secret")
		_ = file.Chmod(0o644)
		_ = file.Close()
		paths = append(paths, file.Name())
	}
	return paths
}

func TestIsolation_processes_of_others_are_invisible(t *testing.T) {
	backend := newBackend(t)
	first, second := boot(t, backend), boot(t, backend)
	output(t, first, "sleep 1234 >/dev/null 2>&1 </dev/null &")
	commands := output(t, second, `for p in /proc/[0-9]*; do echo "$(cat $p/comm)"; done | sort -u`)
	if diff := cmp.Diff("cat\ninit\nsh\nsort\n", withSort(commands)); diff != "" {
		t.Errorf("the guest sees other processes: %s", diff)
	}
	if got := strings.TrimSpace(output(t, second, "cut -d' ' -f4 /proc/$$/stat")); got != "0" {
		t.Errorf("the program's parent has number %s", got)
	}
}

// withSort adds the names of the pipeline, of which any may have ended already.
func withSort(commands string) string {
	for _, name := range []string{"cat", "sort"} {
		if !strings.Contains("\n"+commands, "\n"+name+"\n") {
			commands += name + "\n"
		}
	}
	lines := strings.Split(strings.TrimSpace(commands), "\n")
	sorted := map[string]bool{}
	for _, line := range lines {
		sorted[line] = true
	}
	var result string
	for _, name := range []string{"cat", "init", "sh", "sort"} {
		if sorted[name] {
			result += name + "\n"
			delete(sorted, name)
		}
	}
	for name := range sorted {
		result += name + "\n"
	}
	return result
}

func TestIsolation_agent_cannot_be_signalled_or_traced(t *testing.T) {
	machine := newMachine(t)
	outcome := run(t, machine, daemon.ExecSpec{Argv: []string{"python3", "-c", attack}})
	if outcome.ExitCode != 0 || string(outcome.Stdout) != "refused\n" {
		t.Errorf("exit code %d: %s%s", outcome.ExitCode, outcome.Stdout, outcome.Stderr)
	}
	output(t, machine, "kill -KILL -1; true")
	if got := output(t, machine, "echo alive"); got != "alive\n" {
		t.Errorf("after the attack: %q", got)
	}
}

// attack tries all it can on every process number there is, and must neither
// find the agent nor harm process 1.
const attack = `
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
me = os.getpid()
for pid in range(1, 400):
    if pid == me: continue
    for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV):
        try: os.kill(pid, number)
        except ProcessLookupError: assert pid != 1
        except PermissionError: pass
    assert libc.ptrace(16, pid, 0, 0) == -1, 'traced %d' % pid
    assert libc.process_vm_readv(pid, None, 0, None, 0, 0) == -1, 'read %d' % pid
assert open('/proc/1/comm').read() == 'init\n'
for name in ('mem', 'environ', 'maps', 'fd/0'):
    for mode in (os.O_RDONLY, os.O_RDWR):
        try: os.read(os.open('/proc/1/' + name, mode), 1); raise SystemExit('opened ' + name)
        except OSError: pass
print('refused')
`

func TestIsolation_privileged_calls_are_refused(t *testing.T) {
	machine := newMachine(t)
	outcome := run(t, machine, daemon.ExecSpec{Argv: []string{"python3", "-c", `
import ctypes, errno, platform
libc = ctypes.CDLL(None, use_errno=True)
numbers = {'x86_64': dict(mount=165, umount2=166, pivot_root=155, chroot=161, unshare=272, setns=308, ptrace=101,
    bpf=321, perf_event_open=298, keyctl=250, add_key=248, userfaultfd=323, io_uring_setup=425, init_module=175,
    open_by_handle_at=304, reboot=169, swapon=167, kexec_load=246, fsopen=430, open_tree=428, move_mount=429,
    process_vm_readv=310, process_vm_writev=311, pidfd_getfd=438, quotactl=179, acct=163, settimeofday=164, iopl=172,
    clone3=435, unshare_user=272),
  'aarch64': dict(mount=40, umount2=39, pivot_root=41, chroot=51, unshare=97, setns=268, ptrace=117, bpf=280,
    keyctl=219, userfaultfd=282, io_uring_setup=425, open_by_handle_at=265, reboot=142, fsopen=430, clone3=435)}
allowed = []
for name, number in numbers[platform.machine()].items():
    argument = 0x10000000 if name in ('unshare', 'unshare_user') else 0
    if libc.syscall(number, argument, 0, 0, 0, 0) != -1: allowed.append(name); continue
    want = errno.ENOSYS if name == 'clone3' else errno.EPERM
    if ctypes.get_errno() != want: allowed.append(name + ' ' + errno.errorcode[ctypes.get_errno()])
clone = {'x86_64': 56, 'aarch64': 220}[platform.machine()]
for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
    if libc.syscall(clone, flag | 17, 0, 0, 0, 0) != -1: allowed.append('clone %x' % flag)
for family in (17, 38, 40):
    if libc.socket(family, 5, 0) != -1 or ctypes.get_errno() != errno.EPERM: allowed.append('socket %d' % family)
if libc.personality(0x40000) != -1: allowed.append('personality')
print(','.join(allowed) or 'none')
`}})
	if got := string(outcome.Stdout); got != "none\n" {
		t.Errorf("allowed: %s%s", got, outcome.Stderr)
	}
	for _, script := range []string{"mount -t tmpfs none /mnt", "unshare -U true", "unshare -n true", "mknod /tmp/disk b 254 0", "chroot / true", "nsenter -t 1 -m true"} {
		if outcome := shell(t, machine, script); outcome.ExitCode == 0 || outcome.ExitCode == 127 {
			t.Errorf("%q ended with %d: %s", script, outcome.ExitCode, outcome.Stderr)
		}
	}
}

// TestIsolation_capabilities wants none, or exactly those that the back end says.
func TestIsolation_capabilities(t *testing.T) {
	backend := newBackend(t)
	machine := boot(t, backend)
	kept := "0000000000000000"
	if strings.Contains(backend.Layers(), "capabilities over its own files") {
		kept = "00000000000004fb"
	} else if os.Getenv(modeVariable) == "" && os.Geteuid() == 0 {
		t.Errorf("root's guests have %q", backend.Layers())
	}
	const none = "0000000000000000"
	want := "CapInh:" + none + "CapPrm:" + kept + "CapEff:" + kept + "CapBnd:" + kept + "CapAmb:" + none + "NoNewPrivs:1Seccomp:2"
	status := "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status | tr -d '\t\n'"
	if got := output(t, machine, status); got != want {
		t.Errorf("status is %s, want %s", got, want)
	}
	if kept == none {
		return
	}
	// A change of user gives them up for good.
	if got := output(t, machine, "setpriv --reuid 1000 --regid 1000 --clear-groups -- sh -c \"id -u; "+status+"\""); got != "1000\n"+strings.ReplaceAll(want, "CapPrm:"+kept+"CapEff:"+kept, "CapPrm:"+none+"CapEff:"+none) {
		t.Errorf("status of another user is %s", got)
	}
	output(t, machine, `cd /opt && echo x > f && chown 1000:1000 f && [ "$(stat -c %u:%g f)" = 1000:1000 ] && chmod 600 f && cat f && chmod 4755 f &&
		tar -cf t.tar f && rm f && tar -xpf t.tar && [ "$(stat -c %u:%a f)" = 1000:4755 ]`)
	info, err := machine.ChangeMode(context.Background(), daemon.ModeSpec{Path: "/opt/f", Mode: 0o640, UID: new(uint32(33))})
	if got := output(t, machine, "stat -c %u:%g:%a /opt/f"); err != nil || info != 1 || got != "33:1000:640\n" {
		t.Errorf("chmod by the daemon: %d, %v, %q", info, err, got)
	}
	// What the numbers do not own, no capability opens.
	for _, script := range []string{"echo x >> /usr/bin/env", "chown 0:0 /usr/bin/env", "chmod 777 /usr/bin", "echo x > /proc/1/oom_score_adj", "echo x > /proc/sys/kernel/domainname"} {
		if outcome := shell(t, machine, script); outcome.ExitCode == 0 && script != "chmod 777 /usr/bin" {
			t.Errorf("%q succeeded", script)
		}
	}
}

func TestIsolation_second_layer(t *testing.T) {
	backend := newBackend(t)
	if !strings.Contains(backend.Layers(), "Landlock version") {
		t.Logf("layers are %q", backend.Layers())
		return // a kernel without it, as the back end says
	}
	machine := boot(t, backend)
	// Process 1 was started before the rules, so that no program may signal it.
	outcome := run(t, machine, daemon.ExecSpec{Argv: []string{"python3", "-c", `
import os, errno
for act in (lambda: os.kill(1, 0), lambda: os.mknod('/tmp/null', 0o020666, os.makedev(1, 3))):
    try: act(); print('allowed')
    except OSError as e: print(errno.errorcode[e.errno])
os.rename(open('/tmp/moved', 'w').name, '/opt/moved'); os.link('/opt/moved', '/home/linked')
master, slave = os.openpty(); print(os.isatty(slave), os.ttyname(slave))
`}})
	lines := strings.Fields(string(outcome.Stdout))
	if len(lines) != 4 || lines[0] != "EPERM" || !strings.HasPrefix(lines[1], "E") || lines[2] != "True" {
		t.Errorf("got %q %s", outcome.Stdout, outcome.Stderr)
	}
}

func TestIsolation_kernel_settings_are_read_only(t *testing.T) {
	machine := newMachine(t)
	for _, path := range []string{"/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sys/net/ipv4/ip_forward", "/proc/sysrq-trigger"} {
		if outcome := shell(t, machine, "echo x > "+path); outcome.ExitCode == 0 {
			t.Errorf("%s can be written", path)
		}
	}
}

func TestIsolation_guests_share_no_file(t *testing.T) {
	backend := newBackend(t)
	first := boot(t, backend)
	const folders = "/ /tmp /var/tmp /opt /home /root /var/lib /srv /mnt /run /dev/shm /usr /usr/bin /usr/lib /usr/local /usr/local/bin /usr/local/lib"
	output(t, first, "for d in "+folders+"; do echo mine > $d/mark || exit 1; done; rm /usr/bin/env /usr/bin/wc; echo changed > /usr/bin/wc")
	second := boot(t, backend)
	for which, machine := range map[string]daemon.Machine{"a sibling": second, "the next guest": boot(t, backend)} {
		if which == "the next guest" {
			stop(t, first)
		}
		if got := output(t, machine, "for d in "+folders+"; do ls $d/mark 2>/dev/null; done; ls /usr/bin/env; head -c3 /usr/bin/wc | od -An -c | tr -d ' \n'"); got != "/usr/bin/env\n177EL" {
			t.Errorf("%s sees %q", which, got)
		}
	}
	for _, path := range []string{"/mark", "/usr/mark", "/usr/bin/mark", "/usr/local/mark", "/tmp/mark", "/opt/mark"} {
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("the host has %s", path)
		}
	}
}

func TestIsolation_loopback_of_the_host_is_closed(t *testing.T) {
	listener := listenOnLoopback(t, "secret service")
	machine := newMachine(t)
	port := listener.Addr().(*net.TCPAddr).Port
	for _, address := range []string{"127.0.0.1", "localhost", "100.96.0.1", "::1"} {
		if outcome := fetch(t, machine, address, port); outcome.ExitCode != 1 {
			t.Errorf("%s: exit code %d: %s%s", address, outcome.ExitCode, outcome.Stdout, outcome.Stderr)
		}
	}
	if got := strings.Fields(output(t, machine, "tail -n +3 /proc/net/dev | cut -d: -f1")); !cmp.Equal(got, []string{"lo"}) {
		t.Errorf("interfaces are %v", got)
	}
	// Its own loopback works.
	if got := output(t, machine, `python3 -c "
import socket
l = socket.create_server(('localhost', 0)); c = socket.create_connection(l.getsockname()); print(l.accept()[0] is not None)"`); got != "True\n" {
		t.Errorf("the guest's own loopback: %q", got)
	}
}

// fetch reads from an address until its end; exit code 1 is "no connection".
func fetch(t testing.TB, machine daemon.Machine, address string, port int) daemon.ExecOutcome {
	t.Helper()
	return run(t, machine, daemon.ExecSpec{Argv: []string{"python3", "-c", `
import socket, sys
try: c = socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=5)
except OSError as e: print(e, file=sys.stderr); sys.exit(1)
try: print(c.makefile().read(), end='')
except ConnectionResetError: sys.exit(1)
`, address, fmt.Sprint(port)}})
}

func listenOnLoopback(t testing.TB, greeting string) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(greeting))
			_ = conn.Close()
		}
	}()
	return listener
}

// TestIsolation_every_mode repeats the isolation and exec tests in the ways this
// back end can run: as plain root without user namespaces, and as an ordinary
// user.
func TestIsolation_every_mode(t *testing.T) {
	if os.Geteuid() != 0 {
		return // the run as an ordinary user is one of the modes itself
	}
	for mode, user := range map[string]uint32{modePlainRoot: 0, modeOrdinaryUser: 65534} {
		t.Run(mode, func(t *testing.T) {
			scratch, err := os.MkdirTemp("", "mode-*") //nolint:usetesting // only its own user may enter the parent of t.TempDir
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(scratch) })
			if err := os.Chmod(scratch, 0o777); err != nil {
				t.Fatal(err)
			}
			command := exec.Command("/proc/self/exe", "-test.v", "-test.count=1", "-test.run", "^Test(Isolation|Machine|Network|Limits|Backend)_.*", "-test.skip", "every_mode")
			command.Dir = "/"
			command.Env = append(os.Environ(), modeVariable+"="+mode, "TMPDIR="+scratch, "HOME="+scratch)
			command.SysProcAttr = asUser(user)
			said, err := command.CombinedOutput()
			if passed := strings.Count(string(said), "--- PASS: Test"); err != nil || passed < 25 {
				t.Errorf("%d tests passed, error %v\n%s", passed, err, said)
			}
		})
	}
}
