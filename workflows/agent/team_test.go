package agent

import (
	"slices"
	"testing"

	"weft/activities/contract"
	"weft/workflows/workflowtest"

	"weft/workflows/runtime"

	"go.temporal.io/sdk/workflow"
)

// TestSideConversationsOfMembers lets an agent that was asked stop behind a boundary of its own, and looks at
// which side conversations go with it: those that have grown since it was asked, but none that is in use, or
// in whose middle somebody stopped.
func TestSideConversationsOfMembers(t *testing.T) {
	workflowtest.Run(t, func(ctx workflow.Context) {
		r := runtime.New(ctx)
		side := func(name string, n int) *sideConversation {
			return &sideConversation{state: contract.SideConversation{Name: name, Questions: n}, thread: talked(r.Transcript, name)}
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
			t.Fatalf("%v go with it, want grown alone", names)
		}
		again := &team{conversations: []*sideConversation{{state: contract.SideConversation{Name: "old", Questions: 1}}}}
		again.catchUp(runtime.New(ctx), []contract.SideConversation{tm.grown(before)[0], {Name: "old", Questions: 1, Active: "other"}})
		if l := again.conversation("grown"); l.state.Questions != 2 || l.thread == nil || len(l.thread.Entries) != 2 {
			t.Errorf("the conversation that has grown is %+v", l)
		}
		if l := again.conversation("old"); l.state.Active != "" {
			t.Errorf("a conversation that has not grown is taken over: %+v", l)
		}
	})
}
