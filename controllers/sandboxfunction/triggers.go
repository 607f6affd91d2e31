package sandboxfunction

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	sandboxv1alpha1 "github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/bus/publish"
	"github.com/sandbox-operator/sandbox-operator/controllers/internal/conditions"
)

// triggerNamespace makes trigger ids the same for the same trigger of the same
// object, so that binding again replaces.
var triggerNamespace = uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://sandbox.iii.dev/triggers"))

func triggerID(fn *sandboxv1alpha1.SandboxFunction, name string) string {
	return uuid.NewSHA1(triggerNamespace, []byte(string(fn.UID)+"/"+name)).String()
}

func wantedTriggers(fn *sandboxv1alpha1.SandboxFunction) []publish.Trigger {
	triggers := make([]publish.Trigger, 0, len(fn.Spec.Triggers))
	for _, t := range fn.Spec.Triggers {
		config := raw(t.Config)
		if config == nil {
			config = json.RawMessage("{}")
		}
		triggers = append(triggers, publish.Trigger{
			ID: triggerID(fn, t.Name), Type: t.Type, FunctionID: fn.Spec.FunctionID,
			Config: config, Metadata: raw(t.Metadata),
		})
	}
	return triggers
}

// bindTriggers writes the state of each trigger: registered only if the engine
// lists it.
func (r *Reconciler) bindTriggers(_ context.Context, sc *scope) (bool, error) {
	c := sc.known.confirmed
	sc.obj.Status.Triggers = nil
	pending := ""
	for _, t := range sc.obj.Spec.Triggers {
		id := triggerID(sc.obj, t.Name)
		status := sandboxv1alpha1.FunctionTriggerStatus{Name: t.Name, Registered: c.bound[id]}
		if status.Registered {
			r.memory.forgetRefusal(id)
		} else {
			status.Message = r.pendingMessage(sc, t)
			pending = t.Name
		}
		sc.obj.Status.Triggers = append(sc.obj.Status.Triggers, status)
	}
	if pending == "" {
		sc.known.pendingSince = time.Time{}
		return false, nil
	}
	if sc.known.pendingSince.IsZero() {
		sc.known.pendingSince = r.Clock.Now()
	}
	sc.requeueIn(spread(pendingRetry(r.Clock.Since(sc.known.pendingSince))))
	return sc.conclude(conditions.Waiting, sandboxv1alpha1.SandboxFunctionTriggersPendingReason,
		fmt.Sprintf("spec.triggers: %s is not registered; see status.triggers", pending))
}

// pendingRetry is how soon the engine is asked again for a trigger that has
// waited so long. A provider may never come, and the engine does not tell of one
// that does: a thousand functions must not ask every second for ever.
func pendingRetry(waited time.Duration) time.Duration {
	return min(max(waited/4, unconfirmedRetry), rebindRetry)
}

func (r *Reconciler) pendingMessage(sc *scope, t sandboxv1alpha1.FunctionTrigger) string {
	if refused := r.memory.refusal(triggerID(sc.obj, t.Name)); refused != "" {
		return cutMessage("the provider of trigger type " + t.Type + " refused it: " + refused)
	}
	return cutMessage(fmt.Sprintf("waits for a worker on the bus that provides the trigger type %q", t.Type))
}

const maxTriggerMessage = 512

func cutMessage(s string) string {
	runes := []rune(s)
	if len(runes) <= maxTriggerMessage {
		return s
	}
	return string(runes[:maxTriggerMessage-1]) + "…"
}
