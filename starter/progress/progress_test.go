package progress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/activities/mask"
)

// TestTableIsBounded checks that the table of a long run shows the running executions and the last finished ones, within the limit.
func TestTableIsBounded(t *testing.T) {
	now := time.Now()
	l := &Live{now: func() time.Time { return now }, done: map[string]bool{}, size: func() (int, int) { return 80, 24 }}
	for i := range 100 {
		n := Notice{Node: fmt.Sprintf("n#%d", i), Time: now}
		n.Event = EventStarted
		l.Notify(n)
		if i != 3 {
			n.Event = EventFinished
			l.Notify(n)
		}
	}
	lines := l.table()
	if len(lines) != maxRows+1 || !strings.Contains(lines[0], "● n#3 ") || !strings.Contains(lines[maxRows-1], "✓ n#99 ") || !strings.Contains(lines[maxRows], "100 executions, 15 shown") {
		t.Errorf("table = %q", lines)
	}
}

// TestLiveMasksSecrets checks that secrets are masked before lines are cut to the screen's width.
func TestLiveMasksSecrets(t *testing.T) {
	const key = "canary-4f0c9a7712-and-what-is-behind-it"
	var errs strings.Builder
	l := &Live{out: &errs, mask: mask.New(key), now: time.Now, done: map[string]bool{}, size: func() (int, int) { return 40, 24 }}
	l.Notify(Notice{Event: EventStarted, Node: "a#1"})
	l.Notify(Notice{Event: EventText, Node: "a#1", Whole: strings.Repeat("x", 20) + key})
	l.Notify(Notice{Event: EventNote, Text: strings.Repeat("y", 300) + key})
	l.draw()
	if got := errs.String(); strings.Contains(got, "canary") || strings.Contains(got, "behind") || !strings.Contains(got, "[secret]") {
		t.Errorf("output = %q", got)
	}
}

func TestLastLines(t *testing.T) {
	for text, want := range map[string][]string{
		"":                              nil,
		"\n \n":                         nil,
		"one":                           {"one"},
		"one\ntwo\n\nthree\n":           {"two", "three"},
		"0123456789abc":                 {"…456789abc"},
		"0123456789abc\nx":              {"012345678…", "x"},
		"0123456789":                    {"0123456789"},
		"日本語日本語\nx":                     {"日本語日…", "x"},
		"日本語日本語":                        {"…語日本語"},
		"日本語日本":                         {"日本語日本"},
		"a\r\x1b[2Kb\u2028c\x1b]0;x\ad": {"[2Kb", "c]0;xd"},
		"\u202ea\u200b\u009b2J\xff end": {"a2J\uFFFD end"},
	} {
		got := lastLines(text, 10)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lastLines(%q) (-want +got):\n%s", text, diff)
		}
	}
}

// newLive is a table of one running node that is not drawn.
func newLive(width, height int) *Live {
	now := time.Now()
	l := &Live{now: func() time.Time { return now }, done: map[string]bool{}, size: func() (int, int) { return width, height }}
	l.Notify(Notice{Event: EventStarted, Node: "tell#1", Time: now, Text: "started"})
	return l
}

func TestPartialAnswersUnderTheirRow(t *testing.T) {
	l := newLive(24, 24)
	answer := Notice{Event: EventText, Node: "tell#1", Call: "model call 1", Attempt: 1, Whole: "It was\na dark and stormy\x1b[2J night"}
	l.Notify(answer)
	if diff := cmp.Diff([]string{"  │ It was", "  │ …and stormy[2J night"}, l.table()[1:3]); diff != "" {
		t.Errorf("lines below the row (-want +got):\n%s", diff)
	}
	answer.Attempt, answer.Whole = 2, "Again"
	l.Notify(answer)
	if got := l.table()[1]; got != "  │ attempt 2: Again" {
		t.Errorf("line of the second attempt = %q", got)
	}
	l.Notify(Notice{Event: EventModel, Node: "tell#1", Call: "model call 1", Time: l.now(), Text: `model call 1: "Again"`})
	if got := l.table(); len(got) != 2 {
		t.Errorf("a partial answer is shown after the complete one: %q", got)
	}
}

// TestPartialAnswersHaveBounds checks that the table with partial answers is not higher than the screen.
func TestPartialAnswersHaveBounds(t *testing.T) {
	for height, want := range map[int]int{24: maxRows + 1, 12: 11, 5: 9} {
		l := newLive(80, height)
		for _, node := range strings.Fields("tell#1 b#1 c#1 d#1 e#1 f#1 g#1 h#1") {
			l.Notify(Notice{Event: EventStarted, Node: node, Time: l.now(), Text: "started"})
			l.Notify(Notice{Event: EventText, Node: node, Whole: "one\ntwo\nthree"})
		}
		if got := len(l.table()); got != want {
			t.Errorf("screen of %d lines: table has %d, want %d", height, got, want)
		}
	}
}

// TestPartialAnswersWaitForTyping checks that partial answers are not drawn over what the user types.
func TestPartialAnswersWaitForTyping(t *testing.T) {
	l := newLive(80, 24)
	l.Notify(Notice{Event: EventRequest, Node: "ask#1", Time: l.now(), Request: &contract.Request{Kind: contract.RequestMessage}})
	l.dirty = false
	l.Notify(Notice{Event: EventText, Node: "tell#1", Whole: "one"})
	if l.dirty {
		t.Error("the table is redrawn while the user types")
	}
}

func TestSpans(t *testing.T) {
	for seconds, want := range map[float64]string{0: "0.0s", 4.24: "4.2s", 190: "3m10s", 18120: "5h2m", 273_600: "3d4h"} {
		if got := Span(seconds); got != want {
			t.Errorf("span(%v) = %q, want %q", seconds, got, want)
		}
	}
}
