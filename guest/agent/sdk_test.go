package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest/sdk"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// pythonSDKSource stands in for the SDK where a test is about finding it, or
// about what the real one does not do, such as hanging.
const pythonSDKSource = `class InitOptions:
    def __init__(self, **options): pass
class Client:
    def trigger(self, request): return 'from ' + __file__.split('/')[-3]
    def shutdown(self): pass
def register_worker(url, options): return Client()
from . import iii
`

const pythonClientSource = "class III:\n    def trigger(self): pass\n"

// writePythonSDK puts the stand-in into a folder of packages.
func writePythonSDK(t *testing.T, folder, source string) {
	t.Helper()
	for name, content := range map[string]string{"__init__.py": source, "iii.py": pythonClientSource} {
		if err := writeAtomically(filepath.Join(folder, "iii", name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func withBus(r *wire.RunRequest) { r.Bus = wire.Bus{BusURL: "ws://127.0.0.1:9", WorkerName: "w"} }

const pythonUse = "try: print(iii.trigger({'function_id': 'a::b'}))\nexcept RuntimeError as error: print(error)\n"

// The guest's own SDK comes before one that was mounted.
func TestPythonSDK_order(t *testing.T) {
	guest := newGuest(t)
	root := t.TempDir()
	own, mounted := filepath.Join(root, "own"), filepath.Join(root, "mounted")
	writePythonSDK(t, own, pythonSDKSource)
	writePythonSDK(t, mounted, pythonSDKSource)
	guest.env = append(guest.env, packagesVariable+"="+mounted)
	if reply := guest.run(wire.Python, pythonUse, withBus); reply.Run.Stdout != "from mounted\n" {
		t.Errorf("mounted only: %+v", reply.Run)
	}
	guest.env = append(guest.env, "PYTHONPATH="+own)
	if reply := guest.run(wire.Python, pythonUse, withBus); reply.Run.Stdout != "from own\n" {
		t.Errorf("both: %+v", reply.Run)
	}
}

// X23: the program may have a module called iii, and the global works.
func TestPythonSDK_isNotShadowed(t *testing.T) {
	guest := newGuest(t)
	mounted := filepath.Join(t.TempDir(), "mounted")
	writePythonSDK(t, mounted, pythonSDKSource)
	guest.env = append(guest.env, packagesVariable+"="+mounted)
	use := "print(__builtins__.iii.trigger({'function_id': 'a::b'}))\n"
	beside := map[string][]string{"iii/sub.py": {"iii/__init__.py"}, "call.py": {"run.py", "sandbox_sdk.py", "sandbox_iii.py"}}
	tests := map[string]struct{ source, file, want string }{
		"a module, imported first":   {"import iii\nprint(iii.x)\n" + use + "import iii as again\nprint(again is iii, again.x)\n", "iii.py", "7\nfrom mounted\nTrue 7\n"},
		"a module, imported later":   {use + "import iii\nprint(iii.x)\n", "iii.py", "from mounted\n7\n"},
		"a package":                  {"import iii.sub\nprint(iii.sub.x)\n" + use, "iii/sub.py", "7\nfrom mounted\n"},
		"none: the SDK is imported":  {"import iii as sdk\nprint(callable(sdk.register_worker))\n" + use, "other.py", "True\nfrom mounted\n"},
		"the host's names are free":  {"import call, run, sandbox_sdk, sandbox_iii\nprint(call.x)\n" + use, "call.py", "7\nfrom mounted\n"},
		"the standard library's too": {"import json\n" + use, "sandbox_channel.py", "from mounted\n"},
	}
	for name, tc := range tests {
		reply := guest.run(wire.Python, tc.source, withBus, func(r *wire.RunRequest) {
			for _, path := range append(beside[tc.file], tc.file) {
				r.Files = append(r.Files, wire.File{Path: path, Content: []byte("x = 7\n")})
			}
		})
		if reply.Run.Stdout != tc.want {
			t.Errorf("%s: want %q, got %+v", name, tc.want, reply.Run)
		}
	}
}

func TestPython_safePath(t *testing.T) {
	guest := newGuest(t)
	guest.env = append(guest.env, "PYTHONSAFEPATH=1")
	if reply := guest.run(wire.Python, "import own\nresult = own.x\n", func(r *wire.RunRequest) {
		r.Files = []wire.File{{Path: "own.py", Content: []byte("x = 7\n")}}
	}); string(reply.Result) != "7" {
		t.Errorf("a program: %s %s", reply.Result, reply.Run.Stderr)
	}
	if reply := guest.call(wire.Python, "import json\ndef handler(p): return json.dumps(p)\n", "1"); string(reply.Result) != `"1"` {
		t.Errorf("a handler: %s %v", reply.Result, reply.Error)
	}
}

// W12: where there is none it is installed at its first use, pinned, once.
func TestPythonSDK_isInstalledAtFirstUse(t *testing.T) {
	guest := newGuest(t)
	registry := newRegistry(t)
	guest.env = append(guest.env, registry.env()...)
	for _, line := range strings.Split(string(sdk.PythonRequirements), "\n") {
		name, version, pinned := strings.Cut(line, "==")
		if !pinned || strings.HasPrefix(line, "#") {
			continue
		}
		files := map[string]string{strings.ReplaceAll(normalized(name), "-", "_") + "_other.py": ""}
		if name == "iii-sdk" {
			files = map[string]string{"iii/__init__.py": pythonSDKSource, "iii/iii.py": pythonClientSource}
			registry.addWheel(t, name, "99.0.0", map[string]string{"iii/__init__.py": "raise SystemError\n"})
		}
		registry.addWheel(t, name, version, files)
	}
	long := func(r *wire.RunRequest) { r.TimeoutMs = 60_000 }
	if reply := guest.run(wire.Python, "print(hasattr(iii, 'x'), repr(iii))\n", withBus); registry.seen() != 0 || !strings.HasPrefix(reply.Run.Stdout, "False <lazy") {
		t.Errorf("introspection: %d requests, %+v", registry.seen(), reply.Run)
	}
	if reply := guest.run(wire.Python, pythonUse, withBus, long); reply.Run.Stdout != "from python-packages\n" || reply.Run.Stderr != "" {
		t.Fatalf("first use: %+v", reply.Run)
	}
	before := registry.seen()
	if reply := guest.run(wire.Python, pythonUse, withBus); reply.Run.Stdout != "from python-packages\n" || registry.seen() != before {
		t.Errorf("second use: %d requests, %+v", registry.seen()-before, reply.Run)
	}
	if scraps, _ := filepath.Glob(filepath.Join(guest.home, ".*")); len(scraps) > 0 {
		t.Errorf("scraps: %v", scraps)
	}
}

// The installation has a bound: what is left of the program's time.
func TestPythonSDK_installationThatFails(t *testing.T) {
	guest := newGuest(t)
	for name, tc := range map[string]struct {
		env    []string
		change func(*wire.RunRequest)
		want   string
	}{
		"no index":    {nil, func(*wire.RunRequest) {}, "installing it failed"},
		"no time":     {[]string{"PIP_INDEX_URL=" + silentIndex(t)}, func(r *wire.RunRequest) { r.TimeoutMs = 2 * deadline.Milliseconds() }, "installing it took longer"},
		"no place":    {[]string{"PIP_INDEX_URL=" + nowhere}, func(*wire.RunRequest) {}, "there is no place to install it"},
		"no pip here": {[]string{"PYTHONPATH=" + folderWithoutPip(t)}, func(*wire.RunRequest) {}, "No pip in this guest"},
	} {
		guest := *guest
		guest.env = append(guest.env[:len(guest.env):len(guest.env)], tc.env...)
		source := pythonUse
		if name == "no place" {
			source = "import tempfile\ndef full(**options): raise OSError('disk full')\ntempfile.mkdtemp = full\n" + source
		}
		reply := guest.run(wire.Python, source, withBus, tc.change)
		if !strings.HasPrefix(reply.Run.Stdout, "iii-sdk is not installed in this runtime") || !strings.Contains(reply.Run.Stdout, tc.want) {
			t.Errorf("%s: want %q, got %+v", name, tc.want, reply.Run)
		}
		if scraps, _ := filepath.Glob(filepath.Join(guest.home, ".python-packages-*")); len(scraps) > 0 {
			t.Errorf("%s: scraps: %v", name, scraps)
		}
	}
}

// silentIndex takes connections and never answers.
func silentIndex(t *testing.T) string {
	t.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	return "http://" + silent.Addr().String() + "/"
}

// folderWithoutPip hides pip behind a module that says so.
func folderWithoutPip(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "pip.py"), []byte("raise SystemExit('No pip in this guest')\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return folder
}

// G17, X24: an SDK whose shutdown hangs delays the end by the bound, no more.
func TestSDK_shutdownThatHangs(t *testing.T) {
	guest := newGuest(t)
	folder := filepath.Join(t.TempDir(), "packages")
	writePythonSDK(t, folder, strings.Replace(pythonSDKSource, "def shutdown(self): pass", "def shutdown(self):\n        import time\n        time.sleep(600)", 1))
	guest.env = append(guest.env, packagesVariable+"="+folder)
	replaceNodeSDK(t, guest, hangingNodeSDK)
	sources := map[wire.Language][2]string{
		wire.Node:   {`console.log(await iii.trigger({}));`, `export const handler = () => iii.trigger({});`},
		wire.Python: {"print(iii.trigger({}))\n", "def handler(p): return iii.trigger({})\n"},
	}
	for language, source := range sources {
		reply := guest.run(language, source[0], withBus)
		if reply.Run.ExitCode != 0 || reply.Run.TimedOut || !strings.HasPrefix(reply.Run.Stdout, "from ") {
			t.Errorf("%s: a program: %+v", language, reply.Run)
		}
		request := callRequest(language, guest.mustPlant(language, source[1]), "0")
		request.Bus = wire.Bus{BusURL: "ws://127.0.0.1:9"}
		if reply := guest.exec(wire.CommandCall, request); !strings.HasPrefix(string(reply.Result), `"from `) {
			t.Errorf("%s: a handler: %s %v", language, reply.Result, reply.Error)
		}
	}
}

const hangingNodeSDK = `class Client {
  connect() {} onSocketOpen() {} scheduleReconnect() {}
  async trigger() { return 'from node'; }
  async shutdown() { await new Promise((resolve) => setTimeout(resolve, 600000)); }
}
exports.registerWorker = () => new Client();
`

func replaceNodeSDK(t *testing.T, guest *guest, source string) {
	t.Helper()
	guest.exec(wire.CommandInit, wire.InitRequest{})
	folder, err := filepath.EvalSymlinks(filepath.Join(guest.home, "node_modules", "iii-sdk"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"package.json": `{"name":"iii-sdk","main":"index.cjs"}`, "index.cjs": source} {
		if err := writeAtomically(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
