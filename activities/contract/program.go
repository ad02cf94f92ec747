package contract

import (
	"encoding/json"

	"weft/workflows/plan"
)

// ActivityRunProgram runs a program: [ProgramInput], [ProgramResult].
const ActivityRunProgram = "RunProgram"

// ClassProgramFailed is that of a program which ended with another code than 0.
const ClassProgramFailed = "program_failed"

// ProgramInput asks for one run of a program.
type ProgramInput struct {
	CallKey
	Program plan.Program `json:"program"`
}

// ProgramResult is what a program left.
type ProgramResult struct {
	// Data is what it printed, where that is JSON; else Stdout and Stderr are its texts, without
	// white space around them.
	Data   json.RawMessage `json:"data,omitempty"`
	Stdout string          `json:"stdout,omitempty"`
	Stderr string          `json:"stderr,omitempty"`
	// Code is its exit code; Late means that it was ended at its limit, with the code 124.
	Code int  `json:"code"`
	Late bool `json:"late,omitempty"`
}
