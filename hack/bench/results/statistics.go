package results

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Percentile is the nearest rank, in milliseconds; p is above 0 and at most 1. Of
// nothing it is NaN.
func Percentile(all []time.Duration, p float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(all))
	index := int(math.Ceil(p*float64(len(sorted)))) - 1
	return Milliseconds(sorted[max(0, index)])
}

// Milliseconds is a duration as a number.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Ratio is a number with the interval that holds it with 95 % confidence.
type Ratio struct{ Value, Low, High float64 }

// resamples is how often an interval's ratio is drawn again.
const resamples = 400

// LatencyRatio is the median of one way by that of another, NaN where one of them
// was not measured.
func (s Set) LatencyRatio(c Cell, way, base Way) Ratio {
	return s.ratio(c, way, base, func(slots []Slot, random *rand.Rand) float64 {
		var all []time.Duration
		for _, slot := range slots {
			all = append(all, redrawn(slot.Latencies, random)...)
		}
		return Percentile(all, 0.5)
	})
}

// ThroughputRatio is the answers a second of one way by those of another.
func (s Set) ThroughputRatio(c Cell, way, base Way) Ratio {
	return s.ratio(c, way, base, func(slots []Slot, _ *rand.Rand) float64 { return perSecond(slots) })
}

// ratio bootstraps in two levels: rounds are drawn again, the same for both ways
// since they shared the machine's state, and then the calls within each slot.
func (s Set) ratio(c Cell, way, base Way, of func([]Slot, *rand.Rand) float64) Ratio {
	one, other := s[c][way], s[c][base]
	rounds := min(len(one), len(other))
	if rounds == 0 {
		return Ratio{math.NaN(), math.NaN(), math.NaN()}
	}
	// The same numbers give the same interval.
	random := rand.New(rand.NewPCG(1, 2))
	drawn := make([]float64, 0, resamples)
	for range resamples {
		var a, b []Slot
		for range rounds {
			round := random.IntN(rounds)
			a, b = append(a, one[round]), append(b, other[round])
		}
		if ratio := of(a, random) / of(b, random); !math.IsNaN(ratio) && !math.IsInf(ratio, 0) {
			drawn = append(drawn, ratio)
		}
	}
	return Ratio{of(one, nil) / of(other, nil), quantile(drawn, 0.025), quantile(drawn, 0.975)}
}

// redrawn draws as many again with replacement; without a source it is all itself.
func redrawn(all []time.Duration, random *rand.Rand) []time.Duration {
	if random == nil {
		return all
	}
	drawn := make([]time.Duration, len(all))
	for i := range drawn {
		drawn[i] = all[random.IntN(len(all))]
	}
	return drawn
}

func quantile(all []float64, q float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}
