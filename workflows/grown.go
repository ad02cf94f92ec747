package workflows

import (
	"errors"
	"fmt"
	"strings"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/runtime"
	"weft/workflows/schedule"
)

// placeGrown places the failure of a run whose carry is too large: at the node that made most of it, or at
// START where that is what the run was given, else at the last that ran.
func placeGrown(f *flowRun, err error) error {
	var large *contract.Failure
	if !errors.As(err, &large) {
		return err
	}
	large.Class = contract.ClassStateTooLarge
	if n := len(f.trace); n > 0 {
		large.Node, large.Step = f.trace[n-1].Node, f.trace[n-1].Step
	}
	most, given := 0, false
	for i, w := range weights(f) {
		if w.bytes <= most {
			continue
		}
		if most, given = w.bytes, i == len(f.run.Flow.Nodes); !given {
			large.Node, large.Step = f.run.Flow.Nodes[i].ID, w.step
		}
	}
	switch {
	case given:
		large.Node, large.Step, large.At = plan.Start, 0, f.run.Source.At(plan.EdgePath(f.run.Graph.Starts[0]))
		large.Text += fmt.Sprintf("; %d of them are what the run was given", most)
		large.Remedy = "start the run with less state, a shorter input or references to data that is kept elsewhere, " +
			"or give the workers a store (store.dir) before it starts"
	case large.Node != "":
		large.At = f.run.Source.At(plan.NodePath(large.Node))
	}
	return large
}

// weight is how many bytes of a carry a node made, and at which step last.
type weight struct{ bytes, step int }

func (w *weight) add(n, step int) {
	w.bytes += n
	w.step = max(w.step, step)
}

// weights are those of the flow's nodes: where they stopped in their middle, what they wrote to the
// state, their latest outputs, and what exit nodes said. The last is that of what the run was given.
func weights(f *flowRun) []weight {
	out := make([]weight, len(f.run.Flow.Nodes)+1)
	for _, ref := range []*contract.ContentRef{&f.run.Shared.Input, f.run.Shared.Script, f.run.Shared.Chat} {
		if ref != nil {
			out[len(f.run.Flow.Nodes)].add(len(f.run.Transcript.Content[ref.SHA]), 0)
		}
	}
	var views []*contract.View
	for i, ended := 0, f.sched.Ended; i < len(ended); i++ {
		views = append(views, &ended[i].View)
	}
	for _, x := range f.sched.NotRunning() {
		if n, err := runtime.Size(x.Suspended); err == nil && x.Suspended != nil {
			out[x.Node].add(n, x.Step)
		}
		for i := range x.Arrivals {
			views = append(views, &x.Arrivals[i].View)
		}
	}
	for i := range f.trace {
		if e := &f.trace[i]; e.Text != nil && f.run.Flow.Nodes[f.run.Graph.Index(e.Node)].Exit {
			out[f.run.Graph.Index(e.Node)].add(len(*e.Text)+len(e.Data), e.Step)
		}
	}
	seen := map[string]bool{} // several branches know the same
	for _, v := range views {
		weighView(f, v, seen, out)
	}
	return out
}

// weighView adds what nodes wrote to the state of a view, and their outputs in it.
func weighView(f *flowRun, v *contract.View, seen map[string]bool, out []weight) {
	for i := range v.State {
		e := &v.State[i]
		if k, ok := writer(f, e.By.Exec); ok && !seen[e.By.Exec+"\n"+e.Key] {
			seen[e.By.Exec+"\n"+e.Key] = true
			out[k].add(schedule.EntryBytes(e), e.By.Step)
		}
	}
	for _, o := range v.Outputs {
		if k := f.run.Graph.Index(o.Node); k >= 0 && !seen[o.SHA] {
			seen[o.SHA] = true
			out[k].add(len(f.run.Transcript.Content[o.SHA]), o.By.Step)
		}
	}
}

// writer is the node of an execution, by its id; START comes behind all.
func writer(f *flowRun, exec string) (int, bool) {
	if exec == plan.Start {
		return len(f.run.Flow.Nodes), true
	}
	node, _, found := strings.Cut(exec, "#")
	if !found {
		return 0, false
	}
	for i := range f.run.Flow.Nodes {
		if contract.EscapeID(f.run.Flow.Nodes[i].ID) == node {
			return i, true
		}
	}
	return 0, false
}
