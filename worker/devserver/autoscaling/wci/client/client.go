// Package client replaces the server's client of worker controllers, which start workers on Kubernetes, AWS and
// Google Cloud. Without them the embedded server is built from some 350 packages less. Its setting
// workercontroller.enabled is off by default, and only a deployment version with a compute configuration needs them:
// that is refused.
package client

import (
	"context"

	deploymentpb "go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/auto-scaled-workers/wci/workflow/iface"
	"go.temporal.io/server/common/namespace"
	"go.uber.org/fx"
)

// Module provides the client.
var Module = fx.Provide(func() Client { return Client{} })

// Client knows no worker controller and makes none.
type Client struct{}

// DescribeWorkerControllerInstance reports that a version has no controller.
func (Client) DescribeWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion) (*iface.QueryDescribeWorkerControllerInstanceResponse, []byte, error) {
	return nil, nil, serviceerror.NewNotFound("this server has no worker controllers")
}

// UpdateWorkerControllerInstance refuses a compute configuration.
func (Client) UpdateWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, []byte, string, map[string]iface.ScalingGroupSpecUpdate, []string) (*iface.UpdateWorkerControllerInstanceResponse, error) {
	return nil, unsupported()
}

// ValidateWorkerControllerInstanceSpec refuses a compute configuration.
func (Client) ValidateWorkerControllerInstanceSpec(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, string, map[string]iface.ScalingGroupSpecUpdate, []string) error {
	return unsupported()
}

// DeleteWorkerControllerInstance has nothing to delete.
func (Client) DeleteWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, string) error {
	return nil
}

func unsupported() error {
	return serviceerror.NewInvalidArgument("this server starts no workers: it is built without compute providers")
}
