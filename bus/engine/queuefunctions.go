package engine

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// queueFunctions are those of contracts/iii-bus.md §7.2.
func (q *queues) functions() []*builtin {
	return []*builtin{
		{id: enqueueFunction, description: "Put a call into a queue (kept in memory)", handle: q.enqueue},
		{id: protocol.FunctionDurablePublish, description: "Publish to a topic with retries (kept in memory)", handle: q.publish},
		{id: "iii::queue::redrive", description: "Deliver all dead letters of a queue again", handle: q.redrive},
		{id: "iii::queue::redrive_message", description: "Deliver a dead letter again", handle: q.redriveMessage},
		{id: "iii::queue::discard_message", description: "Forget a dead letter", handle: q.discardMessage},
		{id: "engine::queue::list_topics", description: "List queues and topics", handle: q.listTopics},
		{id: "engine::queue::topic_stats", description: "Count the messages of a queue or topic", handle: q.topicStats},
		{id: "engine::queue::dlq_topics", description: "List queues and topics with dead letters", handle: q.deadTopics},
		{id: "engine::queue::dlq_messages", description: "Show dead letters", handle: q.deadMessages},
	}
}

// enqueueRequest is the input of engine::queue::enqueue (§5.4).
type enqueueRequest struct {
	Queue       string          `json:"queue"`
	FunctionID  string          `json:"function_id"`
	Namespace   *string         `json:"namespace"`
	Data        json.RawMessage `json:"data"`
	ReceiptID   string          `json:"messageReceiptId"`
	Traceparent string          `json:"traceparent"`
	Baggage     string          `json:"baggage"`
}

func (q *queues) enqueue(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	r, failed := decode[enqueueRequest](k.data)
	if failed != nil {
		return nil, failed
	}
	if r.Queue == "" || r.FunctionID == "" {
		return nil, &protocol.ErrorBody{Code: protocol.CodeQueueNotSet, Message: "queue and function_id are required"}
	}
	namespace, failed := namespaceOrDefault(r.Namespace)
	if failed != nil {
		return nil, failed
	}
	// A queue must not be a way around what a worker may call.
	if failed := sessionOf(k).mayCall(q.engine.registry.target(namespace, r.FunctionID)); failed != nil {
		return nil, failed
	}
	m := &message{
		id: firstOf(r.ReceiptID, uuid.NewString()), functionID: r.FunctionID, namespace: namespace, data: orNull(r.Data),
		traceparent: firstOf(r.Traceparent, k.traceparent), baggage: firstOf(r.Baggage, k.baggage),
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lane(laneKey{topic: r.Queue})
	if err := q.room(l.depth(), m); err != nil {
		return nil, queueFull(err)
	}
	q.add(l, m)
	return json.RawMessage("null"), nil
}

func queueFull(err error) *protocol.ErrorBody {
	return &protocol.ErrorBody{Code: protocol.CodeEnqueueError, Message: err.Error()}
}

// topicRequest is the input of the functions on one queue or topic.
type topicRequest struct {
	Topic     string          `json:"topic"`
	Queue     string          `json:"queue"`
	MessageID string          `json:"message_id"`
	Data      json.RawMessage `json:"data"`
	Offset    int             `json:"offset"`
	Limit     *int            `json:"limit"`
}

func (r topicRequest) name() string { return firstOf(r.Topic, r.Queue) }

func decodeTopic(k *call, code string) (topicRequest, *protocol.ErrorBody) {
	r, failed := decode[topicRequest](k.data)
	if failed == nil && r.name() == "" {
		failed = &protocol.ErrorBody{Code: code, Message: "the name of the topic or queue is required"}
	}
	return r, failed
}

// publish is iii::durable::publish: every subscribed function gets the message,
// and without any it waits for the first.
func (q *queues) publish(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	r, failed := decodeTopic(k, protocol.CodeTopicNotSet)
	if failed != nil {
		return nil, failed
	}
	m := message{data: orNull(r.Data), traceparent: k.traceparent, baggage: k.baggage}
	q.mu.Lock()
	defer q.mu.Unlock()
	lanes := q.subscribed(r.name())
	for _, l := range lanes {
		if err := q.room(l.depth(), &m); err != nil {
			return nil, queueFull(err)
		}
	}
	for _, l := range lanes {
		own := m
		own.id = uuid.NewString()
		own.address(l)
		q.add(l, &own)
	}
	if len(lanes) > 0 {
		return json.RawMessage("null"), nil
	}
	if err := q.room(len(q.backlog[r.name()]), &m); err != nil {
		return nil, queueFull(err)
	}
	m.id = uuid.NewString()
	q.bytes += len(m.data)
	q.backlog[r.name()] = append(q.backlog[r.name()], &m)
	return json.RawMessage("null"), nil
}

// subscribed needs mu.
func (q *queues) subscribed(topic string) []*lane {
	var lanes []*lane
	for key, l := range q.lanes {
		if key.topic == topic && key.function != "" {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

func orNull(data json.RawMessage) json.RawMessage {
	if data == nil {
		return json.RawMessage("null")
	}
	return data
}
