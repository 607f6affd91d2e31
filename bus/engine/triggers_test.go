package engine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

// provide makes the peer the provider of a type and waits until it is known.
func (p *peer) provide(triggerType string) {
	p.t.Helper()
	p.send(&protocol.RegisterTriggerType{ID: triggerType, Description: "test"})
	eventually(p.t, triggerType+" to be known", func() bool {
		return codeOf(p.call(protocol.FunctionTriggersInfo, map[string]string{"id": triggerType})) == ""
	})
}

func (p *peer) bind(id, triggerType, functionID string, config any) {
	p.send(&protocol.RegisterTrigger{ID: id, TriggerType: triggerType, FunctionID: functionID, Config: raw(config)})
}

func (p *peer) accept(m *protocol.RegisterTrigger) {
	p.send(&protocol.TriggerRegistrationResult{ID: m.ID, TriggerType: m.TriggerType, FunctionID: m.FunctionID})
}

func TestEngine_triggerIsParkedUntilItsProviderComes(t *testing.T) {
	e := startEngine(t)
	consumer := connect(t, e, "consumer")
	consumer.send(&protocol.RegisterTrigger{
		ID: "t1", TriggerType: "mailbox", FunctionID: "in::mail", Config: raw(map[string]string{"box": "in"}),
		Metadata: raw(map[string]int{"n": 1}),
	})
	if got := consumer.triggerIDs("mailbox"); len(got) != 0 {
		t.Fatalf("a parked trigger is listed: %v", got)
	}
	want := &protocol.RegisterTrigger{
		ID: "t1", TriggerType: "mailbox", FunctionID: "in::mail",
		Config: json.RawMessage(`{"box":"in"}`), Metadata: json.RawMessage(`{"n":1}`),
	}
	for _, name := range []string{"provider", "provider after a restart"} {
		provider := connect(t, e, name)
		provider.provide("mailbox")
		if diff := cmp.Diff(want, next[*protocol.RegisterTrigger](provider)); diff != "" {
			t.Errorf("%s got (-want +got):\n%s", name, diff)
		}
		if got := consumer.triggerIDs("mailbox"); !cmp.Equal(got, []string{"t1"}) {
			t.Errorf("triggers %v", got)
		}
		_ = provider.socket.CloseNow()
		eventually(t, "the trigger to be parked", func() bool { return len(consumer.triggerIDs("mailbox")) == 0 })
	}
}

func TestEngine_newProviderTakesOver(t *testing.T) {
	e := startEngine(t)
	consumer, old, young := connect(t, e, "consumer"), connect(t, e, "old"), connect(t, e, "young")
	old.provide("mailbox")
	consumer.bind("t1", "mailbox", "in::mail", nil)
	next[*protocol.RegisterTrigger](old)
	young.send(&protocol.RegisterTriggerType{ID: "mailbox", Description: "test"})
	next[*protocol.RegisterTrigger](young)
	if got := next[*protocol.UnregisterTrigger](old); got.ID != "t1" || got.TriggerType != "mailbox" {
		t.Errorf("the old provider got %+v", got)
	}
}

func TestEngine_lostConsumerUnregistersOnce(t *testing.T) {
	e := startEngine(t)
	consumer, provider := connect(t, e, "consumer"), connect(t, e, "provider")
	provider.provide("mailbox")
	consumer.bind("t1", "mailbox", "in::mail", nil)
	next[*protocol.RegisterTrigger](provider)
	_ = consumer.socket.CloseNow()
	next[*protocol.UnregisterTrigger](provider)
	provider.send(&protocol.Ping{})
	if first := next[protocol.Message](provider); first.MessageType() != protocol.TypePong {
		t.Errorf("provider got %+v as well", first)
	}
}

func TestEngine_providerRefuses(t *testing.T) {
	e := startEngine(t)
	consumer, provider, stranger := connect(t, e, "consumer"), connect(t, e, "provider"), connect(t, e, "stranger")
	provider.provide("mailbox")
	consumer.bind("t1", "mailbox", "in::mail", nil)
	next[*protocol.RegisterTrigger](provider)
	answer := &protocol.TriggerRegistrationResult{
		ID: "t1", TriggerType: "mailbox", FunctionID: "in::mail",
		Error: &protocol.ErrorBody{Code: protocol.CodeTriggerRegistrationFailed, Message: "mailbox unknown"},
	}
	stranger.send(answer)
	if got := stranger.triggerIDs("mailbox"); len(got) != 1 {
		t.Fatalf("a stranger's refusal counts: %v", got)
	}
	provider.send(answer)
	if diff := cmp.Diff(answer, next[*protocol.TriggerRegistrationResult](consumer)); diff != "" {
		t.Errorf("consumer got (-want +got):\n%s", diff)
	}
	if got := consumer.triggerIDs("mailbox"); len(got) != 0 {
		t.Errorf("a refused trigger is listed: %v", got)
	}
}

func TestEngine_builtinTypesRefuseBadConfig(t *testing.T) {
	e := startEngine(t, withHTTP)
	p := connect(t, e, "p")
	for name, tc := range map[string]struct {
		triggerType string
		config      any
		want        string
	}{
		"cron needs six fields":            {"cron", map[string]string{"expression": "* * * * *"}, "expression"},
		"subscribe needs a topic":          {"subscribe", map[string]string{}, "topic"},
		"http needs a path":                {"http", map[string]string{"http_method": "GET"}, "api_path"},
		"http knows seven methods":         {"http", map[string]string{"api_path": "/x", "http_method": "BREW"}, "BREW"},
		"a config of the wrong type fails": {"cron", "text", "config"},
	} {
		t.Run(name, func(t *testing.T) {
			p.bind(uuid.NewString(), tc.triggerType, "f::x", tc.config)
			got := next[*protocol.TriggerRegistrationResult](p)
			if got.Error == nil || got.Error.Code != protocol.CodeTriggerRegistrationFailed || !strings.Contains(got.Error.Message, tc.want) {
				t.Errorf("got %+v", got.Error)
			}
			if ids := p.triggerIDs(tc.triggerType); len(ids) != 0 {
				t.Errorf("triggers %v", ids)
			}
		})
	}
}

func TestEngine_cronFires(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	p.register("f::tick")
	p.bind("t1", "cron", "f::tick", map[string]string{"expression": "* * * * * *"})
	for range 2 {
		var got map[string]string
		parse(t, next[*protocol.InvokeFunction](p).Data, &got)
		scheduled, err := time.Parse(time.RFC3339, got["scheduled_time"])
		if err != nil || scheduled.Nanosecond() != 0 || got["trigger"] != "cron" || got["job_id"] != "t1" {
			t.Errorf("payload %v (%v)", got, err)
		}
	}
	p.send(&protocol.UnregisterTrigger{ID: "t1"})
	if got := p.triggerIDs("cron"); len(got) != 0 {
		t.Errorf("triggers %v", got)
	}
}

func TestEngine_publishReachesSubscribersWhoseConditionHolds(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	for _, f := range []string{"f::all", "f::some", "f::if"} {
		p.register(f)
	}
	p.serve("f::if", func(m *protocol.InvokeFunction) (json.RawMessage, *protocol.ErrorBody) {
		var data struct{ N int }
		_ = json.Unmarshal(m.Data, &data)
		return raw(data.N > 1), nil
	})
	p.send(&protocol.RegisterTrigger{
		ID: "t1", TriggerType: "subscribe", FunctionID: "f::all", Config: raw(map[string]string{"topic": "news"}), Metadata: raw("m"),
	})
	p.bind("t2", "subscribe", "f::some", map[string]string{"topic": "news", "condition_function_id": "f::if"})
	for n := range 3 {
		if got := string(p.call("publish", map[string]any{"topic": "news", "data": map[string]int{"n": n}}).Result); got != "" {
			t.Errorf("publish answers %s", got)
		}
	}
	isFor := func(id string) func(*protocol.InvokeFunction) bool {
		return func(m *protocol.InvokeFunction) bool { return m.FunctionID == id }
	}
	for range 3 {
		if got := nextWhere(p, isFor("f::all")); string(got.Metadata) != `"m"` {
			t.Errorf("metadata %s", got.Metadata)
		}
	}
	if got := nextWhere(p, isFor("f::some")); string(got.Data) != `{"n":2}` {
		t.Errorf("data %s", got.Data)
	}
}

func TestEngine_registerTriggerFunction(t *testing.T) {
	e := startEngine(t)
	maker, provider := connect(t, e, "maker"), connect(t, e, "provider")
	provider.provide("mailbox")
	request := map[string]any{"trigger_type": "mailbox", "function_id": "in::mail", "config": map[string]int{"n": 1}}

	accepted := maker.start(protocol.FunctionRegisterTrigger, request)
	provider.accept(next[*protocol.RegisterTrigger](provider))
	var made struct{ ID string }
	parse(t, maker.answerTo(accepted).Result, &made)

	refused := maker.start(protocol.FunctionRegisterTrigger, request)
	asked := next[*protocol.RegisterTrigger](provider)
	provider.send(&protocol.TriggerRegistrationResult{
		ID: asked.ID, TriggerType: "mailbox", FunctionID: "in::mail", Error: &protocol.ErrorBody{Code: "x", Message: "no"},
	})
	if got := codeOf(maker.answerTo(refused)); got != protocol.CodeTriggerRegistrationFailed {
		t.Errorf("code %q", got)
	}

	_ = maker.socket.CloseNow()
	eventually(t, "the maker to be gone", func() bool { return len(provider.workerNames()) == 1 })
	if got := provider.triggerIDs("mailbox"); !cmp.Equal(got, []string{made.ID}) {
		t.Errorf("triggers %v, want %s", got, made.ID)
	}
	for _, want := range []string{`{"removed":true}`, `{"removed":false}`} {
		if got := string(provider.call(protocol.FunctionUnregisterTrigger, map[string]string{"id": made.ID}).Result); got != want {
			t.Errorf("answer %s, want %s", got, want)
		}
	}
	next[*protocol.UnregisterTrigger](provider)
}

func TestEngine_workersAvailable(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	p.register("f::watch")
	p.bind("t1", "engine::workers-available", "f::watch", map[string]any{})
	p.call(protocol.FunctionWorkersList, nil)
	other := connect(t, e, "other")
	_ = other.socket.CloseNow()
	for _, event := range []string{"worker_connected", "worker_metadata_updated", "worker_disconnected"} {
		want := `"event":"` + event + `","worker_id":"` + other.id + `"`
		nextWhere(p, func(m *protocol.InvokeFunction) bool { return strings.Contains(string(m.Data), want) })
	}
}

func TestEngine_functionsAvailable(t *testing.T) {
	e := startEngine(t, func(c *engine.Config) { c.FunctionsPoll = 20 * time.Millisecond })
	p := connect(t, e, "p")
	p.register("f::watch")
	p.bind("t1", "engine::functions-available", "f::watch", map[string]any{})
	p.send(&protocol.RegisterFunction{ID: "f::new"})
	nextWhere(p, func(m *protocol.InvokeFunction) bool {
		text := string(m.Data)
		return strings.Contains(text, `"event":"functions_changed"`) && strings.Contains(text, `"function_id":"f::new"`)
	})
	p.send(&protocol.UnregisterFunction{ID: "f::new"})
	nextWhere(p, func(m *protocol.InvokeFunction) bool { return !strings.Contains(string(m.Data), `"f::new"`) })
}

func TestEngine_blankTriggerNamespace(t *testing.T) {
	e := startEngine(t, func(c *engine.Config) { c.NamespaceGrace = time.Hour })
	p := connect(t, e, "p")
	blank := ""
	p.send(&protocol.RegisterTrigger{ID: "t1", TriggerType: "cron", FunctionID: "f", Config: raw(1), Namespace: &blank})
	if got := next[*protocol.TriggerRegistrationResult](p); got.Error.Code != protocol.CodeInvalidNamespace {
		t.Errorf("code %q", got.Error.Code)
	}
}
