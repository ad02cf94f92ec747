package agent

import (
	"slices"
	"testing"

	"weft/activities/contract"
	"weft/workflows/workflowtest"

	"weft/workflows/runtime"

	"go.temporal.io/sdk/workflow"
)

// TestSideConversationsOfMembers checks which side conversations are in the snapshot of a suspended agent
// that another one had asked: those with new questions since then, except any that is in use or suspended.
func TestSideConversationsOfMembers(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := runtime.New(ctx)
		side := func(name string, n int) *sideConversation {
			return &sideConversation{state: contract.SideConversation{Name: name, Questions: n}, thread: sentThread(r.Transcript, name)}
		}
		old, grown, own, stopped := side("old", 1), side("grown", 1), side("own", 1), side("stopped", 2)
		tm := &team{conversations: []*sideConversation{old, grown, own, stopped}}
		before := tm.questions()
		grown.state.Questions, own.state.Questions, stopped.state.Questions = 2, 2, 3
		own.askedBy, stopped.yielded = &agentRun{}, true
		var names []string
		for _, m := range tm.grown(before) {
			names = append(names, m.Name)
		}
		if !slices.Equal(names, []string{"grown"}) {
			t.Fatalf("snapshot has %v, want only grown", names)
		}
		again := &team{conversations: []*sideConversation{{state: contract.SideConversation{Name: "old", Questions: 1}}}}
		again.catchUp(runtime.New(ctx), []contract.SideConversation{tm.grown(before)[0], {Name: "old", Questions: 1, Active: "other"}})
		if l := again.conversation("grown"); l.state.Questions != 2 || l.thread == nil || len(l.thread.Entries) != 2 {
			t.Errorf("conversation with new questions = %+v", l)
		}
		if l := again.conversation("old"); l.state.Active != "" {
			t.Errorf("conversation without new questions was replaced: %+v", l)
		}
	})
}
