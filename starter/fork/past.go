package fork

import (
	"context"
	"encoding/json"
	"time"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/impact"
	"weft/starter/plaintext"
	"weft/starter/runs"
	"weft/starter/usage"
	"weft/workflows/plan"
)

// queryTimeout is long: a closed run is replayed for its answer.
const queryTimeout = time.Minute

// recorded is what an execution did, and the run that has its content.
type recorded struct {
	contract.ExecutionRecord
	run *runs.Run
}

func (f *forking) past(ctx context.Context) ([]recorded, error) {
	if len(f.tree.Missing) > 0 {
		return nil, usage.Errorf("the run %q cannot be forked: the history of %s is gone", f.run.ID, plaintext.Line(f.tree.Missing[0], 200))
	}
	var out []recorded
	seen := map[string]bool{}
	for _, v := range f.tree.Workflows {
		if v.Place != "" {
			continue
		}
		for _, id := range v.RunIDs {
			run := f.run.Below(v.ID, id, f.run.Status)
			run.Patience = queryTimeout
			for from := 0; ; {
				var page contract.ExecutionsPage
				if err := run.Query(ctx, contract.QueryExecutions, &page, contract.ExecutionsQuery{From: from}); err != nil {
					return nil, err
				}
				for _, p := range page.Executions {
					if label := history.Label(p.Execution); !seen[label] {
						seen[label] = true
						out = append(out, recorded{p, run})
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

// entry is what was decided at START, by the edges of the flow that goes on.
func (f *forking) entry(ctx context.Context, flow *plan.Flow) (contract.Execution, error) {
	st, err := f.run.Below(f.run.ID, f.root.RunID, f.root.Status).Reported(ctx)
	if err != nil {
		return contract.Execution{}, err
	}
	if st.Entry == nil {
		return contract.Execution{}, usage.Errorf("the run %q cannot be forked: it has not left START, or an older build did not record how", f.run.ID)
	}
	out := *st.Entry
	taken, missing := impact.KeptEdges(f.root.Flow, flow, out.Taken)
	if missing != "" {
		return out, usage.Errorf("%s has no edge %q, by which the run came from START; keep it, or start the flow again", f.File, missing)
	}
	out.Node, out.Taken = plan.Start, taken
	return out, nil
}

// fill puts what is recorded, with the content that it names, into a fork.
func (f *forking) fill(ctx context.Context, k *contract.ForkedFrom, past []recorded) error {
	have := map[string]bool{"": true}
	for _, raw := range k.Content {
		have[contract.SHA(raw)] = true
	}
	for i := range past {
		p := &past[i]
		hashes := []string{p.SHA}
		for _, w := range p.Writes {
			hashes = append(hashes, w.SHA)
		}
		for _, sha := range hashes {
			if have[sha] {
				continue
			}
			have[sha] = true
			raw, err := p.content(ctx, sha)
			if err != nil {
				return err
			}
			k.Content = append(k.Content, raw)
		}
		k.Executions = append(k.Executions, p.ExecutionRecord)
	}
	return nil
}

func (p *recorded) content(ctx context.Context, sha string) (json.RawMessage, error) {
	var raw json.RawMessage
	for {
		var page contract.ContentPage
		if err := p.run.Query(ctx, contract.QueryContent, &page, contract.ContentQuery{SHA: sha, Offset: len(raw)}); err != nil {
			return nil, err
		}
		raw = append(raw, page.Data...)
		if len(raw) > runs.MaxInput {
			return nil, usage.Errorf("the run cannot be forked there: the output of %s alone is over %d bytes; fork at an earlier node", history.Label(p.Execution), runs.MaxInput)
		}
		if len(raw) >= page.Total || len(page.Data) == 0 {
			return raw, nil
		}
	}
}
