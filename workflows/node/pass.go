package node

import (
	"regexp"
	"slices"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/collection"
	"weft/workflows/plan/value"
	"weft/workflows/runtime"
	"weft/workflows/values"
)

// pass runs a node of kind pass: what it takes is what it leaves, unless it makes a text or matches of it.
func pass(_ workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	in, err := values.Given(r, x)
	if err != nil {
		return runtime.Outcome{}, err
	}
	p := x.Node.Pass
	switch {
	case p.Store != nil:
		if in, err = stored(p.Store, in); err != nil {
			return runtime.Outcome{}, r.Fail(x, contract.ClassToolErrors, "look at what the node was given, and at datastore_schema", "the datastore %q: %v", p.Store.Name, err)
		}
	case p.Text != nil:
		in = values.Object(x.Node.Ports.Out[0].Name, value.Of(value.FillIn(*p.Text, in)))
	case p.Match != nil:
		found, ok, err := matches(p.Match, in.Members[0].Value.Spaced())
		if err != nil {
			return runtime.Outcome{}, r.Fail(x, contract.ClassInvalidValue, "correct the expression", "%v", err)
		}
		if in = (value.Value{Kind: value.Object}); ok {
			in = values.Object(x.Node.Ports.Out[0].Name, found)
		}
	}
	return runtime.Outcome{Value: &in}, nil
}

// stored makes an operation on collections of the run. It returns what the operation gives, and the collections and the list of
// changes as they are then.
func stored(conn *plan.Connection, in value.Value) (out value.Value, err error) {
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

// matches returns what m finds in a text; ok is false where one match is wanted and there is none.
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

// branch runs a node of kind branch: the text of its value says by which branch it leaves.
func branch(_ workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	in, err := values.Given(r, x)
	if err != nil {
		return runtime.Outcome{}, err
	}
	b := x.Node.Branch
	text := in.Members[0].Value.Spaced()
	out := runtime.Outcome{Value: &value.Value{Kind: value.Object}, Branch: b.Default}
	for _, c := range b.Cases {
		if c.Text == text {
			out.Branch = c.Branch
			break
		}
	}
	return out, nil
}

// say runs a node of kind say: its text goes into the flow's conversation.
func say(ctx workflow.Context, r *runtime.Run, x *runtime.Execution) (runtime.Outcome, error) {
	in, err := values.Given(r, x)
	if err != nil {
		return runtime.Outcome{}, err
	}
	text := value.FillIn(x.Node.Say.Text, in)
	ref, err := r.Transcript.Write(r.Conversation.Open(), &contract.Message{Role: contract.RoleAssistant, Text: text})
	if err != nil {
		return runtime.Outcome{}, err
	}
	return runtime.Outcome{Ref: ref, Text: text}, r.Publish(ctx, r.Conversation.Open(), x)
}
