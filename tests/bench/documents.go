package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// documents are generators of flows with a given number of nodes; they also return the number of edges.
var documents = []struct {
	name string
	make func(n int) (doc []byte, edges int)
}{
	{"one chain", func(n int) ([]byte, int) { return document(n, func(i int, to func(int, bool)) { to(i+1, false) }) }},
	{"random, conditions, no cycles", func(n int) ([]byte, int) {
		r := rand.New(rand.NewPCG(1, 2))
		return document(n, func(i int, to func(int, bool)) {
			to(i+1, false)
			for range 2 {
				to(i+1+r.IntN(n-i), true)
			}
		})
	}},
	{"random, conditions, cycles", func(n int) ([]byte, int) {
		r := rand.New(rand.NewPCG(3, 4))
		return document(n, func(i int, to func(int, bool)) {
			to(i+1, true)
			for range 2 {
				to(r.IntN(n+1), true)
			}
		})
	}},
	{"one fork and a deferred join", func(n int) ([]byte, int) {
		return document(n, func(i int, to func(int, bool)) {
			switch {
			case i == 0:
				for k := 1; k < n-1; k++ {
					to(k, false)
				}
			case i == n-1:
				to(n, false)
			default:
				to(n-1, false)
			}
		})
	}},
}

// document generates a flow. leave returns the targets of the edges from node i, where n is END, and
// whether they have a condition.
func document(n int, leave func(i int, to func(target int, asked bool))) ([]byte, int) {
	type object map[string]any
	id := func(i int) string { return fmt.Sprintf("node%04d", i) }
	prompt := strings.Repeat("Do the next part of the work and say what came of it. ", 4)
	var nodes, edges []object
	add := func(from, to string, asked bool) {
		e := object{"id": fmt.Sprintf("e%d", len(edges)), "source": from, "target": to, "condition_prompt": nil}
		if asked {
			e["condition_prompt"] = "Is there more to do here?"
		}
		edges = append(edges, e)
	}
	add("START", id(0), false)
	for i := range n {
		nodes = append(nodes, object{"id": id(i), "name": fmt.Sprintf("Node %d", i), "prompt": prompt, "tools": []any{},
			"max_iterations": 5, "is_exit_node": i == n-1, "defer": i == n-1})
		leave(i, func(target int, asked bool) {
			if target == n {
				add(id(i), "END", asked)
				return
			}
			add(id(i), id(target), asked)
		})
	}
	raw, err := json.MarshalIndent(object{"name": "Bench", "generation_prompt": "a large flow", "execution_plan": "graph TD",
		"response_format": object{"type": 1, "payload": nil}, "nodes": nodes, "edges": edges}, "", "  ")
	if err != nil {
		return nil, 0 // not a flow: Load reports it
	}
	return raw, len(edges)
}
