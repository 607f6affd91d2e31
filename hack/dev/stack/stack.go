package stack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Part names one of the programs of a stack.
type Part string

// The parts, in the order in which they start; they end in the reverse order.
// The order matters at the end: an API server whose etcd is gone does not stop.
const (
	Etcd              Part = "etcd"
	APIServer         Part = "kube-apiserver"
	ControllerManager Part = "kube-controller-manager"
	Engine            Part = "engine"
	Daemon            Part = "sandbox-daemon"
	Operator          Part = "operator"
	// Standby is a second replica of the operator. Start leaves it out: whoever
	// wants it has both compete for the lease with SetOperatorFlags.
	Standby Part = "operator-standby"
)

var startOrder = []Part{Etcd, APIServer, ControllerManager, Engine, Daemon, Operator, Standby}

// Stack is a running stack. Its fields may be read between Start and Stop. Its
// methods may be called from several goroutines, but not Stop with others.
type Stack struct {
	// Kubeconfig is a file with the rights of an administrator,
	// OperatorKubeconfig one with those of the operator's service account.
	Kubeconfig         string
	OperatorKubeconfig string
	// BusURL is the engine's worker port for the trusted, GuestBusURL the one for
	// guests, HTTPURL the base of http triggers.
	BusURL      string
	GuestBusURL string
	HTTPURL     string
	// MetricsURL and ProbeURL are those of Operator; they change when it is started
	// again.
	MetricsURL string
	ProbeURL   string

	options     Options
	nursery     *nursery
	lock        *os.File
	credentials credentials
	manifests   manifests
	account     serviceAccount
	etcdURL     string

	busAddress, guestAddress, httpAddress string
	// etcdPorts and apiServerPorts are those of their first start.
	etcdPorts, apiServerPorts []int

	failed chan error

	mutex   sync.Mutex
	running []runningPart
	// operatorFlags are those of SetOperatorFlags.
	operatorFlags []string
}

type runningPart struct {
	part    Part
	stopper stopper
}

// stopper is how a part ends.
type stopper interface {
	// stop ends it, in haste once the context has ended.
	stop(ctx context.Context) error
	// ended is closed when the part is gone.
	ended() <-chan struct{}
}

func (p *process) ended() <-chan struct{} { return p.done }

// Start starts all parts, waits until each is ready and installs config/default.
// The context bounds the start only. After an error everything has ended again.
func Start(ctx context.Context, options Options) (*Stack, error) {
	options, err := options.complete()
	if err != nil {
		return nil, err
	}
	s := &Stack{
		Kubeconfig:         filepath.Join(options.Dir, "kubeconfig"),
		OperatorKubeconfig: filepath.Join(options.Dir, "state", "operator.kubeconfig"),
		options:            options,
		busAddress:         options.BusAddress, guestAddress: "127.0.0.1:0", httpAddress: options.HTTPAddress,
		failed: make(chan error, 1),
	}
	if s.lock, err = lockFolder(options.Dir); err != nil {
		return nil, err
	}
	s.nursery = newNursery()
	if err := s.startAll(ctx); err != nil {
		return nil, errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
	}
	return s, nil
}

func (s *Stack) startAll(ctx context.Context) error {
	if err := s.prepare(ctx); err != nil {
		return err
	}
	for _, part := range []Part{Etcd, APIServer} {
		if err := s.StartPart(ctx, part); err != nil {
			return err
		}
	}
	if err := s.step("config/default installed", "", func() error { return s.installManifests(ctx) }); err != nil {
		return err
	}
	for _, part := range s.partsAfterInstall() {
		if err := s.StartPart(ctx, part); err != nil {
			return err
		}
	}
	return s.writeEnv()
}

func (s *Stack) partsAfterInstall() []Part {
	parts := []Part{ControllerManager, Engine}
	if !s.options.SkipDaemon {
		parts = append(parts, Daemon)
	}
	if !s.options.SkipOperator {
		parts = append(parts, Operator)
	}
	return parts
}

// prepare makes what must exist before the first program starts.
func (s *Stack) prepare(ctx context.Context) error {
	if err := s.prepareFolders(); err != nil {
		return err
	}
	var err error
	if s.manifests, err = s.renderManifests(ctx); err != nil {
		return err
	}
	s.account = s.manifests.account
	s.credentials, err = makeCredentials(filepath.Join(s.stateDir(), "pki"), s.account)
	return err
}

// StartPart starts a part that does not run, as Start does. Each may be started
// again after StopPart or KillPart; etcd, the API server and the engine come back
// at their addresses.
func (s *Stack) StartPart(ctx context.Context, part Part) error {
	starters := map[Part]func(context.Context) (stopper, string, error){
		Etcd: s.startEtcd, APIServer: s.startAPIServer, ControllerManager: s.startControllerManager,
		Engine: s.startEngine, Daemon: s.startDaemon, Operator: s.startOperator, Standby: s.startStandby,
	}
	start, ok := starters[part]
	if !ok {
		return fmt.Errorf("there is no part %q", part)
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.find(part) >= 0 {
		return fmt.Errorf("%s runs already", part)
	}
	began := time.Now()
	started, detail, err := start(ctx)
	if started != nil {
		s.running = append(s.running, runningPart{part, started})
	}
	if err != nil {
		return fmt.Errorf("starting %s: %w", part, err)
	}
	go s.watch(part, started)
	s.options.Progress(Step{Name: string(part), Detail: detail, Took: time.Since(began)})
	return nil
}

// watch reports a part that ends without being asked to.
func (s *Stack) watch(part Part, watched stopper) {
	ended := watched.ended()
	if ended == nil {
		return
	}
	<-ended
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if i := s.find(part); i < 0 || s.running[i].stopper != watched {
		return
	}
	select {
	case s.failed <- fmt.Errorf("%s ended by itself; its log is %s", part, filepath.Join(s.options.LogDir, string(part)+".log")):
	default: // one failure is enough to end the stack
	}
}

// Failed gets an error when a part ends without being asked to.
func (s *Stack) Failed() <-chan error { return s.failed }

// find returns the index of a running part, or -1; the mutex is held.
func (s *Stack) find(part Part) int {
	return slices.IndexFunc(s.running, func(r runningPart) bool { return r.part == part })
}

func (s *Stack) stateDir() string { return filepath.Join(s.options.Dir, "state") }

// LogPath is where a part's output goes.
func (s *Stack) LogPath(part Part) string {
	return filepath.Join(s.options.LogDir, string(part)+".log")
}

// RunsNamespace is where calls on the bus become objects.
func (s *Stack) RunsNamespace() string { return s.options.RunsNamespace }

func (s *Stack) step(name, detail string, act func() error) error {
	began := time.Now()
	if err := act(); err != nil {
		return err
	}
	s.options.Progress(Step{Name: name, Detail: detail, Took: time.Since(began)})
	return nil
}
