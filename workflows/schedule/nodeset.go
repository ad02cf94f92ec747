package schedule

import (
	"math/bits"
	"slices"
)

// NodeSet is a set of indices of nodes, or of edges.
type NodeSet []uint64

// NewNodeSet returns an empty set for a graph of n nodes.
func NewNodeSet(n int) NodeSet { return make(NodeSet, (n+63)/64) }

// Add puts a node into the set.
func (s NodeSet) Add(node int) { s[node/64] |= 1 << (node % 64) }

// Has reports whether a node is in the set; nil is an empty one.
func (s NodeSet) Has(node int) bool { return s != nil && s[node/64]&(1<<(node%64)) != 0 }

// Clone returns a copy of the set.
func (s NodeSet) Clone() NodeSet { return slices.Clone(s) }

// each calls f for every node of the set, in order.
func (s NodeSet) each(f func(node int)) {
	for i, word := range s {
		for ; word != 0; word &= word - 1 {
			f(i*64 + bits.TrailingZeros64(word))
		}
	}
}
