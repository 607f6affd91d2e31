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
