package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// hostNames are the names of a language's host modules, and of their package.
func hostNames(t *testing.T, language wire.Language) (names []string) {
	t.Helper()
	entries, err := embedded.ReadDir(string(language))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names = append(names, strings.TrimSuffix(entry.Name(), filepath.Ext(entry.Name())))
	}
	return append(names, "sandbox_host")
}

// importAll returns expressions of both languages over the list NAMES: what a
// program or handler gets for each of them.
var importAll = map[wire.Language]string{
	wire.Node: `const found = await Promise.all(NAMES.map((name) => import(name).then((module) => module.value, (error) => error.code)));
export default found; export const handler = () => found;`,
	wire.Python: `import importlib
def load(name):
  try: return importlib.import_module(name).value
  except ModuleNotFoundError as error: return type(error).__name__
result = [load(name) for name in NAMES]
def handler(p): return result
`,
}

// checkImports runs the imports in a program and in a handler.
func checkImports(t *testing.T, guest *guest, language wire.Language, want string) {
	t.Helper()
	names := hostNames(t, language)
	list, _ := json.Marshal(names)
	source := strings.Replace(importAll[language], "NAMES", string(list), 1)
	wanted, _ := json.Marshal(strings.Split(strings.TrimSuffix(strings.Repeat(want+" ", len(names)), " "), " "))
	if reply := guest.run(language, source); string(reply.Result) != string(wanted) {
		t.Errorf("%s, a program: %s\n%s", language, reply.Result, reply.Run.Stderr)
	}
	if reply := guest.call(language, source, "0"); string(reply.Result) != string(wanted) {
		t.Errorf("%s, a handler: %s %v", language, reply.Result, reply.Error)
	}
}

// X23: the hosts' own modules are nothing that a guest can import.
func TestImports_hostsAreHidden(t *testing.T) {
	guest := newGuest(t)
	checkImports(t, guest, wire.Node, "ERR_MODULE_NOT_FOUND")
	checkImports(t, guest, wire.Python, "ModuleNotFoundError")
	guest.env = append(guest.env, "PYTHONSAFEPATH=1")
	checkImports(t, guest, wire.Python, "ModuleNotFoundError")
}

// G20, X23: packages of the guest's that are named like them are found.
func TestImports_hostsShadowNothing(t *testing.T) {
	guest := newGuest(t)
	site := guest.run(wire.Python, "import site\nresult = site.getusersitepackages()\n")
	var folder string
	if err := json.Unmarshal(site.Result, &folder); err != nil || !strings.HasPrefix(folder, guest.home) {
		t.Fatalf("the user's packages are in %s", site.Result)
	}
	write := func(content string, path ...string) {
		if err := writeAtomically(filepath.Join(path...), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range hostNames(t, wire.Python) {
		write("value = 'installed'\n", folder, name+".py")
	}
	for _, name := range hostNames(t, wire.Node) {
		modules := filepath.Join(filepath.Dir(guest.home), "node_modules", name)
		write(fmt.Sprintf(`{"name":%q,"main":"index.cjs"}`, name), modules, "package.json")
		write("exports.value = 'installed';", modules, "index.cjs")
	}
	checkImports(t, guest, wire.Node, "installed")
	checkImports(t, guest, wire.Python, "installed")
	guest.env = append(guest.env, "PYTHONSAFEPATH=1")
	checkImports(t, guest, wire.Python, "installed")
}

// Processes that a guest spawns see its import path, and nothing of the host.
func TestImports_pathHasNoHost(t *testing.T) {
	guest := newGuest(t)
	const source = `import sys
def hosts(): return [path for path in sys.path if '/hosts' in path]
def handler(p): return hosts()
if __name__ == '__main__':
  import multiprocessing
  with multiprocessing.get_context('spawn').Pool(1) as pool: result = [hosts(), pool.apply(hosts)]
`
	if reply := guest.run(wire.Python, source); string(reply.Result) != "[[],[]]" {
		t.Errorf("a program: %s %s", reply.Result, reply.Run.Stderr)
	}
	if reply := guest.call(wire.Python, source, "0"); string(reply.Result) != "[]" {
		t.Errorf("a handler: %s %v", reply.Result, reply.Error)
	}
}
