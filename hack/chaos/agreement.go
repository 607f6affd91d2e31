package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// attempt is what ties a sandbox to an object: its marker's nonce, whose digest the
// object's status shows.
type attempt struct{ object, digest string }

// disagreements says what of a reading is not as it must be at rest.
func disagreements(r reading) []string {
	return slices.Concat(unready(r), wrongCounts(r), sandboxesWithoutObject(r), objectsWithoutSandbox(r), wrongPublications(r))
}

func unready(r reading) []string {
	var problems []string
	for i := range r.functions {
		f := &r.functions[i]
		if !isReady(f.Status.Conditions, f.Status.ObservedGeneration, f.Generation) {
			problems = append(problems, fmt.Sprintf("function %s: %s", f.Name, saying(f.Status.Conditions)))
		}
	}
	for i := range r.runtimes {
		s := &r.runtimes[i]
		if !isReady(s.Status.Conditions, s.Status.ObservedGeneration, s.Generation) {
			problems = append(problems, fmt.Sprintf("runtime %s: %s", s.Name, saying(s.Status.Conditions)))
		}
	}
	for i := range r.runs {
		if s := &r.runs[i]; !s.IsFinished() {
			problems = append(problems, fmt.Sprintf("run %s: phase %q, %s", s.Name, s.Status.Phase, saying(s.Status.Conditions)))
		}
	}
	return problems
}

// saying is what an object's Ready condition says.
func saying(conditions []metav1.Condition) string {
	for _, c := range conditions {
		if c.Type == v1alpha1.ReadyCondition {
			return fmt.Sprintf("Ready is %s: %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return "it has no Ready condition"
}

// wrongCounts compares what a runtime's status says with itself.
func wrongCounts(r reading) []string {
	var problems []string
	for i := range r.runtimes {
		s := &r.runtimes[i]
		ready := 0
		for _, instance := range s.Status.Instances {
			if instance.State == v1alpha1.InstanceReady {
				ready++
			}
		}
		if int(s.Status.ReadyReplicas) != ready || len(s.Status.Instances) != ready {
			problems = append(problems, fmt.Sprintf("runtime %s: readyReplicas is %d with %d instances, %d of them ready",
				s.Name, s.Status.ReadyReplicas, len(s.Status.Instances), ready))
		}
	}
	return problems
}

// announced are the attempts that objects name.
func announced(r reading) map[attempt]string {
	names := map[attempt]string{}
	for i := range r.runtimes {
		for _, instance := range r.runtimes[i].Status.Instances {
			names[attempt{string(r.runtimes[i].UID), instance.Digest}] = fmt.Sprintf("runtime %s, %s", r.runtimes[i].Name, instance.Name)
		}
	}
	return names
}

// found counts the sandboxes of each attempt; strangers count for none.
func found(r reading) (counts map[attempt]int, strangers int) {
	counts = map[attempt]int{}
	for _, row := range r.sandboxes {
		marker, err := sandbox.ParseMarker(row.Name)
		if err != nil {
			strangers++
			continue
		}
		sum := sha256.Sum256([]byte(marker.Nonce))
		counts[attempt{marker.Object, hex.EncodeToString(sum[:])}]++
	}
	return counts, strangers
}

func sandboxesWithoutObject(r reading) []string {
	names := announced(r)
	counts, strangers := found(r)
	var problems []string
	if strangers > 0 {
		problems = append(problems, fmt.Sprintf("%d sandboxes of strangers are left", strangers))
	}
	for a, count := range counts {
		switch name, named := names[a]; {
		case !named:
			problems = append(problems, fmt.Sprintf("%d sandboxes belong to no attempt of an object (%s)", count, a.object))
		case count > 1:
			problems = append(problems, fmt.Sprintf("%s has %d sandboxes", name, count))
		}
	}
	return problems
}

func objectsWithoutSandbox(r reading) []string {
	counts, _ := found(r)
	var problems []string
	for a, name := range announced(r) {
		if counts[a] == 0 {
			problems = append(problems, name+" has no sandbox")
		}
	}
	return problems
}

// wrongPublications compares the bus with the objects.
func wrongPublications(r reading) []string {
	var wanted, problems []string
	for i := range r.functions {
		wanted = append(wanted, r.functions[i].Spec.FunctionID)
	}
	for _, id := range wanted {
		if !slices.Contains(r.published, id) {
			problems = append(problems, id+" is not on the bus")
		}
	}
	for i, id := range r.published {
		if !slices.Contains(wanted, id) || slices.Contains(r.published[:i], id) {
			problems = append(problems, id+" is on the bus without an object, or twice")
		}
	}
	return problems
}
