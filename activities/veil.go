package activities

import (
	"slices"

	"weft/activities/contract"
	"weft/activities/llm"
)

// What comes from outside may repeat a secret that it was sent, or that another was. It loses them
// here, before anything is made of it: hashes are taken over what is left, so history, the cache
// and later calls all have the same.

// veil takes secrets out of a model's answer.
func (a *Activities) veil(answer *llm.Answer) {
	a.veilMessage(&answer.Message)
	answer.Model, answer.Stop = a.deps.Mask.Text(answer.Model), a.deps.Mask.Text(answer.Stop)
	for i := range answer.Switched {
		answer.Switched[i].Text = a.deps.Mask.Text(answer.Switched[i].Text)
	}
}

func (a *Activities) veilMessage(m *contract.Message) {
	m.Text, m.Reasoning = a.deps.Mask.Text(m.Text), a.deps.Mask.Text(m.Reasoning)
	m.Provider = a.deps.Mask.JSON(m.Provider)
	for i := range m.Calls {
		c := &m.Calls[i]
		c.ID, c.Name, c.Arguments = a.deps.Mask.Text(c.ID), a.deps.Mask.Text(c.Name), a.deps.Mask.Text(c.Arguments)
	}
}

// veilSpecs takes secrets out of what a server says of its tools.
func (a *Activities) veilSpecs(specs []contract.ToolSpec) {
	for i := range specs {
		s := &specs[i]
		s.Name, s.Description = a.deps.Mask.Text(s.Name), a.deps.Mask.Text(s.Description)
		s.Schema = a.deps.Mask.JSON(s.Schema)
	}
}

// veilProgram takes secrets out of what a program printed.
func (a *Activities) veilProgram(r *contract.ProgramResult) {
	r.Stdout, r.Stderr, r.Data = a.deps.Mask.Text(r.Stdout), a.deps.Mask.Text(r.Stderr), a.deps.Mask.JSON(r.Data)
}

// veiled is a failure without secrets.
func (a *Activities) veiled(f *contract.Failure) *contract.Failure {
	out := *f
	out.Text, out.Remedy, out.Data = a.deps.Mask.Text(f.Text), a.deps.Mask.Text(f.Remedy), a.deps.Mask.JSON(f.Data)
	out.Diagnostics = slices.Clone(f.Diagnostics)
	for i := range out.Diagnostics {
		out.Diagnostics[i] = a.deps.Mask.Text(out.Diagnostics[i])
	}
	return &out
}
