package workflows

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// programGrace is how long, in seconds, a program may take to end beyond its own limit.
const programGrace = 60

// program runs a node of kind program. What it printed is the node's output; where it ends with
// another code than 0, the failure has it.
func (r *run) program(ctx workflow.Context, x *execution) (outcome, error) {
	p := x.node.Program
	in := contract.ProgramInput{Program: *p}
	name := p.Script
	if name == "" {
		name = p.Words[0]
	}
	var out contract.ProgramResult
	id := x.id + "/program"
	err := r.runStep(ctx, x.journal, id, "", &out, func(*journalStep) error {
		return r.invoke(ctx, &call{activity: contract.ActivityRunProgram, args: []any{&in}, what: "the program of node " + x.node.ID, at: x,
			id: id, summary: x.node.ID + " · " + name, options: r.options(p.Seconds + programGrace), out: &out})
	})
	if err != nil {
		return outcome{}, err
	}
	data := programData(&out)
	if out.Code != 0 {
		f := r.fail(x, contract.ClassProgramFailed, "look at what it wrote; fix the program or the parameters", "the program %s ended with the code %d", name, out.Code)
		if out.Late {
			f.Text += ": it was ended after " + fmt.Sprintf("%d seconds", p.Seconds)
		}
		f.Data = data
		return outcome{}, f
	}
	ref, err := r.store.write(r.store.open(x.id), &contract.Message{Role: contract.RoleAssistant, Text: string(data)})
	return outcome{ref: ref, data: data, text: string(data)}, err
}

// programData is a program's result in the words of the blueprint dialect's framework.
func programData(out *contract.ProgramResult) json.RawMessage {
	if len(out.Data) > 0 {
		return out.Data
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(struct {
		Code   int    `json:"return_code"`
		Stdout string `json:"stdout"`
		Stderr string `json:"stderr"`
	}{out.Code, out.Stdout, out.Stderr})
	if err != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimSpace(b.Bytes())
}
