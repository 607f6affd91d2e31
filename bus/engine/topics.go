package engine

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// subscription is a bound trigger of a topic.
type subscription struct {
	binding   *binding
	condition string
}

// topics is the provider of types whose triggers all fire on a named event:
// subscribe, and the engine's own events.
type topics struct {
	// topicOf reads the topic from a trigger's configuration.
	topicOf func(*binding) (string, error)

	mu            sync.RWMutex
	subscriptions map[string]map[string]subscription
}

func newTopics(topicOf func(*binding) (string, error)) *topics {
	return &topics{topicOf: topicOf, subscriptions: map[string]map[string]subscription{}}
}

func (t *topics) bind(b *binding) error {
	topic, err := t.topicOf(b)
	if err != nil {
		return err
	}
	var config conditional
	if err := b.decodeConfig(&config); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.subscriptions[topic] == nil {
		t.subscriptions[topic] = map[string]subscription{}
	}
	t.subscriptions[topic][b.id] = subscription{b, config.ConditionFunctionID}
	return nil
}

func (t *topics) unbind(b *binding) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for topic, bound := range t.subscriptions {
		delete(bound, b.id)
		if len(bound) == 0 {
			delete(t.subscriptions, topic)
		}
	}
}

// of returns who is subscribed now.
func (t *topics) of(topic string) []subscription {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []subscription
	for _, s := range t.subscriptions[topic] {
		out = append(out, s)
	}
	return out
}

func (e *Engine) fireAll(t *topics, topic string, payload json.RawMessage) {
	for _, s := range t.of(topic) {
		e.fire(s.binding, s.condition, payload)
	}
}

// subscribeTopic is the topic of a subscribe trigger (contracts/iii-bus.md §6.3).
func subscribeTopic(b *binding) (string, error) {
	var config struct {
		Topic string `json:"topic"`
	}
	if err := b.decodeConfig(&config); err != nil {
		return "", err
	}
	if config.Topic == "" {
		return "", errors.New("topic must not be empty")
	}
	return config.Topic, nil
}

// anyTopic is for types with a single event.
func anyTopic(*binding) (string, error) { return "", nil }

// publish hands data to every subscriber of a topic and waits for none (§6.4).
func (e *Engine) publish(_ context.Context, k *call) (any, *protocol.ErrorBody) {
	request, failed := decode[struct {
		Topic string          `json:"topic"`
		Data  json.RawMessage `json:"data"`
	}](k.data)
	if failed != nil {
		return nil, failed
	}
	if request.Topic == "" {
		return nil, &protocol.ErrorBody{Code: protocol.CodeTopicNotSet, Message: "topic is not set"}
	}
	if request.Data == nil {
		request.Data = json.RawMessage("null")
	}
	e.fireAll(e.subscribers, request.Topic, request.Data)
	return json.RawMessage("null"), nil
}
