// Package compare compares two runs side by side.
package compare

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/runtree"
)

// Table is two runs side by side.
type Table struct {
	Runs  [2]string `json:"runs"`
	Nodes []Row     `json:"nodes"`
	Total [2]Total  `json:"total"`
}

// Row is an execution in both runs; nil in a run without it.
type Row struct {
	Execution string   `json:"execution"`
	Sides     [2]*Side `json:"sides"`
}

// Side is the text, usage and time of an execution in one run. Recorded reports that it was reused
// from another run without cost, Given that its result was overridden.
type Side struct {
	Text       string  `json:"text,omitempty"`
	Input      int     `json:"input_tokens"`
	Output     int     `json:"output_tokens"`
	Seconds    float64 `json:"seconds"`
	Recorded   bool    `json:"recorded,omitempty"`
	Overridden bool    `json:"given,omitempty"`
}

// Total is the usage, time and outcome of a run.
type Total struct {
	Status  string          `json:"status"`
	Calls   int             `json:"calls"`
	Input   int             `json:"input_tokens"`
	Output  int             `json:"output_tokens"`
	Seconds float64         `json:"seconds"`
	Text    *string         `json:"result_text,omitempty"`
	Data    json.RawMessage `json:"result_data,omitempty"`
}

// Of compares two runs by their trees.
func Of(ids [2]string, trees [2]*runtree.Tree) *Table {
	out := &Table{Runs: ids}
	rows := map[string]int{}
	// sources are the runs from which the two were forked.
	var sources [2]string
	for side, read := range trees {
		out.Total[side] = usageOf(read)
		put := func(exec string, s *Side) {
			i, ok := rows[exec]
			if !ok {
				i = len(out.Nodes)
				rows[exec] = i
				out.Nodes = append(out.Nodes, Row{Execution: exec})
			}
			out.Nodes[i].Sides[side] = s
		}
		for _, v := range read.Workflows {
			if v.Input != nil && v.Input.Fork != nil {
				sources[side] = cmp.Or(sources[side], v.Input.Fork.From.Workflow)
				for _, p := range v.Input.Fork.Executions {
					s := &Side{Recorded: true, Overridden: slices.Contains(v.Input.Fork.Replaced, history.Label(p.Execution))}
					if s.Overridden {
						s.Text = overrideText(v.Input.Fork, p.SHA)
					}
					put(v.Place+history.Label(p.Execution), s)
				}
			}
			for _, c := range v.Costs {
				s := &Side{Text: c.Text, Input: c.Usage.Input, Output: c.Usage.Output}
				if !c.To.IsZero() {
					s.Seconds = c.To.Sub(c.From).Seconds()
				}
				put(v.Place+c.Execution, s)
			}
		}
	}
	out.addReused(sources)
	return out
}

func overrideText(k *contract.ForkedFrom, sha string) string {
	for _, raw := range k.Content {
		if contract.SHA(raw) == sha {
			if m, err := contract.DecodeMessage(raw); err == nil {
				return m.Text
			}
		}
	}
	return ""
}

// addReused adds executions without calls that a fork reuses: they have no other events in history.
func (t *Table) addReused(sources [2]string) {
	for i := range t.Nodes {
		for side := range t.Runs {
			s := t.Nodes[i].Sides[side]
			if other := &t.Nodes[i].Sides[1-side]; s != nil && s.Recorded && *other == nil && sources[side] == t.Runs[1-side] {
				*other = &Side{}
			}
		}
	}
}

func usageOf(t *runtree.Tree) Total {
	root, used := t.Root(), t.Usage()
	out := Total{Status: history.StatusName(root.Status), Calls: used.Calls, Input: used.Input, Output: used.Output}
	if root.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		out.Seconds = root.EndedAt.Sub(root.StartedAt).Seconds()
	}
	if r := root.Result; r != nil {
		out.Text, out.Data = r.ResultText, r.ResultData
	}
	return out
}

// Text formats a table: a block for each execution, with a line for each run.
func Text(v *Table) string {
	var b strings.Builder
	width := max(len(plaintext.Lines(v.Runs[0])), len(plaintext.Lines(v.Runs[1])))
	line := func(side int, format string, args ...any) {
		fmt.Fprintf(&b, "  %-*s  %s\n", width, plaintext.Lines(v.Runs[side]), fmt.Sprintf(format, args...))
	}
	for _, row := range v.Nodes {
		fmt.Fprintf(&b, "%s\n", plaintext.Line(row.Execution, 200))
		for side, s := range row.Sides {
			switch {
			case s == nil:
				line(side, "did not run")
			case s.Overridden:
				line(side, "set by the fork: %s", plaintext.Line(s.Text, 200))
			case s.Recorded:
				line(side, "taken from the other run")
			default:
				line(side, "%6d + %5d tokens %7.1f s  %s", s.Input, s.Output, s.Seconds, plaintext.Line(s.Text, 200))
			}
		}
	}
	b.WriteString("all\n")
	for side, t := range v.Total {
		text := string(textutil.Unescape(t.Data))
		if t.Text != nil {
			text = *t.Text
		}
		line(side, "%6d + %5d tokens %7.1f s  %s, %d model calls: %s", t.Input, t.Output, t.Seconds, t.Status, t.Calls, plaintext.Line(text, 300))
	}
	return b.String()
}
