package main

import (
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sandbox-operator/sandbox-operator/controllers"
)

// defaults are the options without flags and environment.
func defaults(change ...func(*options)) options {
	o := options{
		Options: controllers.Options{
			BusURL: "ws://localhost:49134", GuestBusURL: "ws://localhost:49134", WorkerName: "sandbox-code-runner",
			RunsNamespace: "sandbox-runs", OperatorNamespace: "sandbox-operator-system",
			DefaultTimeout: 5 * time.Second, MaxTimeout: 30 * time.Second, IdleTimeout: 15 * time.Minute,
			WarmGuests: true, CallLinks: true, InjectGuidance: true,
		},
		metricsAddress: "0", probeAddress: ":8081",
	}
	for _, f := range change {
		f(&o)
	}
	return o
}

func TestParseFlags(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		env  map[string]string
		want options
	}{
		"nothing given takes the defaults": {want: defaults()},
		"III_URL is the bus, for guests too": {
			env: map[string]string{"III_URL": "ws://engine:1"},
			want: defaults(func(o *options) {
				o.BusURL, o.GuestBusURL = "ws://engine:1", "ws://engine:1"
			}),
		},
		"a flag beats III_URL": {
			args: []string{"--bus-url=ws://flag:2", "--guest-bus-url=ws://guests:3"},
			env:  map[string]string{"III_URL": "ws://engine:1"},
			want: defaults(func(o *options) { o.BusURL, o.GuestBusURL = "ws://flag:2", "ws://guests:3" }),
		},
		"POD_NAMESPACE is the operator's namespace": {
			env:  map[string]string{"POD_NAMESPACE": "system"},
			want: defaults(func(o *options) { o.OperatorNamespace = "system" }),
		},
		"the runs namespace is always watched": {
			args: []string{"--watch-namespaces=a, b,", "--runs-namespace=runs"},
			want: defaults(func(o *options) {
				o.RunsNamespace, o.WatchNamespaces = "runs", []string{"a", "b", "runs"}
			}),
		},
		"a list of no names watches all": {
			args: []string{"--watch-namespaces= ,"},
			want: defaults(),
		},
		"everything else is taken over": {
			args: []string{
				"--worker-name=w", "--default-timeout=1ms", "--max-timeout=290s", "--idle-timeout=168h",
				"--require-bus-isolation", "--leader-elect", "--metrics-bind-address=:8080", "--health-probe-bind-address=0",
				"--inject-guidance=false", "--open-capabilities", "--allow-force-teardown", "--allow-shared-prefixes",
				"--warm-guests=false", "--call-links=false",
			},
			want: defaults(func(o *options) {
				o.WorkerName, o.DefaultTimeout, o.MaxTimeout, o.IdleTimeout = "w", time.Millisecond, 290*time.Second, 168*time.Hour
				o.RequireBusIsolation = true
				o.leaderElect, o.metricsAddress, o.probeAddress = true, ":8080", "0"
				o.InjectGuidance, o.OpenCapabilities, o.AllowForceTeardown = false, true, true
				o.AllowSharedPrefixes, o.WarmGuests, o.CallLinks = true, false, false
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, logging, err := parseFlags(tc.args, func(key string) string { return tc.env[key] }, io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			if logging == nil {
				t.Error("no logging options")
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(options{})); diff != "" {
				t.Errorf("options (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseFlags_refusals(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"a default timeout below a millisecond":    {[]string{"--default-timeout=999us"}, []string{"--default-timeout", "999µs", "1ms"}},
		"a maximum above the daemon's":             {[]string{"--max-timeout=291s"}, []string{"--max-timeout", "4m51s", "4m50s"}},
		"an idle time below the shortest":          {[]string{"--idle-timeout=29s"}, []string{"--idle-timeout", "30s"}},
		"an idle time above a week":                {[]string{"--idle-timeout=169h"}, []string{"--idle-timeout", "168h"}},
		"a worker name with colons":                {[]string{"--worker-name=a::b"}, []string{"--worker-name", `"a::b"`}},
		"no worker name":                           {[]string{"--worker-name="}, []string{"--worker-name"}},
		"no namespace for runs":                    {[]string{"--runs-namespace="}, []string{"--runs-namespace"}},
		"all problems are told at once":            {[]string{"--max-timeout=0", "--idle-timeout=0"}, []string{"--max-timeout", "--idle-timeout"}},
		"an argument that is no flag":              {[]string{"stray"}, []string{`"stray"`}},
		"a flag that does not exist":               {[]string{"--nonsense"}, []string{"nonsense"}},
		"a duration that is none":                  {[]string{"--max-timeout=soon"}, []string{"max-timeout", "soon"}},
		"an argument hides behind a boolean's end": {[]string{"--leader-elect", "false"}, []string{`"false"`}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := parseFlags(tc.args, func(string) string { return "" }, io.Discard)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not name %q", err, part)
				}
			}
		})
	}
}

func TestParseFlags_help(t *testing.T) {
	var out strings.Builder
	_, _, err := parseFlags([]string{"--help"}, func(string) string { return "" }, &out)
	if !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"-bus-url", "-guest-bus-url", "-require-bus-isolation", "-worker-name", "-watch-namespaces", "-kubeconfig", "-zap-log-level"} {
		if !strings.Contains(out.String(), name) {
			t.Errorf("the help does not show %s", name)
		}
	}
}
