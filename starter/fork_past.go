package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/runtree"
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
	return &noAnswer{id, history.StatusName(about.status), about.queue, t.Namespace, t.Address, err}
}

// pastOf asks all runs of a flow, its branches' too, what their executions did.
func pastOf(ctx context.Context, t *config.Temporal, about about, old *runtree.Tree) ([]pastIn, error) {
	if len(old.Missing) > 0 {
		return nil, bad("the run %q cannot be forked: the history of %s is gone", args0(old), plaintext.Line(old.Missing[0], 200))
	}
	var out []pastIn
	seen := map[string]bool{}
	for _, v := range old.Workflows {
		if v.Place != "" {
			continue
		}
		for _, run := range v.RunIDs {
			for from := 0; ; {
				var page contract.ExecutionsPage
				if err := query(ctx, t, about, v.ID, run, contract.QueryExecutions, contract.ExecutionsQuery{From: from}, &page); err != nil {
					return nil, err
				}
				for _, p := range page.Executions {
					if label := history.Label(p.Execution); !seen[label] {
						seen[label] = true
						out = append(out, pastIn{p, v.ID, run})
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
func entryOf(ctx context.Context, t *config.Temporal, about about, root *runtree.Workflow) (contract.Execution, error) {
	var st contract.Status
	if err := ask(ctx, t, root.ID, about.of(root), contract.QueryStatus, &st); err != nil {
		return contract.Execution{}, err
	}
	if st.Entry == nil {
		return contract.Execution{}, bad("the run %q cannot be forked: it has not left START, or an older build did not record how", root.ID)
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
