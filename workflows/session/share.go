package session

import (
	"weft/activities/contract"
	"weft/workflows/runtime"
)

// allocate reserves what a session below may spend: half of what is left, or what is left of what
// it had. It has it until it ends, because it can be resumed until then.
func (b *Children) allocate(c *childSession) *contract.Budget {
	r := b.s.run
	if !r.Shared.Budget.Bounds() {
		return nil
	}
	part := r.Budget.Portion(2)
	if c.Snapshot != nil && c.Snapshot.Plan != nil && c.Snapshot.Shared.Budget.Bounds() {
		part = *c.Snapshot.Shared.Budget
	}
	c.reserved = part.Each(c.Usage.Spent(), func(a, b int64) int64 { return max(0, a-b) })
	r.Budget.Earmark(c.reserved, 1)
	return &part
}

// charge counts what a session below has spent in all, and takes that from what is reserved. One that was
// reset has its count from the history that it goes on with: what was told before is spent nevertheless.
func (b *Children) charge(c *childSession, all contract.Usage) {
	more := all.Beyond(c.Usage)
	b.s.run.Budget.Usage.Add(more)
	c.Usage.Add(more)
	off := c.reserved.Each(more.Spent(), func(a, b int64) int64 { return min(a, b) })
	b.s.run.Budget.Earmark(off, -1)
	c.reserved = c.reserved.Each(off, func(a, b int64) int64 { return a - b })
}

// settleUp counts what a session that has ended spent and did not report, and gives back what is still reserved for it.
func (b *Children) settleUp(c *childSession, out *contract.RunResult, err error) {
	if all := runtime.SpentIn(out, err); all != nil {
		b.charge(c, *all)
	}
	b.s.run.Budget.Earmark(c.reserved, -1)
	c.reserved = contract.Budget{}
}
