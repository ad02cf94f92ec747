package schedule

import (
	"fmt"
	"testing"
	"time"

	"weft/activities/contract"
)

// branches returns arrivals of the n branches of a fork. Each inherits keys and writes two: one that all branches write, and
// one of its own.
func branches(n, keys int) []contract.ArrivalState {
	root := contract.View{}
	for k := range keys {
		write(&root, "START", 0, fmt.Sprintf("k%04d", k), "v")
	}
	out := make([]contract.ArrivalState, n)
	for i := range out {
		v, id := Clone(&root), fmt.Sprintf("n%04d#1", i)
		write(&v, id, 1, "all", id)
		write(&v, id, 1, id, "v")
		SetOutput(&v, contract.NodeOutput{Node: id, Order: i, SHA: id, By: NextStamp(&v, id, id, 1)})
		out[i] = contract.ArrivalState{Edge: i, View: v}
	}
	return out
}

// BenchmarkJoin shows that the time of a join is linear in the number of arrivals: a thousand take about ten times as long as a
// hundred.
func BenchmarkJoin(b *testing.B) {
	few, many := branches(100, 20), branches(1000, 20)
	measure := func(in []contract.ArrivalState) (d time.Duration) {
		start := time.Now()
		Join(in)
		return time.Since(start)
	}
	var short, long time.Duration
	for b.Loop() {
		for range 10 {
			short += measure(few)
		}
		long += measure(many)
	}
	b.ReportMetric(float64(short.Microseconds())/float64(10*b.N), "µs/100-arrivals")
	b.ReportMetric(float64(long.Microseconds())/float64(b.N), "µs/1000-arrivals")
	b.ReportMetric(10*float64(long)/float64(short), "ratio")
}

// BenchmarkFork measures a fork and its join on the scheduler alone.
func BenchmarkFork(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			f := wide(n)
			for b.Loop() {
				s := New(NewGraph(f))
				if err := s.Arrive(s.g.Starts, 1, "", contract.View{}); err != nil {
					b.Fatal(err)
				}
				for ready := s.ready(nil); len(ready) > 0; ready = s.ready(nil) {
					for _, x := range ready {
						v, _ := s.Begin(x)
						s.Started(x, v)
						s.others(x)
					}
					for _, x := range ready {
						v, id := x.Arrivals[0].View, s.ID(x)
						SetOutput(&v, contract.NodeOutput{Node: f.Nodes[x.Node].ID, By: NextStamp(&v, id, id, x.Step)})
						if err := s.Leave(x, x.Step, s.g.Out(x.Node), v); err != nil {
							b.Fatal(err)
						}
						if len(s.Running) > 0 && len(s.ready(nil)) > 0 {
							b.Fatal("join is ready before all branches have ended")
						}
					}
				}
			}
		})
	}
}
