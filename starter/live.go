package main

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"weft/activities/contract"
	"weft/starter/history"
)

// How often the table is drawn: when something happened, and when only time passes.
const (
	drawEvery = 100 * time.Millisecond
	tickEvery = time.Second
)

// maxRows bounds the table: it must not be higher than the screen, or else it cannot be
// drawn over.
const maxRows = 15

// live shows a run as a table that is drawn over again and again: a row per execution of a
// node. What belongs to no node stays above it as lines.
type live struct {
	app    *app
	colour bool
	now    func() time.Time

	// mu guards what follows.
	mu   sync.Mutex
	rows []*row
	// notes are lines that are not yet on the screen; height is how many lines of it the
	// table takes; dirty says that something happened since it was drawn.
	notes  []string
	height int
	dirty  bool
	drawn  time.Time
	// total is how many nodes there are to run, 0 where nobody knows; done are those that
	// have run.
	total total
	done  map[string]bool
	// questions are those that are open: whoever types an answer must see it, so time alone
	// does not draw then.
	questions int
	// size is the terminal's width and height.
	size func() (width, height int)

	stop, stopped chan struct{}
}

// row is one execution of a node.
type row struct {
	node, text                     string
	ended, failed                  bool
	calls, input, output, failures int
	from, to                       time.Time
	// partial is the end of an answer that is not whole yet, of the call answers.
	partial, answers string
	attempt          int32
}

// lively reports whether progress is shown as a table: where people look at it on a terminal
// that can draw.
func (a *app) lively() bool {
	if a.flags.asJSON() || a.env == nil || !terminal(a.stderr) {
		return false
	}
	term, _ := a.env.LookupEnv("TERM")
	ci, _ := a.env.LookupEnv("CI")
	return term != "" && term != "dumb" && ci == ""
}

func newLive(a *app) *live {
	plain, _ := a.env.LookupEnv("NO_COLOR")
	l := &live{app: a, colour: plain == "", now: time.Now, size: sizeOf(a.stderr), done: map[string]bool{}, stop: make(chan struct{}), stopped: make(chan struct{})}
	go l.keepDrawing()
	return l
}

func (l *live) keepDrawing() {
	defer l.app.caught()
	defer close(l.stopped)
	ticker := time.NewTicker(drawEvery)
	defer ticker.Stop()
	for {
		select {
		case <-l.stop:
			return
		case <-ticker.C:
		}
		l.mu.Lock()
		if l.dirty || l.questions == 0 && len(l.rows) > 0 && l.now().Sub(l.drawn) >= tickEvery {
			l.draw()
		}
		l.mu.Unlock()
	}
}

func (l *live) tell(n notice) {
	// Before it is cut to the screen's width: half a secret is not found.
	n.Text, n.whole = l.app.mask.Text(n.Text), l.app.mask.Tail(n.whole, len(n.whole))
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.Event == eventText {
		l.partial(n)
		return
	}
	l.dirty = true
	if n.Request != nil && n.Request.Kind == contract.RequestMessage {
		if n.Event == eventRequest {
			l.questions++
		} else {
			l.questions = max(0, l.questions-1)
		}
	}
	if n.Node == "" || n.Event == eventNote || n.Event == eventWarning {
		line := n.Text
		if !n.untimed {
			line = fmt.Sprintf("%7.1fs  %s  %s", n.Seconds, n.Node, n.Text)
		}
		l.notes = append(l.notes, line)
		return
	}
	if n.Event == eventRequest {
		// The table has no room for the commands.
		l.notes = append(l.notes, fmt.Sprintf("%7.1fs  %s  %s", n.Seconds, n.Node, n.Text))
	}
	l.row(n).take(n)
	if node, _, _ := history.CutLast(n.Node, "#"); n.Event == eventFinished && !strings.Contains(node, " › ") {
		l.done[node] = true
	}
}

// readsText says that partial answers are shown.
func (*live) readsText() bool { return true }

// partial takes the partial answer of a node that runs. It does not draw over an answer that
// somebody types.
func (l *live) partial(n notice) {
	r := l.row(n)
	r.partial, r.answers, r.attempt = n.whole, n.Call, n.Attempt
	l.dirty = l.dirty || l.questions == 0
}

// count notes how many nodes there are to run.
func (l *live) count(t total) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total = t
}

// entered takes note of a line that was typed: the terminal has shown it below the table.
func (l *live) entered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.height, l.dirty = l.height+1, true
}

// row is the row of an execution; a node that starts again gets another.
func (l *live) row(n notice) *row {
	for i := len(l.rows) - 1; i >= 0; i-- {
		if r := l.rows[i]; r.node == n.Node && (!r.ended || n.Event != eventStarted) {
			return r
		}
	}
	r := &row{node: n.Node, from: n.Time, to: n.Time}
	l.rows = append(l.rows, r)
	return r
}

// take notes what happened.
func (r *row) take(n notice) {
	r.to = n.Time
	if r.answers == n.Call || n.Event == eventFinished || n.Event == eventFailed {
		r.partial = ""
	}
	switch n.Event {
	case eventFinished:
		r.ended = true
		return
	case eventFailed:
		r.ended, r.failed = true, true
	case eventAttempt:
		r.failures++
	case eventRequest:
		// What failed is not over: an operator may mend it.
		r.ended, r.failed = false, false
	case eventAnswered:
		// A node that asks and calls nothing ends with the answer.
		r.ended = n.Request.Kind == contract.RequestMessage
	case eventJudge:
		// The entry has judges and no node of its own.
		r.ended = r.ended || r.calls == 0 && r.text == ""
	}
	if n.Usage != nil {
		r.calls += n.Usage.Calls
		r.input += n.Usage.Input
		r.output += n.Usage.Output
	}
	r.text = n.Text
}

// close draws for the last time and leaves the table where it is.
func (l *live) close() {
	close(l.stop)
	<-l.stopped
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draw()
}

// draw replaces the table on the screen. Lines are cut by the terminal: while it draws, it
// does not wrap.
func (l *live) draw() {
	var b strings.Builder
	b.WriteString("\x1b[?7l")
	if l.height > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", l.height)
	}
	b.WriteString("\r\x1b[J")
	for _, n := range l.notes {
		b.WriteString("\x1b[?7h" + n + "\x1b[?7l\n")
	}
	lines := l.table()
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
	b.WriteString("\x1b[?7h")
	l.notes, l.height, l.dirty, l.drawn = nil, len(lines), false, l.now()
	fmt.Fprint(l.app.mask.Writer(l.app.stderr), b.String())
}

// table are the lines of the table: running nodes always, of the others the last ones. Under
// a running node stands the end of its partial answer, as far as there is room.
func (l *live) table() []string {
	if len(l.rows) == 0 {
		return nil
	}
	hidden := len(l.rows) - maxRows
	var shown []*row
	var calls, input, output int
	for _, r := range l.rows {
		calls, input, output = calls+r.calls, input+r.input, output+r.output
		if hidden > 0 && r.ended {
			hidden--
			continue
		}
		if len(shown) < maxRows {
			shown = append(shown, r)
		}
	}
	total := fmt.Sprintf("  %s%d executions", l.bar(), len(l.rows))
	if len(shown) < len(l.rows) {
		total += fmt.Sprintf(", %d shown", len(shown))
	}
	width, height := l.size()
	room := min(maxRows, height-2) - len(shown)
	var lines []string
	for _, r := range shown {
		lines = append(lines, l.line(r))
		texts := l.texts(r, width)
		texts = texts[max(0, len(texts)-max(0, room)):]
		room -= len(texts)
		lines = append(lines, texts...)
	}
	return append(lines, l.paint("2", fmt.Sprintf("%s, %d model calls, %d+%d tokens, %s", total, calls, input, output,
		span(l.now().Sub(l.rows[0].from).Seconds()))))
}

// texts are the lines of a row's partial answer.
func (l *live) texts(r *row, width int) []string {
	if r.partial == "" || r.ended {
		return nil
	}
	mark := "  │ "
	if r.attempt > 1 {
		mark = fmt.Sprintf("  │ attempt %d: ", r.attempt)
	}
	lines := lastLines(r.partial, max(10, width-len([]rune(mark))))
	for i, line := range lines {
		lines[i] = l.paint("2", mark+line)
	}
	return lines
}

// bar is how much is done, or "" where nobody knows of how much.
func (l *live) bar() string {
	switch {
	case l.total.nodes == 0:
		return ""
	case l.total.atMost:
		return fmt.Sprintf("%s %d of at most %d nodes, ", bar(len(l.done), l.total), len(l.done), l.total.nodes)
	}
	return fmt.Sprintf("%s %d of %d nodes, ", bar(len(l.done), l.total), len(l.done), l.total.nodes)
}

func (l *live) line(r *row) string {
	mark, code, until := "●", "33", l.now()
	switch {
	case r.failed:
		mark, code, until = "✗", "31", r.to
	case r.ended:
		mark, code, until = "✓", "32", r.to
	}
	retries := ""
	if r.failures > 0 {
		retries = fmt.Sprintf("retries: %d", r.failures)
	}
	return fmt.Sprintf("%s %-24s %8s %13s  %s", l.paint(code, mark), clean(r.node, 40), span(max(0, until.Sub(r.from).Seconds())),
		fmt.Sprintf("%d+%d", r.input, r.output), strings.TrimSpace(retries+"  "+clean(r.text, 200)))
}

// paint colours a text, where colours are wanted.
func (l *live) paint(code, text string) string {
	if !l.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}
