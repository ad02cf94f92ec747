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

// replayTimeout is the timeout of a query for which the worker may have to replay the run.
const replayTimeout = time.Minute

// Record is the record of a finished execution, as queried from a worker.
type Record struct {
	contract.ExecutionRecord
	run *Run
}

// Records queries the workers for the records of a flow's finished executions, without duplicates. place is the place of a
// sub-agent in the run's tree, "" for the run's own flow.
func (r *Run) Records(ctx context.Context, tree *runtree.Tree, place string) ([]Record, error) {
	var out []Record
	seen := map[string]bool{}
	for _, v := range tree.Workflows {
		if v.Place != place {
			continue
		}
		for _, id := range v.RunIDs {
			run := r.WithReplayTimeout().InTree(v.ID, id, r.Status)
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

// Content queries the stored content that a record refers to. It returns nil if the content exceeds limit bytes.
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

// StateChange is the state before and after an execution.
type StateChange struct {
	Before []StateValue `json:"before"`
	// After is null while the execution is in progress.
	After []StateValue `json:"after"`
}

// StateValue is a key of the state.
type StateValue struct {
	Key string `json:"key"`
	// Value is absent if it is too large for the response; then Bytes is its size.
	Value json.RawMessage `json:"value,omitempty"`
	Bytes int             `json:"bytes,omitempty"`
	// By is the execution that wrote it, node#step; "" for an initial value.
	By string `json:"by,omitempty"`
}

// maxStateValue is the maximum size of a value that is fetched for a [StateChange], maxStateChange of all values.
const (
	maxStateValue  = 64 << 10
	maxStateChange = 1 << 20
)

// StateOf returns the state before and after an execution: node#step, prefixed with the place of its sub-agent. It replays
// the schedule from the records, because the graph and the records determine the state of each execution.
func (r *Run) StateOf(ctx context.Context, tree *runtree.Tree, execution string) (*StateChange, error) {
	w := flowOf(tree, execution)
	switch {
	case w == nil:
		return nil, usage.Errorf("the run %q has no state for %s; state is recorded for nodes of the flow and of sub-agents that are separate runs", r.ID, source.Quote(execution))
	case w.Input != nil && w.Input.Session || w.Flow.StartsSessions():
		return nil, usage.Errorf("%q is a session, and the state between its nodes is not recorded", w.ID)
	}
	entry, err := r.WithReplayTimeout().InTree(w.ID, w.RunID, w.Status).QueryStatus(ctx)
	if err != nil {
		return nil, err
	}
	records, err := r.Records(ctx, tree, w.Place)
	if err != nil {
		return nil, err
	}
	before, after, err := viewsOf(w, entry.Entry, records, strings.TrimPrefix(execution, w.Place))
	if err != nil || before == nil {
		return nil, usage.Errorf("the run %q has not started %s", r.ID, source.Quote(execution))
	}
	values := stateValues{records: records}
	out := &StateChange{}
	if out.Before, err = values.of(ctx, before); err == nil && after != nil {
		out.After, err = values.of(ctx, after)
	}
	return out, err
}

// flowOf returns the workflow that runs the flow of an execution, nil if there is none, as for elements of a map that run
// in the map's workflow.
func flowOf(tree *runtree.Tree, execution string) *runtree.Workflow {
	place, _, below := history.CutLast(execution, " › ")
	for _, v := range tree.Workflows {
		if !v.Branch && v.Flow != nil && v.Input != nil && (below && v.Place == place+" › " || !below && v.Place == "") {
			return v
		}
	}
	return nil
}

// viewsOf returns the views of an execution at its start and at its end, nil if it has not started or ended.
func viewsOf(of *runtree.Workflow, entry *contract.Execution, records []Record, execution string) (before, after *contract.View, err error) {
	err = replay(of, entry, records, contract.View{}, func(x *contract.Execution, start, end *contract.View) error {
		if history.Label(*x) == execution {
			before, after = start, end
		}
		return nil
	})
	return before, after, err
}

// replay replays the schedule of a flow from its records and its first view. It calls visit for each execution with its views before
// and after, which is nil while it is in progress.
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
	unfinished, err := s.Ready(schedule.NewLog(entries), func(r *schedule.Replayed) error {
		before, _ := schedule.Join(r.Execution.Arrivals)
		after := schedule.Clone(&r.View)
		return visit(&r.Entry.Execution, &before, &after)
	})
	for _, x := range unfinished {
		before, _ := schedule.Join(x.Arrivals)
		if err == nil {
			err = visit(&contract.Execution{Node: of.Flow.Nodes[x.Node].ID, Step: x.Step, Occurrence: x.Occurrence}, &before, nil)
		}
	}
	return err
}

// stateValues resolves values that are stored by their hash.
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

// value returns a value of the state; it queries a stored value from the run that wrote it.
func (f *stateValues) value(ctx context.Context, e *contract.StateEntry) (value StateValue, err error) {
	value = StateValue{Key: e.Key, Value: e.Value}
	if e.By.Exec != "" {
		value.By = history.Label(history.ExecutionOf(e.By.Exec))
	}
	if e.SHA != "" && f.size+e.Size <= maxStateChange {
		wrote := func(w contract.StateEntry) bool { return w.SHA == e.SHA }
		i := slices.IndexFunc(f.records, func(p Record) bool { return slices.ContainsFunc(p.Writes, wrote) })
		if value.Value = nil; i >= 0 {
			value.Value, err = f.records[i].Content(ctx, e.SHA, maxStateValue)
		}
	}
	if f.size += len(value.Value); value.Value == nil {
		value.Bytes = e.Size
	}
	return value, err
}

// NodeRun is one execution of a node, as queried from a worker.
type NodeRun struct {
	contract.Execution
	// Inputs and Outputs are the named values of a node; both are nil in flows without named values.
	// A value that is too large for a response is absent.
	Inputs, Outputs map[string]json.RawMessage
	// Ended reports whether it has ended.
	Ended bool
}

// NodeRuns queries the workers for the executions of a flow, with the values of their ports. It excludes executions that a fork
// reuses from another run.
func (r *Run) NodeRuns(ctx context.Context, tree *runtree.Tree, of *runtree.Workflow) ([]NodeRun, error) {
	st, err := r.InTree(of.ID, of.RunID, of.Status).QueryStatus(ctx)
	if err != nil {
		return nil, err
	}
	records, err := r.Records(ctx, tree, of.Place)
	if err != nil {
		return nil, err
	}
	// first is the view of the first nodes: the inputs of the flow.
	var first contract.View
	var params map[string]json.RawMessage
	if of.Input != nil && json.Unmarshal(of.Input.Params, &params) == nil {
		for name, value := range params {
			schedule.SetEntry(&first, contract.StateEntry{Key: plan.InKey(name), Value: value, By: contract.Stamp{Exec: plan.Start}})
		}
	}
	values := stateValues{records: records}
	var out []NodeRun
	err = replay(of, st.Entry, records, first, func(x *contract.Execution, before, after *contract.View) error {
		if x.Recorded {
			return nil
		}
		run := NodeRun{Execution: *x, Ended: after != nil}
		if n := of.Flow.Node(x.Node); n.Ports != nil {
			if run.Inputs, err = values.ofPorts(ctx, n.Ports.In, before); err == nil && after != nil {
				run.Outputs, err = values.ofPorts(ctx, outputPorts(n.Ports.Out), after)
			}
		}
		out = append(out, run)
		return err
	})
	return out, err
}

// ofPorts returns the values of ports by name, except for ports whose name begins with a dot: they are not declared by the
// document, such as the collections of in-memory datastores.
func (f *stateValues) ofPorts(ctx context.Context, ports []plan.In, v *contract.View) (map[string]json.RawMessage, error) {
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

// outputPorts returns ports that read a node's outputs, each by its first key.
func outputPorts(ports []plan.Out) []plan.In {
	out := make([]plan.In, len(ports))
	for i, port := range ports {
		if out[i].Name = port.Name; len(port.Keys) > 0 {
			out[i].Key = port.Keys[0]
		}
	}
	return out
}
