package main

import (
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/controllers"
)

// newManager makes the manager, whose writes the fence guards. Reads by kind:
//
//   - cached: the three kinds of this group, without what controllers.SlimCache
//     takes out of them; ConfigMaps as metadata only, to notice their changes
//   - past the cache: Secrets and ConfigMaps of users, the operator's own
//     ConfigMap and Secret
func newManager(o options, fence *fence) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := sandboxv1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the Kubernetes API server: %w", err)
	}
	lock, err := fence.newLock(config, o.OperatorNamespace)
	if err != nil {
		return nil, err
	}
	grace, lease, deadline, retry := 50*time.Second, leaseDuration, renewDeadline, leaseRetry
	mgr, err := ctrl.NewManager(fence.protect(config), ctrl.Options{
		Scheme:                 scheme,
		Metrics:                metricsserver.Options{BindAddress: o.metricsAddress},
		HealthProbeBindAddress: o.probeAddress,
		LeaderElection:         o.leaderElect,
		LeaderElectionID:       leaseName,
		LeaseDuration:          &lease, RenewDeadline: &deadline, RetryPeriod: &retry,
		LeaderElectionResourceLockInterface: lock,
		// The process ends when it loses or gives up the lease, so giving it up at
		// once is safe and saves the next leader the wait.
		LeaderElectionReleaseOnCancel: true,
		GracefulShutdownTimeout:       &grace,
		Cache:                         cacheOptions(o),
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("making the manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, err
	}
	return mgr, mgr.AddReadyzCheck("caches", cachesSynced(mgr))
}

func cacheOptions(o options) cache.Options {
	options := cache.Options{DefaultTransform: controllers.SlimCache}
	if len(o.WatchNamespaces) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range o.WatchNamespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
	}
	return options
}

// cachesSynced is ready once what the operator watches has been read. A replica
// that waits for the lease is ready too.
func cachesSynced(mgr ctrl.Manager) healthz.Checker {
	return func(r *http.Request) error {
		if !mgr.GetCache().WaitForCacheSync(r.Context()) {
			return fmt.Errorf("the caches have not been read yet")
		}
		return nil
	}
}
