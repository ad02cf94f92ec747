package config

import (
	"github.com/KimMachineGun/automemlimit/memlimit"
)

// What bounds the tasks that a worker runs at the same time.
const (
	// SlotsFixed is the numbers of the settings.
	SlotsFixed = "fixed"
	// SlotsResources is these numbers as long as processor and memory have room for more.
	SlotsResources = "resources"
)

// A run that is open takes 170 to 200 KiB of the worker's memory, measured; what is said in it
// comes on top. A quarter of the memory is for runs.
const (
	bytesPerRun = 512 << 10
	shareOfRuns = 4
	leastRuns   = 100
	mostRuns    = 10_000
)

// Memory is how many bytes this process may use: worker.memory, else the limit of its container,
// else the machine's memory; 0 where nobody knows.
func (c *Config) Memory() int {
	if c.Worker.Memory > 0 {
		return c.Worker.Memory
	}
	machine, err := memlimit.FromSystem()
	if err != nil {
		machine = 0
	}
	if limit, err := memlimit.FromCgroup(); err == nil && limit > 0 && (machine == 0 || limit < machine) {
		return int(limit)
	}
	return int(machine)
}

// StickyCache is how many runs stay in memory between their tasks: worker.sticky_cache, else
// as many as there is memory for.
func (c *Config) StickyCache() int {
	if c.Worker.StickyCache > 0 {
		return c.Worker.StickyCache
	}
	return min(max(c.Memory()/shareOfRuns/bytesPerRun, leastRuns), mostRuns)
}

// measured are the settings that the machine decides where they are 0: what is in force.
var measured = map[string]func(*Config) int{"worker.memory": (*Config).Memory, "worker.sticky_cache": (*Config).StickyCache}

// checkWorker refuses settings that contradict each other.
func (l *loader) checkWorker() {
	if w := l.cfg.Worker; w.PollersMin > w.PollersMax {
		l.check("worker.pollers_min is %d and worker.pollers_max is %d; want the first to be at most the second", w.PollersMin, w.PollersMax)
	}
}
