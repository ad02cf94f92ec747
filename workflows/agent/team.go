package agent

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
	"weft/workflows/replies"
	"weft/workflows/runtime"
	"weft/workflows/transcript"
	"weft/workflows/values"
	"weft/workflows/wait"
)

// The agents of a node ask each other in side conversations and hand over the conversation that they are in, all within the node's
// execution: an agent that is asked is an [agentRun] below the one that asks, and its answer is a tool result there.

// team is the state that the agents of one execution share: the node's own agent, with its members, and the side conversations.
type team struct {
	top           *agentRun
	conversations []*sideConversation
}

// sideConversation is a conversation in which a member is asked.
type sideConversation struct {
	// state is the conversation's state as saved; it may lack the last messages of its thread.
	state  contract.SideConversation
	thread *transcript.Thread
	// askedBy is the agent whose question is being answered; yielded is set if the answer was interrupted.
	askedBy *agentRun
	yielded bool
}

// who returns the id of the active agent.
func (a *agentRun) who() string { return cmp.Or(a.state.Active, a.execution.Node.ID) }

// threadBytes returns the number of bytes in the threads of the execution's snapshot.
func (a *agentRun) threadBytes() int {
	if a.team == nil {
		return a.thread.Bytes
	}
	n := a.team.top.thread.Bytes
	for _, conv := range a.team.conversations {
		if conv.thread != nil {
			n += conv.thread.Bytes
		}
	}
	return n
}

// conversation returns the side conversation with a name; it creates it if necessary.
func (t *team) conversation(name string) *sideConversation {
	i := slices.IndexFunc(t.conversations, func(conv *sideConversation) bool { return conv.state.Name == name })
	if i < 0 {
		i, t.conversations = len(t.conversations), append(t.conversations, &sideConversation{state: contract.SideConversation{Name: name}})
	}
	return t.conversations[i]
}

// contactArgs are the arguments of the tools by which an agent contacts another.
type contactArgs struct {
	Recipient string `json:"recipient"`
	Message   string `json:"message"`
}

// recipient returns the contact to whom a call is addressed.
func (c *toolCall) recipient(k *plan.Contacts) (*plan.Contact, contactArgs, error) {
	var args contactArgs
	err := json.Unmarshal([]byte(c.call.Arguments), &args)
	switch isQuestion := k == c.agent.cfg.Ask; {
	case isQuestion && (err != nil || strings.TrimSpace(args.Message) == ""):
		return nil, args, replies.Refuse(`%s expects {"recipient": "name", "message": "text"}`, k.Name)
	case err != nil:
		return nil, args, replies.Refuse(`%s expects {"recipient": "name"}`, k.Name)
	}
	var names []string
	for i := range k.To {
		if k.To[i].Name == args.Recipient {
			return &k.To[i], args, nil
		}
		names = append(names, k.To[i].Name)
	}
	return nil, args, replies.Refuse("unknown recipient %q; available recipients: %s", args.Recipient, strings.Join(names, ", "))
}

// ask has a member answer, or a flow in a child run that begins with the question: the answer is the flow's outputs or else its last
// message.
func (c *toolCall) ask(ctx workflow.Context) (contract.ToolReply, error) {
	to, args, err := c.recipient(c.agent.cfg.Ask)
	if err != nil {
		return contract.ToolReply{}, err
	}
	t := c.agent.team
	if to.Flow != "" {
		flow, err := bundledFlow(c.agent, "flow", to.Flow)
		if err != nil {
			return contract.ToolReply{}, err
		}
		return c.runChild(ctx, args.Message, values.SelectInputs(flow.Plan, t.top.ports).JSON(), flow)
	}
	conv := t.conversation(to.Thread)
	if conv.state.Questions == 0 && conv.state.Active == "" {
		conv.state.Active = to.Member
	}
	reply, err := c.step(ctx, c.id("ask"), contract.HashOf(args.Recipient, args.Message), func(s *journal.Step) (contract.ToolReply, error) {
		return c.askMember(ctx, conv, to, &args, s)
	})
	t.catchUp(c.agent.run, reply.Conversations)
	return reply, err
}

// askMember has a member answer in a side conversation, or continues an interrupted answer.
func (c *toolCall) askMember(ctx workflow.Context, conv *sideConversation, to *plan.Contact, args *contactArgs, s *journal.Step) (reply contract.ToolReply, err error) {
	if err := c.whenFree(ctx, conv, to.Name); err != nil {
		return reply, err
	}
	before := c.agent.team.questions()
	conv.askedBy = c.agent
	sub := c.memberRun(conv, to, args, s.Execution)
	out, err := sub.converse(ctx)
	conv.askedBy = nil
	if errors.Is(err, runtime.ErrYield) {
		conv.yielded, sub.execution.State.Agent = true, sub.snapshot()
		if s.Execution, err = sub.execution.Suspend(); err != nil {
			return reply, err
		}
		return reply, runtime.ErrYield
	}
	if err != nil {
		// The next question starts a new thread: this one may be incomplete.
		conv.thread, conv.state = nil, contract.SideConversation{Name: conv.state.Name, Questions: conv.state.Questions, Active: to.Member}
		reply, err = childFailure("the agent", err)
	} else {
		conv.state.Active = cmp.Or(sub.state.Active, to.Member)
		reply, err = sub.reply(&out)
	}
	reply.Conversations = c.agent.team.grown(before)
	return reply, err
}

// whenFree waits until a conversation is free. Calls of one message take turns; a question of another agent cannot be waited
// for, because it may in turn wait for this agent.
func (c *toolCall) whenFree(ctx workflow.Context, conv *sideConversation, name string) error {
	a := c.agent
	if conv.askedBy != nil && conv.askedBy != a && !conv.yielded {
		return replies.Refuse("%s is still working on an earlier question; continue without asking again", name)
	}
	err := wait.Until(ctx, func() bool {
		return conv.askedBy == nil || conv.yielded || a.run.Policy.ShouldYield(ctx, a.execution.Journal.Weight())
	})
	if err == nil && (conv.askedBy != nil || conv.yielded) {
		return runtime.ErrYield
	}
	return err
}

// memberRun returns the agentRun of a member that is asked, or that continues with its suspended execution.
func (c *toolCall) memberRun(conv *sideConversation, to *plan.Contact, args *contactArgs, suspended *contract.SuspendedExecution) *agentRun {
	conv.state.Questions++
	a, t := c.agent, c.agent.team
	m := t.top.execution.Node.Agent.MemberNamed(to.Member)
	id := fmt.Sprintf("%s:%s~%d", t.top.execution.ID, contract.EscapeID(conv.state.Name), conv.state.Questions)
	node := &plan.Node{ID: m.ID, Name: m.ID, Kind: plan.KindAgent, Agent: &m.Agent, Ports: &plan.Ports{Out: m.Out}}
	x := &runtime.Execution{Run: a.run, Node: node, ID: id, Step: a.execution.Step, Order: a.execution.Order, Strand: a.execution.Strand, View: a.execution.View,
		Suspended: suspended, Journal: journal.Resume(a.execution.Journal, suspended)}
	sub := &agentRun{run: a.run, execution: x, sessions: a.sessions, cfg: &m.Agent, state: contract.AgentState{Left: m.Agent.MaxCalls},
		team: t, asker: a, ports: t.top.ports, questionsBefore: t.questions()}
	sub.speakAs(conv.state.Active)
	if conv.thread == nil {
		conv.thread = a.run.Transcript.Open(id)
	}
	sub.thread = conv.thread
	if suspended != nil && suspended.Agent != nil {
		sub.restore(suspended.Agent)
		return sub
	}
	sub.state.StartLen = len(sub.thread.Entries)
	a.run.Transcript.Write(sub.thread, &contract.Message{Role: contract.RoleUser, Text: args.Message, From: a.who(), To: sub.who()})
	return sub
}

// speakAs makes an agent of the team the active one.
func (a *agentRun) speakAs(id string) {
	cfg := a.team.top.execution.Node.Agent
	if m := cfg.MemberNamed(id); m != nil {
		cfg = &m.Agent
	} else {
		id = ""
	}
	a.state.Active, a.cfg = id, withValues(cfg, a.team.top.ports)
}

// handOver hands the agent's conversation over: once all calls of the message have results, the other agent continues it.
func (c *toolCall) handOver() contract.ToolReply {
	a := c.agent
	to, _, err := c.recipient(a.cfg.Handoff)
	switch {
	case err != nil:
		return replies.Error("%s", err.Error())
	case a.handoffTo != "":
		return replies.Error("the conversation has already been handed over")
	}
	a.handoffTo = cmp.Or(to.Member, a.team.top.execution.Node.ID)
	return contract.ToolReply{Text: "the conversation is handed over to " + to.Name}
}

// reply returns a member's answer to a question: its text, or the values with which it ended.
func (a *agentRun) reply(out *runtime.Outcome) (contract.ToolReply, error) {
	if out.Value == nil {
		return contract.ToolReply{Text: out.Text}, nil
	}
	all := value.Value{Kind: value.Object}
	for i := range a.execution.Node.Ports.Out {
		o := &a.execution.Node.Ports.Out[i]
		v, err := values.PortOutput(a.run, a.execution, o, *out.Value)
		if err != nil {
			return contract.ToolReply{}, err
		}
		all.Members = append(all.Members, value.Member{Key: o.Name, Value: v})
	}
	return contract.ToolReply{Text: string(all.JSON())}, nil
}

// questions returns the number of questions in each conversation.
func (t *team) questions() map[string]int {
	out := map[string]int{}
	for _, conv := range t.conversations {
		out[conv.state.Name] = conv.state.Questions
	}
	return out
}

// grown returns the conversations with more questions than before, except those in use or interrupted, which
// the agent that answers in them saves.
func (t *team) grown(before map[string]int) []contract.SideConversation {
	var out []contract.SideConversation
	for _, conv := range t.conversations {
		if conv.askedBy != nil || conv.yielded || conv.state.Questions <= before[conv.state.Name] {
			continue
		}
		if s, t := &conv.state, conv.thread; t != nil {
			s.Thread, s.Called, s.Sent = t.Name, t.Called.Len, t.CarriedSent()
			s.Messages = append(s.Messages, transcript.ThreadMessages(t.Entries[len(s.Messages):])...)
		}
		out = append(out, conv.state)
	}
	return out
}

// catchUp applies the conversations of another run, if they have more questions.
func (t *team) catchUp(r *runtime.Run, list []contract.SideConversation) {
	for _, c := range list {
		conv := t.conversation(c.Name)
		if conv.askedBy != nil || conv.state.Questions >= c.Questions {
			continue
		}
		conv.state, conv.thread = c, nil
		if c.Thread != "" {
			conv.thread = r.Transcript.Open(c.Thread)
			r.Transcript.Restore(conv.thread, c.Messages, c.Called, c.Sent)
		}
	}
}

// Contacts returns the tools by which an agent contacts others, for its call profile.
func Contacts(a *plan.Agent) []contract.ToolSpec {
	var out []contract.ToolSpec
	for _, k := range []*plan.Contacts{a.Ask, a.Handoff} {
		if k != nil {
			out = append(out, contract.ToolSpec{Name: k.Name, Description: k.Description, Schema: k.Schema})
		}
	}
	return slices.Clip(out)
}
