package engine

import (
	"fmt"
	"time"
)

// Defaults and bounds of QueuePolicy.
const (
	defaultQueueRetries     = 3
	defaultQueueConcurrency = 10
	defaultQueueBackoff     = time.Second
	defaultQueueVisibility  = 30 * time.Second
	maxQueueBackoff         = time.Minute
	maxQueueConcurrency     = 1024
	maxQueueRetries         = 1000
)

// QueuePolicy says how a queue delivers. Zero fields have defaults; the names
// in JSON are those of queue_config (contracts/iii-bus.md §6.3).
type QueuePolicy struct {
	// Type is "standard" (the default; "concurrent" is another name) or "fifo":
	// one message at a time, in order, and a message that fails is retried before
	// the next one.
	Type string `json:"type,omitempty"`
	// MaxRetries is how often a failed message is delivered again before it is a
	// dead letter; nil means 3.
	MaxRetries *int `json:"maxRetries,omitempty"`
	// Concurrency is how many messages may be with their function; 0 means 10.
	Concurrency int `json:"concurrency,omitempty"`
	// VisibilityTimeout is how long a delivery may take, in seconds, before it
	// counts as failed; 0 means 30.
	VisibilityTimeout int `json:"visibilityTimeout,omitempty"`
	// DelaySeconds is how long a message waits before its first delivery.
	DelaySeconds int `json:"delaySeconds,omitempty"`
	// BackoffType is "exponential" (the default) or "fixed".
	BackoffType string `json:"backoffType,omitempty"`
	// BackoffDelayMs is the wait before the first retry, in milliseconds; 0 means
	// 1000. Later ones double it up to a minute.
	BackoffDelayMs int `json:"backoffDelayMs,omitempty"`
}

func (p QueuePolicy) validate() error {
	switch {
	case p.Type != "" && p.Type != "standard" && p.Type != "concurrent" && p.Type != "fifo":
		return fmt.Errorf("queue type %q is unknown", p.Type)
	case p.BackoffType != "" && p.BackoffType != "exponential" && p.BackoffType != "fixed":
		return fmt.Errorf("backoffType %q is unknown", p.BackoffType)
	case p.MaxRetries != nil && (*p.MaxRetries < 0 || *p.MaxRetries > maxQueueRetries):
		return fmt.Errorf("maxRetries must be 0 to %d", maxQueueRetries)
	case p.Concurrency < 0 || p.Concurrency > maxQueueConcurrency:
		return fmt.Errorf("concurrency must be 0 to %d", maxQueueConcurrency)
	case p.VisibilityTimeout < 0, p.DelaySeconds < 0, p.BackoffDelayMs < 0:
		return fmt.Errorf("times of a queue must not be negative")
	}
	return nil
}

func (p QueuePolicy) inOrder() bool { return p.Type == "fifo" }

func (p QueuePolicy) retries() int {
	if p.MaxRetries == nil {
		return defaultQueueRetries
	}
	return *p.MaxRetries
}

func (p QueuePolicy) concurrency() int {
	switch {
	case p.inOrder():
		return 1
	case p.Concurrency == 0:
		return defaultQueueConcurrency
	}
	return p.Concurrency
}

func (p QueuePolicy) visibility() time.Duration {
	if p.VisibilityTimeout == 0 {
		return defaultQueueVisibility
	}
	return time.Duration(p.VisibilityTimeout) * time.Second
}

func (p QueuePolicy) delay() time.Duration { return time.Duration(p.DelaySeconds) * time.Second }

// backoff is the wait before a retry; failures is at least 1.
func (p QueuePolicy) backoff(failures int) time.Duration {
	wait := defaultQueueBackoff
	if p.BackoffDelayMs > 0 {
		wait = time.Duration(p.BackoffDelayMs) * time.Millisecond
	}
	if p.BackoffType == "fixed" {
		return wait
	}
	for ; failures > 1 && wait < maxQueueBackoff; failures-- {
		wait *= 2
	}
	return min(wait, max(maxQueueBackoff, time.Duration(p.BackoffDelayMs)*time.Millisecond))
}
