package store

import (
	"context"
	"maps"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// plainHeaders drops headers that gRPC does not send. The SDK puts the run's id into one, as a hint
// for routers. Clients in other languages choose ids in any alphabet, and no worker could ever
// complete a workflow task of such a run.
func plainHeaders(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	headers, _ := metadata.FromOutgoingContext(ctx) // a copy
	all := len(headers)
	maps.DeleteFunc(headers, func(key string, values []string) bool {
		return !strings.HasSuffix(key, "-bin") && strings.ContainsFunc(strings.Join(values, ""), func(r rune) bool { return r < ' ' || r > '~' })
	})
	if len(headers) < all {
		ctx = metadata.NewOutgoingContext(ctx, headers)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}
