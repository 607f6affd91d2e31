package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// runStages are the fields of a run's timings.
var runStages = []string{"queue", "boot", "plant", "exec", "cleanup"}

// measureRuns makes one-shot runs, each with a sandbox of its own. What is in no
// stage is run.answer_ms: the way over the bus, the object's four writes, and the
// operator's own work.
func (b *bench) measureRuns(ctx context.Context) error {
	var whole samplesOf
	stages := map[string]samplesOf{}
	for i := range warmUps + b.plan.samples {
		took, timings, err := b.timedRun(ctx)
		if err != nil {
			return err
		}
		if i < warmUps {
			continue
		}
		whole = append(whole, took)
		rest := took
		for _, stage := range runStages {
			length := time.Duration(timings[stage+"_ms"]) * time.Millisecond
			stages[stage] = append(stages[stage], length)
			rest -= length
		}
		stages["answer"] = append(stages["answer"], rest)
	}
	add(b.metrics, "run", whole)
	for stage, times := range stages {
		b.metrics["run."+stage+"_ms"] = times.median()
	}
	return nil
}

func (b *bench) timedRun(ctx context.Context) (time.Duration, map[string]int64, error) {
	var response struct {
		Stdout  string           `json:"stdout"`
		Stderr  string           `json:"stderr"`
		Timings map[string]int64 `json:"timings"`
	}
	began := time.Now()
	err := b.call(ctx, "sandbox-code-runner::run", map[string]any{"lang": "node", "code": "console.log(6 * 7)"}, &response)
	took := time.Since(began)
	switch {
	case err != nil:
		return 0, nil, err
	case response.Stdout != "42\n":
		return 0, nil, fmt.Errorf("a run prints %q and %q", response.Stdout, response.Stderr)
	case len(response.Timings) == 0:
		return 0, nil, fmt.Errorf("a run's answer has no timings")
	}
	return took, response.Timings, nil
}

// measureMemory is for the end, when the operator has seen everything.
func (b *bench) measureMemory(context.Context) error { return b.readMemory("operator_rss_mb") }

// measureIdleMemory is for the beginning.
func (b *bench) measureIdleMemory(context.Context) error { return b.readMemory("operator_rss_idle_mb") }

// readMemory reads what the kernel counts as the operator's resident memory.
func (b *bench) readMemory(metric string) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.stack.PID(stack.Operator)))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(status)) {
		if words := strings.Fields(line); len(words) >= 2 && words[0] == "VmRSS:" {
			kilobytes, err := strconv.ParseFloat(words[1], 64)
			b.metrics[metric] = kilobytes / 1024
			return err
		}
	}
	return fmt.Errorf("the kernel does not say how much memory the operator has")
}
