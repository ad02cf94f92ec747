package dialects

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"weft/activities/contract"
	"weft/starter/history"
	"weft/starter/transcript"
	"weft/tests/harness"
	"weft/worker/rehearse"
	"weft/workflows/plan"
)

// formRead holds what the commands read from the history of a run.
type formRead struct {
	Result      string
	Usage       contract.Usage
	Places      []string
	Transcripts []transcript.Thread
	Calls       []rehearse.Call
}

// TestEndToEndForms checks that commands read the same from a run whose branches and map elements run in the parent workflow and
// from one whose branches are child workflows.
func TestEndToEndForms(t *testing.T) {
	t.Parallel()
	for _, f := range yieldExamples(t) {
		if !slices.ContainsFunc(append(slices.Clip(f.in.Flow.Plan.Agents), *f.in.Flow.Plan), hasBranches) || len(f.messages)+len(f.prompts) > 0 || f.callbacks {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			var read []formRead
			for _, policy := range []string{"", plan.BranchesAsChildren} {
				in := f.in
				own := *in.Flow.Plan
				own.Agents = slices.Clone(own.Agents)
				own.Policy.Branches = policy
				for i := range own.Agents {
					own.Agents[i].Policy.Branches = policy
				}
				in.Flow.Plan = &own
				read = append(read, readForm(t, f.worker, in))
			}
			if diff := gocmp.Diff(read[1], read[0], cmpopts.IgnoreUnexported(transcript.Thread{})); diff != "" {
				t.Errorf("branches in the parent workflow differ (-as children +in the parent):\n%s", diff)
			}
		})
	}
}

// hasBranches reports whether a flow has concurrent branches or a map.
func hasBranches(f plan.Flow) bool {
	return slices.ContainsFunc(f.Nodes, func(n plan.Node) bool { return n.Deferred || n.Call != nil && n.Call.Map })
}

func readForm(t *testing.T, w *harness.Worker, in contract.RunInput) formRead {
	t.Helper()
	run := w.Start(t, in)
	out, err := harness.Result(t, run)
	if err != nil {
		t.Fatal(err)
	}
	from := history.From(w.Client)
	read, err := transcript.Read(t.Context(), from, run.GetID(), run.GetRunID())
	if err != nil {
		t.Fatal(err)
	}
	rec := w.PlayRecording(t, run.GetID(), run.GetRunID())
	got := formRead{Result: string(out.ResultData), Usage: read.Tree.Usage(), Transcripts: read.Threads(), Calls: rec.Calls}
	for _, v := range read.Workflows {
		for _, exec := range slices.Compact(slices.Sorted(slices.Values(v.Called))) {
			got.Places = append(got.Places, v.Place+exec)
		}
	}
	return got.sorted()
}

// sorted returns the reading in a fixed order: the order in which concurrent calls end varies.
func (r formRead) sorted() formRead {
	slices.Sort(r.Places)
	r.Places = slices.Compact(r.Places)
	for i := range r.Calls {
		r.Calls[i].Line = 0
	}
	slices.SortFunc(r.Transcripts, func(a, b transcript.Thread) int { return cmp.Compare(a.Thread, b.Thread) })
	slices.SortFunc(r.Calls, func(a, b rehearse.Call) int { return cmp.Compare(a.At, b.At) })
	return r
}
