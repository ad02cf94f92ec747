package chaos

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
)

// historySummary summarizes the activities in the histories of a run and all its descendants, by
// idempotency key.
type historySummary struct {
	// root and first are the workflow id and the first run id of the root run.
	root, first string
	events      int
	// attempts counts the attempts in history. A call that its worker did not pick up in time is rescheduled as another activity with the same key.
	attempts map[string]int
	// done has the completed activities.
	done map[string]bool
}

// summarize reads the histories of a run, its continued runs and its children.
func summarize(ctx context.Context, c client.Client, id, run string) (*historySummary, error) {
	a := &historySummary{root: id, first: run, attempts: map[string]int{}, done: map[string]bool{}}
	return a, a.read(ctx, c, id, run, a.first+"/")
}

// read reads the history of a run. The idempotency keys of its calls begin with prefix, which
// a branch inherits from its parent.
func (a *historySummary) read(ctx context.Context, c client.Client, id, run, prefix string) error {
	scheduled := map[int64]string{}
	it := c.GetWorkflowHistory(ctx, id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return fmt.Errorf("read the history of %s: %w", id, err)
		}
		a.events++
		switch {
		case e.GetActivityTaskScheduledEventAttributes() != nil:
			scheduled[e.EventId] = prefix + e.GetActivityTaskScheduledEventAttributes().ActivityId
			a.attempts[scheduled[e.EventId]]++
		case e.GetActivityTaskStartedEventAttributes() != nil:
			s := e.GetActivityTaskStartedEventAttributes()
			a.attempts[scheduled[s.ScheduledEventId]] += int(s.Attempt) - 1
		case e.GetActivityTaskCompletedEventAttributes() != nil:
			a.done[scheduled[e.GetActivityTaskCompletedEventAttributes().ScheduledEventId]] = true
		}
		childPrefix := prefix
		if s := e.GetChildWorkflowExecutionStartedEventAttributes(); s != nil && s.WorkflowType.GetName() != contract.WorkflowBranch {
			childPrefix = a.first + "/" + strings.TrimPrefix(s.WorkflowExecution.WorkflowId, a.root+"/") + "/"
		}
		if nextID, next := startedBy(e, id); next != "" {
			if err := a.read(ctx, c, nextID, next, childPrefix); err != nil {
				return err
			}
		}
	}
	return nil
}

// startedBy returns the workflow id and run id of the run that an event of workflow id started, if any.
func startedBy(e *historypb.HistoryEvent, id string) (nextID, run string) {
	if s := e.GetChildWorkflowExecutionStartedEventAttributes(); s != nil {
		return s.WorkflowExecution.WorkflowId, s.WorkflowExecution.RunId
	}
	if n := e.GetWorkflowExecutionContinuedAsNewEventAttributes(); n != nil {
		return id, n.NewExecutionRunId
	}
	return "", ""
}

// activityKey returns the history key for the idempotency key of a call: a judge may call the
// model twice in one activity, and then appends the number of the call.
func (a *historySummary) activityKey(key string) string {
	if _, ok := a.attempts[key]; ok {
		return key
	}
	return key[:max(0, strings.LastIndexByte(key, '/'))]
}

// flowRun is one run of a flow, with or without a fault.
type flowRun struct {
	result *contract.RunResult
	err    error
	log    []request
	// atKill is the history after the worker was killed; nil if it was not killed.
	atKill *historySummary
	// newWorker is the generation of the worker that was started after the kill.
	newWorker string
	// recovery is the time from the kill to the end of the run; 0 without a kill.
	recovery time.Duration
	after    *historySummary
	run      client.WorkflowRun
}

// calls returns the distinct calls with their contents, sorted and without the id of the
// run. With an unknown outcome, calls that must not be repeated are left out, since they may
// or may not have been received, and so are the contents, which depend on that.
func (p *flowRun) calls(unknown bool) []string {
	var out []string
	known := map[string]bool{}
	for _, s := range p.log {
		if s.keyless || known[s.key] || unknown && s.noRetry {
			continue
		}
		known[s.key] = true
		_, name, _ := strings.Cut(s.key, "/")
		if !unknown {
			name += " " + s.body
		}
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// repeated counts the repeated calls.
func (p *flowRun) repeated() int {
	n := 0
	for _, requests := range p.byKey() {
		n += len(requests) - 1
	}
	return n
}

func (p *flowRun) byKey() map[string][]request {
	out := map[string][]request{}
	for _, s := range p.log {
		if !s.keyless {
			out[s.key] = append(out[s.key], s)
		}
	}
	return out
}

// problems lists everything that is wrong with a run, compared with the baseline run.
func (p *flowRun) problems(f *chaosFlow, baseline *flowRun) []string {
	if p.err != nil {
		return []string{fmt.Sprintf("the run failed: %v", p.err)}
	}
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	unknown := p.unknown(f)
	if f.check != nil {
		out = f.check(p)
	} else if diff := cmp.Diff(baseline.result, p.result); diff != "" && !unknown {
		add("result (-baseline +got):\n%s", diff)
	}
	if diff := cmp.Diff(baseline.calls(unknown), p.calls(unknown)); diff != "" && f.check == nil {
		add("calls (-baseline +got):\n%s", diff)
	}
	for key, requests := range p.byKey() {
		out = append(out, p.callProblems(key, requests)...)
	}
	return out
}

// unknown reports whether the run ended as expected after a call that must not be repeated was
// interrupted: the activity of that call was started and did not complete.
func (p *flowRun) unknown(f *chaosFlow) bool {
	if f.unknown == "" || p.result == nil || p.result.ResultText == nil || *p.result.ResultText != f.unknown {
		return false
	}
	for key := range p.after.attempts {
		if !p.after.done[key] {
			return true
		}
	}
	return false
}

// callProblems checks all requests for one call.
func (p *flowRun) callProblems(key string, requests []request) (out []string) {
	add := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("call %s (%s): ", key, requests[0].what)+fmt.Sprintf(format, args...))
	}
	if key == "" {
		add("received without an idempotency key")
		return out
	}
	name := p.after.activityKey(key)
	attempts, known := p.after.attempts[name]
	switch {
	case !known:
		add("its activity is in no history")
	case len(requests) > attempts:
		add("received %d times in %d attempts: repeated within an attempt", len(requests), attempts)
	case len(requests) > 2:
		add("received %d times", len(requests))
	}
	if requests[0].noRetry && len(requests) > 1 {
		add("repeated although the tool must not be retried")
	}
	sentBy := map[string]int{}
	for _, s := range requests {
		if sentBy[s.generation]++; sentBy[s.generation] > 1 && p.newWorker != "" {
			add("sent twice by worker %s", s.generation)
		}
		if s.body != requests[0].body {
			add("repeated with different content")
		}
		if s.generation == p.newWorker && p.atKill != nil && p.atKill.done[name] {
			add("repeated although its result was in history when the worker was killed")
		}
	}
	return out
}

// TestChaosCheckFindsErrors checks that flowRun.problems reports each kind of error.
func TestChaosCheckFindsErrors(t *testing.T) {
	good := func() *flowRun {
		done := func() *historySummary {
			return &historySummary{attempts: map[string]int{"r/a#1/model/1": 1, "r/a#1/tool/1.1": 2}, done: map[string]bool{"r/a#1/model/1": true, "r/a#1/tool/1.1": true}}
		}
		before := done()
		delete(before.done, "r/a#1/tool/1.1")
		return &flowRun{
			result: &contract.RunResult{Status: "completed", ResultText: new("fine"), Usage: contract.Usage{Calls: 1}},
			atKill: before, after: done(), newWorker: "2",
			log: []request{{generation: "1", key: "r/a#1/model/1", what: "model", body: "m"},
				{generation: "1", key: "r/a#1/tool/1.1", what: "search", body: "s"}, {generation: "2", key: "r/a#1/tool/1.1", what: "search", body: "s"}},
		}
	}
	tests := map[string]struct {
		mutate func(p *flowRun)
		want   string
	}{
		"a call in flight is repeated once": {mutate: func(*flowRun) {}},
		"a call that must not be repeated is interrupted": {
			mutate: func(p *flowRun) {
				p.log, p.result.ResultText = p.log[:2], new("perhaps")
				p.log[1].noRetry = true
				delete(p.after.done, "r/a#1/tool/1.1")
			},
		},
		"a recorded call is made again": {
			mutate: func(p *flowRun) { p.atKill.done["r/a#1/tool/1.1"] = true },
			want:   "repeated although its result was in history when the worker was killed",
		},
		"more requests than attempts": {
			mutate: func(p *flowRun) { p.after.attempts["r/a#1/tool/1.1"] = 1 },
			want:   "received 2 times in 1 attempts: repeated within an attempt",
		},
		"a call is received three times": {
			mutate: func(p *flowRun) {
				p.after.attempts["r/a#1/tool/1.1"] = 3
				p.log = append(p.log, request{generation: "3", key: "r/a#1/tool/1.1", what: "search", body: "s"})
			},
			want: "received 3 times",
		},
		"one worker sends a call twice": {
			mutate: func(p *flowRun) { p.log[2].generation = "1" },
			want:   "sent twice by worker 1",
		},
		"a call is repeated with a different key": {
			mutate: func(p *flowRun) { p.log[2].key = "r/a#1/tool/1.2"; p.after.attempts["r/a#1/tool/1.2"] = 1 },
			want:   "calls (-baseline +got)",
		},
		"a call is repeated with different content": {
			mutate: func(p *flowRun) { p.log[2].body = "other" },
			want:   "repeated with different content",
		},
		"a call that must not be repeated is repeated": {
			mutate: func(p *flowRun) { p.log[1].noRetry = true },
			want:   "repeated although the tool must not be retried",
		},
		"a call has no key": {
			mutate: func(p *flowRun) { p.log[0].key = "" },
			want:   "received without an idempotency key",
		},
		"usage counts a repeated call": {
			mutate: func(p *flowRun) { p.result.Usage.Calls = 2 },
			want:   "result (-baseline +got)",
		},
		"a call is missing": {
			mutate: func(p *flowRun) { p.log = p.log[:1] },
			want:   "calls (-baseline +got)",
		},
		"the outcome is reported as unknown although it is in history": {
			mutate: func(p *flowRun) { p.log[1].noRetry, p.result.ResultText = true, new("perhaps") },
			want:   "result (-baseline +got)",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, baseline := good(), good()
			tc.mutate(p)
			for i := range baseline.log[1:] {
				baseline.log[1+i].noRetry = len(p.log) > 1 && p.log[1].noRetry // a property of the flow, not of the run
			}
			got := strings.Join(p.problems(&chaosFlow{unknown: "perhaps"}, baseline), "\n")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("problems = %q, want them to contain %q", got, tc.want)
			}
		})
	}
}
