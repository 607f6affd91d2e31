package bus

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestBackoff_delay(t *testing.T) {
	standard := Backoff{}.withDefaults()
	tests := map[string]struct {
		backoff  Backoff
		failures int
		random   float64
		want     time.Duration
	}{
		"the first pause is the initial one":      {standard, 0, 0.5, time.Second},
		"each pause doubles":                      {standard, 3, 0.5, 8 * time.Second},
		"the pause is capped":                     {standard, 5, 0.5, 30 * time.Second},
		"an endless outage does not overflow":     {standard, 1 << 40, 0.5, 30 * time.Second},
		"the least jitter takes three tenths off": {standard, 0, 0, 700 * time.Millisecond},
		"jitter applies to the cap too":           {standard, 9, 0, 21 * time.Second},
		"a negative jitter means none":            {Backoff{Jitter: -1}.withDefaults(), 0, 0, time.Second},
		"an initial pause above the default cap raises it": {
			Backoff{Initial: time.Minute}.withDefaults(), 4, 0.5, time.Minute,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.backoff.delay(tc.failures, tc.random)); diff != "" {
				t.Errorf("delay (-want +got):\n%s", diff)
			}
		})
	}
}
