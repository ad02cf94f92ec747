package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"weft/activities/contract"
	"weft/activities/mask"
	"weft/starter/history"
	"weft/starter/plaintext"
)

// Intervals at which the table is drawn: after an event, and otherwise.
const (
	drawEvery = 100 * time.Millisecond
	tickEvery = time.Second
)

// maxRows is the maximum number of rows: the table must fit on the screen to be redrawn.
const maxRows = 15

// Live shows a run as a table with a row per execution; notices without a node are lines above it.
type Live struct {
	out    io.Writer
	mask   *mask.Mask
	caught func()
	colour bool
	now    func() time.Time

	// mu guards the fields below.
	mu   sync.Mutex
	rows []*row
	// notes are lines to be printed, height is the height of the table, dirty reports a change since it was drawn.
	notes  []string
	height int
	dirty  bool
	drawn  time.Time
	// total is the number of nodes to run, 0 if unknown; done are the nodes that have run.
	total Total
	done  map[string]bool
	// questions counts the open questions: while a user may be typing, the table is drawn only after events.
	questions int
	// size is the terminal's width and height.
	size func() (width, height int)

	stop, stopped chan struct{}
}

type row struct {
	node, text                     string
	ended, failed                  bool
	calls, input, output, failures int
	from, to                       time.Time
	// partial is the end of an incomplete answer of the call answers.
	partial, answers string
	attempt          int32
}

// NewLive returns a table on a terminal. hide masks secrets; the drawing goroutine defers caught.
func NewLive(out io.Writer, hide *mask.Mask, colour bool, size func() (width, height int), caught func()) *Live {
	l := &Live{out: out, mask: hide, caught: caught, colour: colour, now: time.Now, size: size, done: map[string]bool{}, stop: make(chan struct{}), stopped: make(chan struct{})}
	go l.keepDrawing()
	return l
}

func (l *Live) keepDrawing() {
	defer l.caught()
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

// Notify implements [Report].
func (l *Live) Notify(n Notice) {
	// Mask before cutting to the screen's width: half a secret would not be found.
	n.Text, n.Whole = l.mask.Text(n.Text), l.mask.Tail(n.Whole, len(n.Whole))
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.Event == EventText {
		l.partial(n)
		return
	}
	l.dirty = true
	if n.Request != nil && n.Request.Kind == contract.RequestMessage {
		if n.Event == EventRequest {
			l.questions++
		} else {
			l.questions = max(0, l.questions-1)
		}
	}
	beside := n.Node == "" || n.Event == EventNote || n.Event == EventMessage || n.Event == EventWarning
	if beside || n.Event == EventRequest { // the table has no room for its commands
		line := n.Text
		if !n.Untimed {
			line = fmt.Sprintf("%7.1fs  %s  %s", n.Seconds, n.Node, n.Text)
		}
		l.notes = append(l.notes, line)
	}
	if beside {
		return
	}
	l.row(n).take(n)
	if node, _, _ := history.CutLast(n.Node, "#"); n.Event == EventFinished && !strings.Contains(node, " › ") {
		l.done[node] = true
	}
}

// ReadsText implements [TextReader].
func (*Live) ReadsText() bool { return true }

func (l *Live) partial(n Notice) {
	r := l.row(n)
	r.partial, r.answers, r.attempt = n.Whole, n.Call, n.Attempt
	l.dirty = l.dirty || l.questions == 0
}

// Count sets the number of nodes to run.
func (l *Live) Count(t Total) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total = t
}

// Entered records that a line was typed, which the terminal has shown below the table.
func (l *Live) Entered() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.height, l.dirty = l.height+1, true
}

// row returns the row of an execution; a node that starts again gets a new one.
func (l *Live) row(n Notice) *row {
	for i := len(l.rows) - 1; i >= 0; i-- {
		if r := l.rows[i]; r.node == n.Node && (!r.ended || n.Event != EventStarted) {
			return r
		}
	}
	r := &row{node: n.Node, from: n.Time, to: n.Time}
	l.rows = append(l.rows, r)
	return r
}

func (r *row) take(n Notice) {
	r.to = n.Time
	if r.answers == n.Call || n.Event == EventFinished || n.Event == EventFailed {
		r.partial = ""
	}
	switch n.Event {
	case EventFinished:
		r.ended = true
		return
	case EventFailed:
		r.ended, r.failed = true, true
	case EventAttempt:
		r.failures++
	case EventRequest:
		// The call has not failed permanently: an operator may retry it.
		r.ended, r.failed = false, false
	case EventAnswered:
		// A node that only asks ends with the answer.
		r.ended = n.Request.Kind == contract.RequestMessage
	case EventJudge:
		// The conditions at START have no node.
		r.ended = r.ended || r.calls == 0 && r.text == ""
	}
	if n.Usage != nil {
		r.calls += n.Usage.Calls
		r.input += n.Usage.Input
		r.output += n.Usage.Output
	}
	r.text = n.Text
}

// Close draws the table for the last time.
func (l *Live) Close() {
	close(l.stop)
	<-l.stopped
	l.mu.Lock()
	defer l.mu.Unlock()
	l.draw()
}

func (l *Live) draw() {
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
	fmt.Fprint(l.mask.Writer(l.out), b.String())
}

// table returns the lines of the table: running nodes, with partial answers if there is room, and the latest others.
func (l *Live) table() []string {
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
	total += plaintext.If(len(shown) < len(l.rows), ", %d shown", len(shown))
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
		Span(l.now().Sub(l.rows[0].from).Seconds()))))
}

func (l *Live) texts(r *row, width int) []string {
	if r.partial == "" || r.ended {
		return nil
	}
	mark := "  │ " + plaintext.If(r.attempt > 1, "attempt %d: ", r.attempt)
	lines := lastLines(r.partial, max(10, width-len([]rune(mark))))
	for i, line := range lines {
		lines[i] = l.paint("2", mark+line)
	}
	return lines
}

func (l *Live) bar() string {
	if l.total.Nodes == 0 {
		return ""
	}
	most := plaintext.If(l.total.AtMost, "at most ")
	return fmt.Sprintf("%s %d of %s%d nodes, ", bar(len(l.done), l.total), len(l.done), most, l.total.Nodes)
}

func (l *Live) line(r *row) string {
	mark, code, until := "●", "33", l.now()
	switch {
	case r.failed:
		mark, code, until = "✗", "31", r.to
	case r.ended:
		mark, code, until = "✓", "32", r.to
	}
	retries := plaintext.If(r.failures > 0, "retries: %d", r.failures)
	return fmt.Sprintf("%s %-24s %8s %13s  %s", l.paint(code, mark), plaintext.Line(r.node, 40), Span(max(0, until.Sub(r.from).Seconds())),
		fmt.Sprintf("%d+%d", r.input, r.output), strings.TrimSpace(retries+"  "+plaintext.Line(r.text, 200)))
}

func (l *Live) paint(code, text string) string {
	if !l.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Span formats seconds: 4.2s, 3m10s, 5h2m, 3d4h.
func Span(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < 24*time.Hour:
		return strings.TrimSuffix(d.Round(time.Minute).String(), "0s")
	}
	hours := int(d.Hours())
	return fmt.Sprintf("%dd%dh", hours/24, hours%24)
}

// textLines is the number of lines of a partial answer that the table shows below its node.
const textLines = 2

// lastLines returns the last lines of an untrusted text, without control characters: the end of the last line, the beginning of the others.
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
		if line = plaintext.Line(line, len(line)+1); line == "" {
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

// cells returns the maximum number of columns of a character: characters from Hangul on may be wide.
func cells(r rune) int {
	if r >= 0x1100 {
		return 2
	}
	return 1
}

func head(s string, width int) string {
	used := 0
	for i, r := range s {
		if used += cells(r); used > width-1 && i+utf8.RuneLen(r) < len(s) || used > width {
			return s[:i] + "…"
		}
	}
	return s
}

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
