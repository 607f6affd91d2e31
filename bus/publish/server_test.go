package publish

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
	"github.com/sandbox-operator/sandbox-operator/sandbox/fake"
)

func TestServe_passesBytesThrough(t *testing.T) {
	w := newCallWorld(t)
	w.boot("0")
	const payload, result = `{"b":1e2, "a":"<é>"}`, `{"z":10000000000000000001, "a" : [1.0]}`
	var got atomic.Pointer[wire.CallRequest]
	// A reply whose result keeps its spaces, as the agent passes them on.
	body := []byte(`{"result":` + result + `}`)
	sum := sha256.Sum256(body)
	frame := fmt.Appendf(nil, "SANDBOX-AGENT-REPLY/1 %d %x\n%s", len(body), sum, body)
	w.provider.OnExec(func(_ context.Context, _ sandbox.Info, req sandbox.ExecRequest) (sandbox.ExecResult, error) {
		var call wire.CallRequest
		if err := json.Unmarshal(req.Stdin, &call); err != nil {
			t.Error(err)
		}
		got.Store(&call)
		return sandbox.ExecResult{Stdout: frame}, nil
	})
	answer, err := w.call(t, payload)
	if err != nil {
		t.Fatal(err)
	}
	if string(answer) != result {
		t.Errorf("the result is %s, want %s", answer, result)
	}
	call := got.Load()
	if compact(t, call.Payload) != compact(t, []byte(payload)) || call.SourceDigest != "d" || call.Handler != "handler" ||
		call.Context.FunctionID != "shop::price" || !strings.HasPrefix(call.WorkerName, "sandbox-code-runner:shop::price:") {
		t.Errorf("the agent got %+v", call)
	}
	if left := time.Until(time.UnixMilli(call.Context.DeadlineMs)); left <= 0 || left > patience {
		t.Errorf("the handler is told of a deadline in %s", left)
	}
	w.idle(t)
}

func compact(t *testing.T, raw []byte) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, raw); err != nil {
		t.Error(err)
	}
	return out.String()
}

func TestServe_failures(t *testing.T) {
	reply := func(f *wire.Failure) func() (wire.Reply, error) {
		return func() (wire.Reply, error) { return wire.Reply{Error: f}, nil }
	}
	for name, tc := range map[string]struct {
		agent     func() (wire.Reply, error)
		want      string
		wantStack string
	}{
		"a handler that throws": {
			agent: reply(&wire.Failure{Kind: wire.Thrown, Type: "TypeError", Message: "no price", Stack: "at line 3"}),
			want:  "handler error: sandbox-code-runner::handler_error: TypeError: no price", wantStack: "at line 3",
		},
		"a handler past its deadline": {
			agent: reply(&wire.Failure{Kind: wire.TimedOut, Type: "TimedOut", Message: "5000 ms"}),
			want:  "handler error: sandbox-code-runner::timeout: the call passed its deadline",
		},
		"a result that is too large": {
			agent: reply(wire.Failf(wire.ResultTooLarge, "9 MiB")),
			want:  "handler error: sandbox-code-runner::resource_exhausted: 9 MiB",
		},
		"an agent that fails": {
			agent: reply(wire.Failf(wire.Internal, "no space")),
			want:  "handler error: sandbox-code-runner::engine: Internal: no space",
		},
		"an exec past its deadline": {
			agent: func() (wire.Reply, error) { return wire.Reply{}, sandbox.NewTimeoutError(time.Second) },
			want:  "handler error: sandbox-code-runner::timeout: the call passed its deadline",
		},
		"a guest that died under the call": {
			agent: func() (wire.Reply, error) {
				return wire.Reply{}, sandbox.NewTransientError("S300", "the guest has ended")
			},
			want: "handler error: sandbox-code-runner::engine: the sandbox was lost during the call; the handler may have run",
		},
		"an answer that was lost": {
			agent: func() (wire.Reply, error) {
				return wire.Reply{}, sandbox.NewUnknownOutcomeError(errors.New("connection lost"))
			},
			want: "handler error: sandbox-code-runner::engine: the sandbox was lost during the call; the handler may have run",
		},
		// contracts/code-runner.md §19 X18
		"a bus that gave no answer in time": {
			agent: func() (wire.Reply, error) {
				return wire.Reply{}, sandbox.NewUnknownOutcomeError(&bus.TimeoutError{FunctionID: "sandbox::exec", After: time.Second})
			},
			want: "handler error: sandbox-code-runner::timeout: the call passed its deadline",
		},
		"a daemon that is away": {
			agent: func() (wire.Reply, error) {
				return wire.Reply{}, sandbox.NewUnavailableError(errors.New("not connected"))
			},
			want: "handler error: sandbox-code-runner::engine: the sandbox daemon cannot be reached: not connected",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCallWorld(t)
			w.boot("0")
			var calls atomic.Int32
			w.answers(t, func(context.Context, wire.CallRequest) (wire.Reply, error) {
				calls.Add(1)
				return tc.agent()
			})
			_, err := w.call(t, `{}`)
			var remote *bus.RemoteError
			if !errors.As(err, &remote) {
				t.Fatalf("the error is %v, want a RemoteError", err)
			}
			if remote.Code != "invocation_failed" || remote.Message != tc.want || remote.Stacktrace != tc.wantStack {
				t.Errorf("the caller sees %+v, want %q", remote, tc.want)
			}
			if calls.Load() != 1 {
				t.Errorf("the handler was called %d times", calls.Load())
			}
			w.idle(t)
		})
	}
}

func TestServe_unknownFunction(t *testing.T) {
	w := newCallWorld(t)
	_, err := w.Serve(t.Context(), bus.Invocation{FunctionID: "shop::other"})
	if err == nil || !strings.Contains(err.Error(), "sandbox-code-runner::expired: no live runtime") {
		t.Errorf("an unknown function: %v", err)
	}
}

func TestServe_repeatsWhatWasRefusedBeforeItBegan(t *testing.T) {
	for name, tc := range map[string]struct {
		refuse func(w *callWorld, refused sandbox.ID)
		// heal is what the controllers do about it.
		heal           func(w *callWorld)
		wantLost       int
		wantAdditional int
	}{
		"a sandbox that is gone": {
			refuse:   func(w *callWorld, refused sandbox.ID) { w.provider.Lose(refused) },
			heal:     func(w *callWorld) { w.boot("1") },
			wantLost: 1,
		},
		"a sandbox that is busy": {
			refuse: func(w *callWorld, _ sandbox.ID) { w.provider.NextExecErr(sandbox.NewBusyError()) },
			heal:   func(*callWorld) {},
		},
		"a source that is not there": {
			refuse: func(w *callWorld, _ sandbox.ID) {
				w.provider.NextExecErr(wire.Failf(wire.NotPlanted, "no such source"))
			},
			heal: func(w *callWorld) {
				w.table.MarkPlanted(shop, w.table.Unplanted(shop, "d")[0], "d")
			},
			wantAdditional: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCallWorld(t)
			refused := w.boot("0")
			w.answers(t, func(context.Context, wire.CallRequest) (wire.Reply, error) {
				return wire.Reply{Result: []byte(`"ok"`)}, nil
			})
			tc.refuse(w, refused)
			_, addedBefore, _ := w.told.counts()
			results := make(chan error, 1)
			go func() {
				result, err := w.Serve(t.Context(), bus.Invocation{FunctionID: "shop::price"})
				if err == nil && string(result) != `"ok"` {
					err = errors.New(string(result))
				}
				results <- err
			}()
			eventually(t, "the refusal", func() bool { return len(w.provider.Calls(fake.Exec)) > 0 })
			if tc.wantLost+tc.wantAdditional > 0 {
				eventually(t, "the call to wait", func() bool { return waiting(w.table) == 1 })
				_, added, lost := w.told.counts()
				if lost != tc.wantLost || added-addedBefore != tc.wantAdditional {
					t.Errorf("told of %d losses and %d gaps, want %d and %d", lost, added-addedBefore, tc.wantLost, tc.wantAdditional)
				}
			}
			tc.heal(w)
			select {
			case err := <-results:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(patience):
				t.Fatal("no answer")
			}
			w.idle(t)
		})
	}
}

func TestServe_deadlineCoversTheWait(t *testing.T) {
	w := newCallWorld(t)
	binding, _ := w.table.Binding("shop::price")
	binding.Timeout = 30 * time.Millisecond
	w.table.Bind(binding)
	_, err := w.call(t, `{}`)
	if err == nil || !strings.Contains(err.Error(), "::timeout: ") {
		t.Errorf("a call that never had a sandbox: %v", err)
	}
	w.boot("0")
	w.provider.OnExec(func(ctx context.Context, _ sandbox.Info, _ sandbox.ExecRequest) (sandbox.ExecResult, error) {
		<-ctx.Done()
		return sandbox.ExecResult{}, sandbox.NewUnknownOutcomeError(ctx.Err())
	})
	if _, err = w.call(t, `{}`); err == nil || !strings.Contains(err.Error(), "::timeout: ") {
		t.Errorf("a call whose sandbox does not answer: %v", err)
	}
	if left := waiting(w.table); left != 0 {
		t.Errorf("%d calls still wait", left)
	}
	w.idle(t)
}

func TestServe_fullQueue(t *testing.T) {
	w := newCallWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range maxWaiting {
		go func() { _, _ = w.Serve(ctx, bus.Invocation{FunctionID: "shop::price"}) }()
	}
	eventually(t, "the queue to fill", func() bool { return waiting(w.table) == maxWaiting })
	_, err := w.call(t, `{}`)
	if err == nil || !strings.Contains(err.Error(), "sandbox-code-runner::capacity: ") {
		t.Errorf("one call too many: %v", err)
	}
}

func TestServe_largePayloadsAndResults(t *testing.T) {
	w := newCallWorld(t)
	id := w.boot("0")
	large := []byte(`"` + strings.Repeat("x", 2<<20) + `"`)
	const file = "/sandbox-operator/results/1"
	err := w.provider.WriteFile(t.Context(), id, sandbox.WriteFileRequest{
		Path: file, Content: bytes.NewReader(large), Size: int64(len(large)),
	})
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(large)
	w.answers(t, func(context.Context, wire.CallRequest) (wire.Reply, error) {
		return wire.Reply{ResultFile: &wire.ResultFile{Path: file, Size: int64(len(large)), SHA256: hex.EncodeToString(sum[:])}}, nil
	})
	result, err := w.call(t, string(large))
	if err != nil || !bytes.Equal(result, large) {
		t.Fatalf("the result has %d bytes, %v; want %d", len(result), err, len(large))
	}
	execs := w.provider.Calls(fake.Exec)
	if len(execs) != 2 || execs[1].Exec.Argv[1] != wire.CommandDiscard {
		t.Fatalf("the result file was not discarded: %d execs", len(execs))
	}
	argv := execs[0].Exec.Argv
	if len(execs[0].Exec.Stdin) != 0 || len(argv) != 4 || argv[2] != "--request-file" {
		t.Fatalf("the request went by %v with %d bytes of input", argv[1:], len(execs[0].Exec.Stdin))
	}
	written, there := w.provider.File(id, argv[3])
	var call wire.CallRequest
	if err := json.Unmarshal(written, &call); !there || err != nil || !bytes.Equal(call.Payload, large) {
		t.Errorf("the request file holds %d bytes of payload, %v", len(call.Payload), err)
	}
	w.idle(t)
}

// TestServe_resultThatVanished has a sandbox that goes between the handler's end
// and the fetch of its result: the handler has run and must not run again.
func TestServe_resultThatVanished(t *testing.T) {
	w := newCallWorld(t)
	w.boot("0")
	w.boot("1")
	w.answers(t, func(context.Context, wire.CallRequest) (wire.Reply, error) {
		return wire.Reply{ResultFile: &wire.ResultFile{Path: "/r", Size: 1, SHA256: "x"}}, nil
	})
	w.provider.FailNext(fake.ReadFile, sandbox.NewNotFoundError())
	_, err := w.call(t, `{}`)
	if err == nil || !strings.Contains(err.Error(), "::engine: fetching the result: ") {
		t.Errorf("the caller sees %v", err)
	}
	if calls := len(w.provider.Calls(fake.Exec)); calls != 1 {
		t.Errorf("the handler was called %d times", calls)
	}
	w.idle(t)
}

func TestServe_countsOutcomes(t *testing.T) {
	w := newCallWorld(t)
	registry := prometheus.NewRegistry()
	var err error
	if w.Metrics, err = NewMetrics(registry); err != nil {
		t.Fatal(err)
	}
	w.boot("0")
	w.answers(t, func(_ context.Context, call wire.CallRequest) (wire.Reply, error) {
		if string(call.Payload) == `"bad"` {
			return wire.Reply{Error: wire.Failf(wire.Thrown, "bad"), Start: "whatever a guest says"}, nil
		}
		return wire.Reply{Result: []byte(`1`), Start: wire.StartForked}, nil
	})
	for _, payload := range []string{`"good"`, `"bad"`, `"good"`} {
		_, _ = w.call(t, payload)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{
		"sandbox_function_calls_total/ok": 2, "sandbox_function_calls_total/handler_error": 1,
		"sandbox_function_process_starts_total/forked": 2,
		"sandbox_function_calls_in_flight":             0, "sandbox_function_call_duration_seconds": 3,
	}
	if _, there := metric(families, "sandbox_function_process_starts_total/whatever a guest says"); there {
		t.Error("a guest's words are a label")
	}
	for key, value := range want {
		if got, there := metric(families, key); !there || got != value {
			t.Errorf("%s is %v (%t), want %v", key, got, there, value)
		}
	}
}

func TestServe_warmth(t *testing.T) {
	for name, tc := range map[string]struct {
		warm      bool
		isolation wire.Isolation
	}{
		"cold":                                  {},
		"warm, a process per call":              {warm: true},
		"warm, with processes that calls share": {true, wire.Shared},
	} {
		t.Run(name, func(t *testing.T) {
			w := newCallWorld(t)
			w.Guest.Warm = tc.warm
			bound, _ := w.table.Binding("shop::price")
			bound.Isolation = tc.isolation
			w.table.Bind(bound)
			w.boot("0")
			var got atomic.Pointer[wire.CallRequest]
			w.answers(t, func(_ context.Context, call wire.CallRequest) (wire.Reply, error) {
				got.Store(&call)
				return wire.Reply{Result: []byte(`1`)}, nil
			})
			if _, err := w.call(t, `{}`); err != nil {
				t.Fatal(err)
			}
			if call := got.Load(); call.Warm != tc.warm || call.Isolation != tc.isolation {
				t.Errorf("the agent got warm %t and isolation %q", call.Warm, call.Isolation)
			}
		})
	}
}

// metric returns the value of name or name/outcome, for a histogram its count.
func metric(families []*dto.MetricFamily, key string) (float64, bool) {
	name, outcome, _ := strings.Cut(key, "/")
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() != name || outcome != "" && m.GetLabel()[0].GetValue() != outcome {
				continue
			}
			if h := m.GetHistogram(); h != nil {
				return float64(h.GetSampleCount()), true
			}
			return m.GetCounter().GetValue() + m.GetGauge().GetValue(), true
		}
	}
	return 0, false
}
