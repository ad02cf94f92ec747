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

// account is what the histories of a run and all its children say of activities, by
// idempotency key.
type account struct {
	// root and first are the workflow id and the first run id of the run at the root.
	root, first string
	events      int
	// attempts is how many attempts history has; a call that its worker did not take in time is another activity of the same key.
	attempts map[string]int
	// done are the completed ones.
	done map[string]bool
}

// accountOf reads the histories of a run, of the runs that continue it and of its children.
func accountOf(ctx context.Context, c client.Client, id, run string) (*account, error) {
	a := &account{root: id, first: run, attempts: map[string]int{}, done: map[string]bool{}}
	return a, a.read(ctx, c, id, run, a.first+"/")
}

// read reads the history of a run. The idempotency keys of its calls begin with prefix, which a
// branch has from the run that started it.
func (a *account) read(ctx context.Context, c client.Client, id, run, prefix string) error {
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
		below := prefix
		if s := e.GetChildWorkflowExecutionStartedEventAttributes(); s != nil && s.WorkflowType.GetName() != contract.WorkflowBranch {
			below = a.first + "/" + strings.TrimPrefix(s.WorkflowExecution.WorkflowId, a.root+"/") + "/"
		}
		if nextID, next := leadsTo(e, id); next != "" {
			if err := a.read(ctx, c, nextID, next, below); err != nil {
				return err
			}
		}
	}
	return nil
}

// leadsTo is the run that an event of the workflow id began, if it began one.
func leadsTo(e *historypb.HistoryEvent, id string) (nextID, run string) {
	if s := e.GetChildWorkflowExecutionStartedEventAttributes(); s != nil {
		return s.WorkflowExecution.WorkflowId, s.WorkflowExecution.RunId
	}
	if n := e.GetWorkflowExecutionContinuedAsNewEventAttributes(); n != nil {
		return id, n.NewExecutionRunId
	}
	return "", ""
}

// activity is the key in the histories of a call's key: a judge may ask twice in one
// activity, and adds which time it is.
func (a *account) activity(key string) string {
	if _, ok := a.attempts[key]; ok {
		return key
	}
	return key[:max(0, strings.LastIndexByte(key, '/'))]
}

// passage is one run of a flow, disturbed or not.
type passage struct {
	result *contract.RunResult
	err    error
	log    []seen
	// before is what history had when the worker was dead; nil if it was not killed.
	before *account
	// revived is the generation of the worker that was started then.
	revived string
	// recovery is from the kill to the end; 0 if nothing was killed before it.
	recovery time.Duration
	after    *account
	run      client.WorkflowRun
}

// calls are the calls that came, without the run that made them, sorted: they say which
// calls a flow needs and what was sent. Where an outcome is unknown, the call may or may not
// have come, and what follows is about that.
func (p *passage) calls(unknown bool) []string {
	var out []string
	known := map[string]bool{}
	for _, s := range p.log {
		if s.listing || known[s.key] || unknown && s.never {
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

// repeated counts the calls that came again.
func (p *passage) repeated() int {
	n := 0
	for _, made := range p.byKey() {
		n += len(made) - 1
	}
	return n
}

func (p *passage) byKey() map[string][]seen {
	out := map[string][]seen{}
	for _, s := range p.log {
		if !s.listing {
			out[s.key] = append(out[s.key], s)
		}
	}
	return out
}

// problems are all that is wrong with a passage, measured by an undisturbed one.
func (p *passage) problems(f *chaosFlow, calm *passage) []string {
	if p.err != nil {
		return []string{fmt.Sprintf("the run failed: %v", p.err)}
	}
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	unknown := p.unknown(f)
	if f.agrees != nil {
		out = f.agrees(p)
	} else if diff := cmp.Diff(calm.result, p.result); diff != "" && !unknown {
		add("result (-undisturbed +got):\n%s", diff)
	}
	if diff := cmp.Diff(calm.calls(unknown), p.calls(unknown)); diff != "" && f.agrees == nil {
		add("calls (-undisturbed +got):\n%s", diff)
	}
	for key, made := range p.byKey() {
		out = append(out, p.callProblems(key, made)...)
	}
	return out
}

// unknown reports whether the run ended as it must where a call that is never repeated was cut
// off: its activity began and did not complete.
func (p *passage) unknown(f *chaosFlow) bool {
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

// callProblems looks at all requests for one call.
func (p *passage) callProblems(key string, made []seen) (out []string) {
	add := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("call %s (%s): ", key, made[0].what)+fmt.Sprintf(format, args...))
	}
	if key == "" {
		add("it came without an idempotency key")
		return out
	}
	name := p.after.activity(key)
	attempts, known := p.after.attempts[name]
	switch {
	case !known:
		add("no history has an activity for it")
	case len(made) > attempts:
		add("it came %d times in %d attempts: not only Temporal repeats it", len(made), attempts)
	case len(made) > 2:
		add("it came %d times", len(made))
	}
	if made[0].never && len(made) > 1 {
		add("it was repeated although its tool forbids that")
	}
	by := map[string]int{}
	for _, s := range made {
		if by[s.generation]++; by[s.generation] > 1 && p.revived != "" {
			add("worker %s made it twice", s.generation)
		}
		if s.body != made[0].body {
			add("it was repeated with another content")
		}
		if s.generation == p.revived && p.before != nil && p.before.done[name] {
			add("history had its result when the worker died, and it was made again")
		}
	}
	return out
}

// TestChaosCheckFindsErrors gives the checks passages that must not pass.
func TestChaosCheckFindsErrors(t *testing.T) {
	good := func() *passage {
		done := func() *account {
			return &account{attempts: map[string]int{"r/a#1/model/1": 1, "r/a#1/tool/1.1": 2}, done: map[string]bool{"r/a#1/model/1": true, "r/a#1/tool/1.1": true}}
		}
		before := done()
		delete(before.done, "r/a#1/tool/1.1")
		return &passage{
			result: &contract.RunResult{Status: "completed", ResultText: new("fine"), Usage: contract.Usage{Calls: 1}},
			before: before, after: done(), revived: "2",
			log: []seen{{generation: "1", key: "r/a#1/model/1", what: "model", body: "m"},
				{generation: "1", key: "r/a#1/tool/1.1", what: "search", body: "s"}, {generation: "2", key: "r/a#1/tool/1.1", what: "search", body: "s"}},
		}
	}
	tests := map[string]struct {
		spoil func(p *passage)
		want  string
	}{
		"a call in flight is repeated once": {spoil: func(*passage) {}},
		"a call that must not be repeated is cut off": {
			spoil: func(p *passage) {
				p.log, p.result.ResultText = p.log[:2], new("perhaps")
				p.log[1].never = true
				delete(p.after.done, "r/a#1/tool/1.1")
			},
		},
		"a recorded call is made again": {
			spoil: func(p *passage) { p.before.done["r/a#1/tool/1.1"] = true },
			want:  "history had its result when the worker died, and it was made again",
		},
		"a call comes more often than history has attempts": {
			spoil: func(p *passage) { p.after.attempts["r/a#1/tool/1.1"] = 1 },
			want:  "it came 2 times in 1 attempts: not only Temporal repeats it",
		},
		"a call comes three times": {
			spoil: func(p *passage) {
				p.after.attempts["r/a#1/tool/1.1"] = 3
				p.log = append(p.log, seen{generation: "3", key: "r/a#1/tool/1.1", what: "search", body: "s"})
			},
			want: "it came 3 times",
		},
		"one worker makes a call twice": {
			spoil: func(p *passage) { p.log[2].generation = "1" },
			want:  "worker 1 made it twice",
		},
		"a call is repeated under another key": {
			spoil: func(p *passage) { p.log[2].key = "r/a#1/tool/1.2"; p.after.attempts["r/a#1/tool/1.2"] = 1 },
			want:  "calls (-undisturbed +got)",
		},
		"a call is repeated with another content": {
			spoil: func(p *passage) { p.log[2].body = "other" },
			want:  "it was repeated with another content",
		},
		"a call that must not be repeated is": {
			spoil: func(p *passage) { p.log[1].never = true },
			want:  "it was repeated although its tool forbids that",
		},
		"a call has no key": {
			spoil: func(p *passage) { p.log[0].key = "" },
			want:  "it came without an idempotency key",
		},
		"usage counts a repeated call": {
			spoil: func(p *passage) { p.result.Usage.Calls = 2 },
			want:  "result (-undisturbed +got)",
		},
		"a call is missing": {
			spoil: func(p *passage) { p.log = p.log[:1] },
			want:  "calls (-undisturbed +got)",
		},
		"the outcome is said to be unknown although history has it": {
			spoil: func(p *passage) { p.log[1].never, p.result.ResultText = true, new("perhaps") },
			want:  "result (-undisturbed +got)",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, calm := good(), good()
			tc.spoil(p)
			for i := range calm.log[1:] {
				calm.log[1+i].never = len(p.log) > 1 && p.log[1].never // a matter of the flow, not of the passage
			}
			got := strings.Join(p.problems(&chaosFlow{unknown: "perhaps"}, calm), "\n")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("problems are %q, want %q in them", got, tc.want)
			}
		})
	}
}
