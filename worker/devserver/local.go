package main

import (
	"context"
	"net"

	"go.temporal.io/server/chasm"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
	"go.temporal.io/server/common/persistence/serialization"
	"go.temporal.io/server/common/pprof"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/common/resource"
	"go.temporal.io/server/service/frontend"
	"go.temporal.io/server/service/history"
	"go.temporal.io/server/service/history/replication"
	"go.temporal.io/server/service/matching"
	workerservice "go.temporal.io/server/service/worker"
	"go.temporal.io/server/temporal"
	"go.uber.org/fx"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
)

// The server's services and the worker in this process communicate without sockets. The server has no option to set a
// listener, so its services are assembled here as in temporal.TopLevelModule, but with in-memory listeners. Server options
// for the listener of a service and for its clients would make this file unnecessary.

const (
	// localBuffer is the buffer size in bytes of an in-memory connection, per direction. The server opens a connection for each
	// request for search attributes, and never closes it.
	localBuffer = 64 << 10
	// streamWorkers is the number of goroutines that serve requests; a new goroutine per request would have to grow its stack
	// each time. The long polls of workers occupy more than a hundred.
	streamWorkers = 256
)

type network map[primitives.ServiceName]*bufconn.Listener

func newNetwork() network {
	n := network{}
	for _, name := range []primitives.ServiceName{primitives.FrontendService, primitives.HistoryService, primitives.MatchingService} {
		n[name] = bufconn.Listen(localBuffer)
	}
	return n
}

func (n network) dial(service primitives.ServiceName) grpc.DialOption {
	return grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return n[service].DialContext(ctx) })
}

// modules returns the modules of temporal.TopLevelModule, with in-memory listeners.
func (n network) modules() fx.Option {
	type params = temporal.ServiceProviderParamsCommon
	type services = temporal.ServicesGroupOut
	return fx.Options(
		fx.Provide(
			temporal.NewServerFxImpl, temporal.ServerOptionsProvider, resource.ArchivalMetadataProvider, temporal.TaskCategoryRegistryProvider,
			temporal.ApplyClusterMetadataConfigProvider,
			func(p params) (services, error) {
				return n.service(p, primitives.HistoryService, history.QueueModule, history.Module, replication.Module, n.only(primitives.HistoryService))
			},
			func(p params) (services, error) {
				return n.service(p, primitives.MatchingService, matching.Module, n.only(primitives.MatchingService))
			},
			func(p params) (services, error) { return n.service(p, primitives.WorkerService, workerservice.Module) },
			func(p params) (services, error) {
				return n.service(p, primitives.FrontendService, frontend.Module, fx.Supply(p.CustomFrontendInterceptors),
					fx.Decorate(
						func() authorization.ClaimMapper { return p.ClaimMapper },
						func() log.SnTaggedLogger { return log.With(p.Logger, tag.Service(primitives.FrontendService)) },
						func(o frontend.GrpcServerOptions) frontend.GrpcServerOptions {
							o.Options = append(o.Options, grpc.NumStreamWorkers(streamWorkers))
							return o
						}),
					// The frontend also listens on its port. The gRPC services are registered when it has started.
					fx.Invoke(func(l fx.Lifecycle, s *grpc.Server) {
						l.Append(fx.StartHook(func() { go func() { _ = s.Serve(n[primitives.FrontendService]) }() })) // Serve returns when the server stops
					}))
			},
		),
		dynamicconfig.Module, pprof.Module, temporal.TraceExportModule, chasm.Module, serialization.Module, temporal.FxLogAdapter,
		fx.Invoke(temporal.ServerLifetimeHooks),
	)
}

// service returns a service of the server that connects to the others in memory.
func (n network) service(p temporal.ServiceProviderParamsCommon, name primitives.ServiceName, with ...fx.Option) (temporal.ServicesGroupOut, error) {
	app := fx.New(p.GetCommonServiceOptions(name), fx.Options(with...),
		fx.Decorate(func(all map[primitives.ServiceName][]grpc.DialOption) map[primitives.ServiceName][]grpc.DialOption {
			for to := range n {
				all[to] = append(all[to], n.dial(to))
			}
			all[primitives.InternalFrontendService] = append(all[primitives.InternalFrontendService], n.dial(primitives.FrontendService))
			return all
		}))
	return temporal.NewService(app, name, p.Logger), app.Err()
}

// only makes a service listen only in memory.
func (n network) only(service primitives.ServiceName) fx.Option {
	return fx.Decorate(
		func() net.Listener { return n[service] },
		func(o []grpc.ServerOption) []grpc.ServerOption {
			return append(o, grpc.NumStreamWorkers(streamWorkers))
		})
}
