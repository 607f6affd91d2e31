package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/bus/engine"
)

func TestParse(t *testing.T) {
	file := filepath.Join(t.TempDir(), "engine.yaml")
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:1\nguestListen: 127.0.0.1:2\nguestToken: t\nhttp: \"\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	changed := func(change func(*options)) options {
		o := defaults()
		change(&o)
		return o
	}
	for name, tc := range map[string]struct {
		args []string
		want options
	}{
		"nothing said": {nil, defaults()},
		"flags": {
			[]string{"--listen", "127.0.0.1:9", "--guest-forbid", "a::*,b"},
			changed(func(o *options) { o.Listen, o.GuestForbid = "127.0.0.1:9", []string{"a::*", "b"} }),
		},
		"flags of times and switches": {
			[]string{"--namespace-grace", "50ms", "--http-timeout", "2s", "--queue=false", "--guest-functions"},
			changed(func(o *options) {
				o.NamespaceGrace, o.HTTPTimeout = duration(50*time.Millisecond), duration(2*time.Second)
				o.Queue, o.GuestFunctions = false, true
			}),
		},
		"a flag wins over the file": {
			[]string{"--config", file, "--listen", "127.0.0.1:9"},
			changed(func(o *options) {
				o.Listen, o.GuestListen, o.GuestToken, o.HTTP = "127.0.0.1:9", "127.0.0.1:2", "t", ""
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tc.args, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParse_refusals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "engine.yaml")
	if err := os.WriteFile(file, []byte("lisen: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"an unknown flag":          {"--nope"},
		"an argument":              {"x"},
		"a missing file":           {"--config", file + ".absent"},
		"an unknown key in a file": {"--config", file},
		"a time without a unit":    {"--namespace-grace", "5"},
		"a time that is nothing":   {"--http-timeout", "0s"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(args, io.Discard); err == nil {
				t.Error("accepted")
			}
		})
	}
}

func TestParse_listeners(t *testing.T) {
	t.Setenv(graceVariable, "250")
	file := filepath.Join(t.TempDir(), "engine.yaml")
	text := `
namespaceGrace: 9s
queues:
  mail: {type: fifo, maxRetries: 0, backoffDelayMs: 5}
listeners:
- port: 49135
  middleware_function_id: gate::middleware
  handshake_timeout_ms: 100
  rbac:
    auth_function_id: gate::auth
    expose_functions:
    - match("public::*")
    - metadata: {open: true}
      namespace: team
    on_function_registration_function_id: gate::function
- name: plain
  host: 127.0.0.2
  port: 0
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"--config", file}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	none := 0
	want := engine.Config{
		HTTPAddress: "127.0.0.1:3111", HTTPTimeout: engine.DefaultHTTPTimeout, NamespaceGrace: 250 * time.Millisecond,
		Queues: map[string]engine.QueuePolicy{"mail": {Type: "fifo", MaxRetries: &none, BackoffDelayMs: 5}},
		Listeners: []engine.Listener{
			{Name: "workers", Address: engine.DefaultAddress},
			{
				Name: "listener-1", Address: "127.0.0.1:49135", MiddlewareFunctionID: "gate::middleware",
				HandshakeTimeout: 100 * time.Millisecond,
				Policy: &engine.Policy{
					AuthFunctionID: "gate::auth", OnFunctionRegistrationFunctionID: "gate::function",
					Expose: []engine.Exposure{
						{Match: `match("public::*")`}, {Metadata: map[string]any{"open": true}, Namespace: "team"},
					},
					AllowFunctionRegistration: true, AllowTriggerRegistration: true,
				},
			},
			{Name: "plain", Address: "127.0.0.2:0"},
		},
	}
	if diff := cmp.Diff(want, o.engineConfig()); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if _, err := engine.New(o.engineConfig()); err != nil {
		t.Error(err)
	}
}

func TestRun_servesUntilTheContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines, stdout := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- run(ctx, []string{"--listen", "127.0.0.1:0", "--guest-listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, stdout, io.Discard)
		_ = stdout.Close()
	}()
	urls := map[string]string{}
	scanner := bufio.NewScanner(lines)
	for len(urls) < 3 && scanner.Scan() {
		name, url, _ := strings.Cut(scanner.Text(), " ")
		urls[name] = url
	}
	for _, name := range []string{"workers", "guests"} {
		socket, _, err := websocket.Dial(ctx, urls[name], nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, frame, err := socket.Read(ctx); err != nil || !strings.Contains(string(frame), "workerregistered") {
			t.Errorf("%s says %q, %v", name, frame, err)
		}
		_ = socket.CloseNow()
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if socket, _, err := websocket.Dial(t.Context(), urls["workers"], nil); err == nil {
		_ = socket.CloseNow()
		t.Error("the port is still open")
	}
}
