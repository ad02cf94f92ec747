package koog

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/workflows/plan/value"
)

// coverage says which values the transitions out of an agent have taken so far, judged by
// samples: on each part of the value that conditions look at, the constants that they compare
// with, what lies between and beside these, and a value of each other type.
type coverage struct {
	given given
	parts map[string]*samples
}

// samples are values that a part may have; taken is the number, from 1, of the transition that takes each.
type samples struct {
	values []value.Value
	taken  []int
}

// newCoverage prepares the samples for an agent's transitions.
func newCoverage(out []*transition, g given) *coverage {
	c := &coverage{given: g, parts: map[string]*samples{}}
	constants := map[string][]value.Value{}
	for _, t := range out {
		if t.compare != nil {
			key := strings.Join(t.compare.Path, ".")
			constants[key] = append(constants[key], t.want)
		}
	}
	for key, list := range constants {
		s := &samples{}
		for _, v := range sampled(list) {
			if of := c.of(key); !of.known || of.fits(v.Kind, v.IsNumber()) {
				s.values = append(s.values, v)
			}
		}
		s.taken = make([]int, len(s.values))
		c.parts[key] = s
	}
	return c
}

// of is what is known of a part of the value.
func (c *coverage) of(key string) given {
	if !c.given.critique {
		return c.given
	}
	return critiqueField(key)
}

// sampled are the values that conditions with these constants can tell from each other.
func sampled(constants []value.Value) []value.Value {
	out := []value.Value{value.Of(true), value.Of(false), {Kind: value.Array}, value.Of("\U0010FFFF")}
	var numbers []float64
	for _, v := range constants {
		switch v.Kind {
		case value.Int:
			numbers = append(numbers, float64(v.Int))
		case value.Double:
			numbers = append(numbers, v.Float)
		case value.String:
			out = append(out, v)
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	if len(numbers) == 0 {
		return append(out, value.Of(0.5))
	}
	for i, n := range numbers {
		if i > 0 {
			out = append(out, value.Of(numbers[i-1]/2+n/2))
		}
		out = append(out, value.Of(n))
	}
	return append(out, value.Of(math.Nextafter(numbers[0], math.Inf(-1))), value.Of(math.Nextafter(numbers[len(numbers)-1], math.Inf(1))))
}

// take notes what a transition takes. before are the transitions, as indexes from 1 on, that
// take all of it already; none if it takes something, or can take nothing at all. Texts have an
// order that samples do not show: what orders them is taken to take nothing for sure.
func (c *coverage) take(i int, t *transition) (before []int) {
	s := c.parts[strings.Join(t.compare.Path, ".")]
	fresh := t.want.Kind == value.String && t.compare.Op != value.Equals && t.compare.Op != value.NotEquals
	sure := !fresh
	for k, v := range s.values {
		switch {
		case !value.Holds(t.compare.Rules, t.compare.Op, v, t.want):
		case s.taken[k] != 0:
			before = append(before, s.taken[k])
		default:
			fresh = true
			if sure {
				s.taken[k] = i
			}
		}
	}
	if fresh {
		return nil
	}
	return unique(before)
}

// full are the transitions that together take whatever the value is; none if something is left.
func (c *coverage) full(out []*transition) []int {
	for _, t := range out {
		if t.compare == nil {
			continue
		}
		s := c.parts[strings.Join(t.compare.Path, ".")]
		if s != nil && len(s.taken) > 0 && !slices.Contains(s.taken, 0) {
			return unique(slices.Clone(s.taken))
		}
	}
	return nil
}

func unique(list []int) []int {
	slices.Sort(list)
	return slices.Compact(list)
}

// shadowed says which transitions come before one and take all that it could.
func shadowed(out []*transition, before []int) string {
	if len(before) == 1 {
		return fmt.Sprintf("the one at line %d comes first and holds wherever it does", out[before[0]-1].at.Line)
	}
	var lines []string
	for _, i := range before[:min(len(before), listedNames)] {
		lines = append(lines, fmt.Sprint(out[i-1].at.Line))
	}
	return fmt.Sprintf("those at lines %s come first, and one of them holds wherever it does", strings.Join(lines, ", "))
}
