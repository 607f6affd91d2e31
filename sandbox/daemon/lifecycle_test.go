package daemon_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon"
	"github.com/sandbox-operator/sandbox-operator/sandbox/daemon/daemontest"
)

func TestCreate_fields(t *testing.T) {
	for name, tc := range map[string]struct {
		request object
		want    daemon.BootSpec
	}{
		"the configuration's defaults": {
			object{"image": "node"},
			daemon.BootSpec{Image: "node", CPUs: 1, MemoryMiB: 512},
		},
		"everything asked for": {
			object{"image": "python", "cpus": 2, "memory_mb": 64, "name": "n", "network": true, "idle_timeout_secs": 9,
				"env": []string{"URL=ws://localhost:80", "B=2"}},
			daemon.BootSpec{Image: "python", CPUs: 2, MemoryMiB: 64, Network: true, HostPorts: []int{80},
				Env: map[string]string{"URL": "ws://100.96.0.1:80", "B": "2"}},
		},
		"without a network no address is changed": {
			object{"image": "node", "env": object{"URL": "ws://127.0.0.1:80"}},
			daemon.BootSpec{Image: "node", CPUs: 1, MemoryMiB: 512, Env: map[string]string{"URL": "ws://127.0.0.1:80"}},
		},
		"null stands for absent": {
			object{"image": "node", "cpus": nil, "env": nil, "name": nil},
			daemon.BootSpec{Image: "node", CPUs: 1, MemoryMiB: 512},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := &daemontest.Backend{}
			config := daemontest.Config()
			config.GuestHostPorts = []int{80}
			s := daemontest.Start(t, daemontest.Options{Backend: b, Config: config})
			answer := call(t, s, "sandbox::create", tc.request)
			if _, err := uuid.Parse(answer["sandbox_id"].(string)); err != nil || answer["image"] != tc.request["image"] {
				t.Errorf("answer is %v", answer)
			}
			if diff := cmp.Diff(tc.want, b.Machines()[0].Spec); diff != "" {
				t.Errorf("guest (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCreate_refusals(t *testing.T) {
	b := &daemontest.Backend{Boots: func(_ context.Context, spec daemon.BootSpec) error {
		if spec.Env["FAIL"] == "boot" {
			return errors.New("no kernel")
		}
		return nil
	}}
	config := daemontest.Config()
	config.ImageAllowlist = []string{"node", "nowhere"}
	config.PerImageCaps = map[string]daemon.ImageCap{"node": {MaxCPUs: 2, MaxMemoryMiB: 100}}
	config.DefaultMemoryMiB = 100
	s := daemontest.Start(t, daemontest.Options{Backend: b, Config: config})
	for name, tc := range map[string]struct {
		request    object
		code, text string
	}{
		"an image outside the catalog":   {object{"image": "nowhere"}, "S100", "image 'nowhere' not in catalog"},
		"an image that is not allowed":   {object{"image": "python"}, "S100", "image 'python' not in catalog"},
		"too many processors":            {object{"image": "node", "cpus": 3}, "S400", "resource limit exceeded: "},
		"too much memory":                {object{"image": "node", "memory_mb": 101}, "S400", "resource limit exceeded: "},
		"a bad name in an environment":   {object{"image": "node", "env": object{"a-b": "1"}}, "S001", "invalid request: "},
		"no processor at all":            {object{"image": "node", "cpus": 0}, "S300", "VM boot failed: "},
		"a guest that does not boot":     {object{"image": "node", "env": object{"FAIL": "boot"}}, "S300", "VM boot failed: no kernel"},
		"the image counts before limits": {object{"image": "python", "cpus": 300}, "S100", "not in catalog"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := refuse(t, s, "sandbox::create", tc.request, tc.code); !strings.HasPrefix(got.Message, tc.text) && !strings.Contains(got.Message, tc.text) {
				t.Errorf("message is %q, want %q", got.Message, tc.text)
			}
		})
	}
	if got := rows(t, s); len(got) != 0 {
		t.Errorf("refused creates left %v", got)
	}
}

func TestUndecodable(t *testing.T) {
	s := start(t, &daemontest.Backend{})
	for name, tc := range map[string]struct {
		function string
		request  any
	}{
		"no image":                   {"sandbox::create", object{}},
		"a fraction of a processor":  {"sandbox::create", object{"image": "node", "cpus": 1.5}},
		"a negative number":          {"sandbox::create", object{"image": "node", "memory_mb": -1}},
		"an environment of numbers":  {"sandbox::create", object{"image": "node", "env": object{"A": 1}}},
		"null for a list":            {"sandbox::list", nil},
		"null for the catalog":       {"sandbox::catalog::list", nil},
		"arguments that are no list": {"sandbox::exec", object{"sandbox_id": noSandbox, "cmd": "ls", "args": "x"}},
		"content of no known shape":  {"sandbox::fs::write", object{"sandbox_id": noSandbox, "path": "/a", "content": object{"a": 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tryCall(s, tc.function, tc.request)
			var remote *bus.RemoteError
			if !errors.As(err, &remote) || remote.Code != "invocation_failed" ||
				!strings.HasPrefix(remote.Message, "serialization error: ") || strings.Contains(remote.Message, "{") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestCreate_capHoldsInBursts(t *testing.T) {
	gate := make(chan struct{})
	b := &daemontest.Backend{Boots: func(context.Context, daemon.BootSpec) error { <-gate; return nil }}
	config := daemontest.Config()
	config.MaxConcurrentSandboxes = 3
	s := daemontest.Start(t, daemontest.Options{Backend: b, Config: config})
	var burst sync.WaitGroup
	refused := make(chan error, 10)
	for range 10 {
		burst.Go(func() {
			if _, err := tryCall(s, "sandbox::create", object{"image": "node"}); err != nil {
				refused <- err
			}
		})
	}
	// Seven answers come while three guests are still booting.
	for range 7 {
		if err := <-refused; !strings.Contains(err.Error(), "S400") {
			t.Errorf("refused with %v", err)
		}
	}
	close(gate)
	burst.Wait()
	if got := len(rows(t, s)); got != 3 || len(refused) != 0 {
		t.Errorf("%d sandboxes, %d further refusals, want 3 and 0", got, len(refused))
	}
}

func TestCreate_outlivesItsCaller(t *testing.T) {
	gate := make(chan struct{})
	b := &daemontest.Backend{Boots: func(context.Context, daemon.BootSpec) error { <-gate; return nil }}
	s := start(t, b)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := s.Client.Call(ctx, bus.Call{FunctionID: "sandbox::create", Data: json.RawMessage(`{"image":"node","name":"orphan"}`)})
	if !bus.IsTimeout(err) {
		t.Fatalf("error is %v, want a timeout", err)
	}
	close(gate)
	daemontest.Eventually(t, "the orphan is listed", func(context.Context) bool {
		for _, row := range rows(t, s) {
			return row["name"] == "orphan"
		}
		return false
	})
}

func TestList_rows(t *testing.T) {
	s := start(t, &daemontest.Backend{})
	named, plain := create(t, s, object{"name": "run-17"}), create(t, s, object{"image": "python"})
	row := func(id, image string, name any) object {
		return object{
			"sandbox_id": id, "name": name, "image": image, "age_secs": 0.0, "exec_in_progress": false,
			"exec_in_flight": 0.0, "exec_slots_free": 4.0, "stopped": false, "isolation": "memory",
		}
	}
	want := map[string]object{named: row(named, "node", "run-17"), plain: row(plain, "python", nil)}
	if diff := cmp.Diff(want, rows(t, s)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

func TestCatalog(t *testing.T) {
	config := daemontest.Config()
	config.CustomImages = map[string]string{"zebra": "z/z", "ant": "a/a"}
	s := daemontest.Start(t, daemontest.Options{Backend: &daemontest.Backend{}, Config: config})
	want := object{
		"images": []any{
			object{"name": "python", "oci_ref": "iiidev/python:latest", "kind": "preset"},
			object{"name": "node", "oci_ref": "iiidev/node:latest", "kind": "preset"},
			object{"name": "ant", "oci_ref": "a/a", "kind": "custom"},
			object{"name": "zebra", "oci_ref": "z/z", "kind": "custom"},
		},
		"private_images": true, "isolation": "memory",
	}
	if diff := cmp.Diff(want, call(t, s, "sandbox::catalog::list", object{})); diff != "" {
		t.Errorf("catalog (-want +got):\n%s", diff)
	}
}

func TestStop(t *testing.T) {
	b := &daemontest.Backend{}
	s := start(t, b)
	id := create(t, s, nil)
	want := object{"sandbox_id": id, "stopped": true}
	if diff := cmp.Diff(want, call(t, s, "sandbox::stop", object{"sandbox_id": id, "wait": true})); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if b.Live() != 0 || len(rows(t, s)) != 0 {
		t.Error("the sandbox is still there")
	}
	for _, function := range []string{"sandbox::stop", "sandbox::exec", "sandbox::fs::stat"} {
		got := refuse(t, s, function, object{"sandbox_id": id, "cmd": "ls", "path": "/"}, "S002")
		if got.Message != "sandbox not found: "+id {
			t.Errorf("message is %q", got.Message)
		}
	}
	refuse(t, s, "sandbox::stop", object{"sandbox_id": "x"}, "S001")
}

func TestStop_whileStopping(t *testing.T) {
	stopping, goOn := make(chan struct{}), make(chan struct{})
	fail := errors.New("the process does not die")
	b := &daemontest.Backend{Stops: sync.OnceValue(func() error { close(stopping); <-goOn; return fail })}
	s := start(t, b)
	id := create(t, s, nil)
	first := make(chan error)
	go func() { _, err := tryCall(s, "sandbox::stop", object{"sandbox_id": id}); first <- err }()
	<-stopping
	call(t, s, "sandbox::stop", object{"sandbox_id": id})
	refuse(t, s, "sandbox::exec", object{"sandbox_id": id, "cmd": "ls"}, "S004")
	refuse(t, s, "sandbox::fs::stat", object{"sandbox_id": id, "path": "/"}, "S004")
	if rows(t, s)[id]["stopped"] != true {
		t.Error("the row does not say that the sandbox is being removed")
	}
	b.Stops = nil
	close(goOn)
	if err := <-first; err == nil {
		t.Error("a stop that failed was reported as done")
	}
	// The entry stayed, so that stop can be repeated.
	call(t, s, "sandbox::stop", object{"sandbox_id": id})
	if b.Live() != 0 {
		t.Error("the machine lives")
	}
}

func TestReaper(t *testing.T) {
	clock := newClock()
	running, goOn := make(chan struct{}), make(chan struct{})
	b := &daemontest.Backend{Exec: func(context.Context, *daemontest.Machine, daemon.ExecSpec) (daemon.ExecOutcome, error) {
		close(running)
		<-goOn
		return daemon.ExecOutcome{}, nil
	}}
	s := daemontest.Start(t, daemontest.Options{
		Backend: b, Config: daemontest.Config(),
		Tune: func(d *daemon.Daemon) { d.Tune(time.Millisecond, time.Second, clock.now) },
	})
	idle, touched := create(t, s, object{"idle_timeout_secs": 60}), create(t, s, object{"idle_timeout_secs": 60})
	busy, patient := create(t, s, object{"idle_timeout_secs": 60}), create(t, s, object{"idle_timeout_secs": 1e18})
	died := create(t, s, object{"idle_timeout_secs": 1e18})
	done := make(chan error, 1)
	go func() { _, err := tryCall(s, "sandbox::exec", object{"sandbox_id": busy, "cmd": "wait"}); done <- err }()
	<-running
	clock.advance(50 * time.Second)
	call(t, s, "sandbox::fs::stat", object{"sandbox_id": touched, "path": "/"})
	clock.advance(50 * time.Second)
	b.Machines()[4].Die()
	daemontest.Eventually(t, "the idle and the dead sandbox are gone", func(context.Context) bool {
		left := rows(t, s)
		return left[idle] == nil && left[died] == nil
	})
	left := rows(t, s)
	for what, id := range map[string]string{"touched": touched, "busy": busy, "patient": patient} {
		if left[id] == nil {
			t.Errorf("the %s sandbox was reaped", what)
		}
	}
	close(goOn)
	if err := <-done; err != nil {
		t.Errorf("the program in the busy sandbox: %v", err)
	}
	refuse(t, s, "sandbox::exec", object{"sandbox_id": idle, "cmd": "ls"}, "S002")
}

func TestShutdown(t *testing.T) {
	booting, running := make(chan struct{}), make(chan struct{})
	b := &daemontest.Backend{
		Boots: func(ctx context.Context, spec daemon.BootSpec) error {
			if spec.Image == "node" {
				return nil
			}
			close(booting)
			<-ctx.Done()
			return ctx.Err()
		},
		Exec: func(ctx context.Context, _ *daemontest.Machine, _ daemon.ExecSpec) (daemon.ExecOutcome, error) {
			close(running)
			<-ctx.Done()
			return daemon.ExecOutcome{}, ctx.Err()
		},
	}
	s := start(t, b)
	id := create(t, s, nil)
	create(t, s, nil)
	answers := make(chan error, 2)
	go func() { _, err := tryCall(s, "sandbox::exec", object{"sandbox_id": id, "cmd": "ls"}); answers <- err }()
	go func() { _, err := tryCall(s, "sandbox::create", object{"image": "python"}); answers <- err }()
	<-booting
	<-running
	if err := s.StopDaemon(); err != nil {
		t.Errorf("the daemon ended with %v", err)
	}
	for range 2 {
		if err := <-answers; err == nil {
			t.Error("a call succeeded although the daemon ended under it")
		}
	}
	if b.Live() != 0 {
		t.Errorf("%d machines outlived the daemon", b.Live())
	}
}

// clock is a clock that tests move.
type clock struct {
	mu   sync.Mutex
	time time.Time
}

func newClock() *clock { return &clock{time: time.Unix(1_790_000_000, 0)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.time
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.time = c.time.Add(d)
}
