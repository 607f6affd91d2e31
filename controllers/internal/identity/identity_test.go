package identity_test

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/sandbox-operator/sandbox-operator/bus"
	"github.com/sandbox-operator/sandbox-operator/bus/guestaccess"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/identity"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/testenv"
)

var environment *testenv.Environment

func TestIdentity(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "Identity")
}

var _ = BeforeSuite(func() {
	var err error
	environment, err = testenv.Start(testenv.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(environment.Stop()).To(Succeed()) })
})

// creations counts what is created through a client, also in vain.
type creations struct {
	client.Client
	count int
}

func (c *creations) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	c.count++
	return c.Client.Create(ctx, obj, opts...)
}

var _ = Describe("Store", func() {
	var namespace string
	var store *identity.Store

	BeforeEach(func(ctx SpecContext) {
		var err error
		namespace, err = environment.NewNamespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		store = identity.NewStore(environment.Client, namespace)
	})

	It("names the installation once, for every process", func(ctx SpecContext) {
		id, err := store.OperatorID(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(id).NotTo(BeEmpty())
		Expect(identity.NewStore(environment.Client, namespace).OperatorID(ctx)).To(Equal(id))
	})

	It("writes nothing at the starts after the first", func(ctx SpecContext) {
		first := &creations{Client: environment.Client}
		id, err := identity.NewStore(first, namespace).OperatorID(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(first.count).To(Equal(1))
		later := &creations{Client: environment.Client}
		Expect(identity.NewStore(later, namespace).OperatorID(ctx)).To(Equal(id))
		Expect(later.count).To(BeZero())
	})

	It("names the installation once for processes that start together", func(ctx SpecContext) {
		ids := make(chan string, 8)
		for range cap(ids) {
			go func() {
				defer GinkgoRecover()
				id, err := identity.NewStore(environment.Client, namespace).OperatorID(ctx)
				Expect(err).NotTo(HaveOccurred())
				ids <- id
			}()
		}
		var first string
		Eventually(ctx, ids).Should(Receive(&first))
		for range cap(ids) - 1 {
			Eventually(ctx, ids).Should(Receive(Equal(first)))
		}
	}, NodeTimeout(time.Minute))

	It("tells installations apart", func(ctx SpecContext) {
		id, err := store.OperatorID(ctx)
		Expect(err).NotTo(HaveOccurred())
		other, err := environment.NewNamespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(identity.NewStore(environment.Client, other).OperatorID(ctx)).NotTo(Equal(id))
	})

	It("keeps the bus session in one Secret and nowhere else", func(ctx SpecContext) {
		Expect(store.Session(ctx)).To(Equal(bus.ReattachPair{}))
		for _, pair := range []bus.ReattachPair{{WorkerID: "w-1", Token: "t-1"}, {WorkerID: "w-2", Token: "t-2"}} {
			Expect(store.SaveSession(ctx, pair)).To(Succeed())
			Expect(identity.NewStore(environment.Client, namespace).Session(ctx)).To(Equal(pair))
		}
		var secret corev1.Secret
		Expect(environment.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: identity.SecretName}, &secret)).To(Succeed())
		Expect(secret.Labels).To(BeEmpty())
		Expect(secret.Annotations).To(BeEmpty())
	})

	It("makes the key of the guests once, whoever comes first", func(ctx SpecContext) {
		keys := make(chan []byte, 8)
		for range cap(keys) {
			go func() {
				defer GinkgoRecover()
				key, err := identity.NewStore(environment.Client, namespace).GuestKey(ctx)
				Expect(err).NotTo(HaveOccurred())
				keys <- key
			}()
		}
		var first []byte
		Eventually(ctx, keys).Should(Receive(&first))
		Expect(first).To(HaveLen(guestaccess.KeyBytes))
		for range cap(keys) - 1 {
			Eventually(ctx, keys).Should(Receive(Equal(first)))
		}
	}, NodeTimeout(time.Minute))

	It("keeps the key when the session is stored, and the session when the key is made", func(ctx SpecContext) {
		pair := bus.ReattachPair{WorkerID: "w-1", Token: "t-1"}
		Expect(store.SaveSession(ctx, pair)).To(Succeed())
		key, err := store.GuestKey(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(store.Session(ctx)).To(Equal(pair))
		Expect(store.SaveSession(ctx, bus.ReattachPair{WorkerID: "w-2", Token: "t-2"})).To(Succeed())
		Expect(store.GuestKey(ctx)).To(Equal(key))
	})

	It("makes another key once the Secret has gone", func(ctx SpecContext) {
		key, err := store.GuestKey(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(environment.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: identity.SecretName}})).To(Succeed())
		Expect(store.GuestKey(ctx)).NotTo(Equal(key))
	})

	It("says what it could not read, without the token", func(ctx SpecContext) {
		lost := identity.NewStore(environment.Client, "no-such-namespace")
		_, err := lost.OperatorID(ctx)
		Expect(err).To(MatchError(ContainSubstring("ConfigMap no-such-namespace/" + identity.ConfigMapName)))
		err = lost.SaveSession(ctx, bus.ReattachPair{WorkerID: "w", Token: "very-secret"})
		Expect(err).To(MatchError(ContainSubstring("Secret no-such-namespace/" + identity.SecretName)))
		Expect(strings.Contains(err.Error(), "very-secret")).To(BeFalse())
	})
})
