package observe

import (
	"context"
	"maps"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.temporal.io/sdk/client"
)

// millionths lists the counters that are reported in millionths, because the SDK's counters are integers.
// They are exported as whole units.
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
	if all == nil {
		all = map[string]string{}
	}
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
