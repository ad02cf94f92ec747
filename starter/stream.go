package main

import (
	"strings"
	"time"
	"unicode/utf8"

	workflowpb "go.temporal.io/api/workflow/v1"

	"weft/activities/contract"
	"weft/starter/history"
)

// reader is a report that shows what models answer while they do. For the others nobody asks.
type reader interface{ readsText() bool }

// reads reports whether the report shows partial answers.
func (f *follower) reads() bool {
	r, ok := f.report.(reader)
	return ok && r.readsText()
}

// streams reports whether a call may stream text.
func (c *call) streams() bool {
	return c.Kind == contract.ActivityModel || c.Kind == contract.ActivityCondense || c.Kind == contract.ActivitySummarise
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

// partial tells what is new in the answer of a call under way: from the details of its last
// heartbeat, so it never enters history. The caller holds f.mu.
func (f *follower) partial(c *call, p *workflowpb.PendingActivityInfo) {
	var b contract.Beat
	if !c.streams() || !f.reads() || p.GetHeartbeatDetails() == nil || !history.Decode(p.GetHeartbeatDetails(), &b) {
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
	f.tell(notice{Event: eventText, Time: time.Now(), Node: c.node, Call: c.what, Attempt: b.Attempt, Skipped: skipped, whole: b.Text}, "%s", added)
}

// newEnd is what a text has at its end that was not seen before. Both are the last part of
// one that grows; skipped says that some of it may have passed by unseen.
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

// textLines is how many lines of a partial answer the table shows under its node.
const textLines = 2

// lastLines are the last lines of an untrusted text that are not empty, each safe for one
// line of a terminal and at most width wide. Of the last one the end is shown, of others the
// begin.
func lastLines(text string, width int) []string {
	var out []string
	for text != "" && len(out) < textLines {
		i := strings.LastIndexAny(text, "\r\n\v\f\u0085\u2028\u2029")
		_, size := utf8.DecodeRuneInString(text[max(i, 0):])
		line := text
		if i >= 0 {
			line, text = text[i+size:], text[:i]
		} else {
			text = ""
		}
		if line = clean(line, len(line)+1); line == "" {
			continue
		}
		if len(out) == 0 {
			line = tail(line, width)
		} else {
			line = head(line, width)
		}
		out = append([]string{line}, out...)
	}
	return out
}

// cells is how many columns a character takes at most: characters from Hangul on may be wide.
func cells(r rune) int {
	if r >= 0x1100 {
		return 2
	}
	return 1
}

// head is a text's begin, cut to a width.
func head(s string, width int) string {
	used := 0
	for i, r := range s {
		if used += cells(r); used > width-1 && i+utf8.RuneLen(r) < len(s) || used > width {
			return s[:i] + "…"
		}
	}
	return s
}

// tail is a text's end, cut to a width.
func tail(s string, width int) string {
	used, i := 0, len(s)
	for i > 0 {
		r, size := utf8.DecodeLastRuneInString(s[:i])
		if used += cells(r); used > width-1 && i > size || used > width {
			return "…" + s[i:]
		}
		i -= size
	}
	return s
}
