package node

import (
	"bytes"
	"encoding/json"
	"fmt"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/workflows/journal"
	"weft/workflows/runtime"
)

// programGrace is how long, in seconds, a program may take to end beyond its own limit.
const programGrace = 60

// program runs a node of kind program. What it printed is the node's output; where it ends with
// another code than 0, the failure has it.
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
		f := r.Fail(x, contract.ClassProgramFailed, "look at what it wrote; fix the program or the parameters", "the program %s ended with the code %d", name, out.Code)
		if out.Late {
			f.Text += ": it was ended after " + fmt.Sprintf("%d seconds", p.Seconds)
		}
		f.Data = data
		return runtime.Outcome{}, f
	}
	ref, err := r.Transcript.Write(r.Transcript.Open(x.ID), &contract.Message{Role: contract.RoleAssistant, Text: string(data)})
	return runtime.Outcome{Ref: ref, Data: data, Text: string(data)}, err
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
