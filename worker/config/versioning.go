package config

import "strings"

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

// deploymentName is the default.
const deploymentName = "weft"

// Versioning returns the version that worker.versioning, TEMPORAL_DEPLOYMENT_NAME and
// TEMPORAL_WORKER_BUILD_ID configure.
func (c *Config) Versioning() Versioning {
	name, _ := c.env.LookupEnv("TEMPORAL_DEPLOYMENT_NAME")
	build, _ := c.env.LookupEnv("TEMPORAL_WORKER_BUILD_ID")
	v := Versioning{Behavior: c.Worker.Versioning, Deployment: name, BuildID: build}
	if v.Behavior == VersioningAuto {
		if v.Behavior = VersioningOff; name != "" || build != "" {
			v.Behavior = VersioningUpgrade
		}
	}
	if v.Deployment == "" {
		v.Deployment = deploymentName
	}
	return v
}

func (l *loader) checkVersioning() {
	for _, name := range []string{"TEMPORAL_DEPLOYMENT_NAME", "TEMPORAL_WORKER_BUILD_ID"} {
		value, _ := l.cfg.env.LookupEnv(name)
		if strings.ContainsAny(value, ":") || name == "TEMPORAL_DEPLOYMENT_NAME" && strings.Contains(value, ".") || len(value) > 200 || strings.HasPrefix(value, "__") {
			l.check("%s is %.100q; want a name of at most 200 characters without :, without a leading __, and for a deployment without .", name, value)
		}
	}
}
