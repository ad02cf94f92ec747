package runs

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"weft/activities/contract"
	"weft/starter/runtree"
	"weft/workflows/plan"
	"weft/workflows/schedule"
)

// NodeRun is one execution of a node, as its worker knows it.
type NodeRun struct {
	contract.Execution
	// Inputs and Outputs are the values that a node takes and leaves by name; both are nil where they are not asked for.
	// A value that is longer than an answer has room for is absent.
	Inputs, Outputs map[string]json.RawMessage
	// Ended reports whether it has ended.
	Ended bool
}

// NodeRuns returns what the workers know of the executions of a flow, with the values of their ports if wanted. Executions
// that another run did, from which this one was forked, are left out.
func (r *Run) NodeRuns(ctx context.Context, tree *runtree.Tree, of *runtree.Workflow, values bool) ([]NodeRun, error) {
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
		if n := of.Flow.Node(x.Node); values && n.Ports != nil {
			if run.Inputs, err = filled.inputs(ctx, n.Ports.In, before); err == nil && after != nil {
				run.Outputs, err = filled.outputs(ctx, n.Ports.Out, after)
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

func (f *stateValues) inputs(ctx context.Context, ports []plan.In, v *contract.View) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for i := range ports {
		in := &ports[i]
		value, err := f.port(ctx, v, in.Key)
		if err != nil {
			return nil, err
		}
		if value == nil {
			value = in.Default
		}
		if value != nil && !internal(in.Name) {
			out[in.Name] = value
		}
	}
	return out, nil
}

func (f *stateValues) outputs(ctx context.Context, ports []plan.Out, v *contract.View) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	for i := range ports {
		value, err := f.port(ctx, v, slices.Concat(ports[i].Keys, []string{""})[0])
		if err != nil {
			return nil, err
		}
		if value != nil && !internal(ports[i].Name) {
			out[ports[i].Name] = value
		}
	}
	return out, nil
}

// internal reports whether a port is no input or output of its node in the document, such as the collections that a run keeps.
func internal(port string) bool { return strings.HasPrefix(port, ".") }

// port is the value under a key of the state, nil where there is none.
func (f *stateValues) port(ctx context.Context, v *contract.View, key string) (json.RawMessage, error) {
	e, ok := schedule.Entry(v, key)
	if !ok || key == "" {
		return nil, nil
	}
	all, err := f.of(ctx, &contract.View{State: []contract.StateEntry{e}})
	if err != nil {
		return nil, err
	}
	return all[0].Value, nil
}
