package main

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

// E20: calls that wait for an answer name the worker that the program is, since
// the engine does so in objects only.
func TestIII_introducesItself(t *testing.T) {
	sources := map[wire.Language]string{
		wire.Node:   "await iii.trigger({function_id: 'test::echo', payload: 5}); await iii.trigger({function_id: 'test::echo', payload: {}});",
		wire.Python: "iii.trigger({'function_id': 'test::echo', 'payload': 5})\niii.trigger({'function_id': 'test::echo', 'payload': {}})\n",
	}
	guest := newBusGuest(t)
	for language, source := range sources {
		bus := newTestBus(t)
		if reply := guest.run(language, source, onBus(bus, "runner:a::b:1")); reply.Run.ExitCode != 0 {
			t.Errorf("%s: %+v", language, reply.Run)
		}
		_, _, workers, _ := bus.seen()
		if len(workers) != 1 || len(bus.baggage) != 2 {
			t.Fatalf("%s: workers %v, baggage %v", language, workers, bus.baggage)
		}
		for _, text := range bus.baggage {
			member, ok := strings.CutPrefix(text, "sandbox-worker=")
			name, err := url.PathUnescape(member)
			if !ok || err != nil || name != workers[0] || strings.Contains(member, ":") {
				t.Errorf("%s: %q does not name %s", language, text, workers[0])
			}
		}
	}
}

// A process that calls share has one client, and each call its own name.
func TestIII_introducesTheCallOfASharedProcess(t *testing.T) {
	sources := map[wire.Language]string{
		wire.Node:   "export const handler = async () => { await iii.trigger({function_id: 'test::echo', payload: 5}); return process.pid; };",
		wire.Python: "import os\ndef handler(p):\n    iii.trigger({'function_id': 'test::echo', 'payload': 5})\n    return os.getpid()\n",
	}
	for language, source := range sources {
		guest, bus := newBusGuest(t), newTestBus(t)
		t.Cleanup(guest.endSupervisor)
		guest.way = ways[2]
		request := callRequest(language, guest.mustPlant(language, source), "5")
		request.BusURL = bus.url()
		// On a busy machine a call in between may find the process at work and get one
		// of its own, with a client of its own.
		links := map[string]int{}
		calls := 0
		eventually(t, "one process has served two calls", func() bool {
			calls++
			request.WorkerName = fmt.Sprintf("runner:a::b:%d", calls)
			process := string(guest.invoke(request).Result)
			last := bus.lastCall()
			told, err := url.PathUnescape(strings.TrimPrefix(last.baggage, "sandbox-worker="))
			if err != nil || !strings.HasPrefix(told, request.WorkerName) {
				t.Errorf("%s: the call of %s tells %q", language, request.WorkerName, last.baggage)
			}
			before, again := links[process]
			if again && before != last.link {
				t.Errorf("%s: a process has two clients", language)
			}
			links[process] = last.link
			return again
		})
	}
}
