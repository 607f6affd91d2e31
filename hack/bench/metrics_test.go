package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

func TestAdd(t *testing.T) {
	m := figures.Metrics{}
	add(m, "call", samplesOf{time.Millisecond, 3 * time.Millisecond})
	if diff := cmp.Diff(figures.Metrics{"call_ms": 1, "call_p95_ms": 3}, m); diff != "" {
		t.Error(diff)
	}
}
