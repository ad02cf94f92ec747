package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"time"

	webserver "github.com/temporalio/ui-server/v2/server"
	webconfig "github.com/temporalio/ui-server/v2/server/config"
	weboptions "github.com/temporalio/ui-server/v2/server/server_options"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	"go.temporal.io/server/temporal"
)

// loopback is the only address on which the server and the Web UI listen: they have no
// authentication.
const loopback = "127.0.0.1"

// namespace is created in every new database.
const namespace = "default"

// settings make a single history shard fast enough for development. By default, each internal task waits
// for a poll interval of 50 ms, timers are up to 1 s late, a lost notification stalls a waiting client for
// 20 s, and each new task of a task queue scans all tasks completed in the last 30 s.
var settings = map[string]any{
	"history.transferProcessorMaxPollRPS":          5000,
	"history.timerProcessorMaxPollRPS":             5000,
	"history.timerProcessorMaxTimeShift":           50 * time.Millisecond,
	"history.longPollExpirationInterval":           2 * time.Second,
	"history.hostLevelCacheMaxSize":                8096,
	"history.persistenceMaxQPS":                    45000,
	"frontend.persistenceMaxQPS":                   10000,
	"history.transferProcessorUpdateAckInterval":   time.Second,
	"history.timerProcessorUpdateAckInterval":      time.Second,
	"history.visibilityProcessorUpdateAckInterval": time.Second,
	"frontend.namespaceRPS.visibility":             100,
	"system.namespaceCacheRefreshInterval":         cacheRefresh,
	// Tasks of a task queue are dispatched fairly across fairness keys, if runs have them.
	"matching.enableFairness": true,
	// One process serves a task queue: partitions would only forward its tasks and polls to each other.
	"matching.numTaskqueueReadPartitions":  1,
	"matching.numTaskqueueWritePartitions": 1,
}

// cacheRefresh is how long the services cache a namespace and its search attributes.
const cacheRefresh = 2 * time.Second

// server is a running Temporal server, optionally with its Web UI.
type server struct {
	// address is the frontend's host:port; ui is the Web UI's URL or "".
	address, ui string
	temporal    *temporal.ServerFx
	web         *webserver.Server
	// local accepts connections from this process.
	local network
}

// startServer runs a complete Temporal server in this process, with the database file db or
// in memory. Ports must be free; uiPort 0 means no Web UI.
func startServer(db string, port, uiPort int, logger *slog.Logger) (*server, error) {
	store, err := openStore(db)
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(4)
	if err != nil {
		return nil, err
	}
	c := serverConfig(store, port, ports)
	options, err := serverOptions(c, slogger{logger})
	if err != nil {
		return nil, err
	}
	local := newNetwork()
	srv, err := temporal.NewServerFx(local.modules(), options...)
	if err != nil {
		return nil, fmt.Errorf("set up the Temporal server: %w", err)
	}
	if err := srv.Start(); err != nil {
		return nil, fmt.Errorf("start the Temporal server: %w", err)
	}
	s := &server{address: at(port), temporal: srv, local: local}
	if uiPort != 0 {
		if s.web, err = startUI(s.address, uiPort); err != nil {
			s.stop()
			return nil, err
		}
		s.ui = "http://" + at(uiPort)
	}
	return s, nil
}

// stop stops the Web UI and then the server. It takes about a second.
func (s *server) stop() {
	if s.web != nil {
		s.web.Stop()
	}
	if err := s.temporal.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "weft-devserver: stop the Temporal server: %v\n", err)
	}
}

// serverConfig returns the server's configuration. internal holds the ports of the services that only
// this process uses.
func serverConfig(store *config.SQL, port int, internal []int) *config.Config {
	service := func(grpc, http int) config.Service {
		return config.Service{RPC: config.RPC{GRPCPort: grpc, HTTPPort: http, BindOnIP: loopback}}
	}
	var c config.Config
	c.Global.Membership.MaxJoinDuration = 30 * time.Second
	c.Global.Membership.BroadcastAddress = loopback
	c.Persistence.DefaultStore, c.Persistence.VisibilityStore = sqliteplugin.PluginName, sqliteplugin.PluginName
	c.Persistence.NumHistoryShards = 1
	c.Persistence.DataStores = map[string]config.DataStore{sqliteplugin.PluginName: {SQL: store}}
	c.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10,
		MasterClusterName:        clusterName,
		CurrentClusterName:       clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
			Enabled: true, InitialFailoverVersion: 1, RPCAddress: at(port), HTTPAddress: at(internal[0]),
		}},
	}
	c.DCRedirectionPolicy.Policy = "noop"
	c.Services = map[string]config.Service{
		string(primitives.FrontendService): service(port, internal[0]),
		string(primitives.HistoryService):  service(internal[1], 0),
		string(primitives.MatchingService): service(internal[2], 0),
		string(primitives.WorkerService):   service(internal[3], 0),
	}
	c.Archival.History.State, c.Archival.Visibility.State = "disabled", "disabled"
	c.NamespaceDefaults.Archival.History.State = "disabled"
	c.NamespaceDefaults.Archival.Visibility.State = "disabled"
	c.PublicClient.HostPort = at(port)
	return &c
}

func serverOptions(c *config.Config, logger slogger) ([]temporal.ServerOption, error) {
	auth, err := authorization.GetAuthorizerFromConfig(&c.Global.Authorization)
	claims, bad := authorization.GetClaimMapperFromConfig(&c.Global.Authorization, logger)
	if err := errors.Join(err, bad); err != nil {
		return nil, fmt.Errorf("set up the Temporal server: %w", err)
	}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name := range c.Services {
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(at(c.Services[name].RPC.GRPCPort))
	}
	dynamic := dynamicconfig.StaticClient{}
	for key, value := range settings {
		dynamic[dynamicconfig.MakeKey(key)] = value
	}
	return []temporal.ServerOption{
		temporal.WithConfig(c),
		temporal.ForServices(temporal.DefaultServices),
		temporal.WithStaticHosts(hosts),
		temporal.WithLogger(logger),
		temporal.WithAuthorizer(auth),
		temporal.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return claims }),
		temporal.WithDynamicConfigClient(dynamic),
	}, nil
}

func at(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }

// slogger adapts a [slog.Logger] to the server's logger interface.
type slogger struct{ to *slog.Logger }

var _ log.SLogWrapper = slogger{}

func (s slogger) log(level slog.Level, msg string, tags []tag.Tag) {
	ctx := context.Background()
	if !s.to.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, len(tags))
	for i, t := range tags {
		attrs[i] = slog.Any(t.Key(), t.Value())
	}
	s.to.LogAttrs(ctx, level, msg, attrs...)
}

// The methods of the server's logger.

func (s slogger) Debug(msg string, tags ...tag.Tag)  { s.log(slog.LevelDebug, msg, tags) }
func (s slogger) Info(msg string, tags ...tag.Tag)   { s.log(slog.LevelInfo, msg, tags) }
func (s slogger) Warn(msg string, tags ...tag.Tag)   { s.log(slog.LevelWarn, msg, tags) }
func (s slogger) Error(msg string, tags ...tag.Tag)  { s.log(slog.LevelError, msg, tags) }
func (s slogger) DPanic(msg string, tags ...tag.Tag) { s.log(slog.LevelError, msg, tags) }
func (s slogger) Panic(msg string, tags ...tag.Tag)  { s.log(slog.LevelError, msg, tags) }
func (s slogger) Fatal(msg string, tags ...tag.Tag)  { s.log(slog.LevelError, msg, tags) }
func (s slogger) SLog() *slog.Logger                 { return s.to }

// startUI serves the Web UI for the server at an address and waits until the UI responds.
func startUI(address string, port int) (*webserver.Server, error) {
	srv := webserver.NewServer(weboptions.WithConfigProvider(&webconfig.Config{
		Host: loopback, Port: port, TemporalGRPCAddress: address, EnableUI: true,
		CORS: webconfig.CORS{CookieInsecure: true}, HideLogs: true, DisableNewsFetch: true,
	}))
	failed := make(chan error, 1)
	go func() { failed <- srv.Start() }()
	const timeout = 10 * time.Second
	for deadline := time.Now().Add(timeout); time.Now().Before(deadline); {
		select {
		case err := <-failed:
			return nil, fmt.Errorf("start the Web UI on %s: %w", at(port), err)
		case <-time.After(20 * time.Millisecond):
		}
		if c, err := net.DialTimeout("tcp", at(port), time.Second); err == nil {
			return srv, c.Close()
		}
	}
	srv.Stop()
	return nil, fmt.Errorf("start the Web UI on %s: no response within %v", at(port), timeout)
}

// Free ports are chosen below the ephemeral port range (on Linux, from 32768): a port in that range may
// be taken between the choice and the server's start.
const lowestPort, highestPort = 20_000, 32_000

// freePorts returns n distinct ports that are not in use.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := listen()
		if err != nil {
			return nil, fmt.Errorf("find a free port: %w", err)
		}
		// All stay open until the function returns, so that the ports are distinct.
		defer l.Close()
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

func listen() (net.Listener, error) {
	for range 100 {
		if l, err := net.Listen("tcp", at(lowestPort+rand.IntN(highestPort-lowestPort))); err == nil {
			return l, nil
		}
	}
	return net.Listen("tcp", at(0))
}

// choosePort returns the port want, or a free port if want is 0. If want is in use, it returns another
// free port if orAnother is set, else an error that names the flag.
func choosePort(flag string, want int, orAnother bool) (int, error) {
	if want < 0 || want > 65535 {
		return 0, fmt.Errorf("%s is %d, expected 0 to 65535", flag, want)
	}
	if want != 0 {
		l, err := net.Listen("tcp", at(want))
		if err == nil {
			return want, l.Close()
		}
		if !orAnother {
			return 0, fmt.Errorf("%s %d: %w; stop the program listening there, or use another with %s", flag, want, err, flag)
		}
	}
	ports, err := freePorts(1)
	if err != nil {
		return 0, err
	}
	return ports[0], nil
}
