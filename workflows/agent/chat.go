package agent

import (
	"cmp"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// withValues is an agent with values in its texts.
func withValues(a *plan.Agent, in value.Value) *plan.Agent {
	own := *a
	own.System = value.FillIn(own.System, in)
	own.Opening = nil
	for _, p := range a.Opening {
		if p.From == "" {
			p.Text = value.FillIn(p.Text, in)
		}
		own.Opening = append(own.Opening, p)
	}
	return &own
}

// speaks reports whether the agent begins with a message of its own: not where a person spoke last in its conversation, nor where
// one is to speak first. An agent that runs elsewhere is told what a person said last, whoever spoke since.
func (a *agentRun) speaks() (bool, error) {
	if a.execution.Node.Ports == nil || a.cfg.Conversation != plan.ConversationFlow {
		return true, nil
	}
	before := false
	for _, e := range slices.Backward(a.thread.Entries) {
		m, err := contract.DecodeMessage(e.Raw)
		switch {
		case err == nil && m.Aside && !before:
			continue
		case err != nil || m.Role == contract.RoleUser:
			return false, err
		case a.cfg.Remote == nil:
			return true, nil
		}
		before = true
	}
	return before || a.cfg.Chat == nil || a.cfg.Chat.First == "", nil
}

// askPerson asks a person where it is their turn: at the beginning of a conversation, and after an answer in words.
func (a *agentRun) askPerson(ctx workflow.Context) error {
	if a.cfg.Chat == nil || a.result != nil {
		return nil
	}
	text := a.cfg.Chat.First
	for i, e := range slices.Backward(a.thread.Entries) {
		last, err := contract.DecodeMessage(e.Raw)
		switch {
		case err != nil:
			return err
		case last.Aside:
			continue
		case i < a.state.StartLen || last.Role != contract.RoleAssistant || len(last.Calls) > 0:
			return nil
		}
		text = cmp.Or(last.Text, text)
		break
	}
	reply, err := a.run.Requests.Ask(ctx, a.execution, contract.Request{
		ID: fmt.Sprintf("%s/chat/%d", a.execution.ID, a.state.Turn), Kind: contract.RequestMessage, Text: text, Hash: contract.SHA([]byte(text)),
	})
	switch {
	case err != nil:
		return err
	case reply.Message == nil:
		return a.run.Fail(a.execution, contract.ClassNoAnswer, "start the run again", "nobody answered")
	}
	// What an agent may do is counted from one message of a person to the next.
	a.state.Left, a.state.Exhausted = a.cfg.MaxCalls, false
	a.tell(reply.Message.Text)
	return nil
}

// checkPorts refuses arguments of a finish tool that do not give what the node's ports declare.
func checkPorts(a *agentRun, v value.Value) error {
	if v.Kind != value.Object {
		return fmt.Errorf("the arguments are %s, want an object", v.Kind)
	}
	for _, o := range a.execution.Node.Ports.Out {
		m, ok := v.Get(o.Name)
		if !ok && len(o.Default) == 0 {
			return fmt.Errorf("%q is missing", o.Name)
		}
		if _, err := value.Cast(o.Type, m); ok && err != nil {
			return fmt.Errorf("%q: %w", o.Name, err)
		}
	}
	return nil
}

// openThread opens the thread that an agent writes to.
func (a *agentRun) openThread() {
	if a.cfg.Conversation == plan.ConversationFlow {
		a.thread = a.run.Conversation.Open()
	} else {
		a.thread = a.run.Transcript.Open(a.execution.ID)
	}
	if before := a.run.Conversation.Thread; a.cfg.Conversation == plan.ConversationFork && before != nil {
		for _, e := range before.Entries {
			a.thread.Add(e)
		}
	}
	a.state.StartLen = len(a.thread.Entries)
}
