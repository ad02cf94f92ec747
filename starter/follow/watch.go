package follow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/starter/runs"
)

// A history shows an attempt only after the call has ended, and nothing while there is no
// worker. Therefore the follower also describes runs that have had no events for some time.
const (
	watchEvery = time.Second
	// textEvery is the interval for runs in which a model answers, if its text is shown.
	textEvery = 500 * time.Millisecond
	// quiet is the time without events after which a run is described.
	quiet = 1500 * time.Millisecond
	// announceEvery is the interval at which a worker is notified that a run in which a model answers is watched.
	announceEvery = contract.WatchedFor * time.Second / 2
	// unclaimed is how long a task may wait for a worker before that is reported.
	unclaimed = 3 * time.Second
	// maxAsked is the maximum number of runs that are described at a time.
	maxAsked = 20
)

func (f *Follower) watch(ctx context.Context) {
	var announcing sync.WaitGroup
	defer announcing.Wait()
	for range runs.Every(ctx, textEvery) {
		for _, t := range f.due() {
			if f.unannounced(t) {
				announcing.Go(func() { // so that the worker sends text more often than with its heartbeats
					ctx, cancel := context.WithTimeout(ctx, announceEvery)
					defer cancel()
					_, _ = f.target.Client.QueryWorkflow(ctx, t.id, t.run, contract.QueryWatching)
				})
			}
			f.describe(ctx, t)
		}
	}
}

// unannounced reports whether to notify a worker that its run is watched, and records the notification.
func (f *Follower) unannounced(t *track) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.showsText() || !t.streaming() || time.Since(t.announced) < announceEvery {
		return false
	}
	t.announced = time.Now()
	return true
}

func (f *Follower) due() []*track {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []*track
	showsText := f.showsText()
	for _, t := range f.tracks {
		// A run that only waits for children need not be described: the children are.
		quiet := time.Since(t.changed) > quiet && (len(t.calls) > 0 || len(t.children) == 0 || t.id == f.target.ID)
		// The ticker is not exact.
		if showsText && t.streaming() || quiet && time.Since(t.looked) > watchEvery-textEvery/2 {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b *track) int { return a.looked.Compare(b.looked) })
	out = out[:min(len(out), maxAsked)]
	for _, t := range out {
		t.looked = time.Now()
	}
	return out
}

// describe describes one run and reports its pending tasks. It ignores errors: reading the history reports them.
func (f *Follower) describe(ctx context.Context, t *track) {
	d, err := f.target.Describe(ctx, t.id, t.run)
	if err != nil {
		return
	}
	now := time.Now()
	waits := false
	switch task := d.GetPendingWorkflowTask(); {
	case task.GetAttempt() > 1:
		f.stuck(t, task.GetAttempt()-1)
	case task.GetState() == enumspb.PENDING_WORKFLOW_TASK_STATE_SCHEDULED:
		waits = now.Sub(task.GetScheduledTime().AsTime()) > unclaimed
	}
	for _, p := range d.GetPendingActivities() {
		f.attempts(t, p)
		if p.GetState() == enumspb.PENDING_ACTIVITY_STATE_SCHEDULED {
			waits = waits || now.Sub(p.GetScheduledTime().AsTime()) > unclaimed
		}
	}
	if waits {
		f.unclaimed(ctx)
	}
}

func (f *Follower) attempts(t *track, p *workflowpb.PendingActivityInfo) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range t.calls {
		if c.Place+c.ID == p.GetActivityId() {
			f.attempt(c, p)
			waiting := history.Waiting(p)
			if waiting != "" && waiting != c.waits {
				f.notify(progress.Notice{Event: progress.EventNote, Time: time.Now(), Node: c.node, Call: c.what}, "%s: %s", c.what, plaintext.Line(waiting, 300))
			}
			c.waits = waiting
			f.partial(c, p)
		}
	}
}

func (f *Follower) attempt(c *call, p *workflowpb.PendingActivityInfo) {
	failed := p.GetAttempt() - 1
	if failed <= c.reported || p.GetLastFailure() == nil || history.TurnWait(p) != nil {
		return
	}
	c.reported = failed
	next := "next one running"
	if wait := time.Until(p.GetScheduledTime().AsTime()); wait > 0 {
		next = fmt.Sprintf("next one in %.0f s", wait.Seconds()+0.5)
	}
	f.notify(progress.Notice{Event: progress.EventAttempt, Time: time.Now(), Node: c.node, Call: c.what, Attempt: failed},
		"%s: attempt %d failed: %s; %s", c.what, failed, history.FailureText(p.GetLastFailure()), next)
}

// stuck reports, once until the next event, that a run's workflow tasks fail, with a remedy.
func (f *Follower) stuck(t *track, failed int32) {
	f.mu.Lock()
	why, remedy := t.broken, t.remedy
	f.mu.Unlock()
	if why == "" {
		why, remedy = "the worker did not respond in time", brokenRemedy(enumspb.WORKFLOW_TASK_FAILED_CAUSE_UNSPECIFIED, "")
	}
	f.Once("stuck "+t.id, "%s cannot continue: its workflow task has failed %d times (task queue %q, namespace %s at %s): %s; %s; waiting",
		plaintext.Line(t.id, 200), failed, f.target.Queue, f.target.Namespace, f.target.Address, why, remedy)
}

func brokenRemedy(cause enumspb.WorkflowTaskFailedCause, text string) string {
	switch {
	case cause == enumspb.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR:
		return "start workers of the build that started the run, and stop the others"
	case strings.Contains(text, "unable to find workflow type"):
		return "the workers of this task queue are not Weft workers: use another with -task-queue, or start bin/worker"
	}
	return "check the worker's log; start workers of the build that started the run, or terminate it with: starter terminate"
}

// unclaimed reports, once until the next event, that no worker polls for tasks.
func (f *Follower) unclaimed(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, runs.CallTimeout)
	defer cancel()
	last, err := f.target.LastPoll(ctx, f.target.Queue)
	if err != nil {
		return
	}
	seen := cmp.Or(plaintext.If(!last.IsZero(), "no worker takes tasks (one was last seen %.0f s ago) from", time.Since(last).Seconds()), "no worker polls")
	f.Once("no worker", "%s task queue %q, namespace %s at %s; start one with: bin/worker or make dev; waiting",
		seen, f.target.Queue, f.target.Namespace, f.target.Address)
}

func (f *Follower) showsText() bool {
	r, ok := f.Report.(progress.TextReader)
	return ok && r.ReadsText()
}

func (c *call) streams() bool {
	return c.Kind == contract.ActivityCallModel || c.Kind == contract.ActivityCondenseValue || c.Kind == contract.ActivitySummariseConversation
}

// streaming reports whether a model may be answering in a run. The caller holds f.mu.
func (t *track) streaming() bool {
	for _, c := range t.calls {
		if c.streams() {
			return true
		}
	}
	return false
}

type partialAnswer struct {
	text    string
	attempt int32
}

func (f *Follower) partial(c *call, p *workflowpb.PendingActivityInfo) {
	b := history.HeartbeatOf(p)
	if !c.streams() || !f.showsText() || b == nil {
		return
	}
	// The text of a failed attempt remains until the next attempt sends its own.
	if b.Attempt != p.GetAttempt() || b.Text == c.partial.text && b.Attempt == c.partial.attempt || b.Text == "" {
		return
	}
	if b.Attempt != c.partial.attempt {
		c.partial = partialAnswer{attempt: b.Attempt}
	}
	added, skipped := newEnd(c.partial.text, b.Text)
	c.partial.text = b.Text
	if added == "" {
		return
	}
	f.notify(progress.Notice{Event: progress.EventText, Time: time.Now(), Node: c.node, Call: c.what, Attempt: b.Attempt, Skipped: skipped, Whole: b.Text}, "%s", added)
}

// newEnd returns the text that was added since before, given the ends of both texts; skipped reports a gap.
func newEnd(before, now string) (added string, skipped bool) {
	if before == "" {
		return now, false
	}
	if rest, ok := strings.CutPrefix(now, before); ok {
		return rest, false
	}
	for i := range before {
		if rest, ok := strings.CutPrefix(now, before[i:]); ok {
			return rest, false
		}
	}
	return now, true
}
