package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
)

// cronFields are six, seconds first (contracts/iii-bus.md §6.3); times are UTC.
var cronFields = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// schedules is the provider of cron triggers.
type schedules struct {
	engine *Engine

	mu    sync.Mutex
	stops map[string]context.CancelFunc
}

func newSchedules(e *Engine) *schedules {
	return &schedules{engine: e, stops: map[string]context.CancelFunc{}}
}

func (s *schedules) bind(b *binding) error {
	var config struct {
		conditional
		Expression string `json:"expression"`
	}
	if err := b.decodeConfig(&config); err != nil {
		return err
	}
	schedule, err := cronFields.Parse(config.Expression)
	if err != nil {
		return fmt.Errorf("invalid cron expression %q: %w", config.Expression, err)
	}
	ctx, cancel := context.WithCancel(s.engine.ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stops[b.id] = cancel
	s.engine.tasks.start(func() { s.run(ctx, b, schedule, config.ConditionFunctionID) })
	return nil
}

func (s *schedules) unbind(b *binding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stop := s.stops[b.id]; stop != nil {
		stop()
		delete(s.stops, b.id)
	}
}

func (s *schedules) run(ctx context.Context, b *binding, schedule cron.Schedule, condition string) {
	for at := schedule.Next(time.Now().UTC()); !at.IsZero(); at = schedule.Next(later(at, time.Now().UTC())) {
		timer := time.NewTimer(time.Until(at))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		s.engine.fire(b, condition, mustJSON(map[string]string{
			"trigger": "cron", "job_id": b.id,
			"scheduled_time": at.Format(time.RFC3339Nano), "actual_time": time.Now().UTC().Format(time.RFC3339Nano),
		}))
	}
}

// later keeps a clock that was set back from firing a time twice.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
