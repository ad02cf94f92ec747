package main

import "testing"

// TestCaches checks how much of a long conversation the provider's cache serves, and that it is less without cache marks and keys.
func TestCaches(t *testing.T) {
	for _, m := range cachedModels {
		t.Run(m.name, func(t *testing.T) {
			with, err := m.share(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			without, err := m.share(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("by %s: %.1f %%, without %.1f %%", m.rule, 100*with, 100*without)
			if with < m.least || without >= with {
				t.Errorf("the share is %.3f, want %.2f at least; without marks and keys %.3f", with, m.least, without)
			}
		})
	}
}

// TestPromptCache checks that the fake caches marked prefixes, finds them by a mark close enough behind, and rejects too many marks.
func TestPromptCache(t *testing.T) {
	long := func(name string) promptBlock {
		return promptBlock{text: name + string(make([]byte, 4*leastCached-len(name)))}
	}
	mark := func(b promptBlock) promptBlock { b.marked = true; return b }
	c := &promptCache{rule: byMarks}
	for i, tc := range []struct {
		blocks []promptBlock
		cached int
	}{
		{[]promptBlock{long("a"), long("b")}, 0},
		{[]promptBlock{mark(long("a")), long("b")}, 0},
		{[]promptBlock{long("a"), mark(long("c"))}, leastCached},
		{[]promptBlock{long("a"), mark(long("c")), mark(long("d"))}, 2 * leastCached},
		{[]promptBlock{long("x"), mark(long("c"))}, 0},
	} {
		if all, cached, _, err := c.look(tc.blocks, ""); err != nil || cached != tc.cached || all != len(tc.blocks)*leastCached {
			t.Errorf("request %d: %d of %d tokens are cached, want %d (%v)", i+1, cached, all, tc.cached, err)
		}
	}
	many := make([]promptBlock, maxMarks+1)
	for i := range many {
		many[i] = mark(long("a"))
	}
	if _, _, _, err := c.look(many, ""); err == nil {
		t.Error("no error for too many marks")
	}
}
