package runs

import (
	"context"
	"encoding/json"
	"strings"

	"weft/activities/contract"
	"weft/starter/runtree"
	"weft/workflows/plan"
	"weft/workflows/schedule"
)

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
	filled := stateValues{records: records}
	var out []NodeRun
	err = replay(of, st.Entry, records, given(of), func(x *contract.Execution, before, after *contract.View) error {
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

// given are the inputs of a flow, as its first nodes find them.
func given(of *runtree.Workflow) contract.View {
	var first contract.View
	var params map[string]json.RawMessage
	if of.Input != nil && json.Unmarshal(of.Input.Params, &params) == nil {
		for name, value := range params {
			schedule.SetEntry(&first, contract.StateEntry{Key: plan.InKey(name), Value: value, By: contract.Stamp{Exec: plan.Start}})
		}
	}
	return first
}

// values are the values of ports by their names. A port whose name begins with a point is no input or output of its node
// in the document, such as the collections that a run keeps.
func (f *stateValues) values(ctx context.Context, ports []plan.In, v *contract.View) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for _, port := range ports {
		value := port.Default
		if e, ok := schedule.Entry(v, port.Key); ok && port.Key != "" {
			all, err := f.of(ctx, &contract.View{State: []contract.StateEntry{e}})
			if err != nil {
				return nil, err
			}
			if all[0].Value != nil {
				value = all[0].Value
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
