package shim

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
)

var runtimeIDForm = regexp.MustCompile(`^rt-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$`)

func TestRun_refusals(t *testing.T) {
	large := strings.Repeat("x", v1alpha1.MaxSourceBytes+1)
	wide := strings.Repeat("é", v1alpha1.MaxSourceBytes/2+1)
	cases := map[string]struct {
		payload any
		want    []string
	}{
		"payload is null":                      {`null`, []string{"invalid_request: the payload must be a JSON object"}},
		"payload is an array":                  {`[]`, []string{"invalid_request: the payload must be a JSON object"}},
		"code is missing":                      {`{"lang":"node"}`, []string{"invalid_request: code is missing"}},
		"a field name in another case is none": {`{"Code":"1","lang":"node"}`, []string{"invalid_request: code is missing"}},
		"code is null":                         {`{"code":null,"lang":"node"}`, []string{"invalid_request: code must be a string"}},
		"code is a number":                     {`{"code":1,"lang":"node"}`, []string{"invalid_request: code must be a string"}},
		"code is empty":                        {`{"code":"","lang":"node"}`, []string{"invalid_request: code is empty"}},
		"code is one byte too large":           {map[string]any{"code": large, "lang": "node"}, []string{"invalid_request", "1048577", "1048576"}},
		"size counts bytes, not characters":    {map[string]any{"code": wide, "lang": "node"}, []string{"invalid_request", "1048578"}},
		"lang is missing":                      {`{"code":"1"}`, []string{"invalid_request", "lang"}},
		"lang is null without an id":           {`{"code":"1","lang":null}`, []string{"invalid_request", "lang"}},
		"lang in upper case":                   {`{"code":"1","lang":"Node"}`, []string{"invalid_request: lang must be"}},
		"lang of another language":             {`{"code":"1","lang":"ruby"}`, []string{"invalid_request: lang must be"}},
		"keep is null":                         {`{"code":"1","lang":"node","keep":null}`, []string{"invalid_request: keep"}},
		"keep is a string":                     {`{"code":"1","lang":"node","keep":"true"}`, []string{"invalid_request: keep"}},
		"timeout is negative":                  {`{"code":"1","lang":"node","timeout_ms":-1}`, []string{"invalid_request: timeout_ms"}},
		"timeout has a fraction":               {`{"code":"1","lang":"node","timeout_ms":1.5}`, []string{"invalid_request: timeout_ms"}},
		"timeout is a string":                  {`{"code":"1","lang":"node","timeout_ms":"1"}`, []string{"invalid_request: timeout_ms"}},
		"runtime id is a number":               {`{"code":"1","runtime_id":7}`, []string{"invalid_request: runtime_id must be a string"}},
		"unknown runtime id":                   {`{"code":"1","runtime_id":"rt-nobody"}`, []string{"runtime_not_found: unknown runtime_id rt-nobody"}},
		"empty runtime id":                     {`{"code":"1","runtime_id":""}`, []string{"runtime_not_found: unknown runtime_id"}},
		"an empty code wins over an unknown id": {
			`{"code":"","runtime_id":"rt-nobody"}`, []string{"invalid_request: code is empty"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			wantText(t, w.callError("run", tc.payload), tc.want...)
			if diff := cmp.Diff([]string{}, w.wrote()); diff != "" {
				t.Errorf("a refused run wrote (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRun_once(t *testing.T) {
	w := newWorld(t)
	w.results.set(settle(Outcome{
		Stdout: "1,2,3\n<ok>", Stderr: "warn", ExitCode: 0, Success: true, Duration: 61*time.Millisecond + 900*time.Microsecond,
	}))
	response := w.mustCall("run", `{"code":"console.log(1)","lang":"node","network":false,"_caller_worker_id":"w"}`)
	want := map[string]any{"stdout": "1,2,3\n<ok>", "stderr": "warn", "exit_code": 0.0, "success": true, "duration_ms": 61.0}
	if diff := cmp.Diff(want, response); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	seen := w.results.all()[0]
	wantSpec := v1alpha1.SandboxRunSpec{
		Language:                v1alpha1.LanguageNode,
		Source:                  v1alpha1.RunSource{Inline: ptr.To("console.log(1)")},
		Runtime:                 &v1alpha1.GuestSpec{Network: v1alpha1.AccessEnabled, BusAccess: v1alpha1.AccessEnabled},
		TimeoutMilliseconds:     ptr.To[int32](5000),
		TTLSecondsAfterFinished: ptr.To[int32](60),
	}
	if diff := cmp.Diff(wantSpec, seen.spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(seen.name, "run-") || seen.labels[v1alpha1.OriginLabel] != v1alpha1.OriginBus {
		t.Errorf("name %q, labels %v", seen.name, seen.labels)
	}
	if diff := cmp.Diff([]string{"create run", "delete run"}, w.wrote()); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestRun_response(t *testing.T) {
	cases := map[string]struct {
		outcome Outcome
		want    map[string]any
	}{
		"a failing program is a response": {
			Outcome{Stderr: "boom", ExitCode: 1},
			map[string]any{"stdout": "", "stderr": "boom", "exit_code": 1.0, "success": false, "duration_ms": 0.0},
		},
		"a program that did not exit by itself": {
			Outcome{ExitCode: -1},
			map[string]any{"stdout": "", "stderr": "", "exit_code": -1.0, "success": false, "duration_ms": 0.0},
		},
		"success is copied, not computed": {
			Outcome{ExitCode: 0, Success: false},
			map[string]any{"stdout": "", "stderr": "", "exit_code": 0.0, "success": false, "duration_ms": 0.0},
		},
		"result, marks and stages": {
			Outcome{Success: true, Result: json.RawMessage(`{"n":1}`), TruncatedStderr: true,
				Timings: v1alpha1.RunTimings{QueueMilliseconds: 1, BootMilliseconds: 2, PlantMilliseconds: 3, ExecMilliseconds: 4, CleanupMilliseconds: 5}},
			map[string]any{"stdout": "", "stderr": "", "exit_code": 0.0, "success": true, "duration_ms": 0.0,
				"result": map[string]any{"n": 1.0}, "truncated": true,
				"timings": map[string]any{"queue_ms": 1.0, "boot_ms": 2.0, "plant_ms": 3.0, "exec_ms": 4.0, "cleanup_ms": 5.0}},
		},
		"a result that is not JSON is left out and marked": {
			Outcome{Success: true, Result: json.RawMessage(`{`)},
			map[string]any{"stdout": "", "stderr": "", "exit_code": 0.0, "success": true, "duration_ms": 0.0, "truncated": true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.results.set(settle(tc.outcome))
			if diff := cmp.Diff(tc.want, w.mustCall("run", `{"code":"1","lang":"python"}`)); diff != "" {
				t.Errorf("response (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRun_responseFitsTheBus(t *testing.T) {
	// Control characters need six bytes each, so 800 KiB become 4.7 MiB.
	w := newWorld(t)
	w.results.set(settle(Outcome{Stdout: "first" + strings.Repeat("\x01", 800<<10) + "last", Stderr: "kept", Success: true}))
	data, err := w.bus.handler("sandbox-code-runner::run")(t.Context(), bus.Invocation{Data: json.RawMessage(`{"code":"1","lang":"node"}`)})
	if err != nil || len(data) > maxReplyBytes {
		t.Fatalf("reply of %d bytes, error %v", len(data), err)
	}
	var response runResponse
	if err := json.Unmarshal(data, &response); err != nil {
		t.Fatal(err)
	}
	if !response.Truncated || response.Stderr != "kept" || !strings.HasPrefix(response.Stdout, "first") ||
		!strings.HasSuffix(response.Stdout, "last") || !strings.Contains(response.Stdout, cutMark) {
		t.Errorf("shortened wrongly: %d bytes of stdout, truncated %t", len(response.Stdout), response.Truncated)
	}
}

func TestRun_timeout(t *testing.T) {
	cases := map[string]struct {
		fallback, maximum time.Duration
		field             string
		want              int32
	}{
		"absent means the default":              {5 * time.Second, 30 * time.Second, ``, 5000},
		"null means the default":                {5 * time.Second, 30 * time.Second, `,"timeout_ms":null`, 5000},
		"zero means the default":                {5 * time.Second, 30 * time.Second, `,"timeout_ms":0`, 5000},
		"a value within the maximum":            {5 * time.Second, 30 * time.Second, `,"timeout_ms":29999`, 29999},
		"a value above the maximum":             {5 * time.Second, 30 * time.Second, `,"timeout_ms":18446744073709551615`, 30000},
		"a default above the maximum is capped": {60 * time.Second, 30 * time.Second, ``, 30000},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *Options) { o.DefaultTimeout, o.MaxTimeout = tc.fallback, tc.maximum })
			w.mustCall("run", `{"code":"1","lang":"node"`+tc.field+`}`)
			if got := *w.results.all()[0].spec.TimeoutMilliseconds; got != tc.want {
				t.Errorf("timeout %d ms, want %d", got, tc.want)
			}
		})
	}
}

func TestRun_largeCodeStaysInMemory(t *testing.T) {
	for name, size := range map[string]int{
		"8 KiB are stored": maxStoredCodeBytes, "more is offered": maxStoredCodeBytes + 1, "1 MiB is accepted": v1alpha1.MaxSourceBytes,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.mustCall("run", map[string]any{"code": strings.Repeat("x", size), "lang": "node"})
			seen := w.results.all()[0]
			if stored := seen.spec.Source.Inline != nil; stored != (size <= maxStoredCodeBytes) || stored == seen.offered {
				t.Errorf("stored %t, offered %t", stored, seen.offered)
			}
			if left := w.results.onOffer(); left != 0 {
				t.Errorf("%d codes still on offer after the answer", left)
			}
		})
	}
}

func TestRun_failures(t *testing.T) {
	const id = "rt-11111111-2222-4333-8444-555555555555"
	cases := map[string]struct {
		await func(context.Context, *v1alpha1.SandboxRun) (Outcome, error)
		want  string
	}{
		"deadline":               {fail(Failure{Code: FailureTimeout, Message: id}), "timeout: " + timeoutMessage},
		"capacity":               {fail(Failure{Code: FailureCapacity, Message: "cap of 4 reached by " + id}), "capacity: cap of 4 reached by (id)"},
		"a spec that cannot be":  {fail(Failure{Code: FailureInvalid, Message: "spec.runtime.packages: too many"}), "invalid_request: packages: too many"},
		"a file of the run":      {fail(Failure{Code: FailureInvalid, Message: "spec: files: x"}), "invalid_request: files: x"},
		"a limit of the sandbox": {fail(Failure{Code: FailureExhausted}), "resource_exhausted: " + exhaustedMessage},
		"lost VM":                {fail(Failure{Code: FailureGone, Message: id}), "engine: the VM went away during the run; try again"},
		"engine":                 {fail(Failure{Code: FailureEngine, Message: "S300: boot failed for " + id[3:]}), "engine: S300: boot failed for (id)"},
		"cancel":                 {fail(Failure{Code: FailureCancelled}), "engine: the run was cancelled"},
		"a failure as error": {func(context.Context, *v1alpha1.SandboxRun) (Outcome, error) {
			return Outcome{}, &Failure{Code: FailureCapacity}
		}, "capacity: no further sandbox can be made now; try again later"},
		"another error": {func(context.Context, *v1alpha1.SandboxRun) (Outcome, error) {
			return Outcome{}, errors.New("broken at " + id)
		}, "engine: broken at (id)"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for _, payload := range []string{`{"code":"1","lang":"node"}`, `{"code":"1","lang":"node","keep":true}`} {
				w := newWorld(t)
				w.results.set(tc.await)
				if got := w.callError("run", payload); got != tc.want {
					t.Errorf("%s: error %q, want %q", payload, got, tc.want)
				}
				if runs, runtimes := w.runs(), w.runtimes(); len(runs)+len(runtimes) != 0 {
					t.Errorf("%s left %d runs and %d runtimes", payload, len(runs), len(runtimes))
				}
			}
		})
	}
}

func TestRun_timeoutKeepsPartialOutput(t *testing.T) {
	w := newWorld(t)
	w.results.set(fail(Failure{Code: FailureTimeout, PartialStdout: strings.Repeat("é", 9000) + "end", PartialStderr: "warned"}))
	_, err := w.call(t.Context(), "run", `{"code":"1","lang":"node"}`)
	var remote *bus.RemoteError
	if !errors.As(err, &remote) {
		t.Fatalf("error %v", err)
	}
	wantText(t, remote.Stacktrace, "stdout until then:\n…é", "end\n", "stderr until then:\nwarned")
	if len(remote.Stacktrace) > 2*maxPartialBytes {
		t.Errorf("details of %d bytes", len(remote.Stacktrace))
	}
}

func TestRun_overallDeadline(t *testing.T) {
	w := newWorld(t)
	w.results.set(hang)
	failures := make(chan error, 1)
	go func() {
		_, err := w.call(t.Context(), "run", `{"code":"1","lang":"node","timeout_ms":1000}`)
		failures <- err
	}()
	eventually(t, "a waiting run", func() bool { return w.clock.HasWaiters() && len(w.results.all()) == 1 })
	w.clock.Step(bootAllowance + time.Second - time.Millisecond)
	select {
	case err := <-failures:
		t.Fatalf("gave up too early: %v", err)
	default:
	}
	w.clock.Step(time.Millisecond)
	if got, want := errorText(t, <-failures), "timeout: "+timeoutMessage; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	if left := w.runs(); len(left) != 0 {
		t.Errorf("%d runs left", len(left))
	}
}

func TestRun_callerGoesAway(t *testing.T) {
	for name, payload := range map[string]string{
		"one-shot": `{"code":"1","lang":"node"}`, "kept": `{"code":"1","lang":"node","keep":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.results.set(hang)
			ctx, leave := context.WithCancel(t.Context())
			failures := make(chan error, 1)
			go func() {
				_, err := w.call(ctx, "run", payload)
				failures <- err
			}()
			eventually(t, "a waiting run", func() bool { return len(w.results.all()) == 1 })
			leave()
			if err := <-failures; err == nil {
				t.Error("answered although the run did not end")
			}
			if runs, runtimes := w.runs(), w.runtimes(); len(runs)+len(runtimes) != 0 {
				t.Errorf("%d runs and %d runtimes left", len(runs), len(runtimes))
			}
		})
	}
}

func TestRun_deletionIsRetried(t *testing.T) {
	w := newWorld(t)
	failures := 3
	w.setFault(func(verb string, _ client.Object) error {
		if verb == "delete" && failures > 0 {
			failures--
			return apierrors.NewServiceUnavailable("restarting")
		}
		return nil
	})
	w.mustCall("run", `{"code":"1","lang":"node"}`)
	if left := w.runs(); len(left) != 0 {
		t.Errorf("%d runs left", len(left))
	}
	if got := len(w.wrote()); got != 5 {
		t.Errorf("%d writes, want a creation and four attempts to delete", got)
	}
}

func TestRun_deletionIsGivenUp(t *testing.T) {
	w := newWorld(t)
	w.setFault(func(verb string, _ client.Object) error {
		if verb == "delete" {
			return apierrors.NewServiceUnavailable("down")
		}
		return nil
	})
	response := w.mustCall("run", `{"code":"1","lang":"node"}`)
	if response["success"] != true {
		t.Errorf("response %v", response)
	}
	if got := len(w.wrote()); got != 1+w.shim.deleteAttempts.Steps {
		t.Errorf("%d writes, want a bounded number", got)
	}
}

func TestAPIError_hidesTheAccount(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "sandboxruns"}, "run-1",
		errors.New(`User "system:serviceaccount:ops:operator" cannot create resource "sandboxruns"`))
	text := apiError("creating the run", forbidden).Error()
	wantText(t, text, "engine: creating the run: ", "role")
	if strings.Contains(text, "serviceaccount") {
		t.Errorf("text %q names the account", text)
	}
}

func TestRun_apiServerRefuses(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "sandboxruns"}, "run-11111111-2222-4333-8444-555555555555", errors.New("quota"))
	for name, payload := range map[string]string{
		"one-shot": `{"code":"1","lang":"node"}`, "kept": `{"code":"1","lang":"node","keep":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.setFault(func(verb string, _ client.Object) error {
				if verb == "create" {
					return forbidden
				}
				return nil
			})
			text := w.callError("run", payload)
			wantText(t, text, "engine: ", "quota")
			if strings.Contains(text, "11111111") {
				t.Errorf("text %q has an id", text)
			}
		})
	}
}
