package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weft/specadapter/inputs"
	"weft/workflows/plan"
)

// begin makes of a flow and what the run is given what is sent: a flow that declares inputs
// is held to them before anything is started.
func (a *app) begin(ctx context.Context, f *plan.Flow, text string) (*plan.Flow, string, error) {
	if f.Inputs == nil {
		return f, text, nil
	}
	out, made, err := inputs.Start(ctx, f, inputs.Values{Params: inputs.FromText(text)})
	var invalid *inputs.Invalid
	if errors.As(err, &invalid) {
		return nil, "", a.refuse(invalid)
	}
	if err != nil {
		return nil, "", badInput{err.Error()}
	}
	return out, made, nil
}

// refuse tells what is wrong with parameters: for programs as the body that clients of the
// dialect's framework know.
func (a *app) refuse(e *inputs.Invalid) error {
	if a.flags.asJSON() {
		a.object(e)
	}
	lines := []string{fmt.Sprintf("what the run is given does not match the parameters_schema of %q; -input is the prompt", e.AgentName)}
	for _, p := range e.Errors {
		lines = append(lines, "  "+p.Path+": "+p.Message)
	}
	return badInput{strings.Join(lines, "\n")}
}
