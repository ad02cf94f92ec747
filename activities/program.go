package activities

import (
	"context"

	"weft/activities/contract"
)

// RunProgram runs a program of a trusted folder. A non-zero exit code is a result; a program that may not run, or
// prints too much, is an error.
func (a *Activities) RunProgram(ctx context.Context, in contract.ProgramInput) (*contract.ProgramResult, error) {
	defer a.heartbeat(ctx).stop()
	out, err := a.deps.Tools.Run(ctx, &in.Program, in.IdempotencyKey)
	if err == nil {
		a.maskProgram(out)
		err = a.checkSize("what the program printed", out)
	}
	return out, a.toActivityError(ctx, err)
}
