package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestParseConfig(t *testing.T) {
	changed := func(change func(*Config)) Config {
		config := DefaultConfig()
		change(&config)
		return config
	}
	for name, tc := range map[string]struct {
		text    string
		want    Config
		wantErr string
	}{
		"an empty file means the defaults": {want: DefaultConfig()},
		"unknown keys are ignored":         {text: "colour: blue\n", want: DefaultConfig()},
		"every key is read": {
			text: `{auto_install: false, image_allowlist: [node, mine], default_idle_timeout_secs: 9,
max_concurrent_sandboxes: 2, max_concurrent_exec_per_sandbox: 0, max_exec_timeout_ms: 1500, default_cpus: 2,
default_memory_mb: 64, per_image_caps: {node: {max_cpus: 2, max_memory_mb: 128}}, custom_images: {mine: a/b},
guest_host_ports: [80, 443], backend: qemu, qemu_root: /srv/root, qemu_cache: /srv/cache}`,
			want: Config{
				ImageAllowlist: []string{"node", "mine"}, DefaultIdleTimeoutSecs: 9, MaxConcurrentSandboxes: 2,
				MaxExecTimeoutMs: 1500, DefaultCPUs: 2, DefaultMemoryMiB: 64,
				PerImageCaps: map[string]ImageCap{"node": {MaxCPUs: 2, MaxMemoryMiB: 128}},
				CustomImages: map[string]string{"mine": "a/b"}, GuestHostPorts: []int{80, 443},
				Backend: BackendQEMU, QEMURoot: "/srv/root", QEMUCache: "/srv/cache",
			},
		},
		"one key keeps the other defaults":  {text: "default_cpus: 3", want: changed(func(c *Config) { c.DefaultCPUs = 3 })},
		"a wrapping key is refused":         {text: "sandbox: {default_cpus: 3}", wantErr: "wrapping sandbox key"},
		"a list is no configuration":        {text: "- a", wantErr: "not a YAML mapping"},
		"a wrong type is refused":           {text: "default_cpus: many", wantErr: "default_cpus"},
		"no cpu is refused":                 {text: "default_cpus: 0", wantErr: "default_cpus"},
		"a preset's name cannot be custom":  {text: "custom_images: {node: x}", wantErr: `"node"`},
		"an empty custom name is refused":   {text: `custom_images: {"": x}`, wantErr: "empty name"},
		"an unknown back end is refused":    {text: "backend: chroot", wantErr: `"chroot"`},
		"a relative root is refused":        {text: "qemu_root: srv", wantErr: "qemu_root"},
		"a port must be one":                {text: "guest_host_ports: [70000]", wantErr: "70000"},
		"a port must not be there twice":    {text: "guest_host_ports: [80, 80]", wantErr: "twice"},
		"a negative number of sandboxes":    {text: "max_concurrent_sandboxes: -1", wantErr: "max_concurrent_sandboxes"},
		"a negative image limit is refused": {text: "per_image_caps: {node: {max_cpus: -1}}", wantErr: `"node"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseConfig([]byte(tc.text))
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("error is %v, want %q", err, tc.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfig_bounds(t *testing.T) {
	if got := (Config{}).execSlots(); got != 1 {
		t.Errorf("0 exec slots are read as %d, want 1", got)
	}
	if got := seconds(1 << 63); got <= 0 || got < 50*365*24*time.Hour {
		t.Errorf("a huge idle timeout became %s", got)
	}
}
