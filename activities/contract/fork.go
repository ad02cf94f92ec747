package contract

import (
	"encoding/json"
	"fmt"
)

// QueryExecutions takes an [ExecutionsQuery] and returns an [ExecutionsPage] with the records of the run's executions,
// from which another run can be forked. Runs of type Flow and Branch answer it.
const QueryExecutions = "executions"

// ExecutionsQuery asks for the executions from an index on, starting at 0.
type ExecutionsQuery struct {
	From int `json:"from,omitempty"`
}

// ExecutionsPage is the result of the query executions. Further executions start at Next; 0 means that there are none.
type ExecutionsPage struct {
	Executions []ExecutionRecord `json:"executions"`
	Next       int               `json:"next,omitempty"`
}

// ExecutionRecord is the complete record of one execution: a run that has it need not run the node.
type ExecutionRecord struct {
	Execution
	Lineage string `json:"lineage,omitempty"`
	// SHA is the hash of the message with the node's output.
	SHA string `json:"sha256"`
	// Writes are the state entries that it wrote.
	Writes []StateEntry `json:"writes,omitempty"`
	// Conversation is what it added to the conversation shared by all nodes.
	Conversation *Conversation `json:"conversation,omitempty"`
}

// ForkedFrom starts a run in the middle of another: the recorded Executions are not run again. From is the other run;
// Node and Step identify the first execution to run.
type ForkedFrom struct {
	From Run    `json:"from"`
	Node string `json:"node"`
	Step int    `json:"step"`
	// Entry is the outcome of START.
	Entry      Execution         `json:"entry"`
	Executions []ExecutionRecord `json:"executions,omitempty"`
	// Replaced are the executions, node#step, whose recorded results were overridden.
	Replaced []string `json:"replaced,omitempty"`
	// Content holds the stored bytes that Executions refers to.
	Content []json.RawMessage `json:"content,omitempty"`
	// Set overrides values of the state for the first execution.
	Set map[string]json.RawMessage `json:"set,omitempty"`
}

// check rejects a fork without a starting execution, or with missing content.
func (f *ForkedFrom) check() error {
	if f == nil {
		return nil
	}
	if f.Node == "" || f.Step < 1 {
		return fmt.Errorf("fork.node is %q and fork.step is %d; set them to the execution to start with", f.Node, f.Step)
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
				return fmt.Errorf("fork.executions[%d], %s#%d, refers to content %.12s, which fork.content does not contain", i, p.Node, p.Step, sha)
			}
		}
	}
	return nil
}
