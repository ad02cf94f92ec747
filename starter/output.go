package main

import (
	"bytes"
	"encoding/json"

	"weft/starter/progress"
)

// newReport returns how a run is shown: as objects, as a table on a terminal, or as lines.
func (a *app) newReport() progress.Report {
	switch {
	case a.flags.output == outputLines:
		return jsonReport{a}
	case a.showsTable():
		plain, _ := a.env.LookupEnv("NO_COLOR")
		return progress.NewLive(a.stderr, a.mask, plain == "", sizeOf(a.stderr), a.caught)
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

func (textReport) Close() {}

type jsonReport struct{ *app }

func (r jsonReport) Notify(n progress.Notice) { r.object(n) }

func (jsonReport) ReadsText() bool { return true }

func (jsonReport) Close() {}

// emit prints a value in the form of -output: as one object, as an object per entry, or as text.
func emit[T any](a *app, whole any, entries []T, text func()) {
	switch a.flags.output {
	case outputJSON:
		a.object(whole)
	case outputLines:
		for _, e := range entries {
			a.object(e)
		}
	default:
		text()
	}
}

// object prints one object on one line, or spread where people may look at it.
func (a *app) object(v any) {
	var text bytes.Buffer
	encode := json.NewEncoder(&text)
	encode.SetEscapeHTML(false)
	if encode.Encode(v) != nil {
		return // such a value does not exist here
	}
	// As JSON: a secret can be a number, too.
	raw := append(bytes.TrimSpace(a.mask.Answer(text.Bytes())), '\n')
	if a.flags.output != outputLines {
		var spread bytes.Buffer
		if json.Indent(&spread, raw, "", "  ") == nil {
			raw = spread.Bytes()
		}
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
