package limiter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weft/activities/contract"
)

// caller is a call of a simulation: when it asks next.
type caller struct {
	call contract.LimitedCall
	at   int64
}

// simulate lets calls ask when they are told, on workers by turns, and returns when each began.
func simulate(l *Queue, calls []caller, limit int, late func() int64) map[string]int64 {
	began := map[string]int64{}
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
		var again []caller
		for i, c := range calls[:n] {
			if turn := out.Turns[i]; turn.Ask {
				again = append(again, caller{c.call, now + turn.Micros + late()})
			} else {
				began[c.call.Key] = now + turn.Micros + min(late(), l.slack())
			}
		}
		calls = append(again, calls[n:]...)
	}
	return began
}

// TestNeverOverTheLimit lets many calls ask at random times, late ones among them: no window has more than the limit.
func TestNeverOverTheLimit(t *testing.T) {
	for _, limit := range []int{1, 2, 7, 60, 500} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(limit)))
			l := &Queue{window: 60_000_000}
			var calls []caller
			for i := range 3 * limit {
				calls = append(calls, caller{contract.LimitedCall{Key: fmt.Sprint(i), Tenant: fmt.Sprint(i % 3)}, 1e12 + r.Int64N(30_000_000)})
			}
			n := len(calls)
			began := simulate(l, calls, limit, func() int64 { return r.Int64N(400_000) })
			if len(began) != n {
				t.Fatalf("%d of %d calls began", len(began), n)
			}
			var at []int64
			for _, b := range began {
				at = append(at, b)
			}
			slices.Sort(at)
			for i := limit; i < len(at); i++ {
				if at[i]-at[i-limit] < l.window {
					t.Fatalf("calls %d to %d began within %d µs", i-limit, i, at[i]-at[i-limit])
				}
			}
			if took, most := at[n-1]-at[0], 4*l.window; took > most {
				t.Errorf("%d calls took %d s", n, took/1e6)
			}
		})
	}
}

// TestTenantsShare has one tenant with 1,000 calls, and another that comes later with ten: these wait for no more than its share.
func TestTenantsShare(t *testing.T) {
	l := &Queue{window: 60_000_000}
	var calls []caller
	for i := range 1000 {
		calls = append(calls, caller{contract.LimitedCall{Key: fmt.Sprint("many", i), Tenant: "many"}, 1e12})
	}
	came := int64(1e12 + 30_000_000)
	for i := range 10 {
		calls = append(calls, caller{contract.LimitedCall{Key: fmt.Sprint("few", i), Tenant: "few"}, came})
	}
	began := simulate(l, calls, 60, func() int64 { return 20_000 })
	for i := range 10 {
		// Two calls of 60 a minute for each of its own, and a little.
		if waited := began[fmt.Sprint("few", i)] - came; waited > int64(2*(i+1)+4)*1_100_000 {
			t.Errorf("call %d waited %d ms", i, waited/1000)
		}
	}
}

func TestTokensAreCorrected(t *testing.T) {
	l := &Queue{window: 60_000_000}
	now := int64(1e12)
	ask := func(key string, used int) contract.LimitTurn {
		return l.Reserve(now, &contract.LimitRequest{Worker: "w", Tokens: 6000, Used: used, Calls: []contract.LimitedCall{{Key: key, Tokens: 100}}}).Turns[0]
	}
	if turn := ask("a", 0); turn.Ask || turn.Micros != 0 {
		t.Errorf("the first call has %+v", turn)
	}
	if turn := ask("b", 5900); !turn.Ask || turn.Micros < 50_000_000 {
		t.Errorf("after 6000 tokens a call has %+v", turn)
	}
	if turn := ask("b", -5900); turn.Ask {
		t.Errorf("after they were given back a call has %+v", turn)
	}
}

// TestOneRefusalIsForgotten has a provider refuse one call of many: all pause for a second, go on nearly as fast, and are free
// again soon.
func TestOneRefusalIsForgotten(t *testing.T) {
	l := &Queue{window: 60_000_000}
	now := int64(1e12)
	ask := func(refusal *contract.LimitRefusal) *contract.LimitReply {
		return l.Reserve(now, &contract.LimitRequest{Worker: "a", Sent: 100, Refusal: refusal, Calls: []contract.LimitedCall{{Key: fmt.Sprint(now)}}})
	}
	if out := ask(&contract.LimitRefusal{}); !out.Turns[0].Ask || out.Turns[0].Micros > 1_000_000 || !out.Refused {
		t.Errorf("after the refusal a call has %+v", out)
	}
	if now += 1_000_000; l.state.Learned != 95 {
		t.Errorf("the limit is %d", l.state.Learned)
	}
	if out := ask(nil); out.Turns[0].Ask {
		t.Errorf("after the pause a call has %+v", out)
	}
	began := now
	for !ask(nil).Free && now < began+l.window {
		now += 100_000
	}
	if now >= began+l.window/2 {
		t.Errorf("it is forgotten after %d s", (now-began)/1e6)
	}
}

// TestAProviderThatAsksToWait has all calls wait as long as the provider asks, and no longer.
func TestAProviderThatAsksToWait(t *testing.T) {
	l := &Queue{window: 60_000_000}
	now := int64(1e12)
	l.Reserve(now, &contract.LimitRequest{Worker: "a", Sent: 40, Refusal: &contract.LimitRefusal{AfterMillis: 7000}})
	in := &contract.LimitRequest{Worker: "b", Sent: 20, Calls: []contract.LimitedCall{{Key: "k"}}}
	if out := l.Reserve(now, in); !out.Turns[0].Ask || out.Turns[0].Micros < 6_000_000 || out.Turns[0].Micros > 7_000_000 {
		t.Errorf("another worker's call has %+v", out.Turns[0])
	}
	if out := l.Reserve(now+7_000_000, in); out.Turns[0].Ask {
		t.Errorf("after seven seconds it has %+v", out.Turns[0])
	}
}

// TestACallKeepsItsPlace asks twice for one call: it has one place, and loses it where it does not come back.
func TestACallKeepsItsPlace(t *testing.T) {
	l := &Queue{window: 60_000_000}
	now := int64(1e12)
	ask := func(keys ...string) *contract.LimitReply {
		in := contract.LimitRequest{Worker: "w", Requests: 1}
		for _, k := range keys {
			in.Calls = append(in.Calls, contract.LimitedCall{Key: k})
		}
		return l.Reserve(now, &in)
	}
	ask("a", "b", "c")
	first, again := ask("b"), ask("b")
	if first.Turns[0] != again.Turns[0] || len(l.state.Tenants[0].Waiting) != 2 {
		t.Errorf("first %+v, then %+v; %d wait", first.Turns, again.Turns, len(l.state.Tenants[0].Waiting))
	}
	now += 5 * l.window
	ask()
	if len(l.state.Tenants) != 0 {
		t.Errorf("calls that did not come back wait still: %+v", l.state.Tenants)
	}
}

// TestFewCallsShowNoLimit has a refusal after few calls hold back all for a moment, and no longer.
func TestFewCallsShowNoLimit(t *testing.T) {
	l := &Queue{window: 60_000_000}
	now := int64(1e12)
	l.Reserve(now, &contract.LimitRequest{Worker: "a", Sent: minSent - 1, Refusal: &contract.LimitRefusal{AfterMillis: 2000}})
	in := &contract.LimitRequest{Worker: "b", Calls: []contract.LimitedCall{{Key: "k"}}}
	if out := l.Reserve(now, in); !out.Turns[0].Ask || out.Turns[0].Micros > 2_000_000 {
		t.Errorf("after the refusal a call has %+v", out.Turns[0])
	}
	if out := l.Reserve(now+2_000_000, in); out.Turns[0].Ask || l.state.Learned != 0 {
		t.Errorf("after the pause a call has %+v; the limit is %d", out.Turns[0], l.state.Learned)
	}
}

// TestUnusedTurnsComeBack gives back the turns that calls have not used.
func TestUnusedTurnsComeBack(t *testing.T) {
	l := &Queue{window: 60_000_000}
	now := int64(1e12)
	ask := func(key string, unused int) contract.LimitTurn {
		return l.Reserve(now, &contract.LimitRequest{Worker: "w", Requests: 1, Unused: unused, Calls: []contract.LimitedCall{{Key: key}}}).Turns[0]
	}
	if a, b, c := ask("a", 0), ask("b", 0), ask("b", 1); a.Ask || !b.Ask || c.Ask {
		t.Errorf("the first has %+v, the second %+v, and when the turn is given back %+v", a, b, c)
	}
}
