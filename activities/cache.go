package activities

import (
	"container/list"
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"weft/activities/contract"
)

// cache is a worker's LRU cache of transcripts: content by hash, and links from a thread's hash to the message
// before.
type cache struct {
	mu    sync.Mutex
	max   int
	bytes int
	order *list.List
	items map[string]*list.Element
}

type cached struct {
	key  string
	data []byte
	// prev is set in links: the thread's hash before data, which is a message's hash.
	prev string
	// value is data decoded, after the first call of decoded. It is never changed.
	value any
}

func newCache(max int) *cache {
	return &cache{max: max, order: list.New(), items: map[string]*list.Element{}}
}

func (c *cache) put(x cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items[x.key]; ok {
		c.order.MoveToFront(e)
		return
	}
	c.items[x.key] = c.order.PushFront(x)
	c.bytes += len(x.data) + len(x.key) + len(x.prev) + 200
	for c.bytes > c.max && c.order.Len() > 1 {
		e := c.order.Back()
		old, _ := c.order.Remove(e).(cached)
		delete(c.items, old.key)
		c.bytes -= len(old.data) + len(old.key) + len(old.prev) + 200
		if old.value != nil {
			c.bytes -= len(old.data)
		}
	}
}

func (c *cache) get(key string) (cached, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.items[key]
	if !ok {
		return cached{}, false
	}
	c.order.MoveToFront(e)
	x, _ := e.Value.(cached)
	return x, true
}

// keep stores content under its hash.
func (c *cache) keep(sha string, data []byte) { c.put(cached{key: "c" + sha, data: data}) }

func (c *cache) content(sha string) ([]byte, bool) {
	x, ok := c.get("c" + sha)
	return x.data, ok
}

// decoded returns stored content as a value, decoded at most once while it is cached. The value must not be
// changed.
func decoded[T any](c *cache, sha string, raw []byte) (*T, error) {
	if x, ok := c.get("c" + sha); ok {
		if v, ok := x.value.(*T); ok {
			return v, nil
		}
	}
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, fmt.Errorf("decode stored %T: %w", *v, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.items["c"+sha]; ok {
		x, _ := e.Value.(cached)
		if x.value == nil {
			c.bytes += len(raw)
		}
		x.value = v
		e.Value = x
	}
	return v, nil
}

// link records the hash of a thread with hash prev followed by a message with hash sha, and returns it.
func (c *cache) link(prev, sha string) string {
	hash := contract.Chain(prev, sha)
	c.put(cached{key: "l" + hash, data: []byte(sha), prev: prev})
	return hash
}

// predecessor is the inverse of link.
func (c *cache) predecessor(hash string) (prev, sha string, ok bool) {
	x, ok := c.get("l" + hash)
	return x.prev, string(x.data), ok
}

// locks let one activity at a time query a run; the others then find the content in the cache.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	free  chan struct{}
	users int
}

func newLocks() *locks { return &locks{held: map[string]*lock{}} }

// acquire waits for the lock of a name. The caller must call the function that it returns.
func (l *locks) acquire(ctx context.Context, name string) (func(), error) {
	l.mu.Lock()
	k, ok := l.held[name]
	if !ok {
		k = &lock{free: make(chan struct{}, 1)}
		l.held[name] = k
	}
	k.users++
	l.mu.Unlock()
	release := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.held, name)
		}
	}
	select {
	case k.free <- struct{}{}:
		return func() { <-k.free; release() }, nil
	case <-ctx.Done():
		release()
		return nil, ctx.Err()
	}
}
