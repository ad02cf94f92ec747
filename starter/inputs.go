package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weft/specadapter/inputs"
	"weft/workflows/plan"
)

// held holds what a run is given to the inputs that its flow declares, before anything is
// started. The run does the same: other clients start runs too.
func (a *app) held(ctx context.Context, f *plan.Flow, g *given) error {
	if f.Inputs == nil && len(g.scope) > 0 {
		return bad("-scope: flows of the dialect %s have no placeholders", f.Dialect)
	}
	if f.Inputs == nil {
		return nil
	}
	var v inputs.Values
	err := v.Read(f.Inputs, g.params, g.scope, g.text)
	if err == nil {
		_, _, err = inputs.Start(ctx, f, v)
	}
	var invalid *inputs.Invalid
	if errors.As(err, &invalid) {
		return a.refuse(invalid)
	}
	var missing *inputs.MissingConfig
	if errors.As(err, &missing) && a.flags.asJSON() {
		a.object(missing)
	}
	if err != nil {
		return badInput{err.Error()}
	}
	return nil
}

// refuse tells what is wrong with parameters: for programs as the body that clients of the
// dialect's framework know.
func (a *app) refuse(e *inputs.Invalid) error {
	if a.flags.asJSON() {
		a.object(e)
	}
	lines := []string{fmt.Sprintf("what the run is given does not match the parameters_schema of %q; -param KEY=TEXT gives one, -input the prompt", e.AgentName)}
	if e.Named {
		lines[0] = fmt.Sprintf("what the run is given does not match the inputs of %q; -param KEY=TEXT or KEY:=JSON gives one", e.AgentName)
	}
	for _, p := range e.Errors {
		lines = append(lines, "  "+p.Path+": "+p.Message)
	}
	return badInput{strings.Join(lines, "\n")}
}
