package daemon

import (
	"testing"
	"time"
)

func TestEntry_idle(t *testing.T) {
	used := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		after    time.Duration
		inFlight int
		network  time.Duration
		want     bool
	}{
		"used just now":                        {after: 0},
		"unused for exactly its timeout":       {after: 300 * time.Second},
		"unused for longer":                    {after: 301 * time.Second, want: true},
		"a running program protects":           {after: 301 * time.Second, inFlight: 1},
		"until it must have ended":             {after: 660 * time.Second, inFlight: 1},
		"the guest's network counts as use":    {after: 500 * time.Second, network: 201 * time.Second},
		"but only for its own timeout":         {after: 502 * time.Second, network: 201 * time.Second, want: true},
		"a program that hangs beyond does not": {after: 661 * time.Second, inFlight: 1, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := &entry{idleTimeout: 300 * time.Second, lastActive: used, inFlight: tc.inFlight}
			if tc.network > 0 {
				e.machine = talking{at: used.Add(tc.network)}
			}
			if got := e.idle(used.Add(tc.after), 300*time.Second); got != tc.want {
				t.Errorf("idle is %t, want %t", got, tc.want)
			}
		})
	}
}

// talking is a machine of which only its use of the network matters.
type talking struct {
	Machine
	at time.Time
}

func (m talking) LastNetworkUse() time.Time { return m.at }
