package engine_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// impatient is a queue that gives up quickly.
var impatient = map[string]any{"maxRetries": 2, "backoffDelayMs": 1, "backoffType": "fixed"}

func withQueues(policies map[string]engine.QueuePolicy) func(*engine.Config) {
	return func(c *engine.Config) { c.Queues = policies }
}

func (p *peer) enqueue(queue, functionID string, data any) *protocol.InvocationResult {
	p.t.Helper()
	id := uuid.NewString()
	p.send(&protocol.InvokeFunction{
		InvocationID: id, FunctionID: functionID, Data: raw(data), Traceparent: "00-trace",
		Action: &protocol.Action{Type: protocol.ActionEnqueue, Queue: queue},
	})
	return p.answerTo(id)
}

// topicStats are the numbers of engine::queue::topic_stats.
func (p *peer) topicStats(topic string) (depth, consumers, dead int) {
	p.t.Helper()
	var stats struct {
		Depth     int
		Consumers int `json:"consumer_count"`
		Dead      int `json:"dlq_depth"`
	}
	parse(p.t, p.call("engine::queue::topic_stats", map[string]string{"topic": topic}).Result, &stats)
	return stats.Depth, stats.Consumers, stats.Dead
}

func TestEngine_queueDeliversInOrder(t *testing.T) {
	e := startEngine(t, withQueues(map[string]engine.QueuePolicy{"q": {Type: "fifo"}}))
	worker, caller := connect(t, e, "worker"), connect(t, e, "caller")
	worker.register("f::x")
	got := make(chan string, 10)
	worker.serve("f::x", func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		got <- string(m.Data) + m.Traceparent
		return nil, nil
	})
	receipts := map[string]bool{}
	for i := range 5 {
		var receipt struct{ MessageReceiptID string }
		parse(t, caller.enqueue("q", "f::x", i).Result, &receipt)
		receipts[receipt.MessageReceiptID] = true
	}
	for i := range 5 {
		if want := fmt.Sprint(i, "00-trace"); <-got != want {
			t.Errorf("message %d is out of order", i)
		}
	}
	if receipts[""] || len(receipts) != 5 {
		t.Errorf("receipts %v", receipts)
	}
	eventually(t, "the queue to be empty", func() bool { depth, _, _ := caller.topicStats("q"); return depth == 0 })
}

func TestEngine_queueRetriesInOrder(t *testing.T) {
	e := startEngine(t, withQueues(map[string]engine.QueuePolicy{"q": {Type: "fifo", BackoffDelayMs: 1}}))
	worker := connect(t, e, "worker")
	worker.register("f::x")
	got := make(chan string, 10)
	var tries atomic.Int32
	worker.serve("f::x", func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		got <- string(m.Data)
		if tries.Add(1) <= 2 {
			return nil, &protocol.ErrorBody{Code: "busy", Message: "not now"}
		}
		return nil, nil
	})
	caller := connect(t, e, "caller")
	caller.enqueue("q", "f::x", 1)
	caller.enqueue("q", "f::x", 2)
	for _, want := range []string{"1", "1", "1", "2"} {
		if message := <-got; message != want {
			t.Errorf("got %s, want %s", message, want)
		}
	}
}

func TestEngine_queueBoundsItsConcurrency(t *testing.T) {
	e := startEngine(t, withQueues(map[string]engine.QueuePolicy{"q": {Concurrency: 2}}))
	worker, caller := connect(t, e, "worker"), connect(t, e, "caller")
	worker.register("f::x")
	for i := range 4 {
		caller.enqueue("q", "f::x", i)
	}
	first, second := next[*protocol.InvokeFunction](worker), next[*protocol.InvokeFunction](worker)
	if depth, _, _ := caller.topicStats("q"); depth != 4 {
		t.Errorf("depth is %d", depth)
	}
	worker.send(&protocol.Ping{})
	if m := next[protocol.Message](worker); m.MessageType() != protocol.TypePong {
		t.Errorf("a third message came: %T", m)
	}
	for _, m := range []*protocol.InvokeFunction{first, second} {
		worker.send(&protocol.InvocationResult{InvocationID: m.InvocationID, FunctionID: m.FunctionID})
	}
	next[*protocol.InvokeFunction](worker)
	next[*protocol.InvokeFunction](worker)
}

func TestEngine_durableTopicFansOut(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	for _, f := range []string{"f::a", "f::b"} {
		p.register(f)
		p.bind("t-"+f, "durable:subscriber", f, map[string]any{"topic": "news"})
	}
	eventually(t, "both subscribers", func() bool { _, consumers, _ := p.topicStats("news"); return consumers == 2 })
	if got := string(p.call("iii::durable::publish", map[string]any{"topic": "news", "data": "x"}).Result); got != "" {
		t.Errorf("publish answered %s", got)
	}
	got := map[string]string{}
	for range 2 {
		m := next[*protocol.InvokeFunction](p)
		got[m.FunctionID] = string(m.Data)
		p.send(&protocol.InvocationResult{InvocationID: m.InvocationID, FunctionID: m.FunctionID})
	}
	if diff := cmp.Diff(map[string]string{"f::a": `"x"`, "f::b": `"x"`}, got); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
}

func TestEngine_durableTopicWaitsForItsSubscriber(t *testing.T) {
	e := startEngine(t)
	publisher := connect(t, e, "publisher")
	publisher.call("iii::durable::publish", map[string]any{"topic": "news", "data": "early"})
	first := connect(t, e, "subscriber")
	first.register("f::x")
	first.bind("t1", "durable:subscriber", "f::x", map[string]any{"topic": "news", "queue_config": impatient})
	if got := string(next[*protocol.InvokeFunction](first).Data); got != `"early"` {
		t.Errorf("got %s", got)
	}
	// The subscriber goes while it has the message, which its next one gets.
	_ = first.socket.CloseNow()
	eventually(t, "the subscriber to be gone", func() bool { _, consumers, _ := publisher.topicStats("news"); return consumers == 0 })
	second := connect(t, e, "subscriber")
	second.register("f::x")
	second.bind("t2", "durable:subscriber", "f::x", map[string]any{"topic": "news", "queue_config": impatient})
	if got := string(next[*protocol.InvokeFunction](second).Data); got != `"early"` {
		t.Errorf("got %s", got)
	}
}

func TestEngine_durableTopicAsksItsCondition(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	p.register("f::x")
	p.register("f::odd")
	p.serve("f::odd", func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		return raw(string(m.Data) != "2"), nil
	})
	p.bind("t1", "durable:subscriber", "f::x", map[string]any{
		"topic": "news", "condition_function_id": "f::odd", "queue_config": map[string]any{"type": "fifo"},
	})
	for _, n := range []int{2, 3} {
		p.call("iii::durable::publish", map[string]any{"topic": "news", "data": n})
	}
	if got := string(next[*protocol.InvokeFunction](p).Data); got != "3" {
		t.Errorf("got %s", got)
	}
}

// deadLetters fails all messages of a topic until they are dead letters, and
// returns their ids.
func (p *peer) deadLetters(topic string, n int) []string {
	p.t.Helper()
	p.register("f::fail")
	p.serve("f::fail", func(*protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		return nil, &protocol.ErrorBody{Code: "broken", Message: "never works"}
	})
	p.bind("t-"+topic, "durable:subscriber", "f::fail", map[string]any{"topic": topic, "queue_config": impatient})
	for i := range n {
		p.call("iii::durable::publish", map[string]any{"topic": topic, "data": i})
	}
	eventually(p.t, "dead letters", func() bool { _, _, dead := p.topicStats(topic); return dead == n })
	var rows []struct {
		ID, Error string
		Retries   int
		Payload   int
		FailedAt  int64 `json:"failed_at"`
		SizeBytes int   `json:"size_bytes"`
	}
	parse(p.t, p.call("engine::queue::dlq_messages", map[string]any{"topic": topic}).Result, &rows)
	var ids []string
	for _, r := range rows {
		if r.Error != "broken: never works" || r.Retries != 3 || r.FailedAt == 0 || r.SizeBytes != 1 {
			p.t.Errorf("dead letter %+v", r)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

func TestEngine_deadLetters(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	ids := p.deadLetters("news", 3)
	if got := string(p.call("engine::queue::dlq_topics", nil).Result); got != `[{"topic":"news","broker_type":"memory","message_count":3}]` {
		t.Errorf("topics %s", got)
	}
	if got := string(p.call("engine::queue::list_topics", nil).Result); got != `[{"name":"news","broker_type":"memory","subscriber_count":1}]` {
		t.Errorf("topics %s", got)
	}
	var page []any
	parse(t, p.call("engine::queue::dlq_messages", map[string]any{"queue": "news", "offset": 2, "limit": 5}).Result, &page)
	if len(page) != 1 {
		t.Errorf("the last page has %d rows", len(page))
	}
	p.serve("f::fail", echo)
	for _, step := range []struct {
		function string
		data     map[string]string
		want     string
		wantDead int
	}{
		{"iii::queue::discard_message", map[string]string{"topic": "news", "message_id": ids[0]}, `{"message_id":"` + ids[0] + `","queue":"news","redriven":1}`, 2},
		{"iii::queue::discard_message", map[string]string{"topic": "news", "message_id": ids[0]}, `{"message_id":"` + ids[0] + `","queue":"news","redriven":0}`, 2},
		{"iii::queue::redrive_message", map[string]string{"queue": "news", "message_id": ids[1]}, `{"message_id":"` + ids[1] + `","queue":"news","redriven":1}`, 1},
		{"iii::queue::redrive", map[string]string{"queue": "news"}, `{"queue":"news","redriven":1}`, 0},
	} {
		if got := string(p.call(step.function, step.data).Result); got != step.want {
			t.Errorf("%s: got %s, want %s", step.function, got, step.want)
		}
		eventually(t, "the rest to be dead or done", func() bool {
			depth, _, dead := p.topicStats("news")
			return depth == 0 && dead == step.wantDead
		})
	}
}

func TestEngine_queueErrors(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	for name, tc := range map[string]struct {
		function string
		data     map[string]any
		want     string
	}{
		"a topic is required":        {"iii::durable::publish", map[string]any{"data": 1}, protocol.CodeTopicNotSet},
		"a queue is required":        {"iii::queue::redrive", nil, protocol.CodeQueueNotSet},
		"a message is required":      {"iii::queue::redrive_message", map[string]any{"queue": "q"}, protocol.CodeMessageIDNotSet},
		"a target is required":       {"engine::queue::enqueue", map[string]any{"queue": "q"}, protocol.CodeQueueNotSet},
		"a blank namespace":          {"engine::queue::enqueue", map[string]any{"queue": "q", "function_id": "f", "namespace": " "}, protocol.CodeInvalidNamespace},
		"a topic of the wrong type":  {"engine::queue::topic_stats", map[string]any{"topic": 1}, protocol.CodeDeserializationError},
		"dead letters need a topic":  {"engine::queue::dlq_messages", nil, protocol.CodeTopicNotSet},
		"discarding needs a message": {"iii::queue::discard_message", map[string]any{"queue": "q"}, protocol.CodeMessageIDNotSet},
	} {
		t.Run(name, func(t *testing.T) {
			if got := codeOf(p.call(tc.function, tc.data)); got != tc.want {
				t.Errorf("code %q, want %q", got, tc.want)
			}
		})
	}
	p.bind("t1", "durable:subscriber", "f::x", map[string]any{"topic": "x", "queue_config": map[string]any{"type": "heap"}})
	if got := next[*protocol.TriggerRegistrationResult](p); got.Error.Code != protocol.CodeTriggerRegistrationFailed {
		t.Errorf("got %+v", got.Error)
	}
}

func TestEngine_queueIsNoWayAroundForbidden(t *testing.T) {
	e := startEngine(t, withGuests(engine.Policy{
		ForbiddenFunctions: []string{"sandbox::*"}, ExposeFunctions: []string{"engine::queue::enqueue", "shop::*"},
	}))
	guest := dial(t, e.URL("guests"), nil)
	guest.greeted()
	guest.identify("guest")
	for _, target := range []string{"sandbox::create", "other"} {
		if got := codeOf(guest.call("engine::queue::enqueue", map[string]any{"queue": "q", "function_id": target})); got != protocol.CodeForbidden {
			t.Errorf("%s: code %q", target, got)
		}
	}
	if got := codeOf(guest.call("engine::queue::enqueue", map[string]any{"queue": "q", "function_id": "shop::x"})); got != "" {
		t.Errorf("code %q", got)
	}
}
