package engine

import (
	"context"
	"slices"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// Bounds of one page of dead letters.
const (
	defaultDeadPage = 50
	maxDeadPage     = 1000
)

// redrive gives all dead letters of a queue their deliveries again.
func (q *queues) redrive(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	r, failed := decodeTopic(k, protocol.CodeQueueNotSet)
	if failed != nil {
		return nil, failed
	}
	n := q.takeDead(r.name(), func(*message) bool { return true }, q.requeue)
	return map[string]any{"queue": r.name(), "redriven": n}, nil
}

func (q *queues) redriveMessage(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	return q.oneDead(k, q.requeue)
}

func (q *queues) discardMessage(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	return q.oneDead(k, func(l *lane, m *message) {
		q.bytes -= len(m.data)
		q.dropIfIdle(l)
	})
}

func (q *queues) oneDead(k *call, act func(*lane, *message)) (any, *protocol.ErrorBody) {
	r, failed := decodeTopic(k, protocol.CodeQueueNotSet)
	if failed != nil {
		return nil, failed
	}
	if r.MessageID == "" {
		return nil, &protocol.ErrorBody{Code: protocol.CodeMessageIDNotSet, Message: "message_id is required"}
	}
	n := q.takeDead(r.name(), func(m *message) bool { return m.id == r.MessageID }, act)
	return map[string]any{"queue": r.name(), "message_id": r.MessageID, "redriven": n}, nil
}

// requeue needs mu.
func (q *queues) requeue(l *lane, m *message) {
	m.failures, m.lastError = 0, ""
	l.waiting = append(l.waiting, m)
	q.pump(l)
}

// takeDead removes the chosen dead letters of a topic, acts on each under the
// mutex, and counts them.
func (q *queues) takeDead(topic string, chosen func(*message) bool, act func(*lane, *message)) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := 0
	for key, l := range q.lanes {
		if key.topic != topic {
			continue
		}
		dead := l.dead
		l.dead = nil
		for _, m := range dead {
			if !chosen(m) {
				l.dead = append(l.dead, m)
			}
		}
		for _, m := range dead {
			if chosen(m) {
				act(l, m)
				n++
			}
		}
	}
	return n
}

// topicCount is what is known about one name.
type topicCount struct {
	depth, consumers, dead int
	policy                 QueuePolicy
}

// counts needs mu.
func (q *queues) counts() map[string]topicCount {
	counts := map[string]topicCount{}
	for topic, waiting := range q.backlog {
		counts[topic] = topicCount{depth: len(waiting), policy: q.policies[topic]}
	}
	for key, l := range q.lanes {
		c := counts[key.topic]
		c.depth += l.depth()
		c.consumers += len(l.bindings)
		c.dead += len(l.dead)
		c.policy = l.policy
		counts[key.topic] = c
	}
	return counts
}

type topicRow struct {
	Name            string `json:"name"`
	BrokerType      string `json:"broker_type"`
	SubscriberCount int    `json:"subscriber_count"`
}

func (q *queues) listTopics(context.Context, *call) (any, *protocol.ErrorBody) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rows := []topicRow{}
	for topic, c := range q.counts() {
		rows = append(rows, topicRow{topic, queueBroker, c.consumers})
	}
	sortBy(rows, func(r topicRow) string { return r.Name })
	return rows, nil
}

func (q *queues) topicStats(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	r, failed := decodeTopic(k, protocol.CodeTopicNotSet)
	if failed != nil {
		return nil, failed
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.counts()[r.name()]
	return map[string]any{"depth": c.depth, "consumer_count": c.consumers, "dlq_depth": c.dead, "config": c.policy}, nil
}

type deadTopicRow struct {
	Topic        string `json:"topic"`
	BrokerType   string `json:"broker_type"`
	MessageCount int    `json:"message_count"`
}

func (q *queues) deadTopics(context.Context, *call) (any, *protocol.ErrorBody) {
	q.mu.Lock()
	defer q.mu.Unlock()
	rows := []deadTopicRow{}
	for topic, c := range q.counts() {
		if c.dead > 0 {
			rows = append(rows, deadTopicRow{topic, queueBroker, c.dead})
		}
	}
	sortBy(rows, func(r deadTopicRow) string { return r.Topic })
	return rows, nil
}

type deadRow struct {
	ID        string `json:"id"`
	Payload   any    `json:"payload"`
	Error     string `json:"error"`
	FailedAt  int64  `json:"failed_at"`
	Retries   int    `json:"retries"`
	SizeBytes int    `json:"size_bytes"`
}

// deadMessages shows a page of dead letters, oldest failure first; failed_at
// is in Unix milliseconds.
func (q *queues) deadMessages(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	r, failed := decodeTopic(k, protocol.CodeTopicNotSet)
	if failed != nil {
		return nil, failed
	}
	limit := defaultDeadPage
	if r.Limit != nil {
		limit = *r.Limit
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	dead := q.deadOf(r.name())
	from := min(max(r.Offset, 0), len(dead))
	to := min(from+min(max(limit, 0), maxDeadPage), len(dead))
	rows := []deadRow{}
	for _, m := range dead[from:to] {
		rows = append(rows, deadRow{
			ID: m.id, Payload: m.data, Error: m.lastError, FailedAt: m.failedAt.UnixMilli(),
			Retries: m.failures, SizeBytes: len(m.data),
		})
	}
	return rows, nil
}

// deadOf needs mu.
func (q *queues) deadOf(topic string) []*message {
	var dead []*message
	for key, l := range q.lanes {
		if key.topic == topic {
			dead = append(dead, l.dead...)
		}
	}
	slices.SortStableFunc(dead, func(a, b *message) int { return a.failedAt.Compare(b.failedAt) })
	return dead
}
