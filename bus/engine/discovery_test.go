package engine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
	"github.com/sandbox-operator/sandbox-operator/bus/protocol"
)

func TestEngine_functionsList(t *testing.T) {
	e := startEngine(t, withoutQueue)
	p, other := connect(t, e, "p"), connect(t, e, "other")
	p.send(&protocol.RegisterFunction{ID: "shop::price", Description: "what it costs"})
	p.send(&protocol.RegisterFunction{ID: "shop::hidden", Metadata: raw(map[string]bool{"internal": true})})
	other.register("zoo::shop")
	p.register("mail::send")
	for name, tc := range map[string]struct {
		filter map[string]any
		want   []string
	}{
		"all, by id": {nil, []string{
			"mail::send", "publish", "shop::price",
			"state::delete", "state::get", "state::list", "state::list_groups", "state::set", "state::update", "zoo::shop",
		}},
		"a prefix":                     {map[string]any{"prefix": "shop::"}, []string{"shop::price"}},
		"a worker":                     {map[string]any{"worker": "other"}, []string{"zoo::shop"}},
		"several workers":              {map[string]any{"workers": []string{"p", "other"}}, []string{"mail::send", "shop::price", "zoo::shop"}},
		"internal ones on demand":      {map[string]any{"prefix": "shop::", "include_internal": true}, []string{"shop::hidden", "shop::price"}},
		"a search, by relevance":       {map[string]any{"search": "SHOP"}, []string{"shop::price", "zoo::shop"}},
		"a search in the descriptions": {map[string]any{"search": "costs"}, []string{"shop::price"}},
	} {
		t.Run(name, func(t *testing.T) {
			var list struct {
				Functions []struct {
					ID string `json:"function_id"`
				}
			}
			parse(t, p.call(protocol.FunctionFunctionsList, tc.filter).Result, &list)
			got := []string{}
			for _, f := range list.Functions {
				got = append(got, f.ID)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("functions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEngine_functionsInfo(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	p.send(&protocol.RegisterFunction{ID: "f::x", RequestFormat: raw(map[string]string{"type": "object"}), ResponseFormat: raw(true)})
	p.bind("t1", "subscribe", "f::x", map[string]string{"topic": "a"})
	var batch struct{ Functions []json.RawMessage }
	parse(t, p.call(protocol.FunctionFunctionsInfo, map[string]any{"function_ids": []string{"f::x", "absent"}}).Result, &batch)
	want := []string{
		`{"function_id":"f::x","namespace":"default","worker_name":"p","request_schema":{"type":"object"},"response_schema":true,` +
			`"registered_triggers":[{"id":"t1","trigger_type":"subscribe","config":{"topic":"a"}}]}`,
		`{"error":"not_found","function_id":"absent"}`,
	}
	if len(batch.Functions) != len(want) {
		t.Fatalf("got %s", batch.Functions)
	}
	for i := range want {
		if diff := cmp.Diff(want[i], string(batch.Functions[i])); diff != "" {
			t.Errorf("entry %d (-want +got):\n%s", i, diff)
		}
	}
	for name, tc := range map[string]struct {
		request  map[string]any
		wantCode string
	}{
		"nothing asked":     {nil, protocol.CodeInvalidArguments},
		"both forms":        {map[string]any{"function_id": "a", "function_ids": []string{"b"}}, protocol.CodeInvalidArguments},
		"more than 32":      {map[string]any{"function_ids": make([]string, 33)}, protocol.CodeInvalidArguments},
		"an unknown one":    {map[string]any{"function_id": "absent"}, protocol.CodeNotFound},
		"another namespace": {map[string]any{"function_id": "f::x", "namespace": "team"}, protocol.CodeNotFound},
		"a blank namespace": {map[string]any{"function_id": "f::x", "namespace": " "}, protocol.CodeInvalidNamespace},
	} {
		t.Run(name, func(t *testing.T) {
			if got := codeOf(p.call(protocol.FunctionFunctionsInfo, tc.request)); got != tc.wantCode {
				t.Errorf("code %q, want %q", got, tc.wantCode)
			}
		})
	}
}

func TestEngine_triggerTypes(t *testing.T) {
	e := startEngine(t, withHTTP)
	p := connect(t, e, "p")
	p.provide("mailbox")
	var list struct{ Triggers []map[string]string }
	parse(t, p.call(protocol.FunctionTriggersList, nil).Result, &list)
	got := []string{}
	for _, row := range list.Triggers {
		got = append(got, fmt.Sprint(row["id"], " of ", row["worker_name"]))
	}
	want := []string{
		"cron of iii-engine", "durable:subscriber of iii-engine", "http of iii-engine", "mailbox of p",
		"state of iii-engine", "subscribe of iii-engine",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("types (-want +got):\n%s", diff)
	}
	var info struct {
		Schema    json.RawMessage `json:"configuration_schema"`
		Instances int             `json:"instance_count"`
	}
	p.bind("t1", "http", "f::x", map[string]string{"api_path": "/x"})
	parse(t, p.call(protocol.FunctionTriggersInfo, map[string]string{"id": "http"}).Result, &info)
	if info.Instances != 1 || !strings.Contains(string(info.Schema), "api_path") {
		t.Errorf("info %+v", info)
	}
}

// safeBuffer is a log that tests may read while it is written.
type safeBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestEngine_logsAreBoundedAndKeepSecrets(t *testing.T) {
	var log safeBuffer
	e := startEngine(t, func(c *engine.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	p := connect(t, e, "p")
	for _, level := range []string{"trace", "debug", "info", "warn", "error"} {
		if got := p.call("engine::log::"+level, map[string]string{"message": "at-" + level}); got.Error != nil || got.Result != nil {
			t.Errorf("%s: %+v", level, got)
		}
		if !strings.Contains(log.String(), "at-"+level) {
			t.Errorf("%s is not logged", level)
		}
	}
	before := len(log.String())
	p.call("engine::log::info", map[string]string{"message": strings.Repeat("x", 1<<20)})
	p.sendText(`{"type":"` + strings.Repeat("y", 1<<20) + `"}`)
	pair := p.channel(0)
	mustDialChannel(t, e, pair.Reader)
	if grown := len(log.String()) - before; grown > 10<<10 {
		t.Errorf("the log grew by %d bytes", grown)
	}
	for _, secret := range []string{p.token, pair.Reader.AccessKey} {
		if strings.Contains(log.String(), secret) {
			t.Error("the log has a secret")
		}
	}
}

func TestEngine_baggage(t *testing.T) {
	e := startEngine(t)
	p := connect(t, e, "p")
	for name, tc := range map[string]struct {
		function string
		request  any
		want     string
	}{
		"one entry":       {"engine::baggage::get", map[string]string{"key": "tenant"}, `"a b"`},
		"a missing one":   {"engine::baggage::get", map[string]string{"key": "absent"}, ``},
		"all entries":     {"engine::baggage::get_all", nil, `{"tenant":"a b"}`},
		"setting is fine": {"engine::baggage::set", map[string]string{"key": "k", "value": "v"}, ``},
	} {
		t.Run(name, func(t *testing.T) {
			id := uuid.NewString()
			p.send(&protocol.InvokeFunction{InvocationID: id, FunctionID: tc.function, Data: raw(tc.request), Baggage: "tenant=a%20b"})
			if got := p.answerTo(id); string(got.Result) != tc.want || got.Error != nil {
				t.Errorf("got %s %+v", got.Result, got.Error)
			}
		})
	}
}
