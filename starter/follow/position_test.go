package follow

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// simulation is a simulated history: each event reports a number of notices, and may start a child
// or wait for the end of one.
type simulation struct {
	track  *track
	events []simulatedEvent
	next   int
	// started and ended are the progress of the simulation.
	started, ended bool
}

type simulatedEvent struct {
	run          string
	notices      int
	starts, ends *simulation
}

// simulate makes a random tree of histories; a history may continue as another run.
func simulate(r *rand.Rand, id string, depth int) *simulation {
	newRun := func() string { return fmt.Sprintf("%s-%012x", id, r.Uint32()) }
	g := &simulation{track: newTrack(id, newRun(), "")}
	run := g.track.run
	var open []*simulation
	for i := range 3 + r.IntN(6) {
		e := simulatedEvent{run: run, notices: r.IntN(3)}
		switch {
		case depth > 0 && r.IntN(3) == 0:
			e.starts = simulate(r, fmt.Sprintf("%s/n#%d", id, i), depth-1)
			open = append(open, e.starts)
		case len(open) > 0 && r.IntN(2) == 0:
			e.ends, open = open[0], open[1:]
		case len(open) == 0 && r.IntN(5) == 0:
			run = newRun()
		}
		g.events = append(g.events, e)
	}
	for _, child := range open {
		g.events = append(g.events, simulatedEvent{run: run, notices: 1, ends: child})
	}
	return g
}

// all returns a history and its descendants.
func (g *simulation) all() []*simulation {
	out := []*simulation{g}
	for _, e := range g.events {
		if e.starts != nil {
			out = append(out, e.starts.all()...)
		}
	}
	return out
}

// notice is what a reader receives, and its position.
type notice struct{ what, id string }

// notify reads the histories in a random order, starting after a position.
func notify(t *testing.T, r *rand.Rand, root *simulation, after string) []notice {
	t.Helper()
	from, err := ParsePosition(after)
	if err != nil {
		t.Fatal(err)
	}
	m := newMarks(root.track.id, from)
	every := root.all()
	for _, g := range every {
		g.next, g.started, g.ended = 0, g == root, false
		g.track.run = g.events[0].run
	}
	var out []notice
	open := func(g *simulation) bool { return g.started && !g.ended || g == root && !g.ended }
	for slices.ContainsFunc(every, open) {
		g := every[r.IntN(len(every))]
		if !g.started || g.ended {
			continue
		}
		if g.next == len(g.events) {
			g.ended = true
			m.close(g.track)
			continue
		}
		e := g.events[g.next]
		// Most of the time the end of a child waits for the child's own last events.
		if e.ends != nil && !e.ends.ended && r.IntN(50) > 0 {
			continue
		}
		g.track.run = e.run
		number := int64(0)
		for i := range g.next + 1 {
			if number++; i > 0 && g.events[i].run != g.events[i-1].run {
				number = 1 // each run counts its own events
			}
		}
		g.next++
		if e.starts != nil {
			if m.addChild(g.track, number, e.starts.track) {
				e.starts.ended = true
			} else {
				e.starts.started = true
			}
		}
		m.enter(g.track, number)
		for i := range e.notices {
			if !m.isKnown() {
				out = append(out, notice{fmt.Sprintf("%s %s %d.%d", g.track.id, e.run, number, i), m.id()})
			}
		}
		m.leave()
	}
	return out
}

// TestResume cuts streams of events at every event and resumes them: together the parts have every event exactly
// once, in whatever order the histories are read.
func TestResume(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 7))
		root := simulate(r, "run", 3)
		complete := notify(t, r, root, "")
		want := slices.Sorted(maps.Keys(noticeSet(complete)))
		for k := 0; k < len(complete); k += 1 + len(complete)/20 {
			rest := notify(t, r, root, complete[k].id)
			got := noticeSet(complete[:k+1])
			for _, x := range rest {
				if got[x.what] {
					t.Fatalf("seed %d: after event %d of %d, %s is repeated", seed, k, len(complete), x.what)
				}
				got[x.what] = true
			}
			if missing := slices.DeleteFunc(slices.Clone(want), func(what string) bool { return got[what] }); len(missing) > 0 {
				from, _ := ParsePosition(complete[k].id)
				t.Fatalf("seed %d: after event %d of %d, %s, missing: %q; the reader is at %v", seed, k, len(complete), complete[k].what, missing, from.Open)
			}
		}
	}
}

// TestResumeRepeatedly cuts every stream after a few events, as for a client with a bad
// connection.
func TestResumeRepeatedly(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 8))
		root := simulate(r, "run", 3)
		complete := notify(t, r, root, "")
		got, after := map[string]bool{}, ""
		for {
			part := notify(t, r, root, after)
			if len(part) == 0 {
				break
			}
			part = part[:min(len(part), 1+r.IntN(4))]
			for _, x := range part {
				if got[x.what] {
					t.Fatalf("seed %d: %s is repeated", seed, x.what)
				}
				got[x.what] = true
			}
			after = part[len(part)-1].id
		}
		if len(got) != len(complete) {
			t.Fatalf("seed %d: got %d of %d notices", seed, len(got), len(complete))
		}
	}
}

func noticeSet(list []notice) map[string]bool {
	out := map[string]bool{}
	for _, x := range list {
		out[x.what] = true
	}
	return out
}

func TestResumeRequests(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := newMarks("r", Position{})
	if m.knowsRequest(at, "a") || m.knowsRequest(at, "b") || m.knowsRequest(at.Add(time.Second), "c") || m.knowsAnswer(at, "a") {
		t.Error("a new reader already knows a request")
	}
	m.enter(newTrack("r", "run0", ""), 1)
	from, err := ParsePosition(m.id())
	if err != nil {
		t.Fatal(err)
	}
	m = newMarks("r", from)
	for _, q := range []struct {
		id   string
		at   time.Time
		want bool
	}{{"a", at, true}, {"b", at, true}, {"c", at.Add(time.Second), true}, {"d", at.Add(time.Second), false}, {"e", at.Add(2 * time.Second), false}} {
		if got := m.knowsRequest(q.at, q.id); got != q.want {
			t.Errorf("knowsRequest(%s) = %v, want %v", q.id, got, q.want)
		}
	}
	if m.knowsAnswer(at.Add(time.Second), "a") || !m.knowsAnswer(at, "a") {
		t.Error("knowsAnswer confuses answers with requests")
	}
}

func TestInvalidPositions(t *testing.T) {
	for _, id := range []string{"x", "!", "bnVsbA", "e30", "W10", strings.Repeat("A", 100)} {
		if _, err := ParsePosition(id); err == nil {
			t.Errorf("ParsePosition(%q) accepted an invalid id", id)
		}
	}
	var none *marks
	none.enter(nil, 1)
	if none.isKnown() || none.addChild(nil, 1, nil) || none.knowsRequest(time.Time{}, "") {
		t.Error("nil marks skip events")
	}
}
