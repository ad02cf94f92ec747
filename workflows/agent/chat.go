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

// withValues returns an agent whose prompts have their placeholders replaced by values.
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

// speaksFirst reports whether the agent begins with a message of its own: not if the last message of its conversation is a user's, nor
// if the user has to begin. A remote agent receives the user's last message, whoever has written since.
func (a *agentRun) speaksFirst() (bool, error) {
	if a.execution.Node.Ports == nil || a.cfg.Conversation != plan.ConversationFlow {
		return true, nil
	}
	others := false
	for _, e := range slices.Backward(a.thread.Entries) {
		m, err := contract.DecodeMessage(e.Raw)
		switch {
		case err == nil && m.Aside && !others:
			continue
		case err != nil || m.Role == contract.RoleUser:
			return false, err
		case a.cfg.Remote == nil:
			return true, nil
		}
		others = true
	}
	return others || a.cfg.Chat == nil || a.cfg.Chat.First == "", nil
}

// askUser asks the user for a message when it is their turn: at the beginning of a conversation, and after an answer in text.
func (a *agentRun) askUser(ctx workflow.Context) error {
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
		return a.run.Fail(a.execution, contract.ClassNoAnswer, "start the run again", "no answer")
	}
	// The budget of tool calls is per message of the user.
	a.state.Left, a.state.Exhausted = a.cfg.MaxCalls, false
	a.appendUser(reply.Message.Text)
	return nil
}

// checkPorts validates the arguments of a finish tool against the node's output ports.
func checkPorts(a *agentRun, v value.Value) error {
	if v.Kind != value.Object {
		return fmt.Errorf("the arguments are %s, expected an object", v.Kind)
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

// openThread opens the thread to which the agent writes.
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
