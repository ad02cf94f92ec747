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

// The agents of a node ask each other in conversations of their own, and hand over the one that they are in, all within the node's
// execution: an agent that is asked is an [agentRun] below the one that asks, and its answer is that one's tool result.

// team is what the agents of one execution share: the node's own agent, with its members, and the conversations in which they are asked.
type team struct {
	top   *agentRun
	lines []*line
}

// line is a conversation in which a member is asked.
type line struct {
	// state is the conversation as it travels, up to date but for its thread, of which it may lack the last messages.
	state  contract.SideConversation
	thread *transcript.Thread
	// by is the agent whose question is being answered; yielded is set where it stopped in its middle.
	by      *agentRun
	yielded bool
}

// who names the agent that speaks.
func (a *agentRun) who() string { return cmp.Or(a.state.Active, a.execution.Node.ID) }

// bulk is how many bytes the execution would carry.
func (a *agentRun) bulk() int {
	if a.team == nil {
		return a.thread.Bytes
	}
	n := a.team.top.thread.Bytes
	for _, l := range a.team.lines {
		if l.thread != nil {
			n += l.thread.Bytes
		}
	}
	return n
}

// line finds the conversation of a name.
func (t *team) line(name string) *line {
	i := slices.IndexFunc(t.lines, func(l *line) bool { return l.state.Name == name })
	if i < 0 {
		i, t.lines = len(t.lines), append(t.lines, &line{state: contract.SideConversation{Name: name}})
	}
	return t.lines[i]
}

// turned is what the arguments of the tools say by which an agent turns to another.
type turned struct {
	Recipient string `json:"recipient"`
	Message   string `json:"message"`
}

// to finds whom a call turns to.
func (c *toolCall) to(k *plan.Contacts) (*plan.Contact, turned, error) {
	var args turned
	err := json.Unmarshal([]byte(c.call.Arguments), &args)
	switch asks := k == c.agent.cfg.Ask; {
	case asks && (err != nil || strings.TrimSpace(args.Message) == ""):
		return nil, args, replies.Refuse(`%s wants {"recipient": "name", "message": "text"}`, k.Name)
	case err != nil:
		return nil, args, replies.Refuse(`%s wants {"recipient": "name"}`, k.Name)
	}
	var names []string
	for i := range k.To {
		if k.To[i].Name == args.Recipient {
			return &k.To[i], args, nil
		}
		names = append(names, k.To[i].Name)
	}
	return nil, args, replies.Refuse("there is no recipient %q; there are: %s", args.Recipient, strings.Join(names, ", "))
}

// ask has a member answer, or a flow in a run of its own that the question begins: with its outputs, or else with what was said in
// it last.
func (c *toolCall) ask(ctx workflow.Context) (contract.ToolReply, error) {
	to, args, err := c.to(c.agent.cfg.Ask)
	if err != nil {
		return contract.ToolReply{}, err
	}
	t := c.agent.team
	if to.Flow != "" {
		flow, err := bundled(c.agent, "flow", to.Flow)
		if err != nil {
			return contract.ToolReply{}, err
		}
		return c.child(ctx, args.Message, values.Wanted(flow.Plan, t.top.ports).JSON(), flow)
	}
	l := t.line(to.Thread)
	if l.state.Questions == 0 && l.state.Active == "" {
		l.state.Active = to.Member
	}
	reply, err := c.step(ctx, c.id("ask"), contract.HashOf(args.Recipient, args.Message), func(s *journal.Step) (contract.ToolReply, error) {
		return c.askMember(ctx, l, to, &args, s)
	})
	t.catchUp(c.agent.run, reply.Conversations)
	return reply, err
}

// askMember has a member answer in a conversation, or goes on where it stopped.
func (c *toolCall) askMember(ctx workflow.Context, l *line, to *plan.Contact, args *turned, s *journal.Step) (reply contract.ToolReply, err error) {
	if err := c.whenFree(ctx, l, to.Name); err != nil {
		return reply, err
	}
	before := c.agent.team.questions()
	l.by = c.agent
	sub := c.asked(l, to, args, s.Execution)
	out, err := sub.converse(ctx)
	l.by = nil
	if errors.Is(err, runtime.ErrYield) {
		l.yielded, sub.execution.State.Agent = true, sub.snapshot()
		if s.Execution, err = sub.execution.Suspend(); err != nil {
			return reply, err
		}
		return reply, runtime.ErrYield
	}
	if err != nil {
		// The next question begins anew: this conversation may have ended in the middle.
		l.thread, l.state = nil, contract.SideConversation{Name: l.state.Name, Questions: l.state.Questions, Active: to.Member}
		reply, err = failedBelow("the agent", err)
	} else {
		l.state.Active = cmp.Or(sub.state.Active, to.Member)
		reply, err = sub.reply(&out)
	}
	reply.Conversations = c.agent.team.grown(before)
	return reply, err
}

// whenFree waits until a conversation is free. Calls of one message take turns; whoever else is asked
// meanwhile cannot be waited for, because they may be waiting for this agent.
func (c *toolCall) whenFree(ctx workflow.Context, l *line, name string) error {
	a := c.agent
	if l.by != nil && l.by != a && !l.yielded {
		return replies.Refuse("%s is still at work on an earlier question of yours; go on without asking again", name)
	}
	err := wait.Until(ctx, func() bool {
		return l.by == nil || l.yielded || a.run.Policy.ShouldYield(ctx, a.execution.Journal.Weight())
	})
	if err == nil && (l.by != nil || l.yielded) {
		return runtime.ErrYield
	}
	return err
}

// asked is the execution of a member that is asked, or that goes on with what it stopped with.
func (c *toolCall) asked(l *line, to *plan.Contact, args *turned, rest *contract.SuspendedExecution) *agentRun {
	l.state.Questions++
	a, t := c.agent, c.agent.team
	m := t.top.execution.Node.Agent.MemberNamed(to.Member)
	id := fmt.Sprintf("%s:%s~%d", t.top.execution.ID, contract.EscapeID(l.state.Name), l.state.Questions)
	node := &plan.Node{ID: m.ID, Name: m.ID, Kind: plan.KindAgent, Agent: &m.Agent, Ports: &plan.Ports{Out: m.Out}}
	x := &runtime.Execution{Run: a.run, Node: node, ID: id, Step: a.execution.Step, Order: a.execution.Order, Strand: a.execution.Strand, View: a.execution.View,
		Suspended: rest, Journal: journal.Of(a.execution.Journal, rest)}
	sub := &agentRun{run: a.run, execution: x, sessions: a.sessions, cfg: &m.Agent, state: contract.AgentState{Left: m.Agent.MaxCalls},
		team: t, above: a, ports: t.top.ports, before: t.questions()}
	sub.speakAs(l.state.Active)
	if l.thread == nil {
		l.thread = a.run.Transcript.Open(id)
	}
	sub.thread = l.thread
	if rest != nil && rest.Agent != nil {
		sub.restore(rest.Agent)
		return sub
	}
	sub.state.StartLen = len(sub.thread.Entries)
	a.run.Transcript.Write(sub.thread, &contract.Message{Role: contract.RoleUser, Text: args.Message, From: a.who(), To: sub.who()})
	return sub
}

// speakAs makes an agent of the team the one that goes on with the conversation.
func (a *agentRun) speakAs(id string) {
	cfg := a.team.top.execution.Node.Agent
	if m := cfg.MemberNamed(id); m != nil {
		cfg = &m.Agent
	} else {
		id = ""
	}
	a.state.Active, a.cfg = id, withValues(cfg, a.team.top.ports)
}

// hand hands the agent's conversation over: once all calls of the message have their answers, the other agent goes on.
func (c *toolCall) hand() contract.ToolReply {
	a := c.agent
	to, _, err := c.to(a.cfg.Handoff)
	switch {
	case err != nil:
		return replies.Error("%s", err.Error())
	case a.next != "":
		return replies.Error("the conversation is handed over already")
	}
	a.next = cmp.Or(to.Member, a.team.top.execution.Node.ID)
	return contract.ToolReply{Text: "the conversation is handed to " + to.Name}
}

// reply is a member's answer to a question: its words, or the values that it ends with.
func (a *agentRun) reply(out *runtime.Outcome) (contract.ToolReply, error) {
	if out.Value == nil {
		return contract.ToolReply{Text: out.Text}, nil
	}
	all := value.Value{Kind: value.Object}
	for i := range a.execution.Node.Ports.Out {
		o := &a.execution.Node.Ports.Out[i]
		v, err := values.Leaving(a.run, a.execution, o, *out.Value)
		if err != nil {
			return contract.ToolReply{}, err
		}
		all.Members = append(all.Members, value.Member{Key: o.Name, Value: v})
	}
	return contract.ToolReply{Text: string(all.JSON())}, nil
}

// questions counts what was asked in each conversation.
func (t *team) questions() map[string]int {
	out := map[string]int{}
	for _, l := range t.lines {
		out[l.state.Name] = l.state.Questions
	}
	return out
}

// grown are the conversations in which more was asked than before, but those in use, or in whose middle
// somebody stopped: who is in one carries it.
func (t *team) grown(before map[string]int) []contract.SideConversation {
	var out []contract.SideConversation
	for _, l := range t.lines {
		if l.by != nil || l.yielded || l.state.Questions <= before[l.state.Name] {
			continue
		}
		if s, t := &l.state, l.thread; t != nil {
			s.Thread, s.Called, s.Sent = t.Name, t.Called.Len, t.CarriedSent()
			s.Messages = append(s.Messages, transcript.Carried(t.Entries[len(s.Messages):])...)
		}
		out = append(out, l.state)
	}
	return out
}

// catchUp takes over what another run asked in conversations.
func (t *team) catchUp(r *runtime.Run, list []contract.SideConversation) {
	for _, c := range list {
		l := t.line(c.Name)
		if l.by != nil || l.state.Questions >= c.Questions {
			continue
		}
		l.state, l.thread = c, nil
		if c.Thread != "" {
			l.thread = r.Transcript.Open(c.Thread)
			r.Transcript.Restore(l.thread, c.Messages, c.Called, c.Sent)
		}
	}
}

// Contacts are the tools by which an agent turns to others, for its call profile.
func Contacts(a *plan.Agent) []contract.ToolSpec {
	var out []contract.ToolSpec
	for _, k := range []*plan.Contacts{a.Ask, a.Handoff} {
		if k != nil {
			out = append(out, contract.ToolSpec{Name: k.Name, Description: k.Description, Schema: k.Schema})
		}
	}
	return slices.Clip(out)
}
