package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/grpc"

	"weft/worker/config"
	"weft/worker/health"
	"weft/worker/observe"
)

// monitoring holds a worker's log, health checks, metrics and traces.
type monitoring struct {
	log     *slog.Logger
	printf  func(format string, args ...any)
	health  health.Health
	metrics *observe.Metrics
	traces  *observe.Traces
	servers []*http.Server
}

// openMonitoring opens what the settings configure. Messages and the log are written to stderr.
func openMonitoring(ctx context.Context, cfg *config.Config, stderr io.Writer) (*monitoring, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Worker.LogLevel)); err != nil {
		return nil, config.Problems{fmt.Sprintf("worker.log_level: %v", err)}
	}
	json := cfg.Worker.Log == config.LogJSON
	w := &monitoring{log: observe.Logger(stderr, json, level), printf: func(format string, args ...any) { fmt.Fprintf(stderr, format, args...) }}
	if json {
		// The worker's own messages are logged whatever the log level.
		own := observe.Logger(stderr, true, slog.LevelInfo)
		w.printf = func(format string, args ...any) {
			for line := range strings.Lines(fmt.Sprintf(format, args...)) {
				own.Info(strings.TrimPrefix(strings.TrimSpace(line), "worker: "))
			}
		}
	}
	var err error
	if w.traces, err = observe.NewTraces(ctx, cfg.Env()); err != nil {
		return nil, err
	}
	if cfg.Worker.MetricsListen != "" {
		if w.metrics, err = observe.NewMetrics(); err != nil {
			return nil, err
		}
	}
	pages, metrics := http.NewServeMux(), http.NewServeMux()
	healthAt, metricsAt := cfg.Worker.HealthListen, cfg.Worker.MetricsListen
	w.health.Handle(pages)
	if metricsAt == healthAt {
		metrics = pages
	}
	if metricsAt != "" {
		w.metrics.Handle(metrics)
	}
	if err = w.serve(ctx, "worker.health_listen", healthAt, pages); err == nil && metricsAt != healthAt {
		err = w.serve(ctx, "worker.metrics_listen", metricsAt, metrics)
	}
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// serve serves HTTP until [monitoring.close], unless the address is empty.
func (w *monitoring) serve(ctx context.Context, key, address string, mux *http.ServeMux) error {
	if address == "" {
		return nil
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return config.Problems{fmt.Sprintf("%s: %v; set another address, or remove it", key, err)}
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	w.servers = append(w.servers, srv)
	go func() {
		if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			w.log.Error("HTTP server stopped.", "Setting", key, "Address", address, "Error", err.Error())
		}
	}()
	return nil
}

// client adds metrics, traces and health checks to a client's options.
func (w *monitoring) client(o *client.Options) {
	if w.metrics != nil {
		o.MetricsHandler = w.metrics.Handler()
		o.Interceptors = append(slices.Clone(o.Interceptors), w.metrics.Interceptor())
	}
	if w.traces != nil {
		o.Interceptors = append(slices.Clone(o.Interceptors), w.traces.Interceptor())
	}
	o.ConnectionOptions.DialOptions = append(slices.Clone(o.ConnectionOptions.DialOptions), grpc.WithChainUnaryInterceptor(w.health.Interceptor()))
}

// connected lets health and metrics query Temporal.
func (w *monitoring) connected(c client.Client, queue string) {
	if w.metrics != nil {
		w.metrics.Connected(func(ctx context.Context, query string) (int64, error) {
			got, err := c.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: query})
			return got.GetCount(), err
		}, queue)
	}
	w.health.Connected(func(ctx context.Context) error {
		_, err := c.WorkflowService().GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
		return err
	})
}

// describe lists the endpoints, one per line.
func (w *monitoring) describe(c config.Worker) string {
	var b strings.Builder
	if c.HealthListen != "" {
		fmt.Fprintf(&b, "worker: health on %s%s\n", c.HealthListen, health.PathReady)
	}
	if c.MetricsListen != "" {
		fmt.Fprintf(&b, "worker: metrics on %s%s\n", c.MetricsListen, observe.PathMetrics)
	}
	if w.traces != nil {
		b.WriteString("worker: traces are exported, configured by OTEL_EXPORTER_OTLP_…\n")
	}
	return b.String()
}

func (w *monitoring) logger() log.Logger { return log.NewStructuredLogger(w.log) }

// close stops the servers immediately and sends the last spans.
func (w *monitoring) close() {
	for _, srv := range w.servers {
		_ = srv.Close()
	}
	if w.traces != nil {
		w.traces.Close()
	}
}
