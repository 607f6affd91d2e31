package engine

import (
	"encoding/json"
	"errors"
	"sync"
	"time"
)

// Bounds of the queue, which is kept in memory: what waits in it is gone with
// the engine.
const (
	maxQueueMessages = 10_000
	maxDeadLetters   = 1_000
	maxQueueBytes    = 1 << 30
)

// queueBroker is what listings call this queue.
const queueBroker = "memory"

var errQueueFull = errors.New("the queue is full")

// message is one piece of work.
type message struct {
	id         string
	functionID string
	namespace  string
	data       json.RawMessage

	traceparent string
	baggage     string

	// Guarded by queues.mu while no delivery has it.
	failures  int
	lastError string
	failedAt  time.Time
}

// laneKey names a lane: of a topic, one for each function that subscribes, so
// that every subscriber gets every message; of a queue, one with an empty
// function.
type laneKey struct{ topic, namespace, function string }

// lane is an ordered stream of messages with one policy.
type lane struct {
	key    laneKey
	policy QueuePolicy
	// bindings are the triggers that feed from it, none for queues; metadata and
	// condition are those of the latest.
	bindings  map[string]*binding
	metadata  json.RawMessage
	condition string
	waiting   []*message
	dead      []*message
	// running counts deliveries, delayed the messages that wait for their time.
	running int
	delayed int
}

// paused lanes have no subscriber at the moment.
func (l *lane) paused() bool { return l.key.function != "" && len(l.bindings) == 0 }

func (l *lane) depth() int { return len(l.waiting) + l.running + l.delayed }

// queues is the engine's queue (contracts/iii-bus.md §5.4, §6.3, §7.2). It is
// the provider of durable:subscriber triggers.
type queues struct {
	engine *Engine
	// policies are the configured ones, by queue or topic.
	policies map[string]QueuePolicy

	mu    sync.Mutex
	lanes map[laneKey]*lane
	// backlog has what was published to topics without a subscriber.
	backlog map[string][]*message
	bytes   int
}

func newQueues(e *Engine, policies map[string]QueuePolicy) *queues {
	return &queues{engine: e, policies: policies, lanes: map[laneKey]*lane{}, backlog: map[string][]*message{}}
}

// subscriberConfig is the configuration of a durable:subscriber trigger.
type subscriberConfig struct {
	conditional
	Topic string `json:"topic"`
	// Queue is another name of Topic.
	Queue       string       `json:"queue"`
	QueueConfig *QueuePolicy `json:"queue_config"`
}

func (q *queues) bind(b *binding) error {
	var config subscriberConfig
	if err := b.decodeConfig(&config); err != nil {
		return err
	}
	topic := firstOf(config.Topic, config.Queue)
	if topic == "" {
		return errors.New("topic must not be empty")
	}
	policy := q.policies[topic]
	if config.QueueConfig != nil {
		policy = *config.QueueConfig
	}
	if err := policy.validate(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lane(laneKey{topic, b.targetNamespace, b.functionID})
	l.policy, l.metadata, l.condition = policy, b.metadata, config.ConditionFunctionID
	l.bindings[b.id] = b
	q.adoptBacklog(l)
	q.pump(l)
	return nil
}

// unbind pauses a lane that loses its last subscriber; what waits in it is kept
// until the function subscribes again.
func (q *queues) unbind(b *binding) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.lanes {
		if l.bindings[b.id] == b {
			delete(l.bindings, b.id)
			q.dropIfIdle(l)
		}
	}
}

// The functions below need mu.

func (q *queues) lane(key laneKey) *lane {
	l := q.lanes[key]
	if l == nil {
		l = &lane{key: key, policy: q.policies[key.topic], bindings: map[string]*binding{}}
		q.lanes[key] = l
	}
	return l
}

// dropIfIdle forgets a lane that holds nothing and serves nobody.
func (q *queues) dropIfIdle(l *lane) {
	if l.depth() == 0 && len(l.dead) == 0 && len(l.bindings) == 0 {
		delete(q.lanes, l.key)
	}
}

// adoptBacklog gives the first subscriber of a topic what came before it.
func (q *queues) adoptBacklog(l *lane) {
	for _, m := range q.backlog[l.key.topic] {
		own := *m
		own.address(l)
		l.waiting = append(l.waiting, &own)
	}
	delete(q.backlog, l.key.topic)
}

// address makes a published message one for the function of a lane.
func (m *message) address(l *lane) { m.functionID, m.namespace = l.key.function, l.key.namespace }

// room checks the bounds for one more message.
func (q *queues) room(present int, m *message) error {
	if present >= maxQueueMessages || q.bytes+len(m.data) > maxQueueBytes {
		return errQueueFull
	}
	return nil
}

func (q *queues) add(l *lane, m *message) {
	q.bytes += len(m.data)
	if wait := l.policy.delay(); wait > 0 {
		q.later(l, m, wait)
		return
	}
	l.waiting = append(l.waiting, m)
	q.pump(l)
}

// pump starts deliveries up to the lane's concurrency.
func (q *queues) pump(l *lane) {
	for !l.paused() && l.running < l.policy.concurrency() && len(l.waiting) > 0 {
		m := l.waiting[0]
		if !q.engine.tasks.start(func() { q.deliver(l, m) }) {
			return
		}
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
		l.running++
	}
}
