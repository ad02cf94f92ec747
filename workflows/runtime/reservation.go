package runtime

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

// Reservations is what of a run's history is kept for answers to come.
type Reservations struct {
	run          *Run
	reservations []*Reservation
	// brings is how much this run brings back without asking; 0 means that it need not ask.
	ResultShare              int
	roomRequests, roomGrants workflow.ReceiveChannel
	// grant is what the run above has answered; nil while it has not.
	grant *contract.Reservation
}

// Reservation is an answer to come: that of a run below, by its workflow id, or of a call.
type Reservation struct {
	ID string
	// Kept is the room that it has in bytes; wants is what it has asked for, or 0.
	Kept, wants int
	// Stays says that it is a session, which may be there for weeks: nobody waits for its end.
	IsSession bool
}

func newSpace(ctx workflow.Context) Reservations {
	return Reservations{roomRequests: workflow.GetSignalChannel(ctx, contract.SignalReserve), roomGrants: workflow.GetSignalChannel(ctx, contract.SignalReserved)}
}

// Free is how many bytes the history has room for beside what is kept for answers.
func (g *Sizes) Free(ctx workflow.Context) int {
	return LastBytes - workflow.GetInfo(ctx).GetCurrentHistorySize() - g.sent(ctx) - g.Kept
}

// Part is how much room one of n answers has that come together. All of them have so many per cent
// of what the history has left; the rest is for what the run sends.
func (g *Sizes) Part(ctx workflow.Context, n, percent int) int {
	free := g.Free(ctx)
	return max(1, min(MaxPayload, (free+g.Kept)/max(1, n)*percent/100, free*percent/100))
}

// Keep keeps room for an answer until leave is called. The id is that of a run below.
func (s *Reservations) Keep(ctx workflow.Context, id string, bytes int) (leave func()) {
	return s.ReserveFor(ctx, &Reservation{ID: id, Kept: bytes})
}

func (s *Reservations) ReserveFor(ctx workflow.Context, own *Reservation) (leave func()) {
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	s.reservations = append(s.reservations, own)
	s.run.Sizes.Kept += own.Kept
	return func() {
		s.run.Sizes.Kept -= own.Kept
		s.reservations = slices.DeleteFunc(s.reservations, func(g *Reservation) bool { return g == own })
		s.grantAll(quiet)
	}
}

// expect waits until there is room for an answer of which nobody can say how long it will be, and
// keeps it.
func (s *Reservations) expect(ctx workflow.Context, what string) (leave func(), err error) {
	fits := func() bool { return s.run.Sizes.Free(ctx) >= MaxPayload }
	if err := workflow.Await(ctx, func() bool { return fits() || !s.clears() }); err != nil {
		return nil, err
	}
	if !fits() {
		return nil, noRoom(what, MaxPayload)
	}
	return s.Keep(ctx, "", MaxPayload), nil
}

// hearWishes takes what runs below want to bring back. Who is none of them is not heard.
func (s *Reservations) hearWishes(ctx workflow.Context) {
	var raw converter.RawValue
	for s.roomRequests.ReceiveAsync(&raw) {
		var in contract.Reservation
		if s.run.Requests.ReadSignal(ctx, raw, &in) == nil {
			i := slices.IndexFunc(s.reservations, func(g *Reservation) bool { return g.ID == in.Workflow && g.ID != "" })
			if i >= 0 && in.Bytes > 0 {
				s.reservations[i].wants = in.Bytes
				s.grantAll(ctx)
			}
		}
		raw = converter.RawValue{}
	}
	for s.roomGrants.ReceiveAsync(&raw) {
		var in contract.Reservation
		if s.run.Requests.ReadSignal(ctx, raw, &in) == nil {
			s.grant = &in
		}
		raw = converter.RawValue{}
	}
}

// clears reports whether somebody is about to bring back what it has, so that room may come of what is
// kept for it.
func (s *Reservations) clears() bool {
	return slices.ContainsFunc(s.reservations, func(g *Reservation) bool { return g.wants == 0 && !g.IsSession })
}

// grantAll gives those who have asked what there is, in the order in which they began. Where all
// wait for room, nobody will make any: one of them is refused.
func (s *Reservations) grantAll(ctx workflow.Context) {
	var waits *Reservation
	for _, g := range s.reservations {
		switch {
		case g.wants == 0:
		case g.wants-g.Kept <= s.run.Sizes.Free(ctx):
			s.answerAsk(ctx, g, g.wants)
		default:
			waits = cmp.Or(waits, g)
		}
	}
	if waits != nil && !s.clears() {
		s.answerAsk(ctx, waits, 0)
	}
}

func (s *Reservations) answerAsk(ctx workflow.Context, g *Reservation, bytes int) {
	s.run.Sizes.Kept += max(0, bytes-g.Kept)
	g.Kept, g.wants = max(g.Kept, bytes), 0
	quiet, _ := workflow.NewDisconnectedContext(ctx)
	s.run.Sizes.Accept(quiet, claim)
	s.run.Policy.asking = append(slices.DeleteFunc(s.run.Policy.asking, workflow.Future.IsReady),
		s.run.Signal(quiet, g.ID, contract.SignalReserved, contract.Reservation{Bytes: bytes}))
}

// BringBack waits until the run above has room for what this one brings back. With a store it need
// not: what is longer than was kept goes there.
func (s *Reservations) BringBack(ctx workflow.Context, what string, out interface{ KeepOutside() }) error {
	above := workflow.GetInfo(ctx).ParentWorkflowExecution
	if s.ResultShare == 0 || above == nil {
		return nil
	}
	n, err := Size(out)
	if err != nil {
		return err
	}
	if n <= s.ResultShare {
		return nil
	}
	if s.run.Sizes.most > 0 {
		out.KeepOutside()
		return nil
	}
	s.grant = nil
	ask := contract.Reservation{Workflow: s.run.Transcript.Workflow, Bytes: n}
	if err := s.run.Sizes.Admit(ctx, "a question", ask); err != nil {
		return err
	}
	if err := s.run.Signal(ctx, above.ID, contract.SignalReserve, ask).Get(ctx, nil); err != nil {
		return err
	}
	if err := workflow.Await(ctx, func() bool { return s.grant != nil }); err != nil {
		return err
	}
	if s.grant.Bytes < n {
		return noRoom(what, n)
	}
	return nil
}

func noRoom(what string, n int) error {
	return &contract.Failure{Class: contract.ClassTooLarge,
		Text:   fmt.Sprintf("%s is %d bytes, and the history of the run that gets it has no room for it beside what it holds and what others bring", what, n),
		Remedy: "make the nodes that run side by side answer shorter, run fewer of them at a time, or give the workers a store (store.dir) before the run starts"}
}
