package host

import (
	"context"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const heartbeatPause = 100 * time.Millisecond

// patientHeartbeats lets a heartbeat take as long as the heartbeat timeout of its activity. The SDK gives it one second,
// or the interval between two if that is more, and cancels the activity if it fails: on a busy machine, or where the
// server starts again, a call would be lost whose worker lives.
func patientHeartbeats(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method != workflowservice.WorkflowService_RecordActivityTaskHeartbeat_FullMethodName || !activity.IsActivity(ctx) {
		return invoker(ctx, method, req, reply, cc, opts...)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), activity.GetInfo(ctx).HeartbeatTimeout)
	defer cancel()
	for {
		err := invoker(ctx, method, req, reply, cc, opts...)
		switch status.Code(err) {
		case codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(heartbeatPause):
		}
	}
}
