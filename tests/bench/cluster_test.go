package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"
)

func TestSizing(t *testing.T) {
	got := sizing(float64(6*time.Millisecond), 10)
	for _, want := range []string{"116 steps/s", "6.00 ms CPU per step", "0.7 processors busy", "at 60 % load 1.2"} {
		if !strings.Contains(got, want) {
			t.Errorf("sizing = %q, want %q in it", got, want)
		}
	}
}

func TestIsLate(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		late bool
	}{
		"deadline exceeded by the server": {serviceerror.NewDeadlineExceeded("context deadline exceeded"), true},
		"context deadline exceeded":       {context.DeadlineExceeded, true},
		"unavailable":                     {serviceerror.NewUnavailable("no connection"), true},
		"invalid argument":                {serviceerror.NewInvalidArgument("what?"), false},
		"workflow execution error":        {new(temporal.WorkflowExecutionError), false},
	} {
		if got := isLate(tc.err); got != tc.late {
			t.Errorf("%s: late is %t, want %t", name, got, tc.late)
		}
	}
}

func TestEnvironmentSizes(t *testing.T) {
	t.Setenv("WEFT_DEVSERVER", "server")
	t.Setenv("WEFT_WORKER", "worker")
	for _, value := range []string{"many", "0", "-1", "100001"} {
		t.Setenv("BENCH_ELEMENTS", value)
		if _, _, err := environment(); err == nil || !strings.Contains(err.Error(), "1 to 100000") {
			t.Errorf("BENCH_ELEMENTS=%q: error is %v", value, err)
		}
	}
	t.Setenv("BENCH_ELEMENTS", "12")
	t.Setenv("BENCH_BRANCHES", "7")
	if s, _, err := environment(); err != nil || s.elements != 12 || !s.forced || s.branches != 7 {
		t.Errorf("12 and 7: settings are %+v, %v", s, err)
	}
}

func TestClusterPIDs(t *testing.T) {
	dir := t.TempDir()
	if _, err := pidsIn(dir); err == nil || !strings.Contains(err.Error(), "make bench-cluster") {
		t.Errorf("empty folder: error is %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "pg"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"temporal-1.pid": "11\n", "temporal-2.pid": "12", "pg/postmaster.pid": "13\n/var/lib\n15432\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := pidsIn(dir); err != nil || !slices.Equal(got, []int{11, 12, 13}) {
		t.Errorf("pids are %v, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "temporal-2.pid"), []byte("soon"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := pidsIn(dir); err == nil || !strings.Contains(err.Error(), `temporal-2.pid begins with "soon"`) {
		t.Errorf("invalid pid: error is %v", err)
	}
}
