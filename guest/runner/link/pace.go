package link

import "time"

const (
	// enoughSamples is how many calls each way a comparison takes.
	enoughSamples = 8
	// smoothing is the weight, as its inverse, of a new sample.
	smoothing = 8
	// trialShare is which of the calls are executed while the two ways are tried side
	// by side: one of so many.
	trialShare = 4
	// slowPause is how long calls are executed once the link was slower.
	slowPause = 30 * time.Second
)

// pace compares what the two ways to a guest cost beyond the handler's own time. What
// is known of executions is mostly from before the link was open, often of a quieter
// time; so if the link seems slower, both are tried side by side before it rests.
type pace struct {
	exec, link smoothed
	// trial is true while both ways are tried, calls counts those that began in it.
	trial bool
	calls int
	// usual is what an execution cost when it was last known.
	usual time.Duration
	// until is when the link is to be tried again.
	until time.Time
}

// executed takes in what a call by execution cost.
func (p *pace) executed(overhead time.Duration) {
	p.exec.add(overhead)
	p.usual = p.exec.mean
}

// linked takes in what a call over the link cost.
func (p *pace) linked(overhead time.Duration, now time.Time) {
	p.link.add(overhead)
	if p.exec.count < enoughSamples || p.link.count < enoughSamples {
		return
	}
	slower := p.link.mean > p.exec.mean
	switch {
	case slower && p.trial:
		p.until = now.Add(slowPause)
		p.renew() // What is to come then must not answer for this.
	case slower:
		p.exec = smoothed{}
		p.renew()
		p.trial = true
	default:
		p.trial = false
	}
}

// renew forgets what is known of the link.
func (p *pace) renew() { p.link, p.trial, p.calls = smoothed{}, false, 0 }

// refused takes in what a call cost that the guest did not run: that, and the
// execution which follows.
func (p *pace) refused(elapsed time.Duration, now time.Time) { p.linked(elapsed+p.usual, now) }

// usesLink says which way a call is to go that begins now.
func (p *pace) usesLink(now time.Time) bool {
	if p.trial {
		p.calls++
		return p.calls%trialShare != 0
	}
	return !now.Before(p.until)
}

// smoothed is an exponentially weighted mean.
type smoothed struct {
	mean  time.Duration
	count int
}

func (s *smoothed) add(sample time.Duration) {
	sample = max(sample, 0)
	if s.count == 0 {
		s.mean = sample
	} else {
		s.mean += (sample - s.mean) / smoothing
	}
	s.count++
}

const (
	// burstCalls within burstWindow make a link worth its opening.
	burstCalls  = 8
	burstWindow = 10 * time.Second
)

// burst remembers when the last calls were.
type burst struct {
	times [burstCalls]time.Time
	next  int
}

// add says whether there have been enough calls lately, this one among them.
func (b *burst) add(now time.Time) bool {
	b.times[b.next] = now
	b.next = (b.next + 1) % burstCalls
	oldest := b.times[b.next]
	return !oldest.IsZero() && now.Sub(oldest) <= burstWindow
}
