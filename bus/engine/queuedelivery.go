package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// deliver hands a message to its function until it succeeds, waits for another
// try, or has failed too often.
func (q *queues) deliver(l *lane, m *message) {
	for {
		failed := q.attempt(l, m)
		if failed == nil {
			q.finish(l, m)
			return
		}
		wait, again := q.failed(l, m, failed)
		if !again {
			return
		}
		// In order means that the next message waits as well.
		if !sleep(q.engine.ctx, wait) || !q.resume(l, m) {
			return
		}
	}
}

// resume tells whether a delivery in order goes on. Without a subscriber the
// message goes back to the head of its lane.
func (q *queues) resume(l *lane, m *message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !l.paused() {
		return true
	}
	l.waiting = append([]*message{m}, l.waiting...)
	q.release(l)
	return false
}

// attempt is one delivery; nil means that the message is done with.
func (q *queues) attempt(l *lane, m *message) *protocol.ErrorBody {
	policy, condition, metadata := q.terms(l)
	ctx, cancel := context.WithTimeout(q.engine.ctx, policy.visibility())
	defer cancel()
	if condition != "" && !q.conditionHolds(ctx, condition, m) {
		return nil
	}
	return q.engine.ask(ctx, &call{
		functionID: m.functionID, namespace: m.namespace, data: m.data, metadata: metadata,
		traceparent: m.traceparent, baggage: m.baggage,
	}).err
}

// conditionHolds is the rule of §6.3: a literal false and an error mean no.
func (q *queues) conditionHolds(ctx context.Context, condition string, m *message) bool {
	o := q.engine.invoke(ctx, condition, m.data)
	return o.err == nil && string(o.result) != "false"
}

// terms are those of the lane's latest subscriber.
func (q *queues) terms(l *lane) (policy QueuePolicy, condition string, metadata json.RawMessage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return l.policy, l.condition, l.metadata
}

// finish ends a delivery that needs no other.
func (q *queues) finish(l *lane, m *message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= len(m.data)
	q.release(l)
}

// release frees a delivery's place. Needs mu.
func (q *queues) release(l *lane) {
	l.running--
	q.pump(l)
	q.dropIfIdle(l)
}

// failed decides on a message that its function refused. With again, the
// delivery that has it must wait and retry itself.
func (q *queues) failed(l *lane, m *message, failed *protocol.ErrorBody) (wait time.Duration, again bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	m.failures++
	m.lastError, m.failedAt = failed.Code+": "+cut(failed.Message, maxLogBytes), time.Now()
	if m.failures > l.policy.retries() {
		q.bury(l, m)
		return 0, false
	}
	wait = l.policy.backoff(m.failures)
	if l.policy.inOrder() {
		return wait, true
	}
	q.later(l, m, wait)
	q.release(l)
	return 0, false
}

// bury makes a message a dead letter. Needs mu.
func (q *queues) bury(l *lane, m *message) {
	q.engine.log.Warn("Message is a dead letter", "topic", l.key.topic, "function", m.functionID, "failures", m.failures)
	l.dead = append(l.dead, m)
	if len(l.dead) > maxDeadLetters {
		q.bytes -= len(l.dead[0].data)
		l.dead[0] = nil
		l.dead = l.dead[1:]
	}
	q.release(l)
}

// later queues a message when its time has come. Needs mu.
func (q *queues) later(l *lane, m *message, wait time.Duration) {
	started := q.engine.tasks.start(func() {
		due := sleep(q.engine.ctx, wait)
		q.mu.Lock()
		defer q.mu.Unlock()
		l.delayed--
		if due {
			l.waiting = append(l.waiting, m)
			q.pump(l)
		}
	})
	if started {
		l.delayed++
	}
}

// sleep is false when the context ended first.
func sleep(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
