package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/sandbox-operator/sandbox-operator/hack/dev/stack"
)

// keeper does what a cluster's node would: it starts parts again that ended, each
// once what it needs runs.
type keeper struct {
	stack *stack.Stack
	// flags are those of each replica of the operator.
	flags map[stack.Part][]string

	// acting is held by whoever starts or ends a part.
	acting sync.Mutex

	mutex sync.Mutex
	// up are the parts that run, held those that a fault keeps from being started.
	up   map[stack.Part]bool
	held map[stack.Part]int
	// daemons are the process ids that the daemon had.
	daemons map[int]bool
	// kills, exits and flops count the parts that faults killed, that ended by
	// themselves, and whose start failed.
	kills, exits, flops map[stack.Part]int
}

// order is that of the starts; needs says what must run before.
var (
	order = []stack.Part{
		stack.Etcd, stack.APIServer, stack.ControllerManager, stack.Engine, stack.Daemon, stack.Operator, stack.Standby,
	}
	needs = map[stack.Part][]stack.Part{
		stack.APIServer: {stack.Etcd}, stack.ControllerManager: {stack.Etcd, stack.APIServer}, stack.Daemon: {stack.Engine},
		stack.Operator: {stack.Etcd, stack.APIServer}, stack.Standby: {stack.Etcd, stack.APIServer},
	}
)

func newKeeper(s *stack.Stack, flags map[stack.Part][]string) *keeper {
	return &keeper{
		stack: s, flags: flags, held: map[stack.Part]int{}, daemons: map[int]bool{},
		up:    map[stack.Part]bool{stack.Etcd: true, stack.APIServer: true, stack.ControllerManager: true, stack.Engine: true},
		kills: map[stack.Part]int{}, exits: map[stack.Part]int{}, flops: map[stack.Part]int{},
	}
}

const (
	keepPoll = 100 * time.Millisecond
	// restartPause spaces the starts of a part that ends at its start.
	restartPause = time.Second
)

// keep goes on until the context ends.
func (k *keeper) keep(ctx context.Context) {
	for wait(ctx, keepPoll) {
		k.noteEnded()
		for _, part := range order {
			if k.due(part) {
				k.start(ctx, part)
			}
		}
	}
}

func (k *keeper) due(part stack.Part) bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return !k.up[part] && k.held[part] == 0 &&
		!slices.ContainsFunc(needs[part], func(need stack.Part) bool { return !k.up[need] })
}

// start tries once; the next round tries again.
func (k *keeper) start(ctx context.Context, part stack.Part) {
	k.acting.Lock()
	defer k.acting.Unlock()
	k.stack.SetOperatorFlags(k.flags[part]...)
	err := k.stack.StartPart(ctx, part)
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if err != nil && ctx.Err() == nil {
		k.flops[part]++
		go func() { // the pause must not keep the others down
			defer k.release(part)
			wait(ctx, restartPause)
		}()
		k.held[part]++
		return
	}
	k.up[part] = err == nil
	if pid := k.stack.PID(stack.Daemon); part == stack.Daemon && pid != 0 {
		k.daemons[pid] = true
	}
}

// noteEnded finds the parts that ended without a fault's doing, as an operator does
// that lost its lease.
func (k *keeper) noteEnded() {
	select {
	case err := <-k.stack.Failed():
		_ = err // who it was is seen below
	default:
	}
	k.acting.Lock()
	defer k.acting.Unlock()
	for _, part := range order {
		if pid := k.stack.PID(part); pid != 0 && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) && k.stack.KillPart(part) == nil {
			k.mutex.Lock()
			k.up[part] = false
			k.exits[part]++
			k.mutex.Unlock()
		}
	}
}

// kill ends a part as a crash would, and keeps it down until release.
func (k *keeper) kill(ctx context.Context, part stack.Part) {
	k.mutex.Lock()
	k.held[part]++
	k.kills[part]++
	k.mutex.Unlock()
	k.acting.Lock()
	defer k.acting.Unlock()
	if part == stack.Engine {
		_ = k.stack.StopPart(ctx, part) // its connections drop without a word
	} else {
		_ = k.stack.KillPart(part) // it may have ended a moment ago
	}
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.up[part] = false
}

func (k *keeper) release(part stack.Part) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.held[part]--
}

// allUp says whether every part runs.
func (k *keeper) allUp() bool {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return !slices.ContainsFunc(order, func(part stack.Part) bool { return !k.up[part] })
}

// awaitAll waits until every part runs.
func (k *keeper) awaitAll(ctx context.Context) error {
	for !k.allUp() {
		if !wait(ctx, keepPoll) {
			return fmt.Errorf("not every part runs: %s", k.String())
		}
	}
	return nil
}

// String says what became of the parts.
func (k *keeper) String() string {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	text := ""
	for _, part := range order {
		if k.kills[part]+k.exits[part]+k.flops[part] > 0 || !k.up[part] {
			text += fmt.Sprintf("%s killed %d, ended %d, failed to start %d; ", part, k.kills[part], k.exits[part], k.flops[part])
		}
	}
	return text
}
