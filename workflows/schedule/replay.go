package schedule

import (
	"cmp"
	"slices"

	"weft/activities/contract"
)

// Log holds the finished executions of another run that a scheduler has not replayed yet.
type Log struct {
	entries []contract.ExecutionRecord
	// remaining holds the indices of the entries not replayed yet by execution, in the order of their
	// occurrences. It is nil until the log is replayed.
	remaining map[logKey][]int
	// replayed reports for each entry whether it has been replayed.
	replayed []bool
}

// logKey identifies an execution in all runs of a flow. The key of a join has no lineage, because a join starts a new one.
type logKey struct {
	node, step int
	lineage    string
}

// NewLog returns a log of finished executions.
func NewLog(entries []contract.ExecutionRecord) *Log {
	return &Log{entries: entries, replayed: make([]bool, len(entries))}
}

// Left returns the entries that no execution has replayed.
func (l *Log) Left() []contract.ExecutionRecord {
	var out []contract.ExecutionRecord
	for i := range l.entries {
		if !l.replayed[i] {
			out = append(out, l.entries[i])
		}
	}
	return out
}

// index indexes the log's entries by execution, and reserves their occurrences.
func (l *Log) index(s *Scheduler) {
	if l == nil || l.remaining != nil {
		return
	}
	l.remaining = map[logKey][]int{}
	for i := range l.entries {
		e := &l.entries[i]
		node := s.g.Index(e.Node)
		if node < 0 {
			continue
		}
		k := keyOf(s.g, node, e.Step, e.Lineage)
		at, _ := slices.BinarySearchFunc(l.remaining[k], e.Occurrence, func(o, occurrence int) int { return cmp.Compare(l.entries[o].Occurrence, occurrence) })
		l.remaining[k] = slices.Insert(l.remaining[k], at, i)
		count := s.runCount(node, e.Step)
		*count = max(*count, e.Occurrence, 1)
	}
}

func keyOf(g *Graph, node, step int, lineage string) logKey {
	if g.deferred.Has(node) {
		lineage = ""
	}
	return logKey{node, step, lineage}
}

// pop removes and returns the log's entry of an execution, nil if there is none.
func (l *Log) pop(g *Graph, x *Execution) *contract.ExecutionRecord {
	if l == nil {
		return nil
	}
	k := keyOf(g, x.Node, x.Step, x.Lineage)
	list := l.remaining[k]
	if len(list) == 0 {
		return nil
	}
	l.remaining[k], l.replayed[list[0]] = list[1:], true
	return &l.entries[list[0]]
}

// Replayed is an execution that was replayed from a log instead of being run.
type Replayed struct {
	Execution *Execution
	Entry     *contract.ExecutionRecord
	// View is the execution's view when it ended; Conflicts are the conflicts of the view with which it
	// began.
	View      contract.View
	Conflicts []contract.Conflict
}

// Ready returns the executions that can run now, by step and declaration order, suspended ones first, and counts them as running.
// Executions in the log, which may be nil, are not returned but replayed with their writes, outputs and edges, as long as there are
// any; visit is called for each, in order. Ready returns the error of visit, or a [StepLimitError].
func (s *Scheduler) Ready(log *Log, visit func(*Replayed) error) ([]*Execution, error) {
	log.index(s)
	var ready []*Execution
	for {
		replayed := 0
		for _, x := range s.ready(log) {
			if x.recorded == nil {
				ready = append(ready, x)
				continue
			}
			replayed++
			if err := s.replay(x, visit); err != nil {
				return ready, err
			}
		}
		if replayed == 0 {
			return ready, nil
		}
	}
}

func (s *Scheduler) replay(x *Execution, visit func(*Replayed) error) error {
	entry := x.recorded
	r := &Replayed{Execution: x, Entry: entry}
	r.View, r.Conflicts = s.Begin(x)
	id, node := s.ID(x), &s.g.flow.Nodes[x.Node]
	for _, w := range entry.Writes {
		w.By = NextStamp(&r.View, id, id, x.Step)
		SetEntry(&r.View, w)
	}
	SetOutput(&r.View, contract.NodeOutput{Node: node.ID, Name: node.Name, Order: x.Node, SHA: entry.SHA, By: NextStamp(&r.View, id, id, x.Step)})
	if err := visit(r); err != nil {
		return err
	}
	return s.Leave(x, x.Step, s.g.Edges(entry.Taken), r.View)
}
