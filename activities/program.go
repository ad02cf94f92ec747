package activities

import (
	"context"

	"weft/activities/contract"
)

// Program runs a program of a folder that the worker's operator trusts. A code other than 0 is a
// result; errors are programs that may not be run, or that print too much.
func (a *Activities) Program(ctx context.Context, in contract.ProgramInput) (*contract.ProgramResult, error) {
	_, stop := a.beat(ctx)
	defer stop()
	out, err := a.deps.Tools.Run(ctx, &in.Program, key(ctx))
	if err == nil {
		a.veilProgram(out)
		err = a.bounded("what the program printed", out)
	}
	return out, a.leave(ctx, err)
}
