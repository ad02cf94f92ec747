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

// growing is a history that a simulation tells: each event tells so many things, and may
// begin a child or wait for the end of one.
type growing struct {
	track  *track
	events []grownEvent
	next   int
	// begun and ended are how far the simulation is.
	begun, ended bool
}

type grownEvent struct {
	run          string
	tells        int
	begins, ends *growing
}

// grow makes a random tree of histories; a history may continue under another run.
func grow(r *rand.Rand, id string, depth int) *growing {
	newRun := func() string { return fmt.Sprintf("%s-%012x", id, r.Uint32()) }
	g := &growing{track: newTrack(id, newRun(), "")}
	run := g.track.run
	var open []*growing
	for i := range 3 + r.IntN(6) {
		e := grownEvent{run: run, tells: r.IntN(3)}
		switch {
		case depth > 0 && r.IntN(3) == 0:
			e.begins = grow(r, fmt.Sprintf("%s/n#%d", id, i), depth-1)
			open = append(open, e.begins)
		case len(open) > 0 && r.IntN(2) == 0:
			e.ends, open = open[0], open[1:]
		case len(open) == 0 && r.IntN(5) == 0:
			run = newRun()
		}
		g.events = append(g.events, e)
	}
	for _, child := range open {
		g.events = append(g.events, grownEvent{run: run, tells: 1, ends: child})
	}
	return g
}

// all lists a history and those below it.
func (g *growing) all() []*growing {
	out := []*growing{g}
	for _, e := range g.events {
		if e.begins != nil {
			out = append(out, e.begins.all()...)
		}
	}
	return out
}

// told is a thing that a reader gets, and the id with which it comes.
type told struct{ what, id string }

// tell reads the histories in a random order, from behind an event on.
func notify(t *testing.T, r *rand.Rand, root *growing, after string) []told {
	t.Helper()
	from, err := ParsePosition(after)
	if err != nil {
		t.Fatal(err)
	}
	m := newMarks(root.track.id, from)
	every := root.all()
	for _, g := range every {
		g.next, g.begun, g.ended = 0, g == root, false
		g.track.run = g.events[0].run
	}
	var out []told
	open := func(g *growing) bool { return g.begun && !g.ended || g == root && !g.ended }
	for slices.ContainsFunc(every, open) {
		g := every[r.IntN(len(every))]
		if !g.begun || g.ended {
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
		if e.begins != nil {
			if m.addChild(g.track, number, e.begins.track) {
				e.begins.ended = true
			} else {
				e.begins.begun = true
			}
		}
		m.enter(g.track, number)
		for i := range e.tells {
			if !m.isKnown() {
				out = append(out, told{fmt.Sprintf("%s %s %d.%d", g.track.id, e.run, number, i), m.id()})
			}
		}
		m.leave()
	}
	return out
}

// TestReadersGoOnWhereTheyWere cuts streams of events at every event and reads on: together
// the parts have everything once, whatever the order in which histories are read.
func TestReadersGoOnWhereTheyWere(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 7))
		root := grow(r, "run", 3)
		whole := notify(t, r, root, "")
		want := slices.Sorted(maps.Keys(things(whole)))
		for k := 0; k < len(whole); k += 1 + len(whole)/20 {
			rest := notify(t, r, root, whole[k].id)
			got := things(whole[:k+1])
			for _, x := range rest {
				if got[x.what] {
					t.Fatalf("seed %d: behind event %d of %d comes %s again", seed, k, len(whole), x.what)
				}
				got[x.what] = true
			}
			if missing := slices.DeleteFunc(slices.Clone(want), func(what string) bool { return got[what] }); len(missing) > 0 {
				from, _ := ParsePosition(whole[k].id)
				t.Fatalf("seed %d: behind event %d of %d, %s, these are never told: %q; the reader is at %v", seed, k, len(whole), whole[k].what, missing, from.Open)
			}
		}
	}
}

// TestReadersGoOnAgainAndAgain cuts every stream after a few events, as clients do whose
// connections are bad.
func TestReadersGoOnAgainAndAgain(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 8))
		root := grow(r, "run", 3)
		whole := notify(t, r, root, "")
		got, after := map[string]bool{}, ""
		for {
			part := notify(t, r, root, after)
			if len(part) == 0 {
				break
			}
			part = part[:min(len(part), 1+r.IntN(4))]
			for _, x := range part {
				if got[x.what] {
					t.Fatalf("seed %d: %s is told again", seed, x.what)
				}
				got[x.what] = true
			}
			after = part[len(part)-1].id
		}
		if len(got) != len(whole) {
			t.Fatalf("seed %d: %d of %d things are told", seed, len(got), len(whole))
		}
	}
}

func things(list []told) map[string]bool {
	out := map[string]bool{}
	for _, x := range list {
		out[x.what] = true
	}
	return out
}

func TestReadersOfRequestsGoOn(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	m := newMarks("r", Position{})
	if m.knowsRequest(at, "a") || m.knowsRequest(at, "b") || m.knowsRequest(at.Add(time.Second), "c") || m.knowsAnswer(at, "a") {
		t.Error("a new reader has a request already")
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
			t.Errorf("the reader has %s: %v, want %v", q.id, got, q.want)
		}
	}
	if m.knowsAnswer(at.Add(time.Second), "a") || !m.knowsAnswer(at, "a") {
		t.Error("answers are mixed up with requests")
	}
}

func TestIDsThatAreOfNoEvent(t *testing.T) {
	for _, id := range []string{"x", "!", "bnVsbA", "e30", "W10", strings.Repeat("A", 100)} {
		if _, err := ParsePosition(id); err == nil {
			t.Errorf("%q is taken", id)
		}
	}
	var none *marks
	none.enter(nil, 1)
	if none.isKnown() || none.addChild(nil, 1, nil) || none.knowsRequest(time.Time{}, "") {
		t.Error("a follower without marks leaves something out")
	}
}
