package config

import (
	"fmt"

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

// measured is a number that the machine decides where it is 0; show gives what is in force.
func measured(at func(*Config) *int, least, most int, show func(*Config) int) value {
	v := number(at, 0, 0, most)
	v.want = fmt.Sprintf("0, or %d to %d", least, most)
	v.show = func(c *Config) string { return fmt.Sprint(show(c)) }
	take := v.take
	v.take = func(l *loader, key string) {
		take(l, key)
		if n := *at(l.cfg); n > 0 && n < least {
			l.check(key, fmt.Sprint(n), fmt.Errorf("want %s", v.want))
		}
	}
	return v
}

// checkWorker refuses settings that contradict each other.
func (l *loader) checkWorker() {
	if w := l.cfg.Worker; w.PollersMin > w.PollersMax {
		l.problem("worker.pollers_min is %d and worker.pollers_max is %d; want the first to be at most the second", w.PollersMin, w.PollersMax)
	}
}
