package observe

import (
	"context"
	"fmt"
	"maps"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"

	"weft/worker/build"
)

// PathMetrics is the path of the metrics.
const PathMetrics = "/metrics"

// buckets are the bounds of duration histograms in seconds, from a query to a model's longest answer.
var buckets = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}

// maxSeries limits the number of series per metric: model names come from flows.
const maxSeries = 2000

// Metrics are the metrics of a worker: from Temporal's SDK (temporal_*), the activities (weft_*), the Go
// runtime and the process.
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
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exp), sdkmetric.WithCardinalityLimit(maxSeries), sdkmetric.WithView(sdkmetric.NewView(
		sdkmetric.Instrument{Kind: sdkmetric.InstrumentKindHistogram},
		sdkmetric.Stream{Aggregation: sdkmetric.AggregationExplicitBucketHistogram{Boundaries: buckets}},
	)))
	meter := provider.Meter("weft")
	m.handler = units{opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: meter, UseMonotonicCounters: true,
		// A metric that cannot be created is omitted; the worker runs without it.
		OnError: func(error) {},
	}), meter, map[string]string{}}
	m.runs, m.visible = newRuns(m.registry), newVisible()
	version, revision := build.Info()
	info := prometheus.NewGauge(prometheus.GaugeOpts{Name: "weft_build_info", Help: "The build of this worker.",
		ConstLabels: prometheus.Labels{"version": version, "revision": revision}})
	info.Set(1)
	m.registry.MustRegister(m.visible, info, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m, nil
}

// Handler returns the metrics handler for the SDK and the activities.
func (m *Metrics) Handler() client.MetricsHandler { return m.handler }

// Interceptor returns an interceptor that measures runs; add it to the worker's client options.
func (m *Metrics) Interceptor() interceptor.ClientInterceptor { return m.runs }

// Handle registers the metrics endpoint.
func (m *Metrics) Handle(mux *http.ServeMux) {
	mux.Handle("GET "+PathMetrics, promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
}

// millionths lists the counters that are reported in millionths, because the SDK's counters are integers.
// They are exported in base units.
var millionths = map[string]bool{"weft_model_cost": true}

// units is a metrics handler that exports base units. The inner handler already exports durations in
// seconds.
type units struct {
	client.MetricsHandler
	meter metric.Meter
	tags  map[string]string
}

func (u units) WithTags(tags map[string]string) client.MetricsHandler {
	all := maps.Clone(u.tags)
	maps.Copy(all, tags)
	return units{u.MetricsHandler.WithTags(tags), u.meter, all}
}

func (u units) Counter(name string) client.MetricsCounter {
	if !millionths[name] {
		return u.MetricsHandler.Counter(name)
	}
	c, err := u.meter.Float64Counter(name)
	if err != nil {
		return client.MetricsNopHandler.Counter(name)
	}
	var attrs []attribute.KeyValue
	for k, v := range u.tags {
		attrs = append(attrs, attribute.String(k, v))
	}
	return counter{c, metric.WithAttributes(attrs...)}
}

type counter struct {
	metric.Float64Counter
	labels metric.MeasurementOption
}

func (c counter) Inc(n int64) { c.Add(context.Background(), float64(n)/1e6, c.labels) }
