package activities

import (
	"context"
	"errors"
	"fmt"
	"math/rand"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"weft/activities/contract"
)

func TestCacheEvictsLeastRecentlyUsed(t *testing.T) {
	c := newCache(3 * (1000 + 200 + 2))
	data := []byte(strings.Repeat("x", 1000))
	for _, sha := range []string{"a", "b", "c"} {
		c.keep(sha, data)
	}
	if _, ok := c.content("a"); !ok {
		t.Fatal("a was evicted although all three fit")
	}
	c.keep("d", data)
	for sha, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if _, ok := c.content(sha); ok != want {
			t.Errorf("%s is cached: %v, want %v", sha, ok, want)
		}
	}
}

func TestCacheKeepsOversizedEntry(t *testing.T) {
	c := newCache(10)
	c.keep("a", []byte("small"))
	c.keep("b", []byte(strings.Repeat("x", 100)))
	if _, ok := c.content("a"); ok {
		t.Error("the older entry was not evicted")
	}
	if got, ok := c.content("b"); !ok || len(got) != 100 {
		t.Error("the newest entry is missing")
	}
}

// weigh computes the size of the entries of a cache.
func weigh(c *cache) int {
	n := 0
	for e := c.order.Front(); e != nil; e = e.Next() {
		x := e.Value.(cached)
		n += len(x.key) + len(x.data) + len(x.prev) + 200
		if x.value != nil {
			n += len(x.data)
		}
	}
	return n
}

func TestCacheCountsItsBytes(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	c := newCache(20_000)
	for range 5000 {
		sha := fmt.Sprint(rng.Intn(60))
		raw := []byte(fmt.Sprintf(`{"role":"user","text":%q}`, strings.Repeat("x", rng.Intn(900))))
		switch rng.Intn(4) {
		case 0:
			c.keep(sha, raw)
		case 1:
			c.link(sha, fmt.Sprint(rng.Intn(60)))
		case 2:
			c.content(sha)
		case 3:
			if raw, ok := c.content(sha); ok {
				if _, err := decoded[contract.Message](c, sha, raw); err != nil {
					t.Fatal(err)
				}
			}
		}
		if c.bytes != weigh(c) || len(c.items) != c.order.Len() {
			t.Fatalf("the cache counts %d bytes and %d entries, but holds %d and %d", c.bytes, len(c.items), weigh(c), c.order.Len())
		}
	}
	c.keep("last", []byte("x"))
	if c.bytes > c.max {
		t.Errorf("the cache holds %d bytes, at most %d", c.bytes, c.max)
	}
}

func TestDecodedOnce(t *testing.T) {
	c := newCache(1 << 20)
	raw := []byte(`{"role":"user","text":"hello"}`)
	c.keep("a", raw)
	first, err := decoded[contract.Message](c, "a", raw)
	if err != nil || first.Text != "hello" {
		t.Fatalf("%+v, %v", first, err)
	}
	if second, _ := decoded[contract.Message](c, "a", raw); second != first {
		t.Error("it was decoded twice")
	}
	if other, err := decoded[contract.Profile](c, "a", raw); err != nil || other == nil {
		t.Errorf("as another type: %v", err)
	}
	if _, err := decoded[contract.Message](c, "b", []byte(`{`)); err == nil {
		t.Error("decoding invalid JSON succeeded")
	}
	if m, err := decoded[contract.Message](c, "not kept", raw); err != nil || m.Text != "hello" {
		t.Errorf("an entry that is not cached: %v", err)
	}
}

func TestPredecessor(t *testing.T) {
	c := newCache(1 << 20)
	hash := ""
	for _, sha := range []string{"a", "b", "c"} {
		hash = c.link(hash, sha)
	}
	var got []string
	for hash != "" {
		prev, sha, ok := c.predecessor(hash)
		if !ok {
			t.Fatal("a link is missing")
		}
		got, hash = append(got, sha), prev
	}
	if strings.Join(got, "") != "cba" {
		t.Errorf("predecessors = %v", got)
	}
	if _, _, ok := c.predecessor("unknown"); ok {
		t.Error("an unknown hash has a link")
	}
}

func TestLocksAreExclusive(t *testing.T) {
	l := newLocks()
	var inside, most atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			free, err := l.acquire(t.Context(), "run")
			if err != nil {
				t.Error(err)
				return
			}
			most.Store(max(most.Load(), inside.Add(1)))
			time.Sleep(time.Millisecond)
			inside.Add(-1)
			free()
		})
	}
	all.Wait()
	if most.Load() != 1 {
		t.Errorf("%d held the lock at once", most.Load())
	}
	if len(l.held) != 0 {
		t.Errorf("%d locks are left", len(l.held))
	}
}

func TestLocksAreIndependent(t *testing.T) {
	l := newLocks()
	one, err := l.acquire(t.Context(), "one")
	if err != nil {
		t.Fatal(err)
	}
	defer one()
	two, err := l.acquire(t.Context(), "two")
	if err != nil {
		t.Fatal(err)
	}
	two()
}

func TestLockWaitIsCancelled(t *testing.T) {
	l := newLocks()
	free, err := l.acquire(t.Context(), "run")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, err := l.acquire(ctx, "run"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
	free()
	again, err := l.acquire(t.Context(), "run")
	if err != nil {
		t.Fatalf("the lock was not freed: %v", err)
	}
	again()
	if len(l.held) != 0 {
		t.Errorf("%d locks are left", len(l.held))
	}
}
