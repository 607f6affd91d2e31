package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// What Node keeps of loaded files; the handlers differ in their mention of the SDK.
const loadedNode = `import { createRequire } from 'node:module';
const loaded = Object.keys(createRequire(import.meta.url).cache);
export const handler = () => Object.keys(createRequire(import.meta.url).cache).some((file) => file.endsWith('load.cjs'));
`

func TestPreload(t *testing.T) {
	for _, tc := range []struct {
		name, source, want string
	}{
		{"a source that names it", loadedNode + "// iii", "true"},
		{"one that does not", loadedNode + "// viii", "false"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			guest := newGuestOf(t, ways[1])
			if reply := guest.call(wire.Node, tc.source, "0"); string(reply.Result) != tc.want {
				t.Errorf("want %s, got %s %v", tc.want, reply.Result, reply.Error)
			}
		})
	}
}

const sdkUse = `import { TriggerAction } from 'iii-sdk';
export const handler = async () => [typeof TriggerAction, typeof iii.registerFunction, iii.shutdown && (await iii.shutdown()) === undefined];
`

// The first process that loads the SDK leaves V8's cache of it; without one, or with
// one that is cut, it loads all the same.
func TestNodeSDK_codeCache(t *testing.T) {
	guest := newGuest(t)
	digest := guest.mustPlant(wire.Node, sdkUse)
	caches := filepath.Join(guest.home, "hosts", "node_modules", "iii-sdk", "dist", "bundle-*.cache")
	found, _ := filepath.Glob(caches)
	if len(found) != 1 {
		t.Fatalf("caches: %v", found)
	}
	whole, err := os.Stat(found[0])
	if err != nil || whole.Size() < 100<<10 {
		t.Fatalf("the cache: %v %v", whole, err)
	}
	for name, spoil := range map[string]func() error{
		"whole": func() error { return nil },
		"cut":   func() error { return os.Truncate(found[0], whole.Size()/2) },
		"empty": func() error { return os.Truncate(found[0], 0) },
		"gone":  func() error { return os.Remove(found[0]) },
	} {
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		reply := guest.invoke(callRequest(wire.Node, digest, "0"))
		if string(reply.Result) != `["object","function",true]` {
			t.Errorf("%s: %s %v", name, reply.Result, reply.Error)
		}
		if err := os.WriteFile(found[0], nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// newWarmBusGuest has the real SDKs and a supervisor.
func newWarmBusGuest(t *testing.T, way way) *guest {
	t.Helper()
	guest := newBusGuest(t)
	guest.way = way
	t.Cleanup(guest.endSupervisor)
	if reply := guest.exec(wire.CommandInit, wire.InitRequest{Warm: true}); reply.Error != nil {
		t.Fatal(reply.Error)
	}
	guest.awaitSupervisor()
	return guest
}

// The real SDK, once it is imported, leaves nothing that keeps a process from being
// forked; each fork connects by itself, under its own name.
func TestPreload_python(t *testing.T) {
	const source = `import sys
loaded = 'iii' in sys.modules
def handler(p):
    found = 'iii' in sys.modules and not loaded
    return [found, iii.trigger({'function_id': 'test::echo', 'payload': p})]
`
	for _, way := range ways[1:] {
		t.Run(way.name, func(t *testing.T) {
			guest, bus := newWarmBusGuest(t, way), newTestBus(t)
			request := callRequest(wire.Python, guest.mustPlant(wire.Python, source), "7")
			request.Bus = wire.Bus{BusURL: bus.url(), WorkerName: "runner:first"}
			guest.invoke(request)
			for _, name := range []string{"runner:second", "runner:third"} {
				request.WorkerName = name
				reply := guest.invoke(request)
				if string(reply.Result) != `[true,7]` || way.isolation != wire.Shared && reply.Start != wire.StartForked {
					t.Errorf("%s: %s %s %v", name, reply.Start, reply.Result, reply.Error)
				}
			}
			if way.isolation == wire.Shared {
				return // its one connection stays
			}
			links, _, workers, _ := bus.seen()
			if links != len(workers) || !slices.ContainsFunc(workers, func(worker string) bool { return isOneWorker([]string{worker}, "runner:third") }) {
				t.Errorf("%d links of %v", links, workers)
			}
		})
	}
}

func TestPreload_pythonWithoutUse(t *testing.T) {
	guest := newWarmBusGuest(t, ways[1])
	const source = "# viii\nimport sys\ndef handler(p): return 'i' * 3 in sys.modules\n"
	if reply := guest.call(wire.Python, source, "0"); string(reply.Result) != "false" {
		t.Errorf("%s %v", reply.Result, reply.Error)
	}
}
