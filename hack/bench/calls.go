package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus"
)

// warmUps are not measured.
const warmUps = 5

// contestant is a published function and the cheapest other way to run its
// handler: the same interpreter, started by a direct sandbox::exec with the call
// in an envelope on standard input.
type contestant struct {
	name string
	// suffix is added to the names of its metrics.
	suffix   string
	language v1alpha1.Language
	handler  string
	image    string
	// file is where the direct way finds the handler, host the program that runs
	// it, command starts that.
	file, hostFile, host string
	command              []string
	// empty starts the interpreter with nothing to do: the part of both ways that
	// is not ours.
	empty []string
}

var contestants = []contestant{
	{
		name: "node", language: v1alpha1.LanguageNode, handler: nodeHandler, image: "node",
		file: "/bench/handler.mjs", hostFile: "/bench/host.mjs",
		host: `import { readFileSync } from 'node:fs';
import { handler } from './handler.mjs';
const { payload, context } = JSON.parse(readFileSync(0, 'utf8'));
process.stdout.write(JSON.stringify(await handler(payload, context)));
`,
		command: []string{"node", "/bench/host.mjs"},
		empty:   []string{"node", "-e", "0"},
	},
	{
		name: "python", suffix: "_python", language: v1alpha1.LanguagePython, handler: pythonHandler, image: "python",
		file: "/bench/handler.py", hostFile: "/bench/host.py",
		host: `import json, sys
from handler import handler
call = json.load(sys.stdin)
json.dump(handler(call["payload"], call["context"]), sys.stdout)
`,
		command: []string{"python3", "/bench/host.py"},
		empty:   []string{"python3", "-c", "0"},
	},
}

// payload is what the handlers echo.
const payload = `{"item":"tea","quantity":2}`

// measureCalls sets calls against direct execs. call.exec_ratio is that of Node.
func (b *bench) measureCalls(ctx context.Context) error {
	for _, c := range contestants {
		if _, err := b.apply(ctx, "echo-"+c.name, c.language, c.handler); err != nil {
			return err
		}
		if err := b.compare(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// compare alternates all ways, so that each sees the same machine.
func (b *bench) compare(ctx context.Context, c contestant) error {
	sandbox, err := b.makeSandbox(ctx, c)
	if err != nil {
		return err
	}
	envelope := []byte(`{"payload":` + payload + `,"context":{"function_id":"bench::echo"}}`)
	ways := []struct {
		metric string
		once   func() (time.Duration, error)
	}{
		{"call", func() (time.Duration, error) { return b.timedCall(ctx, "bench::echo-"+c.name) }},
		{"exec", func() (time.Duration, error) { return b.timedExec(ctx, sandbox, c.command, envelope, payload) }},
		{"exec.interpreter", func() (time.Duration, error) { return b.timedExec(ctx, sandbox, c.empty, nil, "") }},
		{"exec.true", func() (time.Duration, error) { return b.timedExec(ctx, sandbox, []string{"true"}, nil, "") }},
	}
	times := map[string]samplesOf{}
	for i := range warmUps + b.plan.samples {
		for _, way := range ways {
			took, err := way.once()
			if err != nil {
				return err
			}
			if i >= warmUps {
				times[way.metric] = append(times[way.metric], took)
			}
		}
	}
	for metric, taken := range times {
		add(b.metrics, metric+c.suffix, taken)
	}
	b.metrics["call.exec_ratio"+c.suffix] = times["call"].median() / times["exec"].median()
	return b.call(ctx, "sandbox::stop", map[string]any{"sandbox_id": sandbox}, nil)
}

func (b *bench) timedCall(ctx context.Context, function string) (time.Duration, error) {
	var answer struct {
		Item     string
		Quantity int
	}
	began := time.Now()
	if err := b.call(ctx, function, json.RawMessage(payload), &answer); err != nil {
		return 0, err
	}
	took := time.Since(began)
	if answer.Item != "tea" || answer.Quantity != 2 {
		return 0, fmt.Errorf("%s does not echo its payload", function)
	}
	return took, nil
}

// timedExec is a direct sandbox::exec; its standard output must be the wanted
// JSON, or nothing.
func (b *bench) timedExec(ctx context.Context, sandbox string, command []string, stdin []byte, want string) (time.Duration, error) {
	var result struct {
		Stdout   string `json:"stdout"`
		Stderr   string `json:"stderr"`
		ExitCode int    `json:"exit_code"`
	}
	began := time.Now()
	err := b.call(ctx, "sandbox::exec", map[string]any{"sandbox_id": sandbox, "argv": command, "stdin": stdin}, &result)
	took := time.Since(began)
	// Python's encoder puts spaces after colons and commas.
	got := strings.ReplaceAll(result.Stdout, " ", "")
	if err == nil && (result.ExitCode != 0 || got != want) {
		err = fmt.Errorf("the direct exec ends with %d, %q and %q", result.ExitCode, result.Stdout, result.Stderr)
	}
	return took, err
}

// makeSandbox boots a sandbox with the handler and its host in it.
func (b *bench) makeSandbox(ctx context.Context, c contestant) (string, error) {
	var made struct {
		ID string `json:"sandbox_id"`
	}
	if err := b.call(ctx, "sandbox::create", map[string]any{"image": c.image}, &made); err != nil {
		return "", err
	}
	for path, content := range map[string]string{c.file: c.handler, c.hostFile: c.host} {
		request := map[string]any{"sandbox_id": made.ID, "path": path, "content": content, "parents": true}
		if err := b.call(ctx, "sandbox::fs::write", request, nil); err != nil {
			return "", err
		}
	}
	return made.ID, nil
}

// call decodes the answer into result unless that is nil.
func (b *bench) call(ctx context.Context, function string, data, result any) error {
	request, err := json.Marshal(data)
	if err != nil {
		return err
	}
	answer, err := b.raw(ctx, function, request)
	if err != nil || result == nil {
		return err
	}
	if err := json.Unmarshal(answer, result); err != nil {
		return fmt.Errorf("%s: %w", function, err)
	}
	return nil
}

func (b *bench) raw(ctx context.Context, function string, payload json.RawMessage) ([]byte, error) {
	return b.bus.Call(ctx, bus.Call{FunctionID: function, Data: payload})
}
