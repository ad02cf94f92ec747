package host

import (
	"runtime"
	"testing"
	"time"

	"go.temporal.io/sdk/worker"
)

func TestSlots(t *testing.T) {
	fixed, err := options(load(t, "worker: {activities: 7, workflow_tasks: 5}", nil))
	if err != nil || fixed.Tuner != nil || fixed.MaxConcurrentActivityExecutionSize != 7 || fixed.MaxConcurrentWorkflowTaskExecutionSize != 5 {
		t.Errorf("fixed slots = %+v, %v", fixed, err)
	}
	o, err := options(load(t, "worker: {slots: resources, activities: 7, workflow_tasks: 5}", nil))
	if err != nil || o.Tuner == nil || o.MaxConcurrentActivityExecutionSize != 0 || o.MaxConcurrentWorkflowTaskExecutionSize != 0 {
		t.Fatalf("resource-based slots = %+v, %v", o, err)
	}
	worker.New(lazyClient(t), "q", o) // panics if options conflict
	if s, ok := o.Tuner.GetActivityTaskSlotSupplier().(worker.HasSysInfoProvider); !ok || s.SysInfoProvider() == nil {
		t.Error("activity slots do not depend on CPU usage")
	}
	if s, ok := o.Tuner.GetWorkflowTaskSlotSupplier().(worker.HasSysInfoProvider); !ok || s.SysInfoProvider() == nil {
		t.Error("workflow task slots do not depend on CPU usage")
	}
}

func TestPollers(t *testing.T) {
	for _, file := range []string{"", "worker: {pollers_min: 2, pollers_max: 3}", "worker: {pollers_min: 50, pollers_max: 60}"} {
		o, err := options(load(t, file, nil))
		if err != nil || o.WorkflowTaskPollerBehavior == nil || o.ActivityTaskPollerBehavior == nil {
			t.Errorf("%q: %+v, %v", file, o, err)
		}
		worker.New(lazyClient(t), "q", o)
	}
}

// TestUsage checks the usage that is computed from samples of a fake process.
func TestUsage(t *testing.T) {
	now := time.Unix(1000, 0)
	var cpu time.Duration
	var bytes uint64
	u := &usage{memory: 1000, now: func() time.Time { return now }, sampled: func() (time.Duration, uint64) { return cpu, bytes }}
	check := func(when string, wantCPU, wantMem float64) {
		t.Helper()
		gotCPU, _ := u.CpuUsage(nil)
		gotMem, _ := u.MemoryUsage(nil)
		if gotCPU != wantCPU || gotMem != wantMem {
			t.Errorf("%s: %v and %v, want %v and %v", when, gotCPU, gotMem, wantCPU, wantMem)
		}
	}
	bytes = 250
	check("at first", 0, 0.25)
	now, cpu, bytes = now.Add(time.Second), time.Duration(runtime.GOMAXPROCS(0))*500*time.Millisecond, 800
	check("half of all processors", 0.5, 0.8)
	now, bytes = now.Add(sampling/2), 0
	check("too early for another sample", 0.5, 0.8)
	now, cpu, bytes = now.Add(time.Second), cpu+time.Hour, 5000
	check("at most everything", 1, 1)
	u = newUsage(0)
	if mem, err := u.MemoryUsage(nil); err != nil || mem != 0 {
		t.Errorf("memory usage without a known size: %v, %v", mem, err)
	}
}

// TestOwnUsage checks that the memory and CPU time of this process are measured.
func TestOwnUsage(t *testing.T) {
	before, bytes := ownUsage()
	if bytes < 1<<20 {
		t.Errorf("memory = %d bytes", bytes)
	}
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); {
		if after, _ := ownUsage(); after > before {
			return
		}
	}
	t.Error("the CPU time of a busy process does not increase")
}
