package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/starter/report"
	"weft/starter/runs"
)

func (a *app) newReport() progress.Report {
	switch {
	case a.flags.output == outputLines:
		return jsonReport{a}
	case a.showsTable():
		plain, _ := a.env.LookupEnv("NO_COLOR")
		return progress.NewLive(a.stderr, a.mask, plain == "", terminalSize(a.stderr), a.handlePanic)
	}
	return textReport{a}
}

type textReport struct{ *app }

func (r textReport) Notify(n progress.Notice) {
	if n.Untimed {
		r.say("%s", n.Text)
		return
	}
	r.say("%7.1fs  %-24s  %s", n.Seconds, n.Node, n.Text)
}

type jsonReport struct{ *app }

func (r jsonReport) Notify(n progress.Notice) { r.object(n) }

func (jsonReport) ReadsText() bool { return true }

func emit[T any](a *app, object any, entries []T, text func()) {
	switch a.flags.output {
	case outputJSON:
		a.object(object)
	case outputLines:
		for _, e := range entries {
			a.object(e)
		}
	default:
		text()
	}
}

func (a *app) show(v any, text func()) {
	if a.flags.asJSON() {
		a.object(v)
	} else {
		text()
	}
}

func (a *app) object(v any) {
	var text bytes.Buffer
	encode := json.NewEncoder(&text)
	encode.SetEscapeHTML(false)
	if encode.Encode(v) != nil {
		return // all values here can be encoded
	}
	// Mask the JSON: a secret can also be a number.
	raw := append(textutil.Unescape(bytes.TrimSpace(a.mask.Answer(text.Bytes()))), '\n')
	if a.flags.output != outputLines {
		var spread bytes.Buffer
		_ = json.Indent(&spread, raw, "", "  ") // it is JSON
		raw = spread.Bytes()
	}
	_ = a.writeUnmasked(raw) // a broken pipe ends the process
}

// showsTable reports whether progress is shown as a table: on a terminal that can draw.
func (a *app) showsTable() bool {
	if a.flags.asJSON() || a.env == nil || !terminal(a.stderr) {
		return false
	}
	term, _ := a.env.LookupEnv("TERM")
	ci, _ := a.env.LookupEnv("CI")
	return term != "" && term != "dumb" && ci == ""
}

// conclude prints the outcome of a closed run: the result or the failure.
func (a *app) conclude(ctx context.Context, r *runs.Run) error {
	var res contract.RunResult
	if err := r.Client.GetWorkflow(ctx, r.ID, r.RunID).Get(ctx, &res); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return a.noResult(ctx, r, err)
	}
	if contract.ScriptedAll(res.Model) {
		a.say("the result below comes from scripted answers, not from a model")
	}
	for _, m := range res.UnreadMessages {
		a.say("unread: no model call has included the message %s", report.Unread(&m))
	}
	if a.flags.asJSON() {
		a.object(res)
		return nil
	}
	if res.ResultText == nil && res.ResultData == nil {
		a.say("the session was stopped before its last turn had a result")
		return nil
	}
	a.printResult(res.ResultText, res.ResultData)
	return nil
}

// printResult prints a result with its secrets masked: JSON remains valid, and text without secrets is unchanged.
func (a *app) printResult(value *string, data []byte) {
	text := string(textutil.Unescape(data))
	if value != nil {
		text = *value
	}
	text = string(a.mask.JSON([]byte(text)))
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	_ = a.writeUnmasked([]byte(text))
}

func (a *app) noResult(ctx context.Context, r *runs.Run, err error) error {
	end, code := r.Failure(ctx, err), exitCode(exitCancelled)
	switch end.Status {
	case runs.Terminated:
		a.say("starter: run %s was %s", r.ID, plaintext.Line(end.Text, 1000))
	case runs.Cancelled:
		a.say("starter: run %s was cancelled", r.ID)
	default:
		a.explain(r.ID, &end.Failure)
		code = exitFailed
	}
	if a.flags.asJSON() {
		a.object(end)
	}
	return code
}

func (a *app) explain(id string, f *contract.Failure) {
	for _, line := range report.Failure(id, a.localFailure(f)) {
		a.say("%s", line)
	}
}

func terminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func (a *app) onTerminal() bool {
	w := a.stdout
	if c, ok := w.(*checked); ok {
		w = c.Writer
	}
	return terminal(w)
}

// defaultWidth and defaultHeight are used for a terminal that does not report its size.
const defaultWidth, defaultHeight = 80, 24

// terminalSize returns a function that reads a terminal's current size.
func terminalSize(w io.Writer) func() (width, height int) {
	return func() (width, height int) {
		if f, ok := w.(*os.File); ok {
			width, height, _ = term.GetSize(int(f.Fd()))
		}
		if width <= 0 || height <= 0 {
			width, height = defaultWidth, defaultHeight
		}
		return width, height
	}
}
