package bus

import (
	"testing"
	"time"
)

func TestHandlers_waitForFurtherJobs(t *testing.T) {
	var h handlers
	const jobs = 2 * maxIdleHandlers
	begun, end, ended := make(chan int), make(chan struct{}), make(chan int, 2*jobs)
	for i := range jobs {
		h.run(func() { begun <- i; <-end; ended <- i })
	}
	for range jobs {
		receive(t, begun) // So all go on at the same time.
	}
	close(end)
	for range jobs {
		receive(t, ended)
	}
	eventuallyIdle(t, &h, maxIdleHandlers)
	for i := range jobs {
		h.run(func() { ended <- i })
	}
	got := map[int]bool{}
	for range jobs {
		got[receive(t, ended)] = true
	}
	if len(got) != jobs {
		t.Errorf("%d of %d jobs have run", len(got), jobs)
	}
	h.close()
	h.run(func() { ended <- 0 })
	receive(t, ended)
	if idle := h.waiting(); idle != 0 {
		t.Errorf("%d goroutines wait after the end", idle)
	}
}

func (h *handlers) waiting() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.idle)
}

func eventuallyIdle(t *testing.T, h *handlers, want int) {
	t.Helper()
	poll, limit := time.NewTicker(time.Millisecond), time.After(patience)
	defer poll.Stop()
	for h.waiting() != want {
		select {
		case <-poll.C:
		case <-limit:
			t.Fatalf("%d goroutines wait, want %d", h.waiting(), want)
		}
	}
}

// BenchmarkHandlers is a handler with some stack, as most have.
func BenchmarkHandlers(b *testing.B) {
	for name, run := range map[string]func(*handlers, func()){
		"new":    func(_ *handlers, job func()) { go job() },
		"waited": (*handlers).run,
	} {
		b.Run(name, func(b *testing.B) {
			var h handlers
			done := make(chan byte, 1)
			b.ReportAllocs()
			for b.Loop() {
				run(&h, func() { done <- deep(32) })
				<-done
			}
			h.close()
		})
	}
}

//go:noinline
func deep(n int) byte {
	var frame [256]byte
	if n > 0 {
		frame[n] = deep(n - 1)
	}
	return frame[n]
}
