package runtime

import (
	"encoding/json"
	"slices"
	"weft/activities/contract"
	"weft/workflows/schedule"
)

// ExecutionLog holds what the finished executions of a run did.
type ExecutionLog struct {
	finished []contract.ExecutionRecord
	// Fork is what the run was begun with, nil for most; replay holds what is left to replay of it.
	Fork   *contract.ForkedFrom
	Replay *schedule.Log
}

// ConversationMark is how much a run has said before an execution.
type ConversationMark struct{ messages, forks, spent int }

// Mark is how much has been said so far.
func (c *Conversation) Mark() ConversationMark {
	m := ConversationMark{forks: len(c.Forks), spent: c.Spent}
	if c.Thread != nil {
		m.messages = len(c.Thread.Entries)
	}
	return m
}

// Add keeps what an execution did, and what it added to a conversation in this run.
func (l *ExecutionLog) Add(c *Conversation, x *Execution, done *contract.Execution, sha string, before ConversationMark) {
	p := contract.ExecutionRecord{Execution: *done, Lineage: x.Lineage, SHA: sha}
	p.Occurrence = x.Occurrence
	for i := range x.View.State {
		if x.View.State[i].By.Exec == x.ID {
			p.Writes = append(p.Writes, x.View.State[i])
		}
	}
	t := contract.Conversation{Spent: c.Spent - before.spent}
	if c.Thread != nil {
		t.Messages = CarriedMessages(c.Thread.Entries[before.messages:])
	}
	if len(c.Forks) > before.forks {
		t.Forks = slices.Clone(c.Forks[before.forks:])
	}
	if t.Messages != nil || t.Forks != nil || t.Spent != 0 {
		p.Conversation = &t
	}
	l.finished = append(l.finished, p)
}

// page answers the query past.
func (l *ExecutionLog) page(q contract.ExecutionsQuery) (contract.ExecutionsPage, error) {
	past := l.finished
	if q.From < 0 || q.From > len(past) {
		return contract.ExecutionsPage{}, notFound("execution %d; it has %d", q.From, len(past))
	}
	page := contract.ExecutionsPage{Executions: []contract.ExecutionRecord{}}
	size := 0
	for i := q.From; i < len(past); i++ {
		raw, err := json.Marshal(past[i])
		if err != nil {
			return page, err
		}
		if size += len(raw); size > contract.PageBytes && len(page.Executions) > 0 {
			page.Next = i
			break
		}
		page.Executions = append(page.Executions, past[i])
	}
	return page, nil
}
