package activities

import (
	"context"

	"weft/activities/contract"
)

// runProgram runs a program of a trusted folder. A non-zero exit code is a result; a program that may not run, or
// prints too much, is an error.
func (a *Activities) runProgram(ctx context.Context, in *contract.ProgramInput, _ *heartbeats) (*contract.ProgramResult, error) {
	out, err := a.deps.Tools.Run(ctx, &in.Program, in.IdempotencyKey)
	if err != nil {
		return nil, err
	}
	out.Stdout, out.Stderr, out.Data = a.deps.Mask.Text(out.Stdout), a.deps.Mask.Text(out.Stderr), a.deps.Mask.JSON(out.Data)
	return out, a.checkSize("what the program printed", out)
}
