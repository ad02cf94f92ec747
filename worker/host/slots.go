package host

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"time"

	"go.temporal.io/sdk/worker"

	"weft/worker/config"
)

// Some tasks always run, however busy the processor is: most calls wait for somebody else, and
// a worker that takes none would starve runs on a machine that others keep busy. Beyond these,
// calls begin one by one, so that each is seen in the numbers before the next is taken.
const (
	sureActivities    = 20
	sureWorkflowTasks = 10
	rampActivities    = 5 * time.Millisecond
	// asides are tasks of kinds that this worker has none of.
	asides = 2
)

// tuner gives tasks out as processor and memory allow, up to the numbers of the settings.
func tuner(cfg *config.Config, u *usage) (worker.WorkerTuner, error) {
	w := cfg.Worker
	how := worker.DefaultResourceControllerOptions()
	how.CpuTargetPercent, how.MemTargetPercent, how.InfoSupplier = float64(w.TargetCPU)/100, float64(w.TargetMemory)/100, u
	// The SDK's thresholds are distances from the target, and larger than some targets.
	how.CpuOutputThreshold, how.MemOutputThreshold = 0, 0
	controller := worker.NewResourceController(how)
	var o worker.CompositeTunerOptions
	for _, s := range []struct {
		at         *worker.SlotSupplier
		sure, most int
		ramp       time.Duration
	}{
		{&o.ActivitySlotSupplier, sureActivities, w.Activities, rampActivities},
		{&o.WorkflowSlotSupplier, sureWorkflowTasks, w.WorkflowTasks, 0},
	} {
		supplier, err := worker.NewResourceBasedSlotSupplier(controller, worker.ResourceBasedSlotSupplierOptions{
			MinSlots: min(s.sure, s.most), MaxSlots: s.most, RampThrottle: s.ramp})
		if err != nil {
			return nil, err
		}
		*s.at = supplier
	}
	for _, at := range []*worker.SlotSupplier{&o.LocalActivitySlotSupplier, &o.NexusSlotSupplier, &o.SessionActivitySlotSupplier} {
		supplier, err := worker.NewFixedSizeSlotSupplier(asides)
		if err != nil {
			return nil, err
		}
		*at = supplier
	}
	return worker.NewCompositeTuner(o)
}

// usage measures this process: what others on the machine do is not for it to save. Go's
// runtime knows how many processors the container has.
type usage struct {
	memory  int
	sampled func() (cpu time.Duration, bytes uint64)
	now     func() time.Time

	mu    sync.Mutex
	at    time.Time
	spent time.Duration
	// cpu and mem are the last sample, as parts of 1.
	cpu, mem float64
}

// sampling is how long a sample counts: shorter ones tell chance.
const sampling = 100 * time.Millisecond

func newUsage(memory int) *usage {
	return &usage{memory: memory, sampled: ownUsage, now: time.Now}
}

// MemoryUsage is the part of the memory that the process uses; 0 where nobody knows how much
// there is.
func (u *usage) MemoryUsage(*worker.SysInfoContext) (float64, error) {
	_, mem := u.sample()
	return mem, nil
}

// CpuUsage is the part of the processors' time that it uses.
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

// ownUsage is the processor time that this process has had, and the memory that it has from
// the system.
func ownUsage() (time.Duration, uint64) {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(s)
	return processorTime(), s[0].Value.Uint64() - s[1].Value.Uint64()
}
