package host

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"weft/worker/config"
)

// The minimum numbers of tasks run however busy the CPU is: most activities wait for I/O, and a worker that accepts no
// tasks would starve runs on a machine that other programs keep busy. Above them, activities start
// one at a time, so that each is measured before the next starts.
const (
	minActivities    = 20
	minWorkflowTasks = 10
	rampActivities   = 5 * time.Millisecond
	// unusedSlots is the number of slots for kinds of tasks that this worker does not have.
	unusedSlots = 2
)

// tuner returns a tuner that supplies slots as CPU and memory allow, up to the numbers in the settings.
func tuner(cfg *config.Config, u *usage) (worker.WorkerTuner, error) {
	w := cfg.Worker
	o := worker.DefaultResourceControllerOptions()
	o.CpuTargetPercent, o.MemTargetPercent, o.InfoSupplier = float64(w.TargetCPU)/100, float64(w.TargetMemory)/100, u
	// The SDK's thresholds are distances from the target, and larger than some targets.
	o.CpuOutputThreshold, o.MemOutputThreshold = 0, 0
	controller := worker.NewResourceController(o)
	var slots worker.CompositeTunerOptions
	for _, s := range []struct {
		at       *worker.SlotSupplier
		min, max int
		ramp     time.Duration
	}{
		{&slots.ActivitySlotSupplier, minActivities, w.Activities, rampActivities},
		{&slots.WorkflowSlotSupplier, minWorkflowTasks, w.WorkflowTasks, 0},
	} {
		supplier, err := worker.NewResourceBasedSlotSupplier(controller, worker.ResourceBasedSlotSupplierOptions{
			MinSlots: min(s.min, s.max), MaxSlots: s.max, RampThrottle: s.ramp})
		if err != nil {
			return nil, err
		}
		*s.at = supplier
	}
	for _, at := range []*worker.SlotSupplier{&slots.LocalActivitySlotSupplier, &slots.NexusSlotSupplier, &slots.SessionActivitySlotSupplier} {
		supplier, err := worker.NewFixedSizeSlotSupplier(unusedSlots)
		if err != nil {
			return nil, err
		}
		*at = supplier
	}
	return worker.NewCompositeTuner(slots)
}

// usage measures the CPU and memory usage of this process, not of the machine. Go's runtime provides the number of CPUs of the
// container.
type usage struct {
	memory  int
	sampled func() (cpu time.Duration, bytes uint64)
	now     func() time.Time

	mu    sync.Mutex
	at    time.Time
	spent time.Duration
	// cpu and mem are the last sample, as fractions.
	cpu, mem float64
}

// sampling is how long a sample is reused: shorter intervals are too noisy.
const sampling = 100 * time.Millisecond

func newUsage(memory int) *usage {
	return &usage{memory: memory, sampled: ownUsage, now: time.Now}
}

// MemoryUsage returns the fraction of the memory that the process uses; 0 if the amount of memory is unknown.
func (u *usage) MemoryUsage(*worker.SysInfoContext) (float64, error) {
	_, mem := u.sample()
	return mem, nil
}

// CpuUsage returns the fraction of the CPU time that the process uses.
func (u *usage) CpuUsage(*worker.SysInfoContext) (float64, error) { //nolint:revive // the SDK names it so
	cpu, _ := u.sample()
	return cpu, nil
}

func (u *usage) sample() (cpu, mem float64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := u.now()
	took := now.Sub(u.at)
	if took < sampling {
		return u.cpu, u.mem
	}
	spent, bytes := u.sampled()
	if !u.at.IsZero() {
		u.cpu = min(max(float64(spent-u.spent)/float64(took)/float64(runtime.GOMAXPROCS(0)), 0), 1)
	}
	if u.memory > 0 {
		u.mem = min(float64(bytes)/float64(u.memory), 1)
	}
	u.at, u.spent = now, spent
	return u.cpu, u.mem
}

// ownUsage returns the CPU time of this process, and the memory that it has obtained from the system.
func ownUsage() (time.Duration, uint64) {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return processorTime(), s[0].Value.Uint64() - s[1].Value.Uint64()
}
