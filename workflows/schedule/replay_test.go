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

// recording runs a flow on the scheduler, with a random duration of each execution, and logs completed executions. Every node
// writes a key of its own and one that all nodes write.
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

// start follows the edges from START.
func (r *recording) start(t *testing.T) {
	taken, _ := r.taken(r.s.g.Starts, 0)
	if err := r.s.Arrive(taken, 1, "", contract.View{}); err != nil {
		t.Fatal(err)
	}
}

// run completes n executions.
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

// liveViews returns a scheduler's live executions and their views.
func liveViews(s *Scheduler) map[string]string {
	out := map[string]string{}
	for _, list := range [][]*Execution{s.Running, s.Waiting, s.Joins} {
		for _, x := range list {
			in := slices.Clone(x.Arrivals)
			slices.SortFunc(in, byEdge) // as when the execution is ready
			v, _ := Join(in)
			text := ""
			for _, e := range v.State {
				text += e.Key + "=" + e.SHA + " "
			}
			for _, o := range v.Outputs {
				text += o.Node + ">" + o.SHA + " "
			}
			out[fmt.Sprintf("%s#%d %s", s.g.flow.Nodes[x.Node].ID, x.Step, x.Lineage)] = text
		}
	}
	return out
}

// TestReplay interrupts runs of random flows at random points, and checks that a new scheduler that replays their logs has the
// same state.
func TestReplay(t *testing.T) {
	for seed := range int64(300) {
		rng := rand.New(rand.NewSource(seed))
		f := random(rng)
		old := recording{s: New(NewGraph(f)), answer: answersOf(seed)}
		old.start(t)
		old.run(t, 1+rng.Intn(12), rng)

		replayed := recording{s: New(NewGraph(f)), answer: old.answer}
		replayed.start(t)
		log := NewLog(old.log)
		var visited []string
		ready, err := replayed.s.Ready(log, func(r *Replayed) error {
			visited = append(visited, r.Entry.SHA)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if left := log.Left(); left != nil || len(visited) != len(old.log) {
			t.Fatalf("graph %d: %d of %d executions replayed, left in the log: %v\n%s", seed, len(visited), len(old.log), left, describe(f))
		}
		if len(ready) != len(replayed.s.Running) {
			t.Fatalf("graph %d: %d executions ready, %d running", seed, len(ready), len(replayed.s.Running))
		}
		if diff := cmp.Diff(liveViews(old.s), liveViews(replayed.s)); diff != "" {
			t.Fatalf("graph %d (-run +replayed):\n%s\n%s", seed, diff, describe(f))
		}
		for _, x := range ready {
			if slices.Contains(visited, replayed.s.ID(x)) {
				t.Fatalf("graph %d: two executions with the id %s\n%s", seed, replayed.s.ID(x), describe(f))
			}
		}
	}
}

// TestReplayUnreachedExecutions checks a log with an execution that the run does not reach, and with one that is suspended:
// both remain in the log.
func TestReplayUnreachedExecutions(t *testing.T) {
	f := scheduletest.Sketch("START>a a>b b>END")
	s, _ := suspended(f, "a", 1)
	log := NewLog([]contract.ExecutionRecord{{Execution: contract.Execution{Node: "a", Step: 1, Taken: []string{"e1"}}}, {Execution: contract.Execution{Node: "b", Step: 9}}})
	s.Suspended[0].Suspended = &contract.SuspendedExecution{}
	ready, err := s.Ready(log, func(*Replayed) error { return nil })
	if err != nil || len(ready) != 1 || len(log.Left()) != 2 {
		t.Fatalf("%d executions ready, %d left in the log, %v", len(ready), len(log.Left()), err)
	}
	if err := s.Leave(ready[0], 1, s.g.Out(0), contract.View{}); err != nil {
		t.Fatal(err)
	}
	ready, err = s.Ready(log, func(*Replayed) error { return nil })
	if got := s.IDs(ready); err != nil || !slices.Equal(got, []string{"b#2"}) || len(log.Left()) != 2 {
		t.Fatalf("executions %v ready, %d left in the log, %v", got, len(log.Left()), err)
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
