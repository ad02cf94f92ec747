package schedule

import (
	"cmp"
	"slices"

	"weft/activities/contract"
)

// Log holds the finished executions of another run that a scheduler has not replayed yet.
type Log struct {
	entries []contract.ExecutionRecord
	// at holds what is left of entries by execution, in the order of their occurrences. It is nil until
	// the log is replayed.
	at map[logKey][]int
	// replayed says which entries are.
	replayed []bool
}

// logKey is what an execution has in every run of a flow. Of a join it has no lineage: that is new.
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

// open finds the log's entries by execution, and keeps their occurrences from others.
func (l *Log) open(s *Scheduler) {
	if l == nil || l.at != nil {
		return
	}
	l.at = map[logKey][]int{}
	for i := range l.entries {
		e := &l.entries[i]
		node := s.g.Index(e.Node)
		if node < 0 {
			continue
		}
		k := keyOf(s.g, node, e.Step, e.Lineage)
		at, _ := slices.BinarySearchFunc(l.at[k], e.Occurrence, func(o, occurrence int) int { return cmp.Compare(l.entries[o].Occurrence, occurrence) })
		l.at[k] = slices.Insert(l.at[k], at, i)
		ran := s.ranAt(node, e.Step)
		*ran = max(*ran, e.Occurrence, 1)
	}
}

func keyOf(g *Graph, node, step int, lineage string) logKey {
	if g.deferred.Has(node) {
		lineage = ""
	}
	return logKey{node, step, lineage}
}

// take takes the entry of an execution out of the log; nil where there is none.
func (l *Log) take(g *Graph, x *Execution) *contract.ExecutionRecord {
	if l == nil {
		return nil
	}
	k := keyOf(g, x.Node, x.Step, x.Lineage)
	list := l.at[k]
	if len(list) == 0 {
		return nil
	}
	l.at[k], l.replayed[list[0]] = list[1:], true
	return &l.entries[list[0]]
}

// Replayed is an execution that was taken from a log instead of being run.
type Replayed struct {
	Execution *Execution
	Entry     *contract.ExecutionRecord
	// View is what the execution knew when it ended; Conflicts are the concurrent writes that met in
	// the view with which it began.
	View      contract.View
	Conflicts []contract.Conflict
}

// Ready takes out what can run now, by step and declaration, and counts it as running. Executions that were suspended come
// first. Each that the log has, which may be nil, is ended with what it wrote, its output and the edges that it took, until no
// more are: visit is called for each, in order. The error is that of visit, or a [StepLimitError].
func (s *Scheduler) Ready(log *Log, visit func(*Replayed) error) ([]*Execution, error) {
	log.open(s)
	var left []*Execution
	for {
		replayed := 0
		for _, x := range s.ready(log) {
			if x.recorded == nil {
				left = append(left, x)
				continue
			}
			replayed++
			if err := s.replay(x, visit); err != nil {
				return left, err
			}
		}
		if replayed == 0 {
			return left, nil
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
