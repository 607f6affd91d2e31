package sandboxfunction

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/sandbox-operator/sandbox-operator/bus/publish"
)

const (
	// confirmTimeout bounds one round with the engine.
	confirmTimeout = 10 * time.Second
	// confirmPoll is the first distance of questions while a registration takes
	// effect; it doubles.
	confirmPoll = 10 * time.Millisecond
	// confirmTries bounds the questions of one round, which take 0.6 s then.
	confirmTries = 6
	// confirmsAtOnce is how many rounds go on at the same time: after a reconnect
	// every function wants one.
	confirmsAtOnce = 16
	// rebindRetry is how often what the engine does not list is registered again,
	// in case that it was refused for a reason that has passed.
	rebindRetry = 10 * time.Second
)

// confirmation is what the engine said of a registration.
type confirmation struct {
	key   registrationKey
	owner publish.Owner
	// bound holds the ids of the triggers that the engine lists.
	bound map[string]bool
	// at is when the engine was asked, registered when it was told.
	at, registered time.Time
}

// complete says that nothing is missing of what the registration wanted.
func (c *confirmation) complete(want registration) bool {
	if !c.owner.Ours {
		return false
	}
	for _, t := range want.triggers {
		if !c.bound[t.ID] {
			return false
		}
	}
	return true
}

// recheck is how long an incomplete confirmation is left alone.
func (c *confirmation) recheck() time.Duration {
	if c.foreign() {
		return takenRetry
	}
	return unconfirmedRetry
}

// foreign says that another worker owns the function id.
func (c *confirmation) foreign() bool { return c.owner.Found && !c.owner.Ours }

// confirm registers the function and its triggers, and asks the engine what came
// of it, in the background. What it found last stays valid until the next answer.
func (r *Reconciler) confirm(sc *scope, want registration) {
	uid := string(sc.obj.UID)
	if r.confirms.Running(uid) {
		return
	}
	if done, ok := r.confirms.Take(uid); ok && done.Err == nil {
		result := done.Result // Without the rest of what the table returns.
		sc.known.confirmed = &result
	} else if ok && done.Result.key == want.key {
		// Its end woke us, so trying again at once would never pause.
		sc.requeueIn(spread(unconfirmedRetry))
		return
	}
	c := sc.known.confirmed
	current := c != nil && c.key == want.key
	if current && (c.complete(want) || r.Clock.Since(c.at) < c.recheck()) {
		return
	}
	if !r.Publisher.Connected() {
		return
	}
	round := r.register
	if current && c.owner.Ours && r.Clock.Since(c.registered) < rebindRetry {
		registered := c.registered
		round = func(ctx context.Context, want registration) (confirmation, error) {
			return r.ask(ctx, want, registered, 0)
		}
	}
	r.replaceTriggers(sc, want.triggers)
	key := sc.key
	r.confirms.Start(uid, func(ctx context.Context) (confirmation, error) {
		if err := r.confirming.Acquire(ctx, 1); err != nil {
			return confirmation{key: want.key}, err
		}
		defer r.confirming.Release(1)
		ctx, cancel := context.WithTimeout(ctx, confirmTimeout)
		defer cancel()
		return round(ctx, want)
	}, func() { r.waker.Wake(key) })
}

// spread lengthens a wait by up to a quarter, so that functions that began to
// wait together do not ask together for ever.
func spread(d time.Duration) time.Duration { return wait.Jitter(d, 0.25) }

// replaceTriggers takes back the triggers that are no longer wanted and notes
// those that this process binds from now on. No confirmation may be under way,
// since it could bind what is taken back here.
func (r *Reconciler) replaceTriggers(sc *scope, triggers []publish.Trigger) {
	var wanted map[string]bool
	if len(triggers) > 0 {
		wanted = make(map[string]bool, len(triggers))
	}
	for _, t := range triggers {
		wanted[t.ID] = true
		r.memory.bindTrigger(t.ID, sc.key)
	}
	for id := range sc.known.triggerIDs {
		if !wanted[id] {
			r.dropTrigger(id)
		}
	}
	sc.known.triggerIDs = wanted
}

func (r *Reconciler) dropTrigger(id string) {
	r.Publisher.UnbindTrigger(id)
	r.memory.forgetTrigger(id)
}

// register asks first: registering an id that another worker holds would only be
// refused, and answers to it would cross.
func (r *Reconciler) register(ctx context.Context, want registration) (confirmation, error) {
	id := want.publication.FunctionID
	c := confirmation{key: want.key, at: r.Clock.Now()}
	var err error
	if c.owner, err = r.Publisher.Owner(ctx, id); err != nil || c.foreign() {
		return c, err
	}
	if err := r.Publisher.Publish(want.publication); err != nil {
		return c, fmt.Errorf("registering %s: %w", id, err)
	}
	for _, t := range want.triggers {
		if err := r.Publisher.BindTrigger(t); err != nil {
			return c, fmt.Errorf("binding a trigger of %s: %w", id, err)
		}
	}
	return r.ask(ctx, want, r.Clock.Now(), confirmTries)
}

// ask repeats for a moment, since the engine acts on a registration only after
// it has read it.
func (r *Reconciler) ask(ctx context.Context, want registration, registered time.Time, tries int) (confirmation, error) {
	c := confirmation{key: want.key, registered: registered}
	for try := 0; ; try++ {
		if err := r.look(ctx, want, &c); err != nil {
			return c, err
		}
		if c.complete(want) || c.foreign() || try >= tries {
			return c, nil
		}
		select {
		case <-r.Clock.After(confirmPoll << try):
		case <-ctx.Done():
			return c, ctx.Err()
		}
	}
}

// look asks once.
func (r *Reconciler) look(ctx context.Context, want registration, c *confirmation) (err error) {
	if c.owner, err = r.Publisher.Owner(ctx, want.publication.FunctionID); err != nil {
		return err
	}
	if len(want.triggers) > 0 {
		if c.bound, err = r.Publisher.BoundTriggers(ctx, want.publication.FunctionID); err != nil {
			return err
		}
	}
	c.at = r.Clock.Now()
	return nil
}
