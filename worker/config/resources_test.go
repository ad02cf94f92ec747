package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestStickyCacheSize(t *testing.T) {
	tests := map[string]struct {
		file string
		want int
	}{
		"a quarter of memory, 512 KiB per run": {"worker: {memory: 1073741824}", 512},
		"minimum":                              {"worker: {memory: 67108864}", 100},
		"maximum, the SDK's default":           {"worker: {memory: 1099511627776}", 10_000},
		"explicit setting":                     {"worker: {memory: 1073741824, sticky_cache: 7}", 7},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, tc.file, nil)
			if got := cfg.StickyCache(); got != tc.want {
				t.Errorf("StickyCache() = %d, want %d", got, tc.want)
			}
			if got := shown(t, cfg, "worker.sticky_cache"); got != fmt.Sprint(tc.want) {
				t.Errorf("Shown() = %q", got)
			}
		})
	}
}

// TestDetectedMemory checks that the memory of the machine or container is used by default.
func TestDetectedMemory(t *testing.T) {
	cfg := load(t, "", nil)
	if got := cfg.Memory(); got < 64<<20 {
		t.Errorf("Memory() = %d", got)
	}
	if got := cfg.StickyCache(); got < 100 || got > 10_000 {
		t.Errorf("StickyCache() = %d", got)
	}
}

func TestInvalidWorkerSettings(t *testing.T) {
	_, err := Load(Options{File: write(t, `worker:
  slots: many
  memory: 5
  target_cpu: 101
  pollers_min: 9
  pollers_max: 8
`), Env: fakeEnv{}})
	if err == nil {
		t.Fatal("Load() accepted invalid settings")
	}
	for _, want := range []string{
		`weft.yaml:2:`, `expected fixed or resources`, `weft.yaml:3:`, `expected 0, or a whole number from 67108864 to `, `weft.yaml:4:`, `1 to 100`,
		"worker.pollers_min is 9 and worker.pollers_max is 8; pollers_min must not exceed pollers_max",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not contain %q:\n%v", want, err)
		}
	}
}

// shown returns the value of a setting as the command "worker config" prints it.
func shown(t *testing.T, cfg *Config, key string) string {
	t.Helper()
	list, err := cfg.Shown()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if s.Key == key {
			return s.Value
		}
	}
	return "(nothing)"
}
