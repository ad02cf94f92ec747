package runs

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"weft/activities/contract"
	"weft/specadapter/source"
	"weft/starter/history"
	"weft/starter/runtree"
	"weft/starter/usage"
	"weft/workflows/plan"
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
			run := r.Patiently().Below(v.ID, id, r.Status)
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
	entry, err := r.Patiently().Below(of.ID, of.RunID, of.Status).Reported(ctx)
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
	s := schedule.New(g)
	if err := s.Arrive(g.Edges(entry.Taken), 1, "", first); err != nil {
		return err
	}
	entries := make([]contract.ExecutionRecord, len(records))
	for i := range records {
		entries[i] = records[i].ExecutionRecord
	}
	left, err := s.Ready(schedule.NewLog(entries), func(r *schedule.Replayed) error {
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
	out := make([]StateValue, len(v.State))
	var err error
	for i := range v.State {
		if out[i], err = f.value(ctx, &v.State[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// value asks for a stored value the run of the record that wrote it.
func (f *stateValues) value(ctx context.Context, e *contract.StateEntry) (value StateValue, err error) {
	value = StateValue{Key: e.Key, Value: e.Value}
	if e.By.Exec != "" {
		value.By = history.Label(history.ExecutionOf(e.By.Exec))
	}
	if e.SHA != "" && f.size+e.Size <= maxStateChange {
		written := func(w contract.StateEntry) bool { return w.SHA == e.SHA }
		i := slices.IndexFunc(f.records, func(p Record) bool { return slices.ContainsFunc(p.Writes, written) })
		if value.Value = nil; i >= 0 {
			value.Value, err = f.records[i].Content(ctx, e.SHA, maxStateValue)
		}
	}
	if f.size += len(value.Value); value.Value == nil {
		value.Bytes = e.Size
	}
	return value, err
}

// NodeRun is one execution of a node, as its worker knows it.
type NodeRun struct {
	contract.Execution
	// Inputs and Outputs are the values that a node takes and leaves by name; both are nil in flows without named values.
	// A value that is longer than an answer has room for is absent.
	Inputs, Outputs map[string]json.RawMessage
	// Ended reports whether it has ended.
	Ended bool
}

// NodeRuns returns what the workers know of the executions of a flow, with the values of their ports. Executions that another
// run did, from which this one was forked, are left out.
func (r *Run) NodeRuns(ctx context.Context, tree *runtree.Tree, of *runtree.Workflow) ([]NodeRun, error) {
	st, err := r.Below(of.ID, of.RunID, of.Status).Reported(ctx)
	if err != nil {
		return nil, err
	}
	records, err := r.Records(ctx, tree, of.Place)
	if err != nil {
		return nil, err
	}
	// first are the inputs of the flow, as its first nodes find them.
	var first contract.View
	var params map[string]json.RawMessage
	if of.Input != nil && json.Unmarshal(of.Input.Params, &params) == nil {
		for name, value := range params {
			schedule.SetEntry(&first, contract.StateEntry{Key: plan.InKey(name), Value: value, By: contract.Stamp{Exec: plan.Start}})
		}
	}
	filled := stateValues{records: records}
	var out []NodeRun
	err = replay(of, st.Entry, records, first, func(x *contract.Execution, before, after *contract.View) error {
		if x.Recorded {
			return nil
		}
		run := NodeRun{Execution: *x, Ended: after != nil}
		if n := of.Flow.Node(x.Node); n.Ports != nil {
			if run.Inputs, err = filled.values(ctx, n.Ports.In, before); err == nil && after != nil {
				run.Outputs, err = filled.values(ctx, written(n.Ports.Out), after)
			}
		}
		out = append(out, run)
		return err
	})
	return out, err
}

// values are the values of ports by their names. A port whose name begins with a point is no input or output of its node
// in the document, such as the collections that a run keeps.
func (f *stateValues) values(ctx context.Context, ports []plan.In, v *contract.View) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, port := range ports {
		value := port.Default
		if e, ok := schedule.Entry(v, port.Key); ok && port.Key != "" {
			stored, err := f.value(ctx, &e)
			if err != nil {
				return nil, err
			}
			if stored.Value != nil {
				value = stored.Value
			}
		}
		if value != nil && !strings.HasPrefix(port.Name, ".") {
			out[port.Name] = value
		}
	}
	return out, nil
}

// written are a node's outputs as ports that read what it wrote, each under its first key.
func written(ports []plan.Out) []plan.In {
	out := make([]plan.In, len(ports))
	for i, port := range ports {
		if out[i].Name = port.Name; len(port.Keys) > 0 {
			out[i].Key = port.Keys[0]
		}
	}
	return out
}
