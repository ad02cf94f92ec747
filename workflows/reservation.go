package workflows

import (
	"cmp"
	"fmt"
	"slices"

	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

// What calls and runs below give goes into a run's history whether that has room for it or not,
// and the server terminates a run whose history is beyond 50 MiB. So room is kept for each such
// answer from when it is asked for until it is there. A tool must do with what its call has. A run
// below begins with a part, asks this one where it brings back more, and waits: others bring back
// less than was kept for them.

// space is what of a run's history is kept for answers to come.
type space struct {
	reservations []*reservation
	// brings is how much this run brings back without asking; 0 means that it need not ask.
	resultShare              int
	roomRequests, roomGrants workflow.ReceiveChannel
	// grant is what the run above has answered; nil while it has not.
	grant *contract.Room
}

// guest is an answer to come: that of a run below, by its workflow id, or of a call.
type reservation struct {
	id string
	// kept is the room that it has in bytes; wants is what it has asked for, or 0.
	kept, wants int
	// stays says that it is a session, which may be there for weeks: nobody waits for its end.
	stays bool
}

func newSpace(ctx workflow.Context) space {
	return space{roomRequests: workflow.GetSignalChannel(ctx, contract.SignalRoom), roomGrants: workflow.GetSignalChannel(ctx, contract.SignalGrant)}
}

// free is how many bytes the history has room for beside what is kept for answers.
func (g *guard) free(ctx workflow.Context) int {
	return lastBytes - workflow.GetInfo(ctx).GetCurrentHistorySize() - g.sent(ctx) - g.kept
}

// part is how much room one of n answers has that come together. All of them have so many per cent
// of what the history has left; the rest is for what the run sends.
func (g *guard) part(ctx workflow.Context, n, percent int) int {
	free := g.free(ctx)
	return max(1, min(maxPayload, (free+g.kept)/max(1, n)*percent/100, free*percent/100))
}

// keep keeps room for an answer until leave is called. The id is that of a run below.
func (r *run) keep(ctx workflow.Context, id string, bytes int) (leave func()) {
	return r.reserveFor(ctx, &reservation{id: id, kept: bytes})
}

func (r *run) reserveFor(ctx workflow.Context, own *reservation) (leave func()) {
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	r.space.reservations = append(r.space.reservations, own)
	r.guard.kept += own.kept
	return func() {
		r.guard.kept -= own.kept
		r.space.reservations = slices.DeleteFunc(r.space.reservations, func(g *reservation) bool { return g == own })
		r.grantAll(quiet)
	}
}

// expect waits until there is room for an answer of which nobody can say how long it will be, and
// keeps it.
func (r *run) expect(ctx workflow.Context, what string) (leave func(), err error) {
	fits := func() bool { return r.guard.free(ctx) >= maxPayload }
	if err := workflow.Await(ctx, func() bool { return fits() || !r.clears() }); err != nil {
		return nil, err
	}
	if !fits() {
		return nil, noRoom(what, maxPayload)
	}
	return r.keep(ctx, "", maxPayload), nil
}

// hearWishes takes what runs below want to bring back. Who is none of them is not heard.
func (r *run) hearWishes(ctx workflow.Context) {
	var raw converter.RawValue
	for r.space.roomRequests.ReceiveAsync(&raw) {
		var in contract.Room
		if r.readSignal(ctx, raw, &in) == nil {
			i := slices.IndexFunc(r.space.reservations, func(g *reservation) bool { return g.id == in.Workflow && g.id != "" })
			if i >= 0 && in.Bytes > 0 {
				r.space.reservations[i].wants = in.Bytes
				r.grantAll(ctx)
			}
		}
		raw = converter.RawValue{}
	}
	for r.space.roomGrants.ReceiveAsync(&raw) {
		var in contract.Room
		if r.readSignal(ctx, raw, &in) == nil {
			r.space.grant = &in
		}
		raw = converter.RawValue{}
	}
}

// clears reports whether somebody is about to bring back what it has, so that room may come of what is
// kept for it.
func (r *run) clears() bool {
	return slices.ContainsFunc(r.space.reservations, func(g *reservation) bool { return g.wants == 0 && !g.stays })
}

// grantAll gives those who have asked what there is, in the order in which they began. Where all
// wait for room, nobody will make any: one of them is refused.
func (r *run) grantAll(ctx workflow.Context) {
	var waits *reservation
	for _, g := range r.space.reservations {
		switch {
		case g.wants == 0:
		case g.wants-g.kept <= r.guard.free(ctx):
			r.answerAsk(ctx, g, g.wants)
		default:
			waits = cmp.Or(waits, g)
		}
	}
	if waits != nil && !r.clears() {
		r.answerAsk(ctx, waits, 0)
	}
}

func (r *run) answerAsk(ctx workflow.Context, g *reservation, bytes int) {
	r.guard.kept += max(0, bytes-g.kept)
	g.kept, g.wants = max(g.kept, bytes), 0
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	r.guard.accept(quiet, claim)
	r.pace.asking = append(slices.DeleteFunc(r.pace.asking, workflow.Future.IsReady),
		r.signal(quiet, g.id, contract.SignalGrant, contract.Room{Bytes: bytes}))
}

// bringBack waits until the run above has room for what this one brings back. With a store it need
// not: what is longer than was kept goes there.
func (r *run) bringBack(ctx workflow.Context, what string, out interface{ KeepOutside() }) error {
	above := workflow.GetInfo(ctx).ParentWorkflowExecution
	if r.space.resultShare == 0 || above == nil {
		return nil
	}
	n, err := size(out)
	if err != nil {
		return err
	}
	if n <= r.space.resultShare {
		return nil
	}
	if r.guard.most > 0 {
		out.KeepOutside()
		return nil
	}
	r.space.grant = nil
	ask := contract.Room{Workflow: r.store.workflow, Bytes: n}
	if err := r.guard.admit(ctx, "a question", ask); err != nil {
		return err
	}
	if err := r.signal(ctx, above.ID, contract.SignalRoom, ask).Get(ctx, nil); err != nil {
		return err
	}
	if err := workflow.Await(ctx, func() bool { return r.space.grant != nil }); err != nil {
		return err
	}
	if r.space.grant.Bytes < n {
		return noRoom(what, n)
	}
	return nil
}

func noRoom(what string, n int) error {
	return &contract.Failure{Class: contract.ClassTooLarge,
		Text:   fmt.Sprintf("%s is %d bytes, and the history of the run that gets it has no room for it beside what it holds and what others bring", what, n),
		Remedy: "make the nodes that run side by side answer shorter, run fewer of them at a time, or give the workers a store (store.dir) before the run starts"}
}
