package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/worker/config"
)

// deploymentOf returns the deployment options of a versioned worker, or nil. The default build id is
// the program's checksum; see [NameBuild].
func deploymentOf(cfg *config.Config) *worker.DeploymentOptions {
	v := cfg.Versioning()
	if v.Behavior == config.VersioningOff {
		return nil
	}
	o := &worker.DeploymentOptions{UseVersioning: true, DefaultVersioningBehavior: workflow.VersioningBehaviorAutoUpgrade,
		Version: worker.WorkerDeploymentVersion{DeploymentName: v.Deployment, BuildID: v.BuildID}}
	if v.BuildID == "" {
		o.Version.BuildID = checksum()
	}
	if v.Behavior == config.VersioningPinned {
		o.DefaultVersioningBehavior = workflow.VersioningBehaviorPinned
	}
	return o
}

func (p *program) deploymentCommand() *cli.Command {
	var current bool
	var wait time.Duration
	return p.command("deployment", "list the versions of the worker deployment, or set the current one",
		"Lists the versions of the deployment TEMPORAL_DEPLOYMENT_NAME, and whether they are drained: no\nopen run needs the workers of a drained version. -current makes the version of this program, or of\nTEMPORAL_WORKER_BUILD_ID, the current one.",
		p.configured(func(ctx context.Context, cfg *config.Config) error {
			own := deploymentOf(cfg)
			if own == nil {
				return config.Problems{"worker versioning is off; set TEMPORAL_DEPLOYMENT_NAME and TEMPORAL_WORKER_BUILD_ID, or worker.versioning"}
			}
			t, err := cfg.Client(ctx, log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
			if err != nil {
				return err
			}
			defer t.Client.Close()
			handle := t.Client.WorkerDeploymentClient().GetHandle(own.Version.DeploymentName)
			if current {
				if err := makeCurrent(ctx, handle, own.Version, wait); err != nil {
					return err
				}
			}
			return listVersions(ctx, handle, own.Version, p.stdout)
		}),
		&cli.BoolFlag{Name: "current", Usage: "make this build the current version", Destination: &current, HideDefault: true},
		waitFlag(&wait, "how long to wait for a worker of this build to start, as `TIME`"))
}

// makeCurrent makes a version the current one. It retries until a worker of that version has registered with the server.
func makeCurrent(ctx context.Context, handle client.WorkerDeploymentHandle, v worker.WorkerDeploymentVersion, wait time.Duration) error {
	err := retry(ctx, wait, func() (again bool, err error) {
		_, err = handle.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: v.BuildID})
		return is[*serviceerror.NotFound](err) || is[*serviceerror.FailedPrecondition](err), err
	})
	if err != nil {
		return fmt.Errorf("make build %s of deployment %s current: %w; check that a worker of it is running", v.BuildID, v.DeploymentName, err)
	}
	return nil
}

func listVersions(ctx context.Context, handle client.WorkerDeploymentHandle, own worker.WorkerDeploymentVersion, stdout io.Writer) error {
	d, err := handle.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if is[*serviceerror.NotFound](err) {
		return fmt.Errorf("deployment %s not found; start a worker of it", own.DeploymentName)
	}
	if err != nil {
		return fmt.Errorf("describe deployment %s: %w", own.DeploymentName, err)
	}
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "BUILD\tSTATE\tSINCE")
	currentVersion := d.Info.RoutingConfig.CurrentVersion
	for _, v := range d.Info.VersionSummaries {
		state := "not in use"
		switch {
		case currentVersion != nil && v.Version.BuildID == currentVersion.BuildID:
			state = "current"
		case v.DrainageStatus == client.WorkerDeploymentVersionDrainageStatusDraining:
			state = "draining: open runs are pinned to it, keep its workers"
		case v.DrainageStatus == client.WorkerDeploymentVersionDrainageStatusDrained:
			state = "drained: its workers can be stopped"
		}
		if v.Version.BuildID == own.BuildID {
			state = strings.TrimSpace(state + " (this build)")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", v.Version.BuildID, state, v.CreateTime.Local().Format(time.DateTime))
	}
	return w.Flush()
}

// NameBuild sets a short binary checksum for the histories of runs: eight digits of the program's hash.
// Every event that a worker writes contains it, and the SDK's default is four times as long.
func NameBuild() { worker.SetBinaryChecksum(checksum()) }

var checksum = sync.OnceValue(func() string {
	const unknown = "weft"
	path, err := os.Executable()
	if err != nil {
		return unknown
	}
	f, err := os.Open(path)
	if err != nil {
		return unknown
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return unknown
	}
	return hex.EncodeToString(h.Sum(nil))[:8]
})
