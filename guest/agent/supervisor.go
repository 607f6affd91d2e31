package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

const (
	// tickBusy and tickIdle are the paces at which the supervisor looks at its
	// folder and at what has grown old, with processes to look after and without.
	tickBusy = time.Second
	tickIdle = 5 * time.Second
	// forgetPool is when a pool without processes or calls is forgotten.
	forgetPool = time.Hour
	// maxPools bounds what callers can make a supervisor remember.
	maxPools = 256
)

// supervisor keeps processes ready for calls. Connections are served by
// goroutines of their own; processes are started on the main one.
type supervisor struct {
	home     folder
	listener int
	budget   int64
	changed  chan struct{}
	quit     chan struct{}
	signals  chan os.Signal

	mutex sync.Mutex
	pools map[string]*pool
	// attendants are all keepers that have not been waited for.
	attendants map[*attendant]bool
	// links are those whose program has not been waited for.
	links       map[*link]bool
	wantedLinks []*link
	quitting    bool
}

func newSupervisor(home folder, listener int) *supervisor {
	s := &supervisor{
		home: home, listener: listener, budget: warmBudget(),
		changed: make(chan struct{}, 1), quit: make(chan struct{}, 1), signals: make(chan os.Signal, 1),
		pools: map[string]*pool{}, attendants: map[*attendant]bool{}, links: map[*link]bool{},
	}
	signal.Notify(s.signals, syscall.SIGTERM)
	return s
}

func (s *supervisor) run() error {
	own, err := os.Stat(s.socket())
	if err != nil {
		return err
	}
	go s.accept()
	defer s.end()
	timer := time.NewTimer(tickBusy)
	defer timer.Stop()
	for {
		select {
		case <-s.changed:
		case <-timer.C:
			if !s.inPlace(own) {
				return nil
			}
		case <-s.quit:
			return nil
		case <-s.signals:
			return nil
		}
		s.adjust()
		timer.Reset(s.pace())
	}
}

func (s *supervisor) socket() string { return filepath.Join(s.home.supervisor(), socketName) }

// inPlace reports whether callers can still reach this supervisor: its socket is
// where it was, and the agent is the one it was started from.
func (s *supervisor) inPlace(own os.FileInfo) bool {
	found, err := os.Stat(s.socket())
	if err != nil || !os.SameFile(found, own) {
		return false
	}
	agent, err := os.Stat(s.home.join(agentName))
	if err != nil {
		return false
	}
	running, err := os.Stat("/proc/self/exe")
	return err == nil && os.SameFile(agent, running)
}

func (s *supervisor) pace() time.Duration {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.attendants) > 0 {
		return tickBusy
	}
	return tickIdle
}

// delay makes the main goroutine look again after a while.
func (s *supervisor) delay(pause time.Duration) { time.AfterFunc(pause, s.wake) }

// wake makes the main goroutine look at what has changed.
func (s *supervisor) wake() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// end lets go of everything. Keepers notice and end by themselves, after the
// calls that they are at.
func (s *supervisor) end() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.quitting = true
	_ = os.Remove(s.socket())
	_ = syscall.Close(s.listener)
	for a := range s.attendants {
		a.control.Close()
	}
	for _, p := range s.pools {
		p.turnAway(0)
	}
	for l := range s.links {
		l.end()
	}
}

// adjust makes and ends processes as the policy says.
func (s *supervisor) adjust() {
	s.endStrays()
	s.startLinks()
	for _, a := range s.plan(time.Now()) {
		control, command, err := startKeeper(s.home, a.pool.spec)
		if err != nil {
			s.gone(a)
			continue
		}
		s.started(a, control, command)
		go s.follow(a)
	}
}

// started hands a new keeper what has come for it meanwhile.
func (s *supervisor) started(a *attendant, control *os.File, command *exec.Cmd) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	a.control, a.command, a.pid = control, command, command.Process.Pid
	if a.pending != nil {
		a.handPending()
	}
	if a.state == stateLeaving {
		a.dismiss()
	}
}

// endStrays ends what a keeper that was killed has left behind.
func (s *supervisor) endStrays() {
	s.mutex.Lock()
	own := map[int]bool{}
	for a := range s.attendants {
		own[a.pid] = true
	}
	for l := range s.links {
		own[l.command.Process.Pid] = true
	}
	s.mutex.Unlock()
	endStrays(quickChildren(), own)
}

// plan decides, under the lock, and returns the keepers to start.
func (s *supervisor) plan(now time.Time) (starts []*attendant) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for a := range s.attendants {
		if a.isStuck(now) {
			a.state = stateLeaving
			_ = a.command.Process.Kill()
		}
	}
	making := 0
	for key, p := range s.pools {
		if p.forgettable(now) {
			delete(s.pools, key)
			continue
		}
		making += p.count(stateMaking)
		starts = append(starts, p.unstarted()...)
	}
	asked := s.planAsked(now)
	ahead := s.planAhead(now, making+len(asked))
	return slices.Concat(starts, asked, ahead)
}

// planAsked begins what calls wait for. It has no regard for the memory that
// processes may take which wait for calls, nor for what is made for other
// functions: a cold start would have none.
func (s *supervisor) planAsked(now time.Time) (starts []*attendant) {
	for _, p := range s.pools {
		p.sweep(now)
		if now.Before(p.blockedUntil) {
			continue
		}
		for range min(p.unserved(), makingAsked()-p.count(stateMaking)) {
			starts = append(starts, s.attend(p, stateMaking))
		}
	}
	return starts
}

// planAhead begins what calls to come will want.
func (s *supervisor) planAhead(now time.Time, making int) (starts []*attendant) {
	var pools []*pool
	var views []poolView
	for _, p := range s.pools {
		pools, views = append(pools, p), append(views, p.view(now))
	}
	for i, allotted := range allot(now, views, s.budget) {
		p := pools[i]
		if pause := p.demand.pause(now); pause > 0 && p.mode == modeOnce {
			s.delay(pause)
			continue
		}
		for fresh := p.fresh(now); fresh < allotted && making < makingAhead(); fresh++ {
			starts = append(starts, s.attend(p, stateMaking))
			making++
		}
		p.shrink(now, allotted)
	}
	return starts
}

// makingAsked is how many processes of one function are made at one time if calls
// wait: what keeps the processors busy, and one for the moments at which another
// one waits.
func makingAsked() int { return runtime.NumCPU() + 1 }

// makingAhead is how many processes are made at one time that nobody waits for: at
// calls that come meanwhile some processors are free of them.
func makingAhead() int { return max(1, runtime.NumCPU()/2) }

// attend adds a keeper to a pool; it is started by the main goroutine.
func (s *supervisor) attend(p *pool, state state) *attendant {
	a := &attendant{pool: p, state: state, begun: time.Now()}
	p.attendants = append(p.attendants, a)
	s.attendants[a] = true
	return a
}
