package koog

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"weft/specadapter/source"
	"weft/workflows/plan"
	"weft/workflows/plan/value"
)

// checkParts checks the parts of a document whose graph is incomplete.
func (b *builder) checkParts() {
	for _, ag := range b.doc.agents {
		if b.mode == modeIntended && len(ag.children) > 0 {
			b.merge(ag, &plan.Merge{}, make([]int, len(ag.children)))
		}
	}
	b.checkAgents()
}

// checkAgents checks the transitions out of each agent and returns those that are never taken.
func (b *builder) checkAgents() map[*transition]bool {
	dead := map[*transition]bool{}
	for _, ag := range b.doc.agents {
		if b.mode == modeIntended {
			b.checkAgent(ag, b.doc.from[ag.name], dead)
		}
	}
	return dead
}

// checkAgent reports transitions out of an agent that are never taken, and conditions that never
// hold. It evaluates the conditions on sample values.
func (b *builder) checkAgent(ag *agent, out []*transition, dead map[*transition]bool) {
	result := b.typeOf(ag)
	parts := samplesOf(out[:min(len(out), maxCompared)], result)
	var covering []int // transitions that together cover all values
	never := func(t *transition, before []int) {
		if len(before) == 0 {
			return
		}
		text := fmt.Sprintf("the one at line %d comes first and holds whenever it does", out[before[0]].at.Line)
		if len(before) > 1 {
			first := before[:min(len(before), source.ListedNames)]
			lines := source.Map(first, func(i int) string { return fmt.Sprint(out[i].at.Line) })
			text = fmt.Sprintf("those at lines %s come first, and one of them holds whenever it does", strings.Join(lines, ", "))
		}
		dead[t] = true
		b.Warnf(t.at, CodeShadowed, "move it before the others or change a condition", "the transition %s -> %s is never taken: %s", t.from, t.to, text)
	}
	for i, t := range out {
		switch {
		case t.invalid:
			continue
		case covering != nil:
			never(t, covering)
			continue
		case t.compare == nil:
			covering = []int{i}
			continue
		case i >= maxCompared || b.failsAlways(ag, t, result):
			continue
		}
		s := parts[t.part()]
		held, before := s.take(i, t)
		if held == 0 {
			b.Warnf(t.valueAt, CodeNever, "compare with a value of that type", "the condition %q can never hold for %s",
				t.compare.Text, result.part(t.compare.Path[0]).describe(ag))
		}
		never(t, before)
		if !slices.Contains(s.taken, untaken) {
			covering = unique(s.taken)
		}
	}
}

// failsAlways reports a condition on a field that the result of a verify agent does not have.
func (b *builder) failsAlways(ag *agent, t *transition, g valueType) bool {
	field := t.compare.Path[0]
	if !g.critique || field == "input" || g.part(field).known {
		return false
	}
	b.Warnf(t.variableAt, CodeNever, "use input.success or input.feedback",
		"the condition %q fails every run that reaches it: the verify agent %s returns success, feedback and input but no %s",
		t.compare.Text, source.Quote(ag.name), field)
	return true
}

// maxCompared is the maximum number of transitions of an agent that are compared with each other.
const maxCompared = 200

// samples are sample values of a part of an agent's value: the constants in conditions, values between and next to
// these, and a value of every other type. taken holds the index of the transition that each sample takes, or untaken.
type samples struct {
	values, constants []value.Value
	taken             []int
}

const untaken = -1

func (t *transition) part() string { return strings.Join(t.compare.Path, ".") }

// samplesOf returns the samples of each part of a value that transitions compare.
func samplesOf(out []*transition, g valueType) map[string]*samples {
	parts := map[string]*samples{}
	for _, t := range out {
		if t.compare == nil {
			continue
		}
		s := parts[t.part()]
		if s == nil {
			s = &samples{}
			parts[t.part()] = s
		}
		s.constants = append(s.constants, t.constant)
	}
	for key, s := range parts {
		of := g.part(key)
		s.values = slices.DeleteFunc(sampleValues(s.constants), func(v value.Value) bool { return of.known && !of.fits(v) })
		s.taken = slices.Repeat([]int{untaken}, len(s.values))
	}
	return parts
}

// sampleValues returns values such that conditions with these constants treat every other value like one of them.
func sampleValues(constants []value.Value) []value.Value {
	out := []value.Value{{}, value.Of(true), value.Of(false), {Kind: value.Array}, {Kind: value.Object}, value.Of("")}
	doubles := []float64{math.Inf(-1), 0.5, math.Inf(1)}
	for _, v := range constants {
		switch {
		case v.IsNumber():
			doubles = append(doubles, v.Float, math.Nextafter(v.Float, math.Inf(-1)), math.Nextafter(v.Float, math.Inf(1)))
			out = append(out, v)
			out = append(out, integersAt(v)...)
		case v.Kind == value.String:
			// There is no string between the first two. Ordering ignores case.
			out = append(out, v, value.Of(v.Text+"\x00"), value.Of(strings.ToUpper(v.Text)), value.Of(strings.ToLower(v.Text)))
		}
	}
	slices.Sort(doubles)
	for i, n := range doubles {
		if i > 0 && !math.IsInf(doubles[i-1]/2+n/2, 0) {
			out = append(out, value.Of(doubles[i-1]/2+n/2))
		}
		out = append(out, value.Of(n))
	}
	return append(out, value.Of(math.MinInt64), value.Of(math.MaxInt64))
}

// integersAt returns the integer at a number and its neighbours.
func integersAt(v value.Value) []value.Value {
	n := v.Int
	if v.Kind == value.Double {
		// There are none outside the 64-bit range.
		if math.Abs(v.Float) >= -math.MinInt64 {
			return nil
		}
		n = int64(math.Floor(v.Float))
	}
	var out []value.Value
	for _, d := range []int64{-1, 0, 1} {
		if sum := n + d; (sum < n) == (d < 0) {
			out = append(out, value.Of(sum))
		}
	}
	return out
}

// take assigns untaken samples for which the condition of transition i holds. held is the number of samples for which it
// holds; before are the earlier transitions that take all of these, nil if any was untaken.
func (s *samples) take(i int, t *transition) (held int, before []int) {
	fresh := false
	for k, v := range s.values {
		if !value.Holds(t.compare.Rules, t.compare.Op, v, t.constant) {
			continue
		}
		held++
		if s.taken[k] == untaken {
			s.taken[k], fresh = i, true
		} else {
			before = append(before, s.taken[k])
		}
	}
	if fresh {
		before = nil
	}
	return held, unique(before)
}

func unique(list []int) []int {
	list = slices.Sorted(slices.Values(list))
	return slices.Compact(list)
}

// valueType is the static type of an agent's value; the zero value is unknown.
type valueType struct {
	kind     value.Kind
	known    bool
	critique bool
	numeric  bool
}

// typeOf returns the type of an agent's result, as far as the document determines it.
func (b *builder) typeOf(ag *agent) valueType {
	if ag.invalid {
		return valueType{}
	}
	switch ag.kind {
	case kindVerify:
		return valueType{kind: value.Object, known: true, critique: true}
	case kindReact:
		return valueType{kind: value.String, known: true}
	case kindParallel:
		if ag.merge == nil {
			return valueType{kind: value.Array, known: true}
		}
	case kindTransform:
		if t := b.transform(ag); t.Select != nil {
			return b.typeIn(ag).selected(t.Select.Path)
		}
		return b.typeIn(ag)
	case kindTask:
		if kind := ag.schema.Get("type"); kind != nil {
			return schemaTypes[kind.Text]
		}
	}
	return valueType{}
}

// critiqueFields are the types of the fields of a verify agent's result.
var critiqueFields = map[string]valueType{"success": {kind: value.Bool, known: true}, "feedback": {kind: value.String, known: true}}

var schemaTypes = map[string]valueType{
	"string":  {kind: value.String, known: true},
	"boolean": {kind: value.Bool, known: true},
	"integer": {kind: value.Int, known: true, numeric: true},
	"number":  {kind: value.Double, known: true, numeric: true},
	"array":   {kind: value.Array, known: true},
}

func (g valueType) part(name string) valueType {
	if g.critique && name != "data" {
		return critiqueFields[name]
	}
	return g
}

// selected returns the type of the part that a transformation selects.
func (g valueType) selected(path []string) valueType {
	if len(path) > 1 || !g.known {
		return valueType{}
	}
	return g.part(path[0])
}

func (g valueType) describe(ag *agent) string {
	switch {
	case !g.known:
		return "any value"
	case g.numeric:
		return "the result of " + source.Quote(ag.name) + ", a number"
	}
	return "the result of " + source.Quote(ag.name) + ", " + g.kind.String()
}

func (g valueType) fits(v value.Value) bool {
	if g.numeric {
		return v.Kind == value.Int || v.Kind == value.Double && (g.kind == value.Double || v.Float == math.Trunc(v.Float) && !math.IsInf(v.Float, 0))
	}
	return g.kind == v.Kind
}

// typeIn returns the type of an agent's input value, if all transitions to it agree.
func (b *builder) typeIn(ag *agent) valueType {
	if known, ok := b.types[ag.name]; ok {
		return known
	}
	if b.types == nil {
		b.types = map[string]valueType{}
	}
	b.types[ag.name] = valueType{} // ends the recursion in loops
	if ag == b.first || ag.inParallel || b.doc.partial {
		return valueType{}
	}
	var out valueType
	for i, t := range b.doc.to[ag.name] {
		g := b.typeOf(b.doc.byName[t.from])
		if t.pass != nil {
			g = g.selected(t.pass.Path)
		}
		if t.invalid || i > 0 && g != out {
			return valueType{}
		}
		out = g
	}
	b.types[ag.name] = out
	return out
}

// checkReach reports unreachable agents, and a flow without a path to its end.
func (b *builder) checkReach(dead map[*transition]bool) {
	next := map[string][]string{}
	for _, t := range b.doc.transitions {
		if !dead[t] {
			next[t.from] = append(next[t.from], t.to)
		}
	}
	b.impliedTransitions(func(from *agent, to string) { next[from.name] = append(next[from.name], to) })
	reached := plan.Reachable(b.first.name, func(at string) []string { return next[at] })
	if !reached[finishName] {
		text := fmt.Sprintf("no path leads from the first agent, %s, to an end of the flow", source.Quote(b.first.name))
		if b.mode != modeIntended {
			text = fmt.Sprintf("Finish node is not reachable from the start node in the subgraph 'koog-flow-strategy-%s'.", b.doc.id)
		}
		b.Errorf(b.doc.root.Pos("transitions"), CodeNoFinish, "add a transition to "+finishName+", or an agent without transitions", "%s", text)
	}
	if b.mode != modeIntended {
		return
	}
	for _, ag := range b.steps() {
		if !reached[ag.name] {
			b.Warnf(ag.at, CodeUnreachable, "add a transition to it or remove it; a run starts at \"from\" of the first transition",
				"agent %s is unreachable", source.Quote(ag.name))
		}
	}
}
