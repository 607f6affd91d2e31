package main

import (
	"testing"
	"time"
)

func TestRound_all(t *testing.T) {
	r := round{settings: settings{runtimes: 20}, functions: 100}
	ids, sources, prefixes := map[string]bool{}, map[string]bool{}, map[string]string{}
	for _, f := range r.all() {
		ids[f.id()] = true
		sources[f.source(0)], sources[f.source(1)] = true, true
		if namespace, known := prefixes[f.prefix()]; known && namespace != f.namespace() {
			t.Errorf("prefix %s is in %s and %s; one namespace holds a prefix", f.prefix(), namespace, f.namespace())
		}
		prefixes[f.prefix()] = f.namespace()
	}
	if len(ids) != 100 || len(sources) != 200 || len(prefixes) != 20 {
		t.Errorf("%d ids, %d sources, %d prefixes", len(ids), len(sources), len(prefixes))
	}
}

func TestSamplesOf_percentile(t *testing.T) {
	var s samplesOf
	for i := range 100 {
		s = append(s, time.Duration(100-i)*time.Millisecond)
	}
	if p50, p99 := s.percentile(0.5), s.percentile(0.99); p50 != 50 || p99 != 99 {
		t.Errorf("p50 %g, p99 %g", p50, p99)
	}
}
