package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
)

// Metrics of activities, in base units: seconds, tokens, calls. The worker's client adds the labels namespace,
// task_queue, workflow_type and activity_type, and the suffixes _seconds and _total.
const (
	// metricLatency is the latency of a model's answer, by model.
	metricLatency = "weft_model_latency"
	// metricTokens counts tokens by model and kind: input, output, and cached and reasoning,
	// which are parts of these.
	metricTokens = "weft_model_tokens"
	// metricCost is the cost of answers by the worker's table of prices, in millionths of its
	// currency, by model.
	metricCost = "weft_model_cost"
	// metricFailures counts failed attempts, by class; metricRetries those of them that are
	// retried.
	metricFailures = "weft_attempt_failures"
	metricRetries  = "weft_retries"
	// metricRepeated counts attempts after the first, whatever ended the previous one, including
	// the death of a worker, which reports no failure.
	metricRepeated = "weft_repeated_attempts"
	// metricCache counts lookups of transcripts and other content in the worker's cache, by
	// whether all of it was found.
	metricCache = "weft_transcript_cache"
	// metricQueries counts the queries that activities send to runs for missing content.
	metricQueries = "weft_run_queries"
)

// meter returns the metrics handler of an activity, with labels.
func meter(ctx context.Context, labels map[string]string) client.MetricsHandler {
	if !activity.IsActivity(ctx) {
		return client.MetricsNopHandler
	}
	return activity.GetMetricsHandler(ctx).WithTags(labels)
}

func measureAnswer(ctx context.Context, model string, took time.Duration, u contract.Usage) {
	meter(ctx, map[string]string{"model": model}).Timer(metricLatency).Record(took)
	measureUsage(ctx, model, u)
	if activity.IsActivity(ctx) {
		activity.GetLogger(ctx).Info("model answered", "Model", model,
			"Seconds", took.Seconds(), "InputTokens", u.Input, "OutputTokens", u.Output)
	}
}

// measureUsage counts the usage of a model call, also where its answer is incomplete.
func measureUsage(ctx context.Context, model string, u contract.Usage) {
	for _, t := range []struct {
		kind string
		n    int
	}{{"input", u.Input}, {"output", u.Output}, {"cached", u.Cached}, {"reasoning", u.Reasoning}} {
		if t.n > 0 {
			meter(ctx, map[string]string{"model": model, "kind": t.kind}).Counter(metricTokens).Inc(int64(t.n))
		}
	}
	if u.Cost > 0 {
		meter(ctx, map[string]string{"model": model}).Counter(metricCost).Inc(u.Cost)
	}
}

func measureAttempt(ctx context.Context) {
	if activity.IsActivity(ctx) && activity.GetInfo(ctx).Attempt > 1 {
		meter(ctx, nil).Counter(metricRepeated).Inc(1)
	}
}

func measureFailure(ctx context.Context, f *contract.Failure) {
	retried := contract.Retryable(f.Class) && !lastAttempt(ctx)
	of := meter(ctx, map[string]string{"class": f.Class})
	of.Counter(metricFailures).Inc(1)
	if retried {
		of.Counter(metricRetries).Inc(1)
	}
	if activity.IsActivity(ctx) {
		activity.GetLogger(ctx).Warn("attempt failed", "Class", f.Class, "Error", f.Text, "Retried", retried)
	}
}

// lastAttempt reports whether the call's retry policy allows no further attempt.
func lastAttempt(ctx context.Context) bool {
	if !activity.IsActivity(ctx) {
		return false
	}
	info := activity.GetInfo(ctx)
	return info.RetryPolicy != nil && info.RetryPolicy.MaximumAttempts > 0 && info.Attempt >= info.RetryPolicy.MaximumAttempts
}

// measureLookup counts a lookup of a transcript or of content in the cache.
func measureLookup(ctx context.Context, of string, found bool) {
	result := "miss"
	if found {
		result = "hit"
	}
	meter(ctx, map[string]string{"of": of, "result": result}).Counter(metricCache).Inc(1)
}

func measureQuery(ctx context.Context, query string) {
	meter(ctx, map[string]string{"query": query}).Counter(metricQueries).Inc(1)
}
