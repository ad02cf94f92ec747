package contract

import (
	"encoding/json"
	"fmt"
)

// QueryExecutions takes a [ExecutionsQuery] and returns a [ExecutionsPage]: what the run's executions did, so that
// another run can go on from the middle of it. Every run of either workflow type answers it.
const QueryExecutions = "executions"

// ExecutionsQuery asks for the executions from a number on, the first is 0.
type ExecutionsQuery struct {
	From int `json:"from,omitempty"`
}

// ExecutionsPage is an answer to the query executions. More executions come from Next on; 0: there are
// none.
type ExecutionsPage struct {
	Executions []ExecutionRecord `json:"executions"`
	Next       int               `json:"next,omitempty"`
}

// ExecutionRecord is what one execution did, whole: a run that is given it needs not run the node.
type ExecutionRecord struct {
	Execution
	Lineage string `json:"lineage,omitempty"`
	// SHA names the message of the node's output.
	SHA string `json:"sha256"`
	// Writes are the state's keys that it wrote, as it left them.
	Writes []StateEntry `json:"writes,omitempty"`
	// Conversation is what it added to what all nodes share.
	Conversation *Conversation `json:"conversation,omitempty"`
}

// ForkedFrom makes a run go on from the middle of another: what Executions holds is not run again. From is
// the other run, Node and Step the execution that is the first to run anew.
type ForkedFrom struct {
	From Run    `json:"from"`
	Node string `json:"node"`
	Step int    `json:"step"`
	// Entry is what was decided at START.
	Entry      Execution         `json:"entry"`
	Executions []ExecutionRecord `json:"executions,omitempty"`
	// Replaced are those of Executions, node#step, whose results were given in place of recorded ones.
	Replaced []string `json:"replaced,omitempty"`
	// Content are the stored bytes that Executions names.
	Content []json.RawMessage `json:"content,omitempty"`
	// Set are values of the state that the first execution sees in place of the recorded ones.
	Set map[string]json.RawMessage `json:"set,omitempty"`
}

// check refuses a fork that names no place, or content that is not there.
func (f *ForkedFrom) check() error {
	if f == nil {
		return nil
	}
	if f.Node == "" || f.Step < 1 {
		return fmt.Errorf("fork.node is %q and fork.step %d, want the execution to begin with", f.Node, f.Step)
	}
	have := map[string]bool{}
	for _, raw := range f.Content {
		have[SHA(raw)] = true
	}
	for i, p := range f.Executions {
		names := []string{p.SHA}
		for _, w := range p.Writes {
			if w.SHA != "" {
				names = append(names, w.SHA)
			}
		}
		for _, sha := range names {
			if !have[sha] {
				return fmt.Errorf("fork.executions[%d], %s#%d, names content %.12s, which fork.content does not hold", i, p.Node, p.Step, sha)
			}
		}
	}
	return nil
}
