package config

import (
	"cmp"
	"strings"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// Values of worker.slots: what limits the tasks that a worker runs at the same time.
const (
	// SlotsFixed uses the numbers of the settings.
	SlotsFixed = "fixed"
	// SlotsResources uses these numbers as long as CPU and memory have room.
	SlotsResources = "resources"
)

// An open run takes 170 to 200 KiB of the worker's memory, measured, plus its conversation. A quarter of
// the memory is for cached runs.
const (
	bytesPerRun = 512 << 10
	shareOfRuns = 4
	leastRuns   = 100
	mostRuns    = 10_000
)

// Memory returns how many bytes this process may use: worker.memory, else the limit of its container,
// else the machine's memory; 0 if unknown.
func (c *Config) Memory() int {
	if c.Worker.Memory > 0 {
		return c.Worker.Memory
	}
	machine, _ := memlimit.FromSystem() // 0 if it is unknown
	if limit, err := memlimit.FromCgroup(); err == nil && limit > 0 && (machine == 0 || limit < machine) {
		return int(limit)
	}
	return int(machine)
}

// StickyCache returns the size of the sticky cache: worker.sticky_cache, else as many runs as fit into the
// memory.
func (c *Config) StickyCache() int {
	if c.Worker.StickyCache > 0 {
		return c.Worker.StickyCache
	}
	return min(max(c.Memory()/shareOfRuns/bytesPerRun, leastRuns), mostRuns)
}

// measured returns the effective values of settings that depend on the machine if they are 0.
var measured = map[string]func(*Config) int{"worker.memory": (*Config).Memory, "worker.sticky_cache": (*Config).StickyCache}

// Values of worker.versioning: how runs of a versioned worker move to another build.
const (
	// VersioningAuto is [VersioningUpgrade] if the environment names a deployment or a
	// build, else [VersioningOff].
	VersioningAuto = "auto"
	VersioningOff  = "off"
	// VersioningUpgrade moves open runs to the current build at their next task.
	VersioningUpgrade = "auto_upgrade"
	// VersioningPinned keeps a run on the build that started it.
	VersioningPinned = "pinned"
)

// Versioning is the deployment version of a worker.
type Versioning struct {
	// Behavior is [VersioningOff], [VersioningUpgrade] or [VersioningPinned].
	Behavior string
	// Deployment is the deployment's name; BuildID is the build id, "" for the program's own.
	Deployment, BuildID string
}

// Versioning returns the version that worker.versioning, TEMPORAL_DEPLOYMENT_NAME and
// TEMPORAL_WORKER_BUILD_ID configure.
func (c *Config) Versioning() Versioning {
	name, build := c.variable("TEMPORAL_DEPLOYMENT_NAME"), c.variable("TEMPORAL_WORKER_BUILD_ID")
	v := Versioning{Behavior: c.Worker.Versioning, Deployment: cmp.Or(name, "weft"), BuildID: build}
	if v.Behavior == VersioningAuto {
		if v.Behavior = VersioningOff; name != "" || build != "" {
			v.Behavior = VersioningUpgrade
		}
	}
	return v
}

func (l *loader) checkWorker() {
	if w := l.cfg.Worker; w.PollersMin > w.PollersMax {
		l.check("worker.pollers_min is %d and worker.pollers_max is %d; pollers_min must not exceed pollers_max", w.PollersMin, w.PollersMax)
	}
	for _, name := range []string{"TEMPORAL_DEPLOYMENT_NAME", "TEMPORAL_WORKER_BUILD_ID"} {
		value := l.cfg.variable(name)
		if strings.ContainsAny(value, ":") || name == "TEMPORAL_DEPLOYMENT_NAME" && strings.Contains(value, ".") || len(value) > 200 || strings.HasPrefix(value, "__") {
			l.check("%s is %.100q; expected a name of at most 200 characters without :, without a leading __, and for a deployment without .", name, value)
		}
	}
}
