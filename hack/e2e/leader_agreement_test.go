package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// agreementPatience covers a boot, and two sweeps on a busy machine.
const agreementPatience = 45 * time.Second

// expectAgreement waits until the daemon has exactly the sandboxes of ours that
// the objects name, each once, and checks that it stays so.
func expectAgreement(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, disagreement).WithTimeout(agreementPatience).WithPolling(200 * time.Millisecond).Should(BeEmpty())
	// Longer than two sweeps.
	Consistently(ctx, disagreement).WithTimeout(7 * time.Second).WithPolling(200 * time.Millisecond).Should(BeEmpty())
}

// disagreement says what differs, without the ids of sandboxes.
func disagreement(ctx context.Context) ([]string, error) {
	named, err := namedSandboxes(ctx)
	if err != nil {
		return nil, err
	}
	listed, err := ourSandboxes(ctx)
	if err != nil {
		return nil, err
	}
	differences := []string{}
	for attempt, count := range listed {
		switch {
		case named[attempt] == "":
			differences = append(differences, fmt.Sprintf("%d sandboxes of an attempt that no object names", count))
		case count > 1:
			differences = append(differences, fmt.Sprintf("%d sandboxes of %s", count, named[attempt]))
		}
	}
	for attempt, object := range named {
		if listed[attempt] == 0 {
			differences = append(differences, object+" has no sandbox")
		}
	}
	return sorted(differences), nil
}

// namedSandboxes maps the attempts that objects name to words for them.
func namedSandboxes(ctx context.Context) (map[string]string, error) {
	named := map[string]string{}
	runtimes := &v1alpha1.SandboxRuntimeList{}
	if err := kube.List(ctx, runtimes); err != nil {
		return nil, err
	}
	for _, r := range runtimes.Items {
		for _, i := range r.Status.Instances {
			named[string(r.UID)+"/"+i.Digest] = fmt.Sprintf("instance %s (%s) of %s/%s", i.Name, i.State, r.Namespace, r.Name)
		}
	}
	runs := &v1alpha1.SandboxRunList{}
	if err := kube.List(ctx, runs); err != nil {
		return nil, err
	}
	for _, r := range runs.Items {
		if !r.IsFinished() && r.Status.AttemptDigest != "" {
			named[string(r.UID)+"/"+r.Status.AttemptDigest] = "run " + r.Namespace + "/" + r.Name
		}
	}
	return named, nil
}

// ourSandboxes counts the sandboxes with a marker of this operator, by attempt.
func ourSandboxes(ctx context.Context) (map[string]int, error) {
	rows, err := listSandboxes(ctx, caller)
	if err != nil {
		return nil, err
	}
	us, counts := operatorID(ctx), map[string]int{}
	for _, row := range rows {
		marker, err := sandbox.ParseMarker(row.Name)
		if err != nil || marker.Operator != us {
			continue
		}
		sum := sha256.Sum256([]byte(marker.Nonce))
		counts[marker.Object+"/"+hex.EncodeToString(sum[:])]++
	}
	return counts, nil
}
