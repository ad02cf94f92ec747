// Package client is a stub of the server's client for worker controllers, which start workers on Kubernetes, AWS and
// Google Cloud. The stub saves the embedded server some 350 packages. The server's setting workercontroller.enabled is
// off by default, and worker controllers are needed only for deployment versions with a compute configuration, which the
// stub rejects.
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

// Client is a client without worker controllers; it cannot create any.
type Client struct{}

// DescribeWorkerControllerInstance reports that a version has no controller.
func (Client) DescribeWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion) (*iface.QueryDescribeWorkerControllerInstanceResponse, []byte, error) {
	return nil, nil, serviceerror.NewNotFound("this server has no worker controllers")
}

// UpdateWorkerControllerInstance rejects a compute configuration.
func (Client) UpdateWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, []byte, string, map[string]iface.ScalingGroupSpecUpdate, []string) (*iface.UpdateWorkerControllerInstanceResponse, error) {
	return nil, unsupported()
}

// ValidateWorkerControllerInstanceSpec rejects a compute configuration.
func (Client) ValidateWorkerControllerInstanceSpec(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, string, map[string]iface.ScalingGroupSpecUpdate, []string) error {
	return unsupported()
}

// DeleteWorkerControllerInstance does nothing.
func (Client) DeleteWorkerControllerInstance(context.Context, *namespace.Namespace, *deploymentpb.WorkerDeploymentVersion, string) error {
	return nil
}

func unsupported() error {
	return serviceerror.NewInvalidArgument("this server cannot start workers: it is built without compute providers")
}
