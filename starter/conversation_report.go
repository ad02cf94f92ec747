package main

import (
	"fmt"
	"strings"

	"weft/starter/plaintext"
	"weft/starter/progress"
)

// conversationReport shows a conversation: on standard output what the model says, while it does where that
// is a terminal, and a line on standard error for what happens beside. A follower's mu guards it.
type conversationReport struct {
	app     *app
	streams bool
	// call and attempt name the answer that is shown, text is what was shown; whole is false if some of it was missed.
	call    string
	attempt int32
	text    string
	whole   bool
	// open says that the last line on the terminal has no end yet, asking that it is the prompt's.
	open, asking bool
}

func (s *conversationReport) ReadsText() bool { return s.streams }

func (s *conversationReport) Notify(n progress.Notice) {
	switch n.Event {
	case progress.EventText:
		// Sub-agents' answers are for the agent that asked them.
		if !strings.Contains(n.Node, " › ") {
			s.partial(n)
		}
	case progress.EventTool, progress.EventCall, progress.EventAttempt, progress.EventFailed, progress.EventRequest, progress.EventAnswered, progress.EventNote, progress.EventWarning:
		s.end()
		text := n.Text
		if n.Node != "" {
			text = n.Node + "  " + text
		}
		s.app.say("  %s", text)
	}
}

func (s *conversationReport) partial(n progress.Notice) {
	if n.Call != s.call || n.Attempt != s.attempt {
		s.end()
		s.call, s.attempt, s.text, s.whole = n.Call, n.Attempt, "", true
	}
	s.whole = s.whole && !n.Skipped
	if s.asking {
		s.end()
	}
	s.text += n.Text
	s.print(n.Text)
}

func (s *conversationReport) print(text string) {
	if text != "" {
		fmt.Fprint(s.app.stdout, plaintext.Lines(text))
		s.open = !strings.HasSuffix(text, "\n")
	}
}

func (s *conversationReport) end() {
	switch {
	case s.asking:
		fmt.Fprintln(s.app.stderr)
	case s.open:
		fmt.Fprintln(s.app.stdout)
	}
	s.open, s.asking = false, false
}

// finish shows the rest of an answer, or all of it if something else was shown.
func (s *conversationReport) finish(result string) {
	rest, started := strings.CutPrefix(result, s.text)
	if s.asking || s.text == "" || !s.whole || !started {
		s.end()
		rest = result
	}
	s.print(rest)
	s.reset()
}

// reset forgets what was shown of an answer: all of it is shown again, below a line of its own.
func (s *conversationReport) reset() {
	s.end()
	s.call, s.attempt, s.text, s.whole = "", 0, "", true
}

// lineEntered takes note of a line that was typed: the terminal has ended it.
func (s *conversationReport) lineEntered() {
	s.open, s.asking = false, false
}

func (s *conversationReport) ask() {
	s.end()
	fmt.Fprint(s.app.stderr, promptSign)
	s.asking = true
}
