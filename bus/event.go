package bus

// EventKind says what happened.
type EventKind string

// Kinds of events.
const (
	// Connected: the engine accepted this worker. Registrations were sent, but only
	// FunctionInfo and RegisteredTriggers tell that they hold.
	Connected EventKind = "Connected"
	// Disconnected: a connection that was Connected ended; Err says why, nil at
	// the end of Run.
	Disconnected EventKind = "Disconnected"
	// FunctionRejected: another worker owns FunctionID; Err is a *RejectedError.
	// The registration is tried again only by RegisterFunction or a reconnect.
	FunctionRejected EventKind = "FunctionRejected"
	// TriggerRejected: TriggerID was refused; Err is a *RemoteError.
	TriggerRejected EventKind = "TriggerRejected"
	// WorkerRejected: the name is taken (Err is a *RejectedError) or the
	// authentication failed (Err is a *RemoteError).
	WorkerRejected EventKind = "WorkerRejected"
)

// Event is one change that a subscriber may want to act on. Fields beyond Kind
// are set as the kinds say.
type Event struct {
	Kind       EventKind
	FunctionID string
	TriggerID  string
	// OwnerWorkerID is the worker that holds the name or the id; empty when the
	// engine reserves it.
	OwnerWorkerID string
	Err           error
}

// Subscribe adds a function that gets all later events in order, from one
// goroutine of Run. It delays other subscribers, but never the connection.
func (c *Client) Subscribe(f func(Event)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subscribers = append(c.subscribers, f)
}

func (c *Client) emit(e Event) {
	c.events.push(func() {
		c.mu.Lock()
		// Appending never changes the elements up to this length.
		subscribers := c.subscribers
		c.mu.Unlock()
		for _, f := range subscribers {
			f(e)
		}
	})
}
