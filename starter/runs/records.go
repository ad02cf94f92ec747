package runs

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/specadapter/source"
	"weft/starter/history"
	"weft/starter/runtree"
	"weft/starter/usage"
	"weft/workflows/schedule"
)

// replayTimeout is long: a closed run is replayed for its answer.
const replayTimeout = time.Minute

// Record is what a finished execution of a run did, as its worker knows it.
type Record struct {
	contract.ExecutionRecord
	run *Run
}

// Records asks the workers what the finished executions of a flow did, each once. Place is that of a sub-agent in the
// run's tree, "" for the run's own flow.
func (r *Run) Records(ctx context.Context, tree *runtree.Tree, place string) ([]Record, error) {
	var out []Record
	seen := map[string]bool{}
	for _, v := range tree.Workflows {
		if v.Place != place {
			continue
		}
		for _, id := range v.RunIDs {
			run := r.Below(v.ID, id, r.Status)
			run.Patience = replayTimeout
			for from := 0; ; {
				var page contract.ExecutionsPage
				if err := run.Query(ctx, contract.QueryExecutions, &page, contract.ExecutionsQuery{From: from}); err != nil {
					return nil, err
				}
				for _, p := range page.Executions {
					if label := history.Label(p.Execution); !seen[label] {
						seen[label] = true
						out = append(out, Record{p, run})
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

// Content asks for the stored bytes that a record names. It returns nil where they are more than limit.
func (p *Record) Content(ctx context.Context, sha string, limit int) (json.RawMessage, error) {
	var raw json.RawMessage
	for {
		var page contract.ContentPage
		if err := p.run.Query(ctx, contract.QueryContent, &page, contract.ContentQuery{SHA: sha, Offset: len(raw)}); err != nil {
			return nil, err
		}
		if page.Total > limit {
			return nil, nil
		}
		raw = append(raw, page.Data...)
		if len(raw) >= page.Total || len(page.Data) == 0 {
			return raw, nil
		}
	}
}

// StateChange is what an execution found in the state, and how it left it.
type StateChange struct {
	Before []StateValue `json:"before"`
	// After is null while the execution is in progress.
	After []StateValue `json:"after"`
}

// StateValue is a key of the state.
type StateValue struct {
	Key string `json:"key"`
	// Value is absent where it is longer than the answer has room for; Bytes is its size then.
	Value json.RawMessage `json:"value,omitempty"`
	Bytes int             `json:"bytes,omitempty"`
	// By is the execution that wrote it, node#step, "" if it was there from the start.
	By string `json:"by,omitempty"`
}

// maxStateValue bounds a value that is fetched for a [StateChange], maxStateChange all of them.
const (
	maxStateValue  = 64 << 10
	maxStateChange = 1 << 20
)

// StateOf returns the state before and after an execution: node#step, behind the place of its sub-agent. It schedules
// again what the run's executions did: what an execution knows is a property of the graph and of their records.
func (r *Run) StateOf(ctx context.Context, tree *runtree.Tree, execution string) (*StateChange, error) {
	of := flowOf(tree, execution)
	switch {
	case of == nil:
		return nil, usage.Errorf("the run %q has no state for %s; state is kept for nodes of the flow and of sub-agents that are separate runs", r.ID, source.Quote(execution))
	case of.Input != nil && of.Input.Session || of.Flow.StartsSessions():
		return nil, usage.Errorf("%q takes turns, and the state between its nodes is not kept", of.ID)
	}
	entry, err := r.Below(of.ID, of.RunID, of.Status).Reported(ctx)
	if err != nil {
		return nil, err
	}
	records, err := r.Records(ctx, tree, of.Place)
	if err != nil {
		return nil, err
	}
	before, after, err := viewsOf(of, entry.Entry, records, strings.TrimPrefix(execution, of.Place))
	if err != nil || before == nil {
		return nil, usage.Errorf("the run %q has not started %s", r.ID, source.Quote(execution))
	}
	filled := stateValues{records: records}
	out := &StateChange{}
	if out.Before, err = filled.of(ctx, before); err == nil && after != nil {
		out.After, err = filled.of(ctx, after)
	}
	return out, err
}

// flowOf returns the workflow that runs the flow of an execution, nil where none is known. The elements of a map that
// run in its own workflow have none.
func flowOf(tree *runtree.Tree, execution string) *runtree.Workflow {
	place, _, below := history.CutLast(execution, " › ")
	for _, v := range tree.Workflows {
		if !v.Branch && v.Flow != nil && v.Input != nil && (below && v.Place == place+" › " || !below && v.Place == "") {
			return v
		}
	}
	return nil
}

// viewsOf returns what an execution knew at its start and at its end, nil where it did not start or end.
func viewsOf(of *runtree.Workflow, entry *contract.Execution, records []Record, execution string) (before, after *contract.View, err error) {
	err = replay(of, entry, records, contract.View{}, func(x *contract.Execution, began, ended *contract.View) error {
		if history.Label(*x) == execution {
			before, after = began, ended
		}
		return nil
	})
	return before, after, err
}

// replay schedules again what records tell, from what the flow began with on. It calls visit for each execution, with what it knew at its start and at its
// end, which is nil for one in progress.
func replay(of *runtree.Workflow, entry *contract.Execution, records []Record, first contract.View, visit func(x *contract.Execution, before, after *contract.View) error) error {
	if entry == nil {
		return nil
	}
	g := schedule.NewGraph(of.Flow)
	var starts []int
	for _, id := range entry.Taken {
		if e := g.Edge(id); e >= 0 {
			starts = append(starts, e)
		}
	}
	s := schedule.New(g)
	if err := s.Arrive(starts, 1, "", first); err != nil {
		return err
	}
	entries := make([]contract.ExecutionRecord, len(records))
	for i := range records {
		entries[i] = records[i].ExecutionRecord
	}
	left, err := s.Replay(schedule.NewLog(entries), func(r *schedule.Replayed) error {
		began, _ := schedule.Join(r.Execution.Arrivals)
		ended := schedule.Clone(&r.View)
		return visit(&r.Entry.Execution, &began, &ended)
	})
	for _, x := range left {
		began, _ := schedule.Join(x.Arrivals)
		if err == nil {
			err = visit(&contract.Execution{Node: of.Flow.Nodes[x.Node].ID, Step: x.Step, Occurrence: x.Occurrence}, &began, nil)
		}
	}
	return err
}

// stateValues fills in values that are stored by their hash.
type stateValues struct {
	records []Record
	size    int
}

func (f *stateValues) of(ctx context.Context, v *contract.View) ([]StateValue, error) {
	out := make([]StateValue, 0, len(v.State))
	for i := range v.State {
		e := &v.State[i]
		value := StateValue{Key: e.Key, Value: e.Value}
		if e.By.Exec != "" {
			value.By = history.Label(history.ExecutionOf(e.By.Exec))
		}
		if e.SHA != "" && f.size+e.Size <= maxStateChange {
			raw, err := f.content(ctx, e.SHA)
			if err != nil {
				return nil, err
			}
			value.Value = raw
		}
		if f.size += len(value.Value); value.Value == nil {
			value.Bytes = e.Size
		}
		out = append(out, value)
	}
	return out, nil
}

// content asks the run of the record that wrote a value.
func (f *stateValues) content(ctx context.Context, sha string) (json.RawMessage, error) {
	for i := range f.records {
		for _, w := range f.records[i].Writes {
			if w.SHA == sha {
				return f.records[i].Content(ctx, sha, maxStateValue)
			}
		}
	}
	return nil, nil
}
