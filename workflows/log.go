package workflows

import (
	"encoding/json"
	"slices"
	"weft/activities/contract"
	"weft/workflows/schedule"
)

// executionLog holds what the finished executions of a run did.
type executionLog struct {
	run      *run
	finished []contract.Past
	// fork is what the run was begun with, nil for most; replay holds what is left to replay of it.
	fork   *contract.ForkedFrom
	replay *schedule.Log
}

// talkMark is how much a run has said before an execution.
type conversationMark struct{ messages, forks, spent int }

func (c *conversation) mark() conversationMark {
	m := conversationMark{forks: len(c.forks), spent: c.spent}
	if c.thread != nil {
		m.messages = len(c.thread.entries)
	}
	return m
}

// enterPast keeps what an execution did. Where it went on in its middle, what it had said
// before is the run's before this one.
func (l *executionLog) add(x *execution, done *contract.Execution, sha string, before conversationMark) {
	p := contract.Past{Execution: *done, Lineage: x.lineage, SHA: sha}
	p.Nth = x.occurrence
	for i := range x.view.State {
		if x.view.State[i].By.Exec == x.id {
			p.Writes = append(p.Writes, x.view.State[i])
		}
	}
	t := contract.Talk{Spent: l.run.conversation.spent - before.spent}
	if l.run.conversation.thread != nil {
		t.Messages = carriedMessages(l.run.conversation.thread.entries[before.messages:])
	}
	if len(l.run.conversation.forks) > before.forks {
		t.Forks = slices.Clone(l.run.conversation.forks[before.forks:])
	}
	if t.Messages != nil || t.Forks != nil || t.Spent != 0 {
		p.Talk = &t
	}
	l.finished = append(l.finished, p)
}

// pastPage answers the query past.
func (l *executionLog) page(q contract.PastQuery) (contract.PastPage, error) {
	past := l.finished
	if q.From < 0 || q.From > len(past) {
		return contract.PastPage{}, notFound("execution %d; it has %d", q.From, len(past))
	}
	page := contract.PastPage{Executions: []contract.Past{}}
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
