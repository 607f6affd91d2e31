package main

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
)

// runOnBus runs a program as bus callers do.
func (l *load) runOnBus(ctx context.Context) {
	token := newToken("bus", l.numbers.Add(1))
	data, err := l.call(ctx, "sandbox-code-runner::run", m{"lang": "python", "code": runSource(token), "timeout_ms": callTimeout})
	l.note("run on bus", err)
	if err != nil {
		return
	}
	var answer struct {
		Stdout  string `json:"stdout"`
		Success bool   `json:"success"`
	}
	if json.Unmarshal(data, &answer) != nil || !answer.Success || answer.Stdout != token {
		l.blame("the run of %s was answered with success %v and %q", token, answer.Success, answer.Stdout)
		return
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.busRuns = append(l.busRuns, token)
}

// passingPause is how long a passing function stays: some go before they are ready.
func passingPause() time.Duration { return time.Duration(rand.Int64N(int64(4 * time.Second))) }

func (l *load) deletePassing(ctx context.Context) func(runtime.Object) error {
	return func(item runtime.Object) error {
		f := item.(*v1alpha1.SandboxFunction)
		if !strings.HasPrefix(f.Name, "passing-") {
			return nil
		}
		return client.IgnoreNotFound(l.world.kube.Delete(ctx, f))
	}
}
