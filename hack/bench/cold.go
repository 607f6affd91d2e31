package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/sandbox-operator/sandbox-operator/api/v1alpha1"
	"github.com/sandbox-operator/sandbox-operator/guest"
	"github.com/sandbox-operator/sandbox-operator/guest/runner"
	"github.com/sandbox-operator/sandbox-operator/guest/wire"
	"github.com/sandbox-operator/sandbox-operator/sandbox"
)

// shortestIdle is the API's smallest idle time.
const shortestIdle = 30

func coldName(l language, i int) string { return fmt.Sprintf("cold-%s-%d", l.name, i) }

// prepareCold publishes functions with runtimes of their own, which stop while
// other things are measured. Each is there for one call.
func (b *bench) prepareCold(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range languages {
		for i := range b.plan.cold {
			group.Go(func() error { return b.applyCold(ctx, l, i) })
		}
	}
	return group.Wait()
}

func (b *bench) applyCold(ctx context.Context, l language, i int) error {
	runtime := newRuntime(coldName(l, i), l, "cold")
	runtime.Spec.GuestSpec = v1alpha1.GuestSpec{}
	runtime.Spec.Idle = &v1alpha1.IdlePolicy{Action: v1alpha1.IdleStop, TimeoutSeconds: ptr.To[int32](shortestIdle)}
	if err := b.kube.Create(ctx, runtime); err != nil {
		return err
	}
	_, err := b.applyFunction(ctx, newFunction(runtime.Name, works[0].sources[l.name], runtime.Name))
	return err
}

// measureCold sets calls of stopped runtimes against what no way can do without: a
// sandbox, the agent in it, and an interpreter that calls the handler.
func (b *bench) measureCold(ctx context.Context) error {
	if err := b.awaitStopped(ctx); err != nil {
		return err
	}
	var plants samplesOf
	worst := math.Inf(-1)
	for _, l := range languages {
		f, calls := floor{}, samplesOf{}
		for i := range max(b.plan.cold, b.plan.floors) {
			if i < b.plan.floors {
				if err := b.measureFloor(ctx, l, &f); err != nil {
					return fmt.Errorf("a fresh sandbox: %w", err)
				}
			}
			if i < b.plan.cold {
				took, err := b.timedOnce(ctx, functionPrefix+coldName(l, i))
				if err != nil {
					return fmt.Errorf("a call of a stopped runtime: %w", err)
				}
				calls = append(calls, took)
			}
		}
		over := calls.median() - f.create.median() - f.plant.median() - f.interpreter.median()
		f.store(b, "cold."+l.name+".")
		b.metrics["cold."+l.name+".call_ms"], b.metrics["call."+l.name+".cold_over_floor_ms"] = calls.median(), over
		plants = append(plants, f.plant...)
		worst = max(worst, over)
	}
	b.metrics["call.cold_over_floor_ms"], b.metrics["plant_ms"] = worst, plants.median()
	return nil
}

func (b *bench) timedOnce(ctx context.Context, function string) (time.Duration, error) {
	n := int(numbers.Add(1))
	began := time.Now()
	answer, err := b.raw(ctx, function, works[0].payload(n))
	took := time.Since(began)
	if err == nil {
		err = works[0].check(n, answer)
	}
	return took, err
}

// awaitStopped waits until no instance of the cold runtimes is left.
func (b *bench) awaitStopped(ctx context.Context) error {
	for _, l := range languages {
		for i := range b.plan.cold {
			runtime := &v1alpha1.SandboxRuntime{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: coldName(l, i)}}
			err := b.awaitRuntime(ctx, runtime, func(r *v1alpha1.SandboxRuntime) bool { return r.Status.Replicas == 0 })
			if err != nil {
				return fmt.Errorf("waiting until it stops: %w", err)
			}
		}
	}
	return nil
}

// floor is what a fresh sandbox takes. source is planting the function, which the
// operator does and a floor does without.
type floor struct{ create, plant, source, interpreter samplesOf }

func (f floor) store(b *bench, prefix string) {
	for name, taken := range map[string]samplesOf{
		"create": f.create, "plant": f.plant, "plant_source": f.source, "interpreter": f.interpreter,
	} {
		b.metrics[prefix+name+"_ms"] = taken.median()
	}
}

// measureFloor boots a sandbox as the operator does, and lets an interpreter call
// the handler there.
func (b *bench) measureFloor(ctx context.Context, l language, f *floor) error {
	program, err := guest.Program()
	if err != nil {
		return err
	}
	planter := runner.New(b.provider, program)
	planter.Warm = true
	booted, err := planter.Boot(ctx, sandbox.CreateRequest{
		Image: l.name, IdleTimeout: time.Hour,
		Marker: sandbox.Marker{Operator: "bench", Object: "floor", Nonce: sandbox.NewNonce()},
	})
	if err != nil {
		return err
	}
	defer func() { _ = b.provider.Stop(context.WithoutCancel(ctx), booted.ID) }() // The daemon's end removes what is left.
	f.create, f.plant = append(f.create, booted.Create), append(f.plant, booted.Prepare)
	took, err := b.interpret(ctx, l, booted.ID)
	if err != nil {
		return err
	}
	f.interpreter = append(f.interpreter, took)
	began := time.Now()
	err = planter.Plant(ctx, booted.ID, wire.PlantRequest{
		Language: wire.Language(l.name), Source: works[0].sources[l.name], Handler: "handler",
	})
	f.source = append(f.source, time.Since(began))
	return err
}

// interpret calls the handler by the least there is.
func (b *bench) interpret(ctx context.Context, l language, id sandbox.ID) (time.Duration, error) {
	host, err := guestFile("host/bare." + l.extension)
	if err != nil {
		return 0, err
	}
	hostPath, handlerPath := "/bench/bare."+l.extension, "/bench/handler."+l.extension
	for name, content := range map[string]string{hostPath: host, handlerPath: works[0].sources[l.name]} {
		if err := b.write(ctx, id, name, content); err != nil {
			return 0, err
		}
	}
	command := map[string]string{"node": "node", "python": "python3"}[l.name]
	n := int(numbers.Add(1))
	began := time.Now()
	result, err := b.provider.Exec(ctx, id, sandbox.ExecRequest{
		Argv: []string{command, hostPath, handlerPath}, Stdin: works[0].payload(n), Timeout: originalTimeout,
	})
	took := time.Since(began)
	if err == nil {
		err = works[0].check(n, result.Stdout)
	}
	return took, err
}
