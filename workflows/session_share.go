package workflows

import (
	"weft/activities/contract"
)

// lend reserves what a session below may spend: half of what is left, or what is left of what
// it had. It has it until it ends, because it can be resumed until then.
func (s *session) allocate(c *childSession) *contract.Budget {
	r := s.run
	if !r.shared.Budget.Bounds() {
		return nil
	}
	part := r.budget.portion(2)
	if c.Rest != nil && c.Rest.Plan != nil && c.Rest.Shared.Budget.Bounds() {
		part = *c.Rest.Shared.Budget
	}
	c.reserved = spent{
		Calls:  max(0, part.Calls-c.Usage.Made()),
		Tokens: max(0, part.Tokens-c.Usage.Input-c.Usage.Output),
		Cost:   max(0, part.Cost-c.Usage.Cost),
	}
	r.budget.earmark(c.reserved, 1)
	return &part
}

// charge counts what a session below has spent in all, and takes that from what is reserved. One that was
// reset has its count from the history that it goes on with: what was told before is spent nevertheless.
func (s *session) charge(c *childSession, all contract.Usage) {
	more := all.Beyond(c.Usage)
	s.run.budget.usage.Add(more)
	c.Usage.Add(more)
	off := spent{Calls: min(c.reserved.Calls, more.Made()), Tokens: min(c.reserved.Tokens, more.Input+more.Output), Cost: min(c.reserved.Cost, more.Cost)}
	s.run.budget.earmark(off, -1)
	c.reserved = spent{Calls: c.reserved.Calls - off.Calls, Tokens: c.reserved.Tokens - off.Tokens, Cost: c.reserved.Cost - off.Cost}
}

// settleUp counts what a session that has come back spent and did not tell, and gives back what
// is still reserved for it.
func (s *session) settleUp(c *childSession, out *contract.RunResult, err error) {
	if all := spentIn(out, err); all != nil {
		s.charge(c, *all)
	}
	s.run.budget.earmark(c.reserved, -1)
	c.reserved = spent{}
}
