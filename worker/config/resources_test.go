package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestRunsInMemoryFollowTheMemory(t *testing.T) {
	tests := map[string]struct {
		file string
		want int
	}{
		"a quarter, half a mebibyte each": {"worker: {memory: 1073741824}", 512},
		"never less than some":            {"worker: {memory: 67108864}", 100},
		"never more than the SDK's own":   {"worker: {memory: 1099511627776}", 10_000},
		"what is set counts":              {"worker: {memory: 1073741824, sticky_cache: 7}", 7},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cfg := load(t, tc.file, nil)
			if got := cfg.StickyCache(); got != tc.want {
				t.Errorf("%d runs stay in memory, want %d", got, tc.want)
			}
			if got := shown(t, cfg, "worker.sticky_cache"); got != fmt.Sprint(tc.want) {
				t.Errorf("worker config says %q", got)
			}
		})
	}
}

// Without a setting the machine, or the container, says how much there is.
func TestMemoryOfTheMachine(t *testing.T) {
	cfg := load(t, "", nil)
	if got := cfg.Memory(); got < 64<<20 {
		t.Errorf("this machine has %d bytes of memory", got)
	}
	if got := cfg.StickyCache(); got < 100 || got > 10_000 {
		t.Errorf("%d runs stay in memory", got)
	}
}

func TestWorkerSettingsThatCannotBe(t *testing.T) {
	_, err := Load(Options{File: write(t, `worker:
  slots: many
  memory: 5
  target_cpu: 101
  pollers_min: 9
  pollers_max: 8
`), Env: fakeEnv{}})
	if err == nil {
		t.Fatal("the settings are taken")
	}
	for _, want := range []string{
		`weft.yaml:2:`, `expected fixed or resources`, `weft.yaml:3:`, `expected 0, or a whole number from 67108864 to `, `weft.yaml:4:`, `1 to 100`,
		"worker.pollers_min is 9 and worker.pollers_max is 8; pollers_min must not exceed pollers_max",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

// shown is a setting's value as worker config prints it.
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
