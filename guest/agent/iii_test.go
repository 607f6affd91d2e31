package main

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// pythonSDK is the folder that sdk/build.sh prepares; built once per test run,
// from its cache if there is one.
var pythonSDK = sync.OnceValues(func() (string, error) {
	output, err := exec.Command("../sdk/build.sh", "python").Output()
	return strings.TrimSpace(string(output)), err
})

// newBusGuest has the real SDKs of both languages.
func newBusGuest(t *testing.T) *guest {
	t.Helper()
	guest := newGuest(t)
	folder, err := pythonSDK()
	if err != nil {
		t.Fatalf("building the Python SDK: %v", err)
	}
	guest.env = append(guest.env, packagesVariable+"="+folder)
	reply := guest.exec(wire.CommandInit, wire.InitRequest{Probe: true})
	if reply.Error != nil || reply.Init.SDK.Node != "0.22.1" || reply.Init.SDK.Python != "0.22.1" {
		t.Fatalf("the SDKs are not there (run guest/build.sh): %+v %v", reply.Init, reply.Error)
	}
	return guest
}

// isOneWorker: a worker's name ends with what makes it unique (X25).
func isOneWorker(workers []string, name string) bool {
	if len(workers) != 1 {
		return false
	}
	unique, found := strings.CutPrefix(workers[0], name+":")
	return found && regexp.MustCompile(`^[0-9a-f]{8}$`).MatchString(unique)
}

func onBus(bus *testBus, worker string) func(*wire.RunRequest) {
	return func(r *wire.RunRequest) { r.Bus = wire.Bus{BusURL: bus.url(), WorkerName: worker} }
}

func TestIII_run(t *testing.T) {
	tests := map[string]struct {
		language  wire.Language
		source    string
		want      string // standard output
		wantLinks int
		wantCalls []string
	}{
		"G01 node: not used, not connected":   {wire.Node, `console.log(1);`, "1\n", 0, nil},
		"G01 python: not used, not connected": {wire.Python, "print(1)\n", "1\n", 0, nil},
		"G02, G11 node: a round trip": {wire.Node,
			`console.log(await iii.trigger({function_id: 'test::echo', payload: {a: 1}}));`, "{ a: 1 }\n", 1, []string{"test::echo"}},
		"G02, G11 python: a round trip": {wire.Python,
			"print(iii.trigger({'function_id': 'test::echo', 'payload': {'a': 1}}))\n", "{'a': 1}\n", 1, []string{"test::echo"}},
		"node: several uses share one connection": {wire.Node,
			`const call = (n) => iii.trigger({function_id: 'test::echo', payload: n}); console.log(await Promise.all([call(1), call(2)]));`,
			"[ 1, 2 ]\n", 1, []string{"test::echo", "test::echo"}},
		"node: a call that is not awaited finishes": {wire.Node,
			`iii.trigger({function_id: 'test::echo', payload: 1}).then(console.log);`, "1\n", 1, []string{"test::echo"}},
		"node: a first use in a timer": {wire.Node,
			`setTimeout(() => iii.trigger({function_id: 'test::echo', payload: 1}).then(console.log), 20);`, "1\n", 1, []string{"test::echo"}},
		"node: a void trigger right before the end is not lost": {wire.Node,
			`iii.trigger({function_id: 'test::note', payload: 1, action: {type: 'void'}});`, "", 1, []string{"test::note"}},
		"python: a void trigger right before the end is not lost": {wire.Python,
			"iii.trigger({'function_id': 'test::note', 'payload': 1, 'action': {'type': 'void'}})\n", "", 1, []string{"test::note"}},
		"G03, G15, G16 node: introspection never connects": {wire.Node, `
console.log(iii, String(iii), \u0060\u0024{iii}\u0060, Object.keys(iii), 'trigger' in iii, Object.getPrototypeOf(iii) === Object.prototype);
console.log(JSON.stringify({iii}), Number.isNaN(+iii), iii.toJSON, iii.nothing, (await iii) === iii, iii[Symbol.iterator], typeof iii.trigger);
console.log({...iii}, iii == 'x', iii instanceof Map, iii.constructor === Object, Object.prototype.toString.call(iii), iii?.state?.x);
import { inspect } from 'node:util'; import { isDeepStrictEqual } from 'node:util';
console.log(inspect(iii), isDeepStrictEqual(iii, 1)); try { structuredClone(iii); } catch (error) { console.log(error.name); }`,
			"HINT HINT HINT [] false true\n{\"iii\":{}} true undefined undefined true undefined function\n" +
				"{} false false true [object Object] undefined\nHINT false\nDataCloneError\n", 0, nil},
		"G05, G16 python: introspection never connects": {wire.Python, `
import copy
print(repr(iii), str(iii), dir(iii), hasattr(iii, '__len__'), hasattr(iii, 'nothing'), hasattr(iii, '_repr_html_'), callable(iii.trigger), bool(iii))
try: iii.nothing
except AttributeError as error: print(error)
print(getattr(iii, '__foo__', None), getattr(iii, '_private', None), getattr(iii, 'x', 5), iii.worker_id, iii == 1, iii in [iii], isinstance(iii, dict))
print(copy.copy(iii) is iii, copy.deepcopy([iii])[0] is iii, hash(iii) == hash(iii), iii.shutdown())
import inspect, json, pickle
print(inspect.getmembers(iii), inspect.isfunction(iii), inspect.iscoroutine(iii))
for probe in (lambda: pickle.dumps(iii), lambda: json.dumps(iii), lambda: len(iii), lambda: iter(iii), lambda: int(iii), lambda: iii[0], lambda: iii()):
  try: probe()
  except TypeError as error: print(type(error).__name__)
async def wait():
  try: await iii
  except TypeError: print('not awaitable')
import asyncio
asyncio.run(wait())
`, "PYHINT PYHINT [] False False False True True\ntype object 'III' has no attribute 'nothing'\n" +
			"None None 5 None False True False\nTrue True True None\n[] False False\n" + strings.Repeat("TypeError\n", 7) + "not awaitable\n", 0, nil},
		"G04 node: keys and in after use": {wire.Node,
			`await iii.trigger({function_id: 'test::echo', payload: 1}); console.log(Object.keys(iii).includes('trigger'), 'registerFunction' in iii, 'x' in iii, iii[Symbol.toStringTag]);`,
			"true true false undefined\n", 1, []string{"test::echo"}},
		"G06 python: dir after use": {wire.Python,
			"iii.trigger({'function_id': 'test::echo', 'payload': 1})\nprint('trigger' in dir(iii))\n", "True\n", 1, []string{"test::echo"}},
		"G14 node: a detached method": {wire.Node,
			`const { trigger } = iii; console.log(await trigger({function_id: 'test::echo', payload: 2}));`, "2\n", 1, []string{"test::echo"}},
		"G12 node: a registration lives as long as the process": {wire.Node,
			`iii.registerFunction('own::double', async (n) => n * 2); console.log(await iii.trigger({function_id: 'own::double', payload: 21}));`, "42\n", 1, []string{"own::double"}},
		"G12 python: a registration lives as long as the process": {wire.Python,
			"iii.register_function('own::double', lambda n: n * 2)\nprint(iii.trigger({'function_id': 'own::double', 'payload': 21}))\n", "42\n", 1, []string{"own::double"}},
		"node: the SDK can be imported": {wire.Node,
			`import { registerWorker, TriggerAction } from 'iii-sdk'; import { isChannelRef } from 'iii-sdk/helpers'; import { createRequire } from 'node:module';
console.log(typeof registerWorker, TriggerAction.Void(), typeof isChannelRef, createRequire(import.meta.url)('iii-sdk').registerWorker === registerWorker);`,
			"function { type: 'void' } function true\n", 0, nil},
		"python: the SDK can be imported": {wire.Python, "from iii import register_worker\nprint(callable(register_worker))\n", "True\n", 0, nil},
		"python: use from a thread that outlives the main program": {wire.Python,
			"import threading, time\ndef later():\n  time.sleep(0.05)\n  print(iii.trigger({'function_id': 'test::echo', 'payload': 5}))\nthreading.Thread(target=later).start()\n", "5\n", 1, []string{"test::echo"}},
		"python: an exit after use": {wire.Python,
			"import sys\nprint(iii.trigger({'function_id': 'test::echo', 'payload': 5}))\nsys.exit(0)\n", "5\n", 1, []string{"test::echo"}},
	}
	hints := strings.NewReplacer("PYHINT", "<lazy iii-sdk client: connects to the bus when one of its methods is called>",
		"HINT", "[lazy iii-sdk client: connects to the bus when one of its methods is called]")
	unescape := strings.NewReplacer(`\u0060`, "`", `\u0024`, "$")
	shared := newBusGuest(t)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			guest := *shared
			guest.t = t
			bus := newTestBus(t)
			reply := guest.run(tc.language, unescape.Replace(tc.source), onBus(bus, "runner:"+t.Name()))
			if reply.Run.ExitCode != 0 || reply.Run.Stderr != "" || reply.Run.Stdout != hints.Replace(tc.want) {
				t.Errorf("want %q, got %+v", hints.Replace(tc.want), reply.Run)
			}
			links, clean, workers, calls := bus.seen()
			if links != tc.wantLinks || clean != tc.wantLinks {
				t.Errorf("want %d links closed cleanly, got %d, %d clean", tc.wantLinks, links, clean)
			}
			if links > 0 && !isOneWorker(workers, "runner:"+t.Name()) {
				t.Errorf("workers: %v", workers)
			}
			if !slices.Equal(calls, tc.wantCalls) {
				t.Errorf("calls: want %v, got %v", tc.wantCalls, calls)
			}
		})
	}
}

// G10: handlers use iii too, and end with one clean shutdown.
func TestIII_call(t *testing.T) {
	sources := map[wire.Language]string{
		wire.Node: `export async function handler(p) { console.log('before'); const r = await iii.trigger({function_id: 'test::echo', payload: p});
iii.trigger({function_id: 'test::note', payload: 0, action: {type: 'void'}}); return r; }`,
		wire.Python: "def handler(p):\n  print('before')\n  r = iii.trigger({'function_id': 'test::echo', 'payload': p})\n  iii.trigger({'function_id': 'test::note', 'payload': 0, 'action': {'type': 'void'}})\n  return r\n",
	}
	guest := newBusGuest(t)
	for language, source := range sources {
		bus := newTestBus(t)
		request := callRequest(language, guest.mustPlant(language, source), `{"a":1}`)
		request.Bus = wire.Bus{BusURL: bus.url(), WorkerName: "runner:shop::price"}
		reply := guest.exec(wire.CommandCall, request)
		if string(reply.Result) != `{"a":1}` || reply.Logs != "before\n" {
			t.Errorf("%s: %s %v, logs %q", language, reply.Result, reply.Error, reply.Logs)
		}
		links, clean, workers, calls := bus.seen()
		if links != 1 || clean != 1 || !isOneWorker(workers, "runner:shop::price") || !slices.Equal(calls, []string{"test::echo", "test::note"}) {
			t.Errorf("%s: %d links, %d clean, workers %v, calls %v", language, links, clean, workers, calls)
		}
	}
}

// G07, G08, G09, G13: errors at first use, catchable and named.
func TestIII_errors(t *testing.T) {
	withSDK, withoutSDK := newBusGuest(t), newGuest(t)
	if reply := withoutSDK.exec(wire.CommandInit, wire.InitRequest{}); reply.Error != nil {
		t.Fatal(reply.Error)
	}
	bundle, err := filepath.EvalSymlinks(filepath.Join(withoutSDK.home, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(bundle); err != nil {
		t.Fatal(err)
	}
	bus := newTestBus(t)
	node := `try { await iii.trigger({function_id: 'a::b'}); } catch (error) { console.log(error.message); }`
	python := "try: iii.trigger({'function_id': 'a::b'})\nexcept RuntimeError as error: print(error)\n"
	tests := map[string]struct {
		guest    *guest
		language wire.Language
		source   string
		change   func(*wire.RunRequest)
		want     string
	}{
		"G07 node: no URL":       {withSDK, wire.Node, node, func(*wire.RunRequest) {}, "III_URL is not set"},
		"G07 python: no URL":     {withSDK, wire.Python, python, func(*wire.RunRequest) {}, "III_URL is not set"},
		"G08 node: no package":   {withoutSDK, wire.Node, node, onBus(bus, "w"), "iii-sdk could not be loaded"},
		"G09 python: no package": {withoutSDK, wire.Python, python, onBus(bus, "w"), "iii-sdk is not installed in this runtime"},
	}
	for name, tc := range tests {
		reply := tc.guest.run(tc.language, tc.source, tc.change)
		if reply.Run.ExitCode != 0 || !strings.Contains(reply.Run.Stdout, tc.want) {
			t.Errorf("%s: want %q, got %+v", name, tc.want, reply.Run)
		}
	}
	reply := withSDK.run(wire.Node, `iii.registerFunction();`, onBus(bus, "w"))
	if reply.Run.ExitCode != 1 || len(reply.Run.Stderr) > 4000 || !strings.Contains(reply.Run.Stderr, "registerFunction") {
		t.Errorf("G13: %d bytes, %+v", len(reply.Run.Stderr), reply.Run)
	}
}

// G17, X24: an engine that is gone or does not answer the close delays the end
// of a program by the bound, and a handler's result not at all beyond it.
func TestIII_boundedShutdown(t *testing.T) {
	guest := newBusGuest(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	url := "ws://" + silent.Addr().String()
	node := `iii.trigger({function_id: 'a::b', payload: 1, action: {type: 'void'}}); console.log('end');`
	begun := time.Now()
	reply := guest.run(wire.Node, node, func(r *wire.RunRequest) { r.BusURL = url })
	if reply.Run.ExitCode != 0 || reply.Run.TimedOut || reply.Run.Stdout != "end\n" {
		t.Errorf("node: %+v", reply.Run)
	}
	if took := time.Since(begun); took > testTimeout/2 {
		t.Errorf("node: the end took %s", took)
	}
	source := `export function handler() { iii.trigger({function_id: 'a::b', payload: 1, action: {type: 'void'}}); return 1; }`
	request := callRequest(wire.Node, guest.mustPlant(wire.Node, source), "0")
	request.BusURL = url
	begun = time.Now()
	if reply := guest.exec(wire.CommandCall, request); string(reply.Result) != "1" {
		t.Errorf("call: %s %v", reply.Result, reply.Error)
	}
	if took := time.Since(begun); took > testTimeout/2 {
		t.Errorf("call: the end took %s", took)
	}
}

func TestIII_engineGoneAfterUse(t *testing.T) {
	guest := newBusGuest(t)
	sources := map[wire.Language]string{
		wire.Node:   `console.log(await iii.trigger({function_id: 'test::echo', payload: 1}).catch(String)); setTimeout(() => {}, 300);`,
		wire.Python: "import time\nprint(iii.trigger({'function_id': 'test::echo', 'payload': 1}))\ntime.sleep(0.3)\n",
	}
	for language, source := range sources {
		bus := newTestBus(t)
		go func() {
			limit := time.After(testTimeout)
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for {
				bus.mutex.Lock()
				called := len(bus.calls) > 0
				bus.mutex.Unlock()
				if called {
					bus.server.CloseClientConnections()
					bus.server.Listener.Close()
					return
				}
				select {
				case <-tick.C:
				case <-limit:
					return
				}
			}
		}()
		reply := guest.run(language, source, onBus(bus, "w"))
		if reply.Run.ExitCode != 0 || reply.Run.TimedOut || reply.DurationMs > testTimeout.Milliseconds()/2 {
			t.Errorf("%s: %d ms, %+v", language, reply.DurationMs, reply.Run)
		}
	}
}

// G18: an inner call leaves a fifth of the whole time to the program, within
// bounds. The SDK's stand-in returns what it is asked for.
func TestIII_innerTimeoutLeavesTime(t *testing.T) {
	guest := newGuest(t)
	packages := t.TempDir()
	writePythonSDK(t, packages, strings.Replace(pythonSDKSource, "'from ' + __file__.split('/')[-3]", "request['timeout_ms']", 1))
	guest.env = append(guest.env, packagesVariable+"="+packages)
	replaceNodeSDK(t, guest, strings.Replace(hangingNodeSDK, "trigger() { return 'from node'", "trigger(request) { return request.timeoutMs", 1))
	sources := map[wire.Language]string{
		wire.Node: `export const handler = async (p, { deadline_ms }) => {
  const left = () => deadline_ms - Date.now();
  return { Before: left(), Timeout: await iii.trigger({ timeoutMs: p }), After: left() };
};`,
		wire.Python: `import math, time
def handler(p, context):
  left = lambda: context['deadline_ms'] - time.time() * 1000
  return {'Before': math.ceil(left()), 'Timeout': iii.trigger({'timeout_ms': p}), 'After': math.floor(left())}
`,
	}
	for language, source := range sources {
		digest := guest.mustPlant(language, source)
		for _, budget := range []int64{900, 20_000, 290_000} {
			checkInnerTimeout(t, guest, language, digest, budget)
		}
	}
}

func checkInnerTimeout(t *testing.T, guest *guest, language wire.Language, digest string, budget int64) {
	t.Helper()
	request := callRequest(language, digest, "1000000")
	request.Bus = wire.Bus{BusURL: "ws://127.0.0.1:9"}
	request.Context.DeadlineMs = time.Now().UnixMilli() + budget
	reply := guest.exec(wire.CommandCall, request)
	var left struct{ Before, Timeout, After int64 }
	if err := json.Unmarshal(reply.Result, &left); err != nil || left.Timeout == 0 {
		t.Fatalf("%s, %d ms: %s %v", language, budget, reply.Result, reply.Error)
	}
	share := func(whole int64) int64 { return min(max(whole/5, 200), 5_000) }
	// The whole time is what is left when the interpreter has started.
	least, most := left.After-share(budget), left.Before-share(left.Before)
	if left.Timeout < max(1, least) || left.Timeout > max(1, most) {
		t.Errorf("%s, %d ms: the call got %d ms, want %d to %d", language, budget, left.Timeout, least, most)
	}
}

// G18: an inner call ends with the outer deadline.
func TestIII_innerTimeoutIsClamped(t *testing.T) {
	guest := newBusGuest(t)
	sources := map[wire.Language]string{
		wire.Node:   `try { await iii.trigger({function_id: 'test::silent', payload: 1}); } catch (e) { console.log(e.code); }`,
		wire.Python: "try: iii.trigger({'function_id': 'test::silent', 'payload': 1})\nexcept Exception as e: print(e.code)\n",
	}
	for language, source := range sources {
		bus := newTestBus(t)
		reply := guest.run(language, source, onBus(bus, "w"), func(r *wire.RunRequest) { r.TimeoutMs = deadline.Milliseconds() })
		// Without the clamp nothing would be printed: the deadline comes first.
		if reply.Run.Stdout != "TIMEOUT\n" {
			t.Errorf("%s: %+v", language, reply.Run)
		}
	}
}
