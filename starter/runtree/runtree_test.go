package runtree

import (
	"testing"

	"weft/activities/contract"
	"weft/starter/history/historytest"
)

// TestUsage checks that usage includes model calls that condense a value or summarise a conversation.
func TestUsage(t *testing.T) {
	usage := contract.Usage{Calls: 1, Input: 12, Output: 3}
	h := historytest.New(t)
	h.Begin("", contract.RunInput{})
	h.Call("a#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "hello"))
	h.Call("a#1/condense/1", contract.ActivityCondenseValue, contract.CondenseInput{}, contract.CondenseResult{Usage: usage})
	h.Call("a#1/summary/1", contract.ActivitySummariseConversation, contract.SummariseInput{}, contract.SummariseResult{Usage: usage})
	tree, err := Read(t.Context(), historytest.Source(map[string]*historytest.History{"r": h}), "root", "r")
	if err != nil {
		t.Fatal(err)
	}
	root := tree.Workflows[0]
	if u := root.Usage; u.Calls != 3 || u.Input != 36 || u.Output != 9 {
		t.Errorf("usage of the run = %+v, want that of three calls", u)
	}
	if u := root.Costs[0].Usage; u.Calls != 3 || u.Input != 36 {
		t.Errorf("usage of the execution = %+v, want that of three calls", u)
	}
}
