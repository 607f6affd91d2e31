package engine

// Census counts everything that an engine remembers on behalf of its workers.
// What no worker holds any more must not be counted: that would be a leak.
func (e *Engine) Census() map[string]int {
	count := map[string]int{}
	e.countRegistry(count)
	for _, c := range e.registry.allWorkers() {
		count["pending calls"] += c.pending.count()
	}
	e.channels.mu.Lock()
	count["channels"] = len(e.channels.open)
	e.channels.mu.Unlock()
	for name, t := range map[string]*topics{
		"subscriptions": e.subscribers, "worker watchers": e.workerWatchers, "function watchers": e.functionWatchers,
	} {
		t.mu.Lock()
		count[name] = len(t.subscriptions)
		t.mu.Unlock()
	}
	e.stateWatchers.mu.Lock()
	count["state watchers"] = len(e.stateWatchers.bound)
	e.stateWatchers.mu.Unlock()
	e.routes.mu.Lock()
	count["route trees"] = len(e.routes.methods)
	e.routes.mu.Unlock()
	if e.queues != nil {
		e.queues.mu.Lock()
		count["queue lanes"], count["queue backlogs"] = len(e.queues.lanes), len(e.queues.backlog)
		count["queue bytes"] = e.queues.bytes
		e.queues.mu.Unlock()
	}
	return count
}

func (e *Engine) countRegistry(count map[string]int) {
	r := e.registry
	r.mu.RLock()
	defer r.mu.RUnlock()
	count["workers"], count["names"], count["functions"] = len(r.workers), len(r.names), len(r.functions)
	count["function ids"], count["types"] = len(r.byID), len(r.types)
	count["bindings"], count["awaited answers"] = len(r.bindings), len(r.answers)
}
