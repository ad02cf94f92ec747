package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/worker/config"
	"weft/workflows/plan"
)

// pastIn is what an execution did, and the run that holds its content.
type pastIn struct {
	contract.Past
	id, run string
}

// query asks a run something that takes an argument; a closed run is replayed for it, which may
// take a while.
func query(ctx context.Context, t *config.Temporal, about about, id, run, name string, arg, out any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	value, err := t.Client.QueryWorkflow(ctx, id, run, name, arg)
	if err == nil {
		return value.Get(out)
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer within a minute")
	}
	return &noAnswer{id, statusName(about.status), about.queue, t.Namespace, t.Address, err}
}

// pastOf asks all runs of a flow, its branches' too, what their executions did.
func pastOf(ctx context.Context, t *config.Temporal, about about, old *tree) ([]pastIn, error) {
	if len(old.missing) > 0 {
		return nil, bad("the run %q cannot be forked: the history of %s is not kept any more", args0(old), clean(old.missing[0], 200))
	}
	var out []pastIn
	seen := map[string]bool{}
	for _, v := range old.visits {
		if v.place != "" {
			continue
		}
		for _, run := range v.runs {
			for from := 0; ; {
				var page contract.PastPage
				if err := query(ctx, t, about, v.id, run, contract.QueryPast, contract.PastQuery{From: from}, &page); err != nil {
					return nil, err
				}
				for _, p := range page.Executions {
					if label := history.Label(p.Execution); !seen[label] {
						seen[label] = true
						out = append(out, pastIn{p, v.id, run})
					}
				}
				if from = page.Next; from == 0 {
					break
				}
			}
		}
	}
	return out, nil
}

// entryOf is what was decided at START.
func entryOf(ctx context.Context, t *config.Temporal, about about, root *visit) (contract.Execution, error) {
	var st contract.Status
	if err := ask(ctx, t, root.id, about.of(root), contract.QueryStatus, &st); err != nil {
		return contract.Execution{}, err
	}
	if st.Entry == nil {
		return contract.Execution{}, bad("the run %q cannot be forked: it has not left START, or did under a build that did not record how", root.id)
	}
	st.Entry.Node = plan.Start
	return *st.Entry, nil
}

// fillFork puts what is recorded, with the content that it names, into a fork.
func fillFork(ctx context.Context, t *config.Temporal, about about, k *contract.ForkedFrom, past []pastIn) error {
	have := map[string]bool{}
	for _, raw := range k.Content {
		have[contract.SHA(raw)] = true
	}
	need := func(p *pastIn, sha string) error {
		if sha == "" || have[sha] {
			return nil
		}
		have[sha] = true
		var raw []byte
		for {
			var page contract.ContentPage
			if err := query(ctx, t, about, p.id, p.run, contract.QueryContent, contract.ContentQuery{SHA: sha, Offset: len(raw)}, &page); err != nil {
				return err
			}
			raw = append(raw, page.Data...)
			if len(raw) > maxInput {
				return bad("the run cannot be forked there: the output of %s alone is over %d bytes; fork at an earlier node", history.Label(p.Execution), maxInput)
			}
			if len(raw) >= page.Total || len(page.Data) == 0 {
				break
			}
		}
		k.Content = append(k.Content, json.RawMessage(raw))
		return nil
	}
	for i := range past {
		p := &past[i]
		if err := need(p, p.SHA); err != nil {
			return err
		}
		for _, w := range p.Writes {
			if err := need(p, w.SHA); err != nil {
				return err
			}
		}
		k.Past = append(k.Past, p.Past)
	}
	return nil
}

// versus is two runs side by side.
type versus struct {
	Runs  [2]string      `json:"runs"`
	Nodes []versusRow    `json:"nodes"`
	Total [2]versusTotal `json:"total"`
}

// versusRow is an execution in both runs; nil where a run does not have it.
type versusRow struct {
	Execution string         `json:"execution"`
	Sides     [2]*versusSide `json:"sides"`
}

// versusSide is what an execution said and took in one run. Recorded says that it was taken from
// another run and took nothing, Given that it was given in place of what that run had.
type versusSide struct {
	Text     string  `json:"text,omitempty"`
	Input    int     `json:"input_tokens"`
	Output   int     `json:"output_tokens"`
	Seconds  float64 `json:"seconds"`
	Recorded bool    `json:"recorded,omitempty"`
	Given    bool    `json:"given,omitempty"`
}

// versusTotal is what a run took and gave.
type versusTotal struct {
	Status  string          `json:"status"`
	Calls   int             `json:"calls"`
	Input   int             `json:"input_tokens"`
	Output  int             `json:"output_tokens"`
	Seconds float64         `json:"seconds"`
	Text    *string         `json:"result_text,omitempty"`
	Data    json.RawMessage `json:"result_data,omitempty"`
}

// compare shows two runs side by side.
func (a *app) compare(ctx context.Context, args []string) error {
	temporal, err := a.remote(ctx)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	table, err := a.besides(ctx, temporal, args[0], args[1])
	if err != nil {
		return err
	}
	if a.flags.asJSON() {
		a.object(table)
		return nil
	}
	fmt.Fprint(a.stdout, sideBySide(table))
	return nil
}

// besides reads the histories of two runs.
func (a *app) besides(ctx context.Context, t *config.Temporal, ids ...string) (*versus, error) {
	out := &versus{}
	rows := map[string]int{}
	// sources are the runs from which the two were forked.
	var sources [2]string
	for side, id := range ids {
		about, err := a.describe(ctx, t, id)
		if err != nil {
			return nil, err
		}
		read, err := readTree(ctx, history.From(t.Client), id, about.run)
		if err != nil {
			return nil, err
		}
		out.Runs[side] = id
		out.Total[side] = spentBy(read)
		put := func(exec string, s *versusSide) {
			i, ok := rows[exec]
			if !ok {
				i = len(out.Nodes)
				rows[exec] = i
				out.Nodes = append(out.Nodes, versusRow{Execution: exec})
			}
			out.Nodes[i].Sides[side] = s
		}
		for _, v := range read.visits {
			if v.input != nil && v.input.Fork != nil {
				sources[side] = cmp.Or(sources[side], v.input.Fork.From.Workflow)
				for _, p := range v.input.Fork.Past {
					s := &versusSide{Recorded: true, Given: slices.Contains(v.input.Fork.Replaced, history.Label(p.Execution))}
					if s.Given {
						s.Text = givenText(v.input.Fork, p.SHA)
					}
					put(v.place+history.Label(p.Execution), s)
				}
			}
			for _, c := range v.costs {
				s := &versusSide{Text: c.text, Input: c.usage.Input, Output: c.usage.Output}
				if !c.to.IsZero() {
					s.Seconds = c.to.Sub(c.from).Seconds()
				}
				put(v.place+c.exec, s)
			}
		}
	}
	out.complete(sources)
	return out, nil
}

// givenText is the text of a result that a fork was given.
func givenText(k *contract.ForkedFrom, sha string) string {
	for _, raw := range k.Content {
		if contract.SHA(raw) == sha {
			if m, err := contract.DecodeMessage(raw); err == nil {
				return m.Text
			}
		}
	}
	return ""
}

// complete adds what a run did without asking a model or a tool: its history has nothing of that,
// but what a fork took from it, it has done.
func (v *versus) complete(sources [2]string) {
	for i := range v.Nodes {
		for side := range v.Runs {
			s := v.Nodes[i].Sides[side]
			if other := &v.Nodes[i].Sides[1-side]; s != nil && s.Recorded && *other == nil && sources[side] == v.Runs[1-side] {
				*other = &versusSide{}
			}
		}
	}
}

// spentBy sums up a run and all below it.
func spentBy(t *tree) versusTotal {
	root := t.visits[0]
	out := versusTotal{Status: statusName(root.status)}
	for _, v := range t.visits {
		out.Calls, out.Input, out.Output = out.Calls+v.usage.Calls, out.Input+v.usage.Input, out.Output+v.usage.Output
	}
	if root.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		out.Seconds = root.ended.Sub(root.began).Seconds()
	}
	if r := root.result; r != nil {
		out.Text, out.Data = r.ResultText, r.ResultData
	}
	return out
}
