package chaos

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// relay forwards TCP connections. While it is lossy, it simulates packet loss: chunks are
// delayed, as by retransmission, and now and then one is dropped, which stalls the
// connection and then closes it.
type relay struct {
	address, to      string
	mu               sync.Mutex
	rng              *rand.Rand
	lossy            bool
	delayed, dropped int
}

// newRelay listens on a free port of host and forwards to an address.
func newRelay(t *testing.T, host, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := &relay{address: l.Addr().String(), to: to, rng: rand.New(rand.NewPCG(9, 9))}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			go r.pass(in)
		}
	}()
	return r
}

func (r *relay) pass(in net.Conn) {
	out, err := net.Dial("tcp", r.to)
	if err != nil {
		_ = in.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { r.copy(in, out) })
	both.Go(func() { r.copy(out, in) })
	both.Wait()
}

// copy forwards one direction, and closes both connections at its end.
func (r *relay) copy(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	chunk := make([]byte, 1400)
	for {
		n, err := from.Read(chunk)
		if n > 0 {
			wait, lost := r.simulateLoss()
			time.Sleep(wait)
			if lost {
				return
			}
			if _, err := to.Write(chunk[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// simulateLoss returns the delay of the next chunk, and whether it is dropped: one in 10 is delayed by
// 0.2 to 1 s, one in 500 is dropped after 2 s.
func (r *relay) simulateLoss() (wait time.Duration, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lossy {
		return 0, false
	}
	switch n := r.rng.IntN(500); {
	case n == 0:
		r.dropped++
		return 2 * time.Second, true
	case n <= 50:
		r.delayed++
		return 200*time.Millisecond + time.Duration(r.rng.IntN(800))*time.Millisecond, false
	}
	return 0, false
}

func (r *relay) lose(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lossy = on
}

// counts returns how many chunks were delayed and dropped.
func (r *relay) counts() (late, dropped int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.delayed, r.dropped
}

// TestRelay checks that a relay forwards bytes unchanged, and delays or drops some while it is lossy.
func TestRelay(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	r := newRelay(t, "127.0.0.1", l.Addr().String())
	c, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	echo := func() error {
		if _, err := c.Write([]byte("hello")); err != nil {
			return err
		}
		_, err := io.ReadFull(c, make([]byte, 5))
		return err
	}
	for range 20 {
		if err := echo(); err != nil {
			t.Fatal(err)
		}
	}
	r.lose(true)
	for range 500 { // two chunks each, of which one in ten is delayed
		if late, gone := r.counts(); late+gone > 0 {
			return
		}
		if err := echo(); err != nil {
			break
		}
	}
	if late, gone := r.counts(); late+gone == 0 {
		t.Error("no chunk was delayed or dropped")
	}
}
