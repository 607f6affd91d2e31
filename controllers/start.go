package controllers

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// startPatience bounds the wait for an API server that falters while the operator
	// starts. It ends before the liveness probe of config/manager ends the process, so
	// that the log says why.
	startPatience = 50 * time.Second
	// attemptTimeout bounds one attempt at a server that accepts and does not answer.
	attemptTimeout = 10 * time.Second
)

// startBackoff spaces the attempts. They go on at Cap.
var startBackoff = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.1, Cap: 5 * time.Second, Steps: 10}

// withAPI repeats an act that needs the API server, whatever its error: a server
// that has just started refuses with nearly any of them, as it knows neither the
// roles nor the custom resources yet. It gives up after startPatience with the last
// error, and at once when the context ends. The act must be repeatable.
func withAPI(ctx context.Context, act func(context.Context) error) error {
	log, began := ctrl.Log.WithName("setup"), time.Now()
	bounded, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	var failure error
	err := startBackoff.DelayFunc().Until(bounded, true, true, func(context.Context) (bool, error) {
		err := attempt(bounded, act)
		if err == nil {
			return true, nil
		}
		if failure == nil || bounded.Err() == nil {
			// What is cut off by the end of the wait says less than what was before.
			failure = err
		}
		log.Info("The API server cannot be used yet; it is tried again",
			"cause", err.Error(), "left", time.Until(began.Add(startPatience)).Round(time.Second).String())
		return false, nil
	})
	switch {
	case err == nil && failure != nil:
		log.Info("The API server can be used", "waited", time.Since(began).Round(time.Millisecond).String())
		return nil
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("the API server could not be used for %s: %w", startPatience, failure)
}

func attempt(ctx context.Context, act func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	return act(ctx)
}

// patientIndexer adds each index once the API server serves its kind. A failed
// attempt has added nothing.
type patientIndexer struct{ client.FieldIndexer }

// IndexField implements client.FieldIndexer.
func (i patientIndexer) IndexField(ctx context.Context, obj client.Object, field string, extract client.IndexerFunc) error {
	return withAPI(ctx, func(ctx context.Context) error { return i.FieldIndexer.IndexField(ctx, obj, field, extract) })
}
