package figures_test

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/hack/figures"
)

func TestMetrics_Print(t *testing.T) {
	for name, tc := range map[string]struct {
		target figures.Target
		want   string
	}{
		"an upper bound is kept":   {figures.AtMost(2), "at most 2, met"},
		"an upper bound is missed": {figures.AtMost(1), "at most 1, MISSED"},
		"a lower bound is kept":    {figures.AtLeast(1), "at least 1, met"},
		"a lower bound is missed":  {figures.AtLeast(2), "at least 2, MISSED"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			figures.Metrics{"a": 1.5, "b": 1}.Print(&out, figures.Targets{"a": tc.target})
			if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 || !strings.HasSuffix(lines[0], tc.want) {
				t.Errorf("printed %q", out.String())
			}
		})
	}
}

func TestMetrics_Write(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out", "bench.json")
	if err := (figures.Metrics{"operator_rss_mb": 12.34567}).Write(path); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]float64{"operator_rss_mb": 12.346}, got); diff != "" {
		t.Error(diff)
	}
	if err := (figures.Metrics{"nothing": math.NaN()}).Write(path); err == nil {
		t.Error("a number that could not be measured was written")
	}
}
