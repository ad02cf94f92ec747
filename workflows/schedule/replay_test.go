package schedule

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/schedule/scheduletest"
)

// recording runs a flow on the scheduler, each execution for a random time, and keeps the log of what
// ended: every node writes a key of its own and one that all write.
type recording struct {
	s      *Scheduler
	answer func(question string, step int) bool
	log    []contract.ExecutionRecord
}

func (r *recording) taken(edges []int, step int) (taken []int, ids []string) {
	for _, e := range edges {
		if q := r.s.g.flow.Edges[e].Question; q == "" || r.answer(q, step) {
			taken, ids = append(taken, e), append(ids, r.s.g.flow.Edges[e].ID)
		}
	}
	return taken, ids
}

// start takes the edges out of START.
func (r *recording) start(t *testing.T) {
	taken, _ := r.taken(r.s.g.Starts, 0)
	if err := r.s.Arrive(taken, 1, "", contract.View{}); err != nil {
		t.Fatal(err)
	}
}

// run lets a number of executions end.
func (r *recording) run(t *testing.T, n int, rng *rand.Rand) {
	views := map[*Execution]contract.View{}
	begin := func() {
		for _, x := range r.s.ready(nil) {
			views[x], _ = r.s.Begin(x)
			r.s.Started(x, views[x])
		}
	}
	for begin(); n > 0 && len(r.s.Running) > 0; n-- {
		x := r.s.Running[rng.Intn(len(r.s.Running))]
		view, id, node := Clone(&x.Arrivals[0].View), r.s.ID(x), r.s.g.flow.Nodes[x.Node].ID
		entry := contract.ExecutionRecord{Execution: contract.Execution{Node: node, Step: x.Step, Occurrence: x.Occurrence}, Lineage: x.Lineage, SHA: id}
		for _, key := range []string{node, "all"} {
			SetEntry(&view, contract.StateEntry{Key: key, SHA: id, By: NextStamp(&view, id, id, x.Step)})
			e, _ := Entry(&view, key)
			entry.Writes = append(entry.Writes, e)
		}
		SetOutput(&view, contract.NodeOutput{Node: node, Name: r.s.g.flow.Nodes[x.Node].Name, Order: x.Node, SHA: id, By: NextStamp(&view, id, id, x.Step)})
		taken, ids := r.taken(r.s.g.Out(x.Node), x.Step)
		entry.Taken = ids
		r.log = append(r.log, entry)
		if err := r.s.Leave(x, x.Step, taken, view); err != nil {
			t.Fatal(err)
		}
		begin()
	}
}

// place returns a scheduler's live executions and their views.
func place(s *Scheduler) map[string]string {
	out := map[string]string{}
	for _, list := range [][]*Execution{s.Running, s.Waiting, s.Joins} {
		for _, x := range list {
			in := slices.Clone(x.Arrivals)
			slices.SortFunc(in, byEdge) // as they are when the execution is ready
			v, _ := Join(in)
			what := ""
			for _, e := range v.State {
				what += e.Key + "=" + e.SHA + " "
			}
			for _, o := range v.Outputs {
				what += o.Node + ">" + o.SHA + " "
			}
			out[fmt.Sprintf("%s#%d %s", s.g.flow.Nodes[x.Node].ID, x.Step, x.Lineage)] = what
		}
	}
	return out
}

// TestReplay stops runs of random flows at random points, and checks that a new scheduler that replays their logs has the
// same state.
func TestReplay(t *testing.T) {
	for seed := range int64(300) {
		rng := rand.New(rand.NewSource(seed))
		f := random(rng)
		old := recording{s: New(NewGraph(f)), answer: answersOf(seed)}
		old.start(t)
		old.run(t, 1+rng.Intn(12), rng)

		again := recording{s: New(NewGraph(f)), answer: old.answer}
		again.start(t)
		log := NewLog(old.log)
		var visited []string
		ready, err := again.s.Ready(log, func(r *Replayed) error {
			visited = append(visited, r.Entry.SHA)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if left := log.Left(); left != nil || len(visited) != len(old.log) {
			t.Fatalf("graph %d: %d of %d executions are replayed, left are %v\n%s", seed, len(visited), len(old.log), left, describe(f))
		}
		if len(ready) != len(again.s.Running) {
			t.Fatalf("graph %d: %d executions are ready, %d run", seed, len(ready), len(again.s.Running))
		}
		if diff := cmp.Diff(place(old.s), place(again.s)); diff != "" {
			t.Fatalf("graph %d (-run +replayed):\n%s\n%s", seed, diff, describe(f))
		}
		for _, x := range ready {
			if slices.Contains(visited, again.s.ID(x)) {
				t.Fatalf("graph %d: %s is the id of two executions\n%s", seed, again.s.ID(x), describe(f))
			}
		}
	}
}

// TestReplayOfUnreachedExecutions replays a log with an execution that the run does not reach, and with one that is
// suspended.
func TestReplayOfUnreachedExecutions(t *testing.T) {
	f := scheduletest.Sketch("START>a a>b b>END")
	s, _ := suspended(f, "a", 1)
	log := NewLog([]contract.ExecutionRecord{{Execution: contract.Execution{Node: "a", Step: 1, Taken: []string{"e1"}}}, {Execution: contract.Execution{Node: "b", Step: 9}}})
	s.Suspended[0].Suspended = &contract.SuspendedExecution{}
	ready, err := s.Ready(log, func(*Replayed) error { return nil })
	if err != nil || len(ready) != 1 || len(log.Left()) != 2 {
		t.Fatalf("%d are ready, %d left, %v", len(ready), len(log.Left()), err)
	}
	if err := s.Leave(ready[0], 1, s.g.Out(0), contract.View{}); err != nil {
		t.Fatal(err)
	}
	ready, err = s.Ready(log, func(*Replayed) error { return nil })
	if got := s.IDs(ready); err != nil || !slices.Equal(got, []string{"b#2"}) || len(log.Left()) != 2 {
		t.Fatalf("%v are ready, %d left, %v", got, len(log.Left()), err)
	}
}

// wide returns a flow with n branches that all lead to one deferred join.
func wide(n int) *plan.Flow {
	f := &plan.Flow{Limits: plan.DefaultLimits, Nodes: []plan.Node{{ID: "join", Deferred: true}}, Edges: []plan.Edge{{ID: "out", From: "join", To: plan.End}}}
	for i := range n {
		id := fmt.Sprintf("n%04d", i)
		f.Nodes = append(f.Nodes, plan.Node{ID: id})
		f.Edges = append(f.Edges, plan.Edge{ID: "in" + id, From: plan.Start, To: id}, plan.Edge{ID: "on" + id, From: id, To: "join"})
	}
	return f
}
