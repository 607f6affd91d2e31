package main

import (
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
		wire.Node:   "export const handler = (p) => iii.trigger({function_id: 'test::echo', payload: p});",
		wire.Python: "def handler(p):\n    return iii.trigger({'function_id': 'test::echo', 'payload': p})\n",
	}
	for language, source := range sources {
		guest, bus := newBusGuest(t), newTestBus(t)
		t.Cleanup(guest.endSupervisor)
		guest.way = ways[2]
		request := callRequest(language, guest.mustPlant(language, source), "5")
		request.BusURL = bus.url()
		for _, name := range []string{"runner:a::b:1", "runner:a::b:2"} {
			request.WorkerName = name
			if reply := guest.invoke(request); string(reply.Result) != "5" {
				t.Fatalf("%s: %s %v", language, reply.Result, reply.Error)
			}
			bus.mutex.Lock()
			text, workers := bus.baggage[len(bus.baggage)-1], len(bus.workers)
			bus.mutex.Unlock()
			told, err := url.PathUnescape(strings.TrimPrefix(text, "sandbox-worker="))
			if err != nil || !strings.HasPrefix(told, name) {
				t.Errorf("%s: the call of %s tells %q", language, name, text)
			}
			if workers > 2 {
				t.Errorf("%s: %d clients", language, workers)
			}
		}
	}
}
