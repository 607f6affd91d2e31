package main

import (
	"os"
	"strings"
	"testing"

	"github.com/sandbox-operator/sandbox-operator/guest/wire"
)

func TestEnvironment_telemetry(t *testing.T) {
	for name, tc := range map[string]struct {
		guest, request map[string]string
		want           string
	}{
		"off by default":                 {nil, nil, "false"},
		"as the guest was made":          {map[string]string{telemetrySwitch: "true"}, nil, "true"},
		"as the request says":            {nil, map[string]string{telemetrySwitch: "true"}, "true"},
		"both, where the request's wins": {map[string]string{telemetrySwitch: "true"}, map[string]string{telemetrySwitch: "no"}, "no"},
		"an empty value too":             {map[string]string{telemetrySwitch: ""}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(telemetrySwitch, "") // restored at the end
			if err := os.Unsetenv(telemetrySwitch); err != nil {
				t.Fatal(err)
			}
			for variable, value := range tc.guest {
				t.Setenv(variable, value)
			}
			// The last of several values is the one that a program gets.
			got := "none"
			for _, entry := range environment(folder(t.TempDir()), wire.Bus{}, tc.request) {
				if value, found := strings.CutPrefix(entry, telemetrySwitch+"="); found {
					got = value
				}
			}
			if got != tc.want {
				t.Errorf("OTEL_ENABLED is %q, want %q", got, tc.want)
			}
		})
	}
}
