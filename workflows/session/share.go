package session

import (
	"weft/activities/contract"
	"weft/workflows/runtime"
)

// allocate reserves what a session below may spend: half of what is left, or what is left of what
// it had. It has it until it ends, because it can be resumed until then.
func (b *Children) allocate(c *childSession) *contract.Budget {
	r := b.run
	if !r.Shared.Budget.Bounds() {
		return nil
	}
	part := r.Budget.Portion(2)
	if c.Snapshot != nil && c.Snapshot.Plan != nil && c.Snapshot.Shared.Budget.Bounds() {
		part = *c.Snapshot.Shared.Budget
	}
	c.reserved = contract.Budget{
		Calls:  max(0, part.Calls-c.Usage.Made()),
		Tokens: max(0, part.Tokens-c.Usage.Input-c.Usage.Output),
		Cost:   max(0, part.Cost-c.Usage.Cost),
		Runs:   max(0, part.Runs-c.Usage.Runs),
	}
	r.Budget.Earmark(c.reserved, 1)
	return &part
}

// charge counts what a session below has spent in all, and takes that from what is reserved. One that was
// reset has its count from the history that it goes on with: what was told before is spent nevertheless.
func (b *Children) charge(c *childSession, all contract.Usage) {
	more := all.Beyond(c.Usage)
	b.run.Budget.Usage.Add(more)
	c.Usage.Add(more)
	off := contract.Budget{Calls: min(c.reserved.Calls, more.Made()), Tokens: min(c.reserved.Tokens, more.Input+more.Output), Cost: min(c.reserved.Cost, more.Cost), Runs: min(c.reserved.Runs, more.Runs)}
	b.run.Budget.Earmark(off, -1)
	c.reserved = contract.Budget{Calls: c.reserved.Calls - off.Calls, Tokens: c.reserved.Tokens - off.Tokens, Cost: c.reserved.Cost - off.Cost, Runs: c.reserved.Runs - off.Runs}
}

// settleUp counts what a session that has come back spent and did not tell, and gives back what
// is still reserved for it.
func (b *Children) settleUp(c *childSession, out *contract.RunResult, err error) {
	if all := runtime.SpentIn(out, err); all != nil {
		b.charge(c, *all)
	}
	b.run.Budget.Earmark(c.reserved, -1)
	c.reserved = contract.Budget{}
}
