package runtree

import (
	"testing"

	"weft/activities/contract"
	"weft/starter/history/historytest"
)

// All calls of models count, those that condense a value or summarise a conversation too.
func TestUsageOfAllCalls(t *testing.T) {
	used := contract.Usage{Calls: 1, Input: 12, Output: 3}
	h := historytest.New(t)
	h.Begin("", contract.RunInput{})
	h.Call("a#1/model/1", contract.ActivityCallModel, contract.ModelInput{}, historytest.Answer(t, "hello"))
	h.Call("a#1/condense/1", contract.ActivityCondenseValue, contract.CondenseInput{}, contract.CondenseResult{Usage: used})
	h.Call("a#1/summary/1", contract.ActivitySummariseConversation, contract.SummariseInput{}, contract.SummariseResult{Usage: used})
	tree, err := Read(t.Context(), historytest.Source(map[string]*historytest.History{"r": h}), "root", "r")
	if err != nil {
		t.Fatal(err)
	}
	root := tree.Workflows[0]
	if u := root.Usage; u.Calls != 3 || u.Input != 36 || u.Output != 9 {
		t.Errorf("the run used %+v, want that of three calls", u)
	}
	if u := root.Costs[0].Usage; u.Calls != 3 || u.Input != 36 {
		t.Errorf("the execution used %+v, want that of three calls", u)
	}
}
