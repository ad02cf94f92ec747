package chaos

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// relay passes TCP connections on. While it is lossy, it does to them what loss of packets
// does: pieces come late, as if they were sent again, and now and then one never does, which
// stalls the connection and then breaks it.
type relay struct {
	address, to string
	mu          sync.Mutex
	dice        *rand.Rand
	lossy       bool
	late, gone  int
}

// newRelay listens at host:0 and passes on to an address.
func newRelay(t *testing.T, host, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	r := &relay{address: l.Addr().String(), to: to, dice: rand.New(rand.NewPCG(9, 9))}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // the test is over
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

// copy passes one direction on, and ends both with it.
func (r *relay) copy(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	piece := make([]byte, 1400)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			wait, lost := r.fate()
			time.Sleep(wait)
			if lost {
				return
			}
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// fate is how late the next piece comes, and whether it is lost for good: one in 10 is late by
// 0.2 to 1 s, one in 500 is lost, after 2 s.
func (r *relay) fate() (wait time.Duration, lost bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.lossy {
		return 0, false
	}
	switch n := r.dice.IntN(500); {
	case n == 0:
		r.gone++
		return 2 * time.Second, true
	case n <= 50:
		r.late++
		return 200*time.Millisecond + time.Duration(r.dice.IntN(800))*time.Millisecond, false
	}
	return 0, false
}

func (r *relay) lose(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lossy = on
}

// counts are the pieces that came late and that were lost.
func (r *relay) counts() (late, gone int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.late, r.gone
}

// TestRelay passes bytes unharmed, and breaks connections while it is lossy.
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
	for range 500 { // two pieces each, of which one in ten is late
		if late, gone := r.counts(); late+gone > 0 {
			return
		}
		if err := echo(); err != nil {
			break
		}
	}
	if late, gone := r.counts(); late+gone == 0 {
		t.Error("nothing is late or lost")
	}
}
