package store

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// plainHeaders drops headers that gRPC does not send. The SDK puts the run's id into one, as a hint
// for routers. Clients in other languages choose ids in any alphabet, and no worker could ever
// complete a workflow task of such a run.
func plainHeaders(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	headers, _ := metadata.FromOutgoingContext(ctx) // a copy
	odd := false
	for key, values := range headers {
		for _, v := range values {
			if !strings.HasSuffix(key, "-bin") && !printable(v) {
				odd = true
				delete(headers, key)
				break
			}
		}
	}
	if odd {
		ctx = metadata.NewOutgoingContext(ctx, headers)
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}

// printable reports whether gRPC accepts a text as the value of a header.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
