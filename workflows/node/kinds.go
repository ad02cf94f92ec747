package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/textutil"
	"weft/workflows/journal"
	"weft/workflows/plan"
	"weft/workflows/plan/collection"
	"weft/workflows/plan/value"
	"weft/workflows/runtime"
	"weft/workflows/transcript"
	"weft/workflows/values"
)

// pass runs a node of kind pass: its output is its input, or a text, matches or the result of a datastore operation made from it.
func pass(_ workflow.Context, r *runtime.Run, x *runtime.Execution, in value.Value) (runtime.Outcome, error) {
	p := x.Node.Pass
	switch {
	case p.Store != nil:
		var err error
		if in, err = applyOperation(p.Store, in); err != nil {
			return runtime.Outcome{}, r.Fail(x, contract.ClassToolErrors, "check the node's inputs and datastore_schema", "the datastore %q: %v", p.Store.Name, err)
		}
	case p.Text != nil:
		in = value.ObjectOf(x.Node.Ports.Out[0].Name, value.Of(value.FillIn(*p.Text, in)))
	case p.Match != nil:
		found, ok, err := matches(p.Match, in.Members[0].Value.Spaced())
		if err != nil {
			return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "correct the expression", "%v", err)
		}
		if in = (value.Value{Kind: value.Object}); ok {
			in = value.ObjectOf(x.Node.Ports.Out[0].Name, found)
		}
	}
	return runtime.Outcome{Value: &in}, nil
}

// applyOperation performs an operation on collections of the run. It returns the operation's results together with the updated
// collections and list of changes.
func applyOperation(conn *plan.Connection, in value.Value) (out value.Value, err error) {
	stores, _ := in.Get(plan.StoresPort)
	changes, _ := in.Get(plan.ChangesPort)
	c, err := collection.Fill(conn, conn.Operations[0].Name, in)
	if err == nil {
		err = c.Complete()
	}
	if err != nil {
		return out, err
	}
	var objects []value.Value
	if c.Operation.Changes() {
		change := c.Change(conn)
		stores, objects = collection.Apply(stores, change)
		changes.Items = append(slices.Clip(changes.Items), change)
	} else {
		objects = c.Find(conn, stores)
	}
	if out, err = c.Results(objects); err != nil {
		return out, err
	}
	out.Members = append(out.Members, value.Member{Key: plan.StoresPort, Value: stores}, value.Member{Key: plan.ChangesPort, Value: changes})
	return out, nil
}

// matches returns the matches of m in a text, or one of them; ok is false if one match is expected and there is none.
func matches(m *plan.Match, text string) (found value.Value, ok bool, err error) {
	pattern, err := regexp.Compile(m.Pattern)
	if err != nil {
		return value.Value{}, false, err
	}
	all := value.Value{Kind: value.Array}
	for _, groups := range pattern.FindAllStringSubmatch(text, -1) {
		if len(groups) > 2 {
			list := value.Value{Kind: value.Array}
			for _, g := range groups[1:] {
				list.Items = append(list.Items, value.Of(g))
			}
			all.Items = append(all.Items, list)
		} else if s := groups[len(groups)-1]; s != "" {
			all.Items = append(all.Items, value.Of(s))
		}
	}
	switch {
	case m.Want == "all":
		return all, true, nil
	case len(all.Items) == 0:
		return value.Value{}, false, nil
	case m.Want == "last":
		return all.Items[len(all.Items)-1], true, nil
	}
	return all.Items[0], true, nil
}

// branch runs a node of kind branch: the text of its value selects the branch.
func branch(_ workflow.Context, _ *runtime.Run, x *runtime.Execution, in value.Value) (runtime.Outcome, error) {
	out := runtime.Outcome{Value: &value.Value{Kind: value.Object}, Branch: x.Node.Branch.Default}
	text := in.Members[0].Value.Spaced()
	if i := slices.IndexFunc(x.Node.Branch.Cases, func(c plan.Case) bool { return c.Text == text }); i >= 0 {
		out.Branch = x.Node.Branch.Cases[i].Branch
	}
	return out, nil
}

// say runs a node of kind say: it adds its text to the flow's conversation.
func say(ctx workflow.Context, r *runtime.Run, x *runtime.Execution, in value.Value) (runtime.Outcome, error) {
	text := value.FillIn(x.Node.Say.Text, in)
	ref := r.Transcript.Write(r.Conversation.Open(), &contract.Message{Role: contract.RoleAssistant, Text: text})
	return runtime.Outcome{Ref: ref, Text: text}, r.Publish(ctx, x, r.Conversation.Open())
}

// transform runs a node of kind transform: it selects a part of the incoming value.
func transform(_ workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	t := x.Node.Transform
	if t.Fail != "" {
		return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "correct the node", "%s", t.Fail)
	}
	v, err := values.ValueAt(r, x.View, contract.ValueKey)
	if err != nil {
		return runtime.Outcome{}, err
	}
	if t.Select != nil {
		if v, err = value.Selected(t.Select.Rules, t.Select.Path, v); err != nil {
			return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "correct the transformation, or the previous node's result", "%s", err.Error())
		}
	}
	return runtime.Outcome{Value: &v}, nil
}

// merge runs a node of kind merge: it combines the results of parallel nodes into one value.
func merge(_ workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	m := x.Node.Merge
	if m.Fail != "" {
		return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "correct the node", "%s", m.Fail)
	}
	if m.Pick != nil {
		return runPick(r, x)
	}
	all := value.Value{Kind: value.Array}
	for _, res := range m.Results {
		v, err := values.ValueAt(r, x.View, res.Key)
		if err != nil {
			return runtime.Outcome{}, err
		}
		all.Items = append(all.Items, value.Value{Kind: value.Object, Members: []value.Member{
			{Key: "name", Value: value.Of(res.Name)}, {Key: "output", Value: v}}})
	}
	r.Conversation.DropForks(m)
	return runtime.Outcome{Value: &all}, nil
}

// runPick returns the picked result if the merge's condition holds for it.
func runPick(r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	m := x.Node.Merge
	res := m.Results[*m.Pick]
	v, err := values.ValueAt(r, x.View, res.Key)
	if err != nil {
		return runtime.Outcome{}, err
	}
	if m.Compare != nil {
		operand := v
		switch m.Field {
		case "name":
			operand = value.Of(res.Name)
		case "input":
			if operand, err = values.ValueAt(r, x.View, m.Input); err != nil {
				return runtime.Outcome{}, err
			}
		}
		holds, part, err := values.Holds(m.Compare, operand)
		if err != nil {
			return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "correct the merge's condition, or the agents' results", "%s", err.Error())
		}
		if !holds {
			return runtime.Outcome{}, r.Fail(x, contract.ClassNoRoute, "correct the condition, or remove the merge to continue with all results",
				"Merge condition not satisfied: %s is false, because it is %s", strings.TrimSpace(m.Compare.Text), part.Brief())
		}
	}
	pickFork(&r.Conversation, res.Node, m)
	return runtime.Outcome{Value: &v}, nil
}

// pickFork continues with the messages and the spending of one of the nodes that a merge joins, and drops those of the others. A
// node that was suspended has left several forks.
func pickFork(c *transcript.Conversation, node string, m *plan.Merge) {
	for _, f := range c.Forks {
		switch {
		case f.Node == node:
			c.Add(f.Messages, false)
		case slices.ContainsFunc(m.Results, func(res plan.Result) bool { return res.Node == f.Node }):
			c.Spent -= f.Spent
		}
	}
	c.DropForks(m)
}

// ask runs a node of kind ask: it sends a request to the user; the answer is the node's output.
func ask(ctx workflow.Context, r *runtime.Run, x *runtime.Execution, in value.Value) (runtime.Outcome, error) {
	question := value.FillIn(x.Node.Ask.Text, in)
	var t *transcript.Thread
	if x.Node.Ports != nil {
		t = r.Conversation.Open()
	} else {
		t = r.Transcript.Open(x.ID)
	}
	before := len(t.Entries)
	if !x.Node.Ask.Silent {
		r.Transcript.Write(t, &contract.Message{Role: contract.RoleAssistant, Text: question})
	}
	reply, err := r.Requests.Ask(ctx, x, contract.Request{
		ID: x.ID + "/ask", Kind: contract.RequestMessage, Text: question,
		Hash: contract.SHA([]byte(question)), Timeout: x.Node.Ask.Timeout,
	})
	switch {
	case errors.Is(err, runtime.ErrYield):
		t.Cut(before) // the next run asks
		return runtime.Outcome{}, err
	case err != nil:
		return runtime.Outcome{}, err
	case reply.Message == nil:
		return runtime.Outcome{}, r.Fail(x, contract.ClassNoAnswer, "start the run again, or give the node a longer timeout",
			"no answer within %d seconds", x.Node.Ask.Timeout)
	}
	ref := r.Transcript.Write(t, &contract.Message{Role: contract.RoleUser, Text: reply.Message.Text})
	if x.Node.Ports != nil {
		err = r.Publish(ctx, x, t)
	}
	return runtime.Outcome{Ref: ref, Text: reply.Message.Text}, err
}

// programGrace is the time in seconds that the activity has to end after the program's own timeout.
const programGrace = 60

// program runs a node of kind program. The program's output is the node's output or, if its exit code is not 0, the data of the
// failure.
func program(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	p := x.Node.Program
	in := contract.ProgramInput{Program: *p}
	name := p.Script
	if name == "" {
		name = p.Argv[0]
	}
	var out contract.ProgramResult
	id := x.ID + "/program"
	err := r.RunStep(ctx, x.Journal, id, "", &out, func(*journal.Step) error {
		return r.Invoke(ctx, &runtime.Call{Activity: contract.ActivityRunProgram, Args: []any{&in}, What: "the program of node " + x.Node.ID, At: x,
			ID: id, Summary: x.Node.ID + " · " + name, Options: r.Options(p.Seconds + programGrace), Out: &out})
	})
	if err != nil {
		return runtime.Outcome{}, err
	}
	data := programData(&out)
	if out.Code != 0 {
		f := r.Fail(x, contract.ClassProgramFailed, "check its output; fix the program or the parameters", "the program %s exited with code %d", name, out.Code)
		if out.Late {
			f.Text += fmt.Sprintf(": it was stopped after %d seconds", p.Seconds)
		}
		f.Data = data
		return runtime.Outcome{}, f
	}
	ref := r.Transcript.Write(r.Transcript.Open(x.ID), &contract.Message{Role: contract.RoleAssistant, Text: string(data)})
	return runtime.Outcome{Ref: ref, Data: data, Text: string(data)}, nil
}

// programData returns a program's result as the blueprint dialect's framework encodes it.
func programData(out *contract.ProgramResult) json.RawMessage {
	if len(out.Data) > 0 {
		return out.Data
	}
	raw, _ := textutil.JSON(struct {
		Code   int    `json:"return_code"`
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr"`
	}{out.Code, out.Stdout, out.Stderr})
	return raw
}
