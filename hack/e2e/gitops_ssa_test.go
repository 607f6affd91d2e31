package e2e

import (
	"context"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	ssautils "github.com/fluxcd/pkg/ssa/utils"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// fieldManager owns what the specs apply on the server's side.
const fieldManager = "e2e-gitops"

// newManager is the part of Flux that applies, waits and finds drift.
func newManager() *ssa.ResourceManager {
	poller := polling.NewStatusPoller(kube, kube.RESTMapper(), polling.Options{})
	return ssa.NewResourceManager(kube, poller, ssa.Owner{Field: fieldManager, Group: fieldManager + ".example.com"})
}

// readSamples are the samples as objects of a namespace.
func readSamples(ctx context.Context, namespace string) []*unstructured.Unstructured {
	GinkgoHelper()
	objects, err := ssautils.ReadObjects(strings.NewReader(kubectl(ctx, "kustomize", "config/samples")))
	Expect(err).NotTo(HaveOccurred())
	for _, object := range objects {
		object.SetNamespace(namespace)
	}
	return objects
}

// expectNoDrift compares what was applied with what is there, as Flux does.
func expectNoDrift(ctx context.Context, manager *ssa.ResourceManager, objects []*unstructured.Unstructured) {
	GinkgoHelper()
	for _, object := range objects {
		change, live, merged, err := manager.Diff(ctx, object.DeepCopy(), ssa.DefaultDiffOptions())
		Expect(err).NotTo(HaveOccurred())
		Expect(change.Action).To(Equal(ssa.UnchangedAction), "%s: from %v to %v", change.Subject, live, merged)
	}
}

var _ = Describe("What Git says and what is there", func() {
	It("are the same after Flux's apply, wait and reconcile, and stay so", func(ctx SpecContext) {
		objects, manager := readSamples(ctx, newNamespace(ctx)), newManager()
		applied, err := manager.ApplyAll(ctx, objects, ssa.DefaultApplyOptions())
		Expect(err).NotTo(HaveOccurred())
		Expect(applied.Entries).To(HaveEach(HaveField("Action", ssa.CreatedAction)))
		Expect(manager.WaitForSetWithContext(ctx, applied.ToObjMetadataSet(),
			ssa.WaitOptions{Interval: time.Second, Timeout: time.Minute, FailFast: true})).To(Succeed())
		Expect(call(ctx, "shop::price", teaForTwo)).To(MatchJSON(priceAnswer))

		for range 2 {
			expectNoDrift(ctx, manager, objects)
			again, err := manager.ApplyAll(ctx, objects, ssa.DefaultApplyOptions())
			Expect(err).NotTo(HaveOccurred())
			Expect(again.Entries).To(HaveEach(HaveField("Action", ssa.UnchangedAction)))
			settle(ctx)
		}

		By("letting somebody change what Git owns")
		kubectl(ctx, "patch", "sbf/price", "-n", objects[0].GetNamespace(), "--type=merge", "-p", `{"spec":{"description":"drifted"}}`)
		for _, object := range objects {
			change, _, _, err := manager.Diff(ctx, object.DeepCopy(), ssa.DefaultDiffOptions())
			Expect(err).NotTo(HaveOccurred())
			want := ssa.UnchangedAction
			if object.GetName() == "price" {
				want = ssa.ConfiguredAction
			}
			Expect(change.Action).To(Equal(want), change.Subject)
		}
	}, specPatience)

	DescribeTable("are the same for kubectl", func(ctx SpecContext, flags ...string) {
		namespace := newNamespace(ctx)
		run := func(verb string) string {
			return kubectl(ctx, append([]string{verb, "-n", namespace, "-k", "config/samples"}, flags...)...)
		}
		run("apply")
		kubectl(ctx, "wait", "-n", namespace, "--for=condition=Ready", "sbf,sbr", "--all", "--timeout=60s")
		settled := settle(ctx)
		for range 2 {
			// It exits with 1 if there is a difference.
			Expect(run("diff")).To(BeEmpty())
			run("apply")
			Expect(settle(ctx)).To(Equal(settled), "applying the same again writes")
		}
	},
		Entry("which applies on its own side", specPatience),
		Entry("which applies on the server's side", specPatience, "--server-side", "--field-manager="+fieldManager),
	)
})
