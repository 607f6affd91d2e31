package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// runTimeout covers the boot of a sandbox too.
const runTimeout = 60 * time.Second

// runWithKubectl makes one SandboxRun per language from the samples.
func (d *demo) runWithKubectl(ctx context.Context) error {
	for _, sample := range []struct{ file, name, stdout, result string }{
		{"config/samples/run-node.yaml", "hello-node", "hello from Node one two\n", `{"sum":6}`},
		{"config/samples/run-python.yaml", "hello-python", "hello from Python [1, 2, 3]\n", `{"sum":6}`},
	} {
		if _, err := d.kubectl(ctx, "create", "-f", sample.file); err != nil {
			return err
		}
		object := "sandboxrun/" + sample.name
		if _, err := d.kubectl(ctx, "wait", "--for=condition=Complete", object, "--timeout=60s"); err != nil {
			return err
		}
		stdout, err := d.kubectl(ctx, "get", object, "-o", "jsonpath={.status.stdout}")
		if err != nil {
			return err
		}
		if err := d.equal("the output of "+sample.name, stdout, sample.stdout); err != nil {
			return err
		}
		result, err := d.kubectlQuietly(ctx, "get", object, "-o", "jsonpath={.status.result}")
		if err != nil {
			return err
		}
		if err := d.same("the result of "+sample.name, json.RawMessage(result), sample.result); err != nil {
			return err
		}
		d.report.Runs++
	}
	return nil
}

// runFromBus sends code to the worker's run function. What it makes in the API is
// gone again afterwards.
func (d *demo) runFromBus(ctx context.Context) error {
	var err error
	if d.report.NodeRunMS, err = d.runOnBus(ctx, "node", "console.log([3, 1, 2].sort().join())", "1,2,3\n"); err != nil {
		return err
	}
	d.report.PythonRunMS, err = d.runOnBus(ctx, "python", "print(sorted([3, 1, 2]))", "[1, 2, 3]\n")
	return err
}

func (d *demo) runOnBus(ctx context.Context, language, code, wantStdout string) (float64, error) {
	const function = "sandbox-code-runner::run"
	payload := map[string]any{"lang": language, "code": code, "timeout_ms": 10_000}
	value, ms, err := d.client.call(ctx, function, payload, runTimeout)
	if err != nil {
		return 0, err
	}
	d.showCall(function, payload, value)
	var response struct {
		Stdout    string  `json:"stdout"`
		ExitCode  int     `json:"exit_code"`
		Success   bool    `json:"success"`
		RuntimeID *string `json:"runtime_id"`
	}
	if err := json.Unmarshal(value, &response); err != nil {
		return 0, fmt.Errorf("%s: %w", function, err)
	}
	if response.ExitCode != 0 || !response.Success || response.RuntimeID != nil {
		return 0, fmt.Errorf("%s answers %s, want exit code 0, success and no runtime_id", function, value)
	}
	d.out.line("with a sandbox of its own: %.0f ms", ms)
	d.report.Runs++
	return round(ms), d.equal("its output", response.Stdout, wantStdout)
}
