package follow

import (
	"strings"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/progress"
)

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

// partialAnswer is what was last seen of the answer of a call in progress.
type partialAnswer struct {
	text    string
	attempt int32
}

// partial reports what a call's last heartbeat adds to its answer. The caller holds f.mu.
func (f *Follower) partial(c *call, p *workflowpb.PendingActivityInfo) {
	b := history.HeartbeatOf(p)
	if !c.streams() || !f.showsText() || b == nil {
		return
	}
	// After a failed attempt its text is still there until the next one says something.
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

// newEnd returns what a growing text, of which the end is known, has got; skipped reports a gap.
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
