package runtime

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"weft/workflows/workflowtest"

	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
)

func TestPart(t *testing.T) {
	tests := map[string]struct {
		history, kept, n, percent, want int
	}{
		"a few have all that Temporal takes":      {n: 3, percent: 50, want: MaxPayload},
		"many share":                              {n: 100, percent: 50, want: LastBytes / 100 * 50 / 100},
		"what is kept counts for those alike":     {kept: LastBytes / 4, n: 100, percent: 50, want: LastBytes / 100 * 50 / 100},
		"what is kept is not given away":          {kept: LastBytes - 2000, n: 1, percent: 50, want: 1000},
		"what history holds is gone":              {history: LastBytes - 100_000, n: 10, percent: 75, want: 7500},
		"a full history has room for a word":      {history: LastBytes + 1, n: 10, percent: 75, want: 1},
		"none are one":                            {n: 0, percent: 50, want: MaxPayload},
		"and where all is kept there is a little": {kept: LastBytes, n: 2, percent: 50, want: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			env.SetCurrentHistorySize(tc.history)
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				g := Sizes{Kept: tc.kept}
				if got := g.Part(ctx, tc.n, tc.percent); got != tc.want {
					t.Errorf("part is %d, want %d", got, tc.want)
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestAdmitKnowsTheHistory refuses what a history has no room for.
func TestAdmitKnowsTheHistory(t *testing.T) {
	env := workflowtest.Env()
	env.SetCurrentHistorySize(LastBytes - 1000)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		g := Sizes{Kept: 1000}
		if err := g.Admit(ctx, "it", strings.Repeat("x", Slack-Envelope)); err != nil {
			t.Errorf("what the run comes to its end with is refused: %v", err)
		}
		f := contract.FailureOf(g.Admit(ctx, "the next", strings.Repeat("x", 2*Envelope)))
		if f == nil || f.Class != contract.ClassStateTooLarge || !strings.HasPrefix(f.Text, "the next is 8194 bytes, and the run's history has room for 0") || f.Remedy == "" {
			t.Errorf("the failure is %+v", f)
		}
		g = Sizes{Kept: 1000, most: 8 << 20}
		if err := g.Admit(ctx, "what the store takes", strings.Repeat("x", 4<<20)); err != nil {
			t.Error(err)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

// brought is a result of so many bytes.
type brought struct {
	contract.Kept `json:"-"`
	Text          string
}

// TestBringBack has runs below bring back more than was kept for them, of a history that has room for
// so many bytes.
func TestBringBack(t *testing.T) {
	const kept = 100
	tests := map[string]struct {
		room int
		// brings are the sizes that they bring back, granted those that get through.
		share, granted []int
		// session says that a session is there beside them, which stays; store, that there is a store.
		session, store bool
	}{
		"what was kept needs no question":  {room: 3 * kept, share: []int{90, 80, 70}, granted: []int{90, 80, 70}},
		"there is room":                    {room: 10_000, share: []int{3000, 2000, 4000}, granted: []int{3000, 2000, 4000}},
		"one has none":                     {room: 1000, share: []int{3000, 80}, granted: []int{80}},
		"all wait, and one must fail":      {room: 3000, share: []int{2500, 2500}, granted: []int{2500}},
		"nobody waits for a session's end": {room: 1000, share: []int{3000, 80, 2000}, granted: []int{80}, session: true},
		"a store takes what is longer":     {room: 2 * kept, share: []int{90, 3000, MaxPayload + 1}, granted: []int{90, 3000, MaxPayload + 1}, store: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			env := workflowtest.Env()
			env.SetCurrentHistorySize(LastBytes - tc.room)
			var granted, outside []int
			env.RegisterWorkflowWithOptions(func(ctx workflow.Context, n int) (string, error) {
				r := New(ctx)
				r.Requests.Listen(ctx)
				r.Space.ResultShare = kept
				if tc.store {
					r.Allow(8 << 20)
				}
				out := &brought{Text: strings.Repeat("x", n-len(`{"Text":""}`))}
				if err := r.Space.BringBack(ctx, "it", out); err != nil {
					if f := contract.FailureOf(err); f.Class != contract.ClassTooLarge || !strings.HasPrefix(f.Text, fmt.Sprintf("it is %d bytes, and the history", n)) {
						t.Errorf("the failure is %+v", f)
					}
					return "", Wire(err)
				}
				if granted = append(granted, n); out.Outside {
					outside = append(outside, n)
				}
				return "", nil
			}, workflow.RegisterOptions{Name: "below"})
			env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
				r := New(ctx)
				r.Requests.Listen(ctx)
				// Anybody can send the signal: who is none of the runs below gets nothing.
				workflow.SignalExternalWorkflow(ctx, r.Transcript.Workflow, "", contract.SignalReserve, contract.Reservation{Workflow: "a stranger", Bytes: 1 << 20})
				if tc.session {
					leave := r.Space.ReserveFor(ctx, &Reservation{ID: "session", Kept: kept, IsSession: true})
					defer func() {
						if leave(); r.Sizes.Kept != 0 {
							t.Errorf("%d bytes are kept behind the session's end", r.Sizes.Kept)
						}
					}()
				}
				others := len(r.Space.reservations)
				g := NewGroup(ctx)
				for i, n := range tc.share {
					id := fmt.Sprint("below-", i)
					leave := r.Space.Keep(ctx, id, kept)
					cctx := workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{WorkflowID: id})
					child := workflow.ExecuteChildWorkflow(cctx, "below", n)
					g.Start(func(ctx workflow.Context) error {
						_ = child.Get(ctx, nil)
						leave()
						return nil
					})
				}
				if err := g.Wait(); err != nil {
					return err
				}
				if tc.store && r.Requests.signals > 1 {
					t.Errorf("%d signals came, want that of the stranger", r.Requests.signals)
				}
				if r.Sizes.Kept != others*kept || len(r.Space.reservations) != others {
					t.Errorf("%d bytes are kept for %d", r.Sizes.Kept, len(r.Space.reservations))
				}
				return nil
			}, workflow.RegisterOptions{Name: "above"})
			env.ExecuteWorkflow("above")
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			slices.Sort(granted)
			slices.Sort(tc.granted)
			slices.Sort(outside)
			if !slices.Equal(granted, tc.granted) {
				t.Errorf("granted are %v, want %v", granted, tc.granted)
			}
			if want := slices.DeleteFunc(tc.share, func(n int) bool { return !tc.store || n <= kept }); !slices.Equal(outside, want) {
				t.Errorf("outside are %v, want %v", outside, want)
			}
		})
	}
}

// TestExpectBesideASession asks for room that only a session's end would make.
func TestExpectBesideASession(t *testing.T) {
	env := workflowtest.Env()
	env.SetCurrentHistorySize(LastBytes - MaxPayload)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		r := New(ctx)
		defer r.Space.ReserveFor(ctx, &Reservation{ID: "session", Kept: 1000, IsSession: true})()
		_, err := r.Space.expect(ctx, "it")
		if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassTooLarge {
			t.Errorf("it gives %v", err)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}

// TestExpectWaits has calls of which nobody knows what they bring take turns.
func TestExpectWaits(t *testing.T) {
	env := workflowtest.Env()
	env.SetCurrentHistorySize(LastBytes - MaxPayload*3/2)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		r := New(ctx)
		at, most := 0, 0
		g := NewGroup(ctx)
		for range 3 {
			g.Start(func(ctx workflow.Context) error {
				leave, err := r.Space.expect(ctx, "it")
				if err != nil {
					return err
				}
				at++
				most = max(most, at)
				defer leave()
				defer func() { at-- }()
				return Pause(ctx, 1, "the call")
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if most != 1 {
			t.Errorf("%d calls are under way at once, want 1", most)
		}
		r.Sizes.Kept = MaxPayload
		_, err := r.Space.expect(ctx, "it")
		if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassTooLarge {
			t.Errorf("where there is no room, it gives %v", err)
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
}
