package agentspec

import (
	"slices"
	"strconv"

	"weft/specadapter/agentspec/model"
	"weft/specadapter/source"
	"weft/workflows/plan"
)

// retry makes of a retry policy what a call is repeated by; nil where there is none. byStatus
// reports whether the component is a request whose answers' statuses count; others are judged by
// what speaks to the server.
func (b *builder) retry(c *model.Component, byStatus bool) *plan.Retry {
	f := c.Field("retry_policy")
	if f == nil {
		return nil
	}
	millis := func(name string, def float64) int { return int(number(f, name, def) * 1000) }
	const day = 24 * 3600
	for _, name := range []string{"request_timeout", "initial_retry_delay", "max_retry_delay", "max_attempts"} {
		if part := f.Fields[name]; part != nil && number(f, name, 0) > day {
			b.Errorf(part.At, "field-value", "write at most 86400", "%s in retry_policy of %s is %s", name, c, part.JSON.Describe())
			return nil
		}
	}
	r := &plan.Retry{
		Attempts: int(number(f, "max_attempts", 2)), TimeoutMillis: millis("request_timeout", 0),
		FirstMillis: millis("initial_retry_delay", 1), MostMillis: millis("max_retry_delay", 8), Factor: number(f, "backoff_factor", 2),
	}
	if part := f.Fields["backoff_factor"]; r.Factor < 1 || r.Factor > 1000 {
		b.Warnf(part.At, CodeNoEffect, "write 1 to 1000", "backoff_factor in retry_policy of %s is %s; the delay stays constant", c, part.JSON.Describe())
		r.Factor = 1
	}
	if part := f.Fields["jitter"]; part != nil && part.JSON != nil && part.JSON.Kind == source.String {
		b.Warnf(part.At, CodeNoEffect, "remove it", "jitter in retry_policy of %s has no effect", c)
	}
	b.statuses(c, f, r, byStatus)
	return r
}

// statuses are the answers over HTTP after which a request is made again.
func (b *builder) statuses(c *model.Component, f *model.Field, r *plan.Retry, byStatus bool) {
	listed, any5xx := f.Fields["recoverable_statuses"], f.Fields["service_error_retry_on_any_5xx"]
	if !byStatus {
		for _, part := range []*model.Field{listed, any5xx} {
			if part != nil {
				b.Warnf(part.At, CodeNoEffect, "remove it", "statuses in retry_policy of %s have no effect: only transient failures are retried", c)
				return
			}
		}
		return
	}
	r.Statuses = []int{409, 429}
	if listed != nil && listed.JSON != nil && listed.JSON.Kind == source.Object {
		r.Statuses = b.listed(c, listed)
	}
	r.NoServer = any5xx != nil && any5xx.JSON != nil && any5xx.JSON.Kind == source.Bool && !any5xx.JSON.True
}

// listed are the statuses of recoverable_statuses.
func (b *builder) listed(c *model.Component, f *model.Field) []int {
	var out []int
	for _, m := range f.JSON.Members {
		n, err := strconv.Atoi(m.Key)
		if err != nil || n < 400 || n > 599 {
			b.Errorf(m.KeyPos, "field-value", "write a status from 400 to 599", "recoverable_statuses of %s has the unsupported status %s", c, source.Quote(m.Key))
			continue
		}
		if len(m.Value.Items) > 0 {
			b.Warnf(m.Value.Pos, CodeNoEffect, "write []", "codes of a status in retry_policy of %s have no effect: every response with the status is retried", c)
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// number is a part of a plain object that is a number, or the default.
func number(f *model.Field, name string, def float64) float64 {
	if part := f.Fields[name]; part != nil && part.JSON != nil && part.JSON.Kind == source.Number {
		return model.Decimal(part.JSON)
	}
	return def
}
