package main

import (
	"encoding/json"
	"fmt"
	"slices"

	. "github.com/onsi/gomega"
)

// listing is one row of list_runtimes.
type listing struct {
	Reference   string   `json:"reference"`
	RuntimeID   string   `json:"runtime_id"`
	SandboxID   string   `json:"sandbox_id"`
	Lang        string   `json:"lang"`
	CreatedAtMS int64    `json:"created_at_ms"`
	Functions   []string `json:"registered_functions"`
	VMGone      *bool    `json:"vm_gone"`
}

// list are the runtimes that a caller sees, newest first.
func (t *row) listAs(worker string) []listing {
	var got struct {
		Runtimes []listing `json:"runtimes"`
	}
	text := must(t.tryAs(worker, listID, m{}))
	t.Expect(string(text)).To(HavePrefix(`{"runtimes":[`))
	t.ok(json.Unmarshal(text, &got))
	return got.Runtimes
}

func (t *row) list() []listing { return t.listAs(callerName) }

// listed is the row of a kept runtime of this caller, or of the runtime of a
// function; nil if there is none.
func (t *row) listingOf(idOrFunction string) *listing {
	for _, each := range t.list() {
		if each.RuntimeID == idOrFunction || slices.Contains(each.Functions, idOrFunction) {
			return &each
		}
	}
	return nil
}

// event is one delivery of the trigger type sandbox-code-runner::event.
type event struct {
	Kind         string  `json:"kind"`
	Sequence     int     `json:"sequence"`
	TimeMS       int64   `json:"time_ms"`
	Reference    string  `json:"reference"`
	RuntimeID    string  `json:"runtime_id"`
	SandboxID    string  `json:"sandbox_id"`
	Lang         string  `json:"lang"`
	FunctionID   string  `json:"function_id"`
	DaemonAbsent *bool   `json:"daemon_absent"`
	Sandboxes    []event `json:"sandboxes"`

	keys []string
}

// subscription is a function that gets events.
type subscription struct {
	*row
	id, worker string
}

// subscribe binds a function, whose body may be slow or fail, to the events.
func (t *row) subscribe(body string) subscription {
	s := subscription{row: t, worker: t.worker()}
	s.id = fmt.Sprintf("%s::events%d", t.prefix(), t.workers)
	t.serve(s.worker, s.id, body)
	must(t.callers.do(t.ctx, "bind", m{"worker": s.worker, "binding": s.id, "type": eventType, "function_id": s.id, "config": m{}}))
	return s
}

func (s subscription) unsubscribe() {
	must(s.callers.do(s.ctx, "unbind", m{"binding": s.id}))
	s.Eventually(func() string {
		return s.call("engine::registered-triggers::list", m{"function_id": s.id})
	}).ShouldNot(ContainSubstring(eventType))
}

// events are those that came so far, of these kinds.
func (s subscription) events(kinds ...string) []event {
	found := []event{}
	for _, payload := range s.callers.received(s.id) {
		var e event
		s.ok(json.Unmarshal(payload, &e))
		e.keys = keysOf(payload)
		if slices.Contains(kinds, e.Kind) {
			found = append(found, e)
		}
	}
	return found
}

// expects waits until events of exactly these kinds came, the fleet's aside, and
// returns them.
func (s subscription) expects(kinds ...string) []event {
	of := func() []string {
		came := []string{}
		for _, e := range s.events("runtime_created", "run_settled", "function_registered", "teardown", "run_failed", "function_unregistered") {
			came = append(came, e.Kind)
		}
		return came
	}
	s.Eventually(of).Should(Equal(kinds))
	return s.events(kinds...)
}
