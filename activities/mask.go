package activities

import (
	"slices"

	"weft/activities/contract"
	"weft/activities/llm"
)

// External data may contain secrets. It is masked before it is hashed, so that history, the cache
// and later calls have the same bytes.

func (a *Activities) maskAnswer(answer *llm.Answer) {
	a.maskMessage(&answer.Message)
	answer.Model, answer.Stop = a.deps.Mask.Text(answer.Model), a.deps.Mask.Text(answer.Stop)
	for i := range answer.Fallbacks {
		answer.Fallbacks[i].Text = a.deps.Mask.Text(answer.Fallbacks[i].Text)
	}
}

func (a *Activities) maskMessage(m *contract.Message) {
	m.Text, m.Reasoning = a.deps.Mask.Text(m.Text), a.deps.Mask.Text(m.Reasoning)
	m.Provider = a.deps.Mask.JSON(m.Provider)
	for i := range m.Calls {
		c := &m.Calls[i]
		c.ID, c.Name, c.Arguments = a.deps.Mask.Text(c.ID), a.deps.Mask.Text(c.Name), a.deps.Mask.Text(c.Arguments)
	}
}

// maskToolSpecs removes secrets from a server's descriptions of its tools.
func (a *Activities) maskToolSpecs(specs []contract.ToolSpec) {
	for i := range specs {
		s := &specs[i]
		s.Name, s.Description = a.deps.Mask.Text(s.Name), a.deps.Mask.Text(s.Description)
		s.Schema = a.deps.Mask.JSON(s.Schema)
	}
}

func (a *Activities) maskFailure(f *contract.Failure) *contract.Failure {
	out := *f
	out.Text, out.Remedy, out.Data = a.deps.Mask.Text(f.Text), a.deps.Mask.Text(f.Remedy), a.deps.Mask.JSON(f.Data)
	out.Diagnostics = slices.Clone(f.Diagnostics)
	for i := range out.Diagnostics {
		out.Diagnostics[i] = a.deps.Mask.Text(out.Diagnostics[i])
	}
	return &out
}
