package limiter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/activities/contract"
)

// caller is a simulated call and the time of its next request.
type caller struct {
	call contract.LimitedCall
	at   int64
}

// simulate has calls of three workers request a turn when due, and returns the start time of each.
func simulate(l *Queue, calls []caller, limit int, delay func() int64) map[string]int64 {
	started := map[string]int64{}
	for len(calls) > 0 {
		slices.SortStableFunc(calls, func(a, b caller) int { return int(a.at - b.at) })
		now := calls[0].at
		n := 0
		for n < len(calls) && calls[n].at <= now+50_000 {
			n++
		}
		now = calls[n-1].at
		in := contract.LimitRequest{Worker: fmt.Sprint(now % 3), Requests: limit}
		for _, c := range calls[:n] {
			in.Calls = append(in.Calls, c.call)
		}
		out := l.Reserve(now, &in)
		var waiting []caller
		for i, c := range calls[:n] {
			if turn := out.Turns[i]; turn.Ask {
				waiting = append(waiting, caller{c.call, now + turn.Micros + delay()})
			} else {
				started[c.call.Key] = now + turn.Micros + min(delay(), l.slack())
			}
		}
		calls = append(waiting, calls[n:]...)
	}
	return started
}

// TestLimitNotExceeded checks that no window has more calls than the limit, even if calls request late or at random.
func TestLimitNotExceeded(t *testing.T) {
	for _, limit := range []int{1, 2, 7, 60, 500} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(limit)))
			l := &Queue{window: 60_000_000}
			var calls []caller
			for i := range 3 * limit {
				calls = append(calls, caller{contract.LimitedCall{Key: fmt.Sprint(i), Tenant: fmt.Sprint(i % 3)}, 1e12 + r.Int64N(30_000_000)})
			}
			n := len(calls)
			started := simulate(l, calls, limit, func() int64 { return r.Int64N(400_000) })
			if len(started) != n {
				t.Fatalf("%d of %d calls started", len(started), n)
			}
			var at []int64
			for _, b := range started {
				at = append(at, b)
			}
			slices.Sort(at)
			for i := limit; i < len(at); i++ {
				if at[i]-at[i-limit] < l.window {
					t.Fatalf("calls %d to %d started within %d µs", i-limit, i, at[i]-at[i-limit])
				}
			}
			if took, most := at[n-1]-at[0], 4*l.window; took > most {
				t.Errorf("%d calls took %d s", n, took/1e6)
			}
		})
	}
}

// TestFairShare checks that the ten calls of a tenant get its share of the limit although another has 1,000 queued.
func TestFairShare(t *testing.T) {
	l := &Queue{window: 60_000_000}
	var calls []caller
	for i := range 1000 {
		calls = append(calls, caller{contract.LimitedCall{Key: fmt.Sprint("many", i), Tenant: "many"}, 1e12})
	}
	arrived := int64(1e12 + 30_000_000)
	for i := range 10 {
		calls = append(calls, caller{contract.LimitedCall{Key: fmt.Sprint("few", i), Tenant: "few"}, arrived})
	}
	started := simulate(l, calls, 60, func() int64 { return 20_000 })
	for i := range 10 {
		// The time of two of 60 calls a minute for each of its calls, with a margin.
		if waited := started[fmt.Sprint("few", i)] - arrived; waited > int64(2*(i+1)+4)*1_100_000 {
			t.Errorf("call %d waited %d ms", i, waited/1000)
		}
	}
}

func TestTokenUsageCorrected(t *testing.T) {
	l := &Queue{window: 60_000_000}
	now := int64(1e12)
	reserve := func(key string, used int) contract.LimitTurn {
		return l.Reserve(now, &contract.LimitRequest{Worker: "w", Tokens: 6000, Used: used, Calls: []contract.LimitedCall{{Key: key, Tokens: 100}}}).Turns[0]
	}
	if turn := reserve("a", 0); turn.Ask || turn.Micros != 0 {
		t.Errorf("turn of the first call = %+v", turn)
	}
	if turn := reserve("b", 5900); !turn.Ask || turn.Micros < 50_000_000 {
		t.Errorf("turn after 6000 tokens = %+v", turn)
	}
	if turn := reserve("b", -5900); turn.Ask {
		t.Errorf("turn after the tokens were returned = %+v", turn)
	}
}

// TestRecoveryAfterRefusal checks that one refused call of many pauses all for a second and then reduces the rate
// slightly, for less than half a window.
func TestRecoveryAfterRefusal(t *testing.T) {
	l := &Queue{window: 60_000_000}
	now := int64(1e12)
	reserve := func(refusal *contract.LimitRefusal) *contract.LimitReply {
		return l.Reserve(now, &contract.LimitRequest{Worker: "a", Sent: 100, Refusal: refusal, Calls: []contract.LimitedCall{{Key: fmt.Sprint(now)}}})
	}
	if out := reserve(&contract.LimitRefusal{}); !out.Turns[0].Ask || out.Turns[0].Micros > 1_000_000 || !out.Refused {
		t.Errorf("turn after the refusal = %+v", out)
	}
	if now += 1_000_000; l.state.Learned != 95 {
		t.Errorf("learned limit = %d, want 95", l.state.Learned)
	}
	if out := reserve(nil); out.Turns[0].Ask {
		t.Errorf("turn after the pause = %+v", out)
	}
	started := now
	for !reserve(nil).Free && now < started+l.window {
		now += 100_000
	}
	if now >= started+l.window/2 {
		t.Errorf("unlimited again after %d s", (now-started)/1e6)
	}
}

// TestRetryAfter checks that all calls wait for the time that the provider requests, and no longer.
func TestRetryAfter(t *testing.T) {
	l := &Queue{window: 60_000_000}
	now := int64(1e12)
	l.Reserve(now, &contract.LimitRequest{Worker: "a", Sent: 40, Refusal: &contract.LimitRefusal{AfterMillis: 7000}})
	in := &contract.LimitRequest{Worker: "b", Sent: 20, Calls: []contract.LimitedCall{{Key: "k"}}}
	if out := l.Reserve(now, in); !out.Turns[0].Ask || out.Turns[0].Micros < 6_000_000 || out.Turns[0].Micros > 7_000_000 {
		t.Errorf("turn of another worker's call = %+v", out.Turns[0])
	}
	if out := l.Reserve(now+7_000_000, in); out.Turns[0].Ask {
		t.Errorf("turn after seven seconds = %+v", out.Turns[0])
	}
}

// TestQueuePosition checks that repeated requests of a call share one position, which is lost if it stops requesting.
func TestQueuePosition(t *testing.T) {
	l := &Queue{window: 60_000_000}
	now := int64(1e12)
	reserve := func(keys ...string) *contract.LimitReply {
		in := contract.LimitRequest{Worker: "w", Requests: 1}
		for _, k := range keys {
			in.Calls = append(in.Calls, contract.LimitedCall{Key: k})
		}
		return l.Reserve(now, &in)
	}
	reserve("a", "b", "c")
	first, second := reserve("b"), reserve("b")
	if first.Turns[0] != second.Turns[0] || len(l.state.Tenants[0].Waiting) != 2 {
		t.Errorf("first %+v, then %+v; %d waiting", first.Turns, second.Turns, len(l.state.Tenants[0].Waiting))
	}
	now += 5 * l.window
	reserve()
	if len(l.state.Tenants) != 0 {
		t.Errorf("calls that stopped requesting are still queued: %+v", l.state.Tenants)
	}
}

// TestRefusalAfterFewCalls checks that a refusal after few calls only pauses: no limit is learned from it.
func TestRefusalAfterFewCalls(t *testing.T) {
	l := &Queue{window: 60_000_000}
	now := int64(1e12)
	l.Reserve(now, &contract.LimitRequest{Worker: "a", Sent: minSent - 1, Refusal: &contract.LimitRefusal{AfterMillis: 2000}})
	in := &contract.LimitRequest{Worker: "b", Calls: []contract.LimitedCall{{Key: "k"}}}
	if out := l.Reserve(now, in); !out.Turns[0].Ask || out.Turns[0].Micros > 2_000_000 {
		t.Errorf("turn after the refusal = %+v", out.Turns[0])
	}
	if out := l.Reserve(now+2_000_000, in); out.Turns[0].Ask || l.state.Learned != 0 {
		t.Errorf("turn after the pause = %+v; learned limit = %d", out.Turns[0], l.state.Learned)
	}
}

// TestUnusedTurns checks that returned turns can be reserved again.
func TestUnusedTurns(t *testing.T) {
	l := &Queue{window: 60_000_000}
	now := int64(1e12)
	reserve := func(key string, unused int) contract.LimitTurn {
		return l.Reserve(now, &contract.LimitRequest{Worker: "w", Requests: 1, Unused: unused, Calls: []contract.LimitedCall{{Key: key}}}).Turns[0]
	}
	if a, b, c := reserve("a", 0), reserve("b", 0), reserve("b", 1); a.Ask || !b.Ask || c.Ask {
		t.Errorf("first turn %+v, second %+v, after a turn was returned %+v", a, b, c)
	}
}
