package observe

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"

	"weft/worker/build"
)

// PathMetrics is the path of the metrics.
const PathMetrics = "/metrics"

// buckets are those of durations in seconds: from a query to a model's longest answer.
var buckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}

// maxSeries limits the series of one metric: names of models come from flows.
const maxSeries = 2000

// Metrics are the metrics of a worker: those of Temporal's SDK (temporal_*), of its activities (weft_*),
// of Go and of the process.
type Metrics struct {
	registry *prometheus.Registry
	handler  client.MetricsHandler
	runs     *runs
	visible  *visible
}

// NewMetrics returns a worker's metrics.
func NewMetrics() (*Metrics, error) {
	m := &Metrics{registry: prometheus.NewRegistry()}
	exp, err := exporter.New(exporter.WithRegisterer(m.registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("create the metrics exporter: %w", err)
	}
	provider := metric.NewMeterProvider(metric.WithReader(exp), metric.WithCardinalityLimit(maxSeries), metric.WithView(metric.NewView(
		metric.Instrument{Kind: metric.InstrumentKindHistogram},
		metric.Stream{Aggregation: metric.AggregationExplicitBucketHistogram{Boundaries: buckets}},
	)))
	meter := provider.Meter("weft")
	m.handler = units{opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: meter, UseMonotonicCounters: true,
		// A metric that cannot be created is missing; the worker goes on without it.
		OnError: func(error) {},
	}), meter, nil}
	m.runs, m.visible = newRuns(m.registry), newVisible()
	version, revision := build.Info()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_build_info", Help: "The build of this worker.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision}})
	info.Set(1)
	m.registry.MustRegister(m.visible, info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m, nil
}

// Handler is the metrics handler for the SDK and the activities.
func (m *Metrics) Handler() client.MetricsHandler { return m.handler }

// Interceptor measures runs; it belongs into the worker's client options.
func (m *Metrics) Interceptor() interceptor.ClientInterceptor { return m.runs }

// Handle adds the metrics endpoint to a server.
func (m *Metrics) Handle(mux *http.ServeMux) {
	mux.Handle("GET "+PathMetrics, promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
}
