package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/starter/audit"
	"weft/starter/compare"
	"weft/starter/history"
	"weft/starter/impact"
	"weft/starter/plaintext"
	"weft/starter/recording"
	"weft/starter/report"
	"weft/starter/runs"
	"weft/starter/runtree"
	"weft/starter/trace"
	"weft/starter/transcript"
	"weft/starter/usage"
	"weft/starter/why"
	"weft/worker/rehearse"
	"weft/workflows/plan"
)

func (a *app) status(ctx context.Context, r *runs.Run, _ []string) error {
	answered := a.warnIfSilent(ctx, r)
	st, read, err := r.CurrentStatus(ctx)
	if answered(); err != nil {
		return err
	}
	if read != nil {
		a.sayFromHistory()
	}
	failure := r.GetFailure(ctx)
	shown := struct {
		*contract.Status
		Failure *contract.Failure `json:"failure,omitempty"`
	}{st, failure}
	a.show(shown, func() {
		r.AddBranches(ctx, st)
		report.Status(a.stdout, r, st, r.PendingCalls(ctx))
		if failure != nil {
			for _, line := range report.Failure(r.ID, failure)[1:] {
				fmt.Fprintln(a.stdout, strings.TrimPrefix(line, "  "))
			}
		}
	})
	return nil
}

func (a *app) sayFromHistory() { a.say("no worker responds for the run; reading its history instead") }

func (a *app) state(ctx context.Context, r *runs.Run, _ []string) error {
	values := map[string]json.RawMessage{}
	answered := a.warnIfSilent(ctx, r)
	err := r.Query(ctx, contract.QueryState, &values)
	if answered(); err == nil {
		a.object(values)
	}
	return err
}

func (a *app) transcript(ctx context.Context, r *runs.Run, args []string) error {
	read, err := transcript.Read(ctx, history.From(r.Client), r.ID, r.RunID)
	if err != nil {
		return err
	}
	threads := read.Threads()
	if len(args) > 0 {
		var names []string
		for _, t := range threads {
			names = append(names, t.Thread)
		}
		i := slices.Index(names, args[0])
		if i < 0 {
			return usage.Errorf("the run %q has no thread %q; it has: %s", r.ID, args[0], plaintext.Line(strings.Join(names, ", "), 2000))
		}
		threads = threads[i : i+1]
	}
	for _, id := range read.Missing {
		a.say("warning: the history of %s is no longer retained; its contents are not shown", plaintext.Line(id, 200))
	}
	emit(a, map[string]any{"threads": threads}, transcript.Lines(threads), func() { fmt.Fprint(a.stdout, transcript.Text(threads)) })
	return nil
}

func (a *app) trace(ctx context.Context, r *runs.Run, _ []string) error {
	t, err := trace.Read(ctx, history.From(r.Client), r.ID, r.RunID, trace.Options{Content: a.flags.content, NodeRuns: r.NodeRuns})
	if err != nil {
		return err
	}
	if t.FromHistory {
		a.say("no worker responds for the run; reading its history instead, which may lack nodes that make no calls")
	}
	for _, id := range t.Missing {
		a.say("warning: the history of %s is no longer retained; its contents are not exported", plaintext.Line(id, 200))
	}
	a.object(t)
	return nil
}

func (a *app) why(ctx context.Context, r *runs.Run, args []string) error {
	t, err := runtree.Read(ctx, history.From(r.Client), r.ID, r.RunID)
	if err != nil {
		return err
	}
	facts, err := why.Gather(ctx, r, t)
	if err != nil {
		return err
	}
	if len(args) > 0 {
		if facts, err = why.Select(facts, args[0]); err != nil {
			return err
		}
	}
	report := why.Explain(facts, t.Missing)
	a.show(report, func() {
		if report.FromHistory {
			a.say("no worker responds for the run; reading its history instead, which lacks nodes that make no calls")
		}
		fmt.Fprint(a.stdout, why.Text(&report, len(args) > 0))
	})
	return nil
}

func (a *app) audit(ctx context.Context, r *runs.Run, _ []string) error {
	l := audit.NewReader(r.ID)
	if err := l.Read(ctx, history.From(r.Client), r.RunID); err != nil {
		return err
	}
	addOpen(ctx, r, l)
	out := l.Trail()
	out.Status = history.StatusName(r.Status)
	emit(a, out, out.Requests, func() { fmt.Fprint(a.stdout, audit.Text(out)) })
	if out.Incomplete != "" {
		a.say("warning: %s", out.Incomplete)
	}
	return nil
}

func addOpen(ctx context.Context, r *runs.Run, l *audit.Reader) {
	if l.Ended = !r.Open(); l.Ended || l.Complete() {
		return
	}
	st, err := r.InTree(r.ID, r.RunID, r.Status).QueryStatus(ctx)
	if err != nil {
		l.SetIncomplete(fmt.Sprintf("no worker responds for the run %q, and its memo has only the oldest unanswered requests", r.ID))
		return
	}
	l.AddOpen(st)
}

func (a *app) compare(ctx context.Context, args []string) error {
	c, err := a.remote(ctx)
	if err != nil {
		return err
	}
	table, err := compared(ctx, c, args[0], args[1])
	if err != nil {
		return err
	}
	a.show(table, func() { fmt.Fprint(a.stdout, compare.Text(table)) })
	return nil
}

func compared(ctx context.Context, c *runs.Connection, ids ...string) (*compare.Table, error) {
	var trees [2]*runtree.Tree
	for side, id := range ids {
		r, err := c.Find(ctx, id)
		if err != nil {
			return nil, err
		}
		if trees[side], err = runtree.Read(ctx, history.From(c.Client), id, r.RunID); err != nil {
			return nil, err
		}
	}
	return compare.Of([2]string(ids), trees), nil
}

func (a *app) impact(ctx context.Context, _ []string) error {
	if a.flags.Flow == "" {
		return usage.Errorf("missing -flow; usage: starter impact -flow FILE")
	}
	res, err := a.compile(a.flags.Flow, true)
	if err != nil {
		return err
	}
	c, err := a.remote(ctx)
	if err != nil {
		return err
	}
	name := cmp.Or(a.flags.name, res.Flow.Name)
	all, _, err := c.List(ctx, runs.Filter{Flow: name})
	if err != nil {
		return err
	}
	out := []impact.Run{}
	for _, r := range all {
		x, err := impactOn(ctx, c, r.ID, res)
		if err != nil {
			x = impact.Run{Run: r.ID, Impact: impact.Unknown, Because: []impact.Node{{Text: err.Error()}}}
		}
		out = append(out, x)
	}
	emit(a, out, out, func() {
		if len(out) == 0 {
			a.say("no open runs of the flow %q; set another with -name", plaintext.Line(name, 200))
			return
		}
		impact.Table(a.stdout, out)
	})
	return nil
}

func impactOn(ctx context.Context, c *runs.Connection, id string, res *specadapter.Result) (impact.Run, error) {
	r, err := c.Find(ctx, id)
	if err != nil {
		return impact.Run{}, err
	}
	tree, err := runtree.Read(ctx, history.From(c.Client), id, r.RunID)
	if err != nil {
		return impact.Run{}, err
	}
	all, err := why.Gather(ctx, r, tree)
	if err != nil {
		return impact.Run{}, err
	}
	return impact.Weigh(all[0], res.Flow, &res.Source), nil
}

// test replays recordings offline and reports the first difference of each.
func (a *app) test(_ context.Context, args []string) error {
	recordings, err := a.recordings(args)
	if err != nil {
		return err
	}
	reports := []*rehearse.Report{}
	failed := 0
	for _, r := range recordings {
		rep, err := rehearse.Play(r)
		if err != nil {
			return err
		}
		reports = append(reports, rep)
		if !rep.OK {
			failed++
		}
		if !a.flags.asJSON() {
			fmt.Fprint(a.stdout, formatReport(rep))
		} else if a.flags.output == outputLines {
			a.object(rep)
		}
	}
	if a.flags.output == outputJSON {
		a.object(map[string]any{"files": reports, "failed": failed})
	}
	if failed > 0 {
		return exitCode(exitFailed)
	}
	return nil
}

func (a *app) recordings(names []string) ([]*rehearse.Recording, error) {
	var flow *contract.FlowRef
	if a.flags.Flow != "" {
		res, err := a.compile(a.flags.Flow, true)
		if err != nil {
			return nil, err
		}
		flow = &contract.FlowRef{Plan: res.Flow, Source: &res.Source}
	}
	var out []*rehearse.Recording
	for _, name := range names {
		data, err := a.reader().File("the recording", name)
		if err != nil {
			return nil, err
		}
		r, err := rehearse.Read(name, data)
		if err != nil {
			return nil, usage.Error{Text: err.Error()}
		}
		if r.Run.Flow.Plan.Version > plan.Version {
			return nil, usage.Errorf("%s: its plan has version %d, this build supports %d; update starter", name, r.Run.Flow.Plan.Version, plan.Version)
		}
		if flow != nil {
			r.Run.Flow = *flow
		}
		out = append(out, r)
	}
	return out, nil
}

func formatReport(r *rehearse.Report) string {
	if r.OK {
		turns := plaintext.If(r.Turns > 0, "%d turns, ", r.Turns)
		return fmt.Sprintf("ok    %s: %d calls, %s%s\n", plaintext.Line(r.File, 500), r.Calls, turns, r.Status)
	}
	d := r.First
	where := plaintext.If(d.Node != "", ", node %s, step %d", plaintext.Line(d.Node, 200), d.Step) + plaintext.If(d.Node != "" && d.FlowAt != "", " (%s)", plaintext.Line(d.FlowAt, 300)) +
		plaintext.If(d.Call != "", ", call %s", plaintext.Line(d.Call, 300))
	return fmt.Sprintf("FAIL  %s:%d: %s%s\n  expected: %s\n  got:      %s\n", plaintext.Line(d.File, 500), d.Line, d.What, where, plaintext.Line(d.Expected, 700), plaintext.Line(d.Got, 700)) +
		plaintext.If(r.Others > 0, "  and %d more after it\n", r.Others)
}

func (a *app) record(ctx context.Context, r *runs.Run, _ []string) error {
	if r.Open() {
		for e, err := range history.NewTail(r.Client, history.Run{Workflow: &history.Workflow{ID: r.ID}, RunID: r.RunID}).Events(ctx) {
			if s, ok := e.Data.(*history.Started); err == nil && ok && s.IsSession() {
				return usage.Errorf("the session %q is still open; only closed sessions can be recorded: close it with starter stop %s, then record it", r.ID, r.Quoted())
			}
			break
		}
		return usage.Errorf("the run %q is still open; only closed runs can be recorded: wait for it with starter follow %s, or cancel it with starter cancel %s", r.ID, r.Quoted(), r.Quoted())
	}
	raw, warnings, err := recording.Record(ctx, history.From(r.Client), r.ID, r.RunID, a.mask)
	for _, w := range warnings {
		a.say("warning: %s", w)
	}
	if err != nil {
		return err
	}
	return a.writeUnmasked(raw)
}
