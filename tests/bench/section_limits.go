package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/worker/limits"
	"weft/workflows/limiter"
)

const (
	// limitedRuns run on limitedWorkers against a provider that accepts limitedRequests per minute.
	limitedRuns, limitedWorkers, limitedRequests = 100, 3, 60
	// manyRequests is a limit per minute of a thousand calls a second; each worker has manyCalls concurrent requests for it.
	manyRequests, manyCalls = 60_000, 200
)

// sharedLimits counts the requests that a provider rejects with and without configured limits, and the permits that the limiter
// grants if the limit is high. It fails if a request is rejected that the limiter should have delayed.
func sharedLimits(ctx context.Context, b *bench) error {
	if err := b.turns(ctx); err != nil {
		return err
	}
	if b.quick {
		return nil
	}
	b.table.plainHead("Limits: %d runs on %d workers, their provider takes %d requests in any minute", limitedRuns, limitedWorkers, limitedRequests)
	fmt.Fprintf(b.table.out, rowFormat, "", "first minute", "later", "requests refused", "target")
	for _, configured := range []int{limitedRequests, 0} {
		if err := b.limited(ctx, configured); err != nil {
			return err
		}
	}
	return nil
}

// limited starts runs on workers with a limit configured; 0 is no limit.
func (b *bench) limited(ctx context.Context, configured int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := &strictProvider{}
	srv, url, err := listen(p)
	if err != nil {
		return err
	}
	defer srv.Close()
	for range limitedWorkers {
		w, err := b.productWorker(url+"/v1", fmt.Sprintf("WEFT_PROVIDERS_FAKE_REQUESTS_PER_MINUTE=%d", configured))
		if err != nil {
			return err
		}
		defer w.kill()
	}
	var all []client.WorkflowRun
	for range limitedRuns {
		b.runs++
		run, err := b.begin(ctx, b.id(b.runs), contract.TaskQueue, onlyNode(node("agent"), "limited", fakeModel, nil))
		if err != nil {
			return err
		}
		all = append(all, run)
	}
	for _, run := range all {
		if err := run.Get(ctx, nil); err != nil {
			return fmt.Errorf("run %s: %w", run.GetID(), err)
		}
	}
	early, late := p.refused()
	name := "without limits"
	if configured > 0 {
		name = fmt.Sprintf("requests_per_minute: %d", configured)
	}
	most := early
	if configured > 0 {
		most = 0
	}
	fmt.Fprintf(b.table.out, rowFormat, name, fmt.Sprint(early), fmt.Sprint(late), fmt.Sprintf("all done in %.0f s", time.Since(p.first).Seconds()), verdict(early+late, most))
	if early+late > most {
		return fmt.Errorf("%s: %d requests were refused in the first minute, and %d later", name, early, late)
	}
	return nil
}

// strictProvider accepts [limitedRequests] in any minute, and rejects others without a Retry-After.
type strictProvider struct {
	mu       sync.Mutex
	first    time.Time
	taken    []time.Time
	refusals []time.Time
}

func (p *strictProvider) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if p.first.IsZero() {
		p.first = now
	}
	for len(p.taken) > 0 && now.Sub(p.taken[0]) >= time.Minute {
		p.taken = p.taken[1:]
	}
	if len(p.taken) >= limitedRequests {
		p.refusals = append(p.refusals, now)
		http.Error(w, `{"error":{"message":"too many requests"}}`, http.StatusTooManyRequests)
		return
	}
	p.taken = append(p.taken, now)
	fmt.Fprint(w, `{"id":"1","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"done"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
}

// refused returns the requests rejected in the first minute, and later.
func (p *strictProvider) refused() (early, late int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.refusals {
		if at.Sub(p.first) < time.Minute {
			early++
		} else {
			late++
		}
	}
	return early, late
}

// turns makes workers request a thousand permits a second, and counts the granted ones and the Updates used.
func (b *bench) turns(ctx context.Context) error {
	seconds := 30
	if b.quick {
		seconds = 10
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
	defer cancel()
	key := llm.LimitedKey{Fingerprint: b.id(0), Requests: manyRequests}
	var mu sync.Mutex
	var waits []float64
	var failed error
	var all sync.WaitGroup
	before := b.serverCPU()
	for w := range limitedWorkers {
		server := worker.New(b.client, contract.LimiterQueue, worker.Options{LocalActivityWorkerOnly: true})
		limiter.Register(server)
		shared := limits.New(b.client, server, time.Minute, quiet)
		defer shared.Stop()
		for c := range manyCalls {
			all.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					began := time.Now()
					err := turn(ctx, shared, key, fmt.Sprintf("%d/%d/%d", w, c, n))
					mu.Lock()
					if err == nil {
						waits = append(waits, time.Since(began).Seconds()*1000)
					} else if ctx.Err() == nil {
						failed = err
					}
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
	}
	all.Wait()
	b.table.plainHead("Limits: %d requests per minute, %d workers with %d calls each that ask again at once, for %d s", manyRequests, limitedWorkers, manyCalls, seconds)
	b.table.note("%.0f turns a second; a call waited %.0f ms, at the 95th percentile %.0f ms; the server took %.1f ms of CPU per 100 turns", float64(len(waits))/float64(seconds),
		quantile(waits, 0.5), quantile(waits, 0.95), (b.serverCPU()-before).Seconds()*1000/float64(max(1, len(waits)))*100)
	return failed
}

// turn waits for the permit of a call. It fails if the limiter does not respond.
func turn(ctx context.Context, shared *limits.Limits, key llm.LimitedKey, name string) error {
	for {
		p, err := shared.Begin(ctx, key, contract.LimitedCall{Key: name, Tenant: strings.Split(name, "/")[0]})
		switch {
		case err != nil:
			return err
		case p.Unlimited:
			return errors.New("the limiter did not answer")
		case p.Wait <= 0:
			p.End(llm.LimitOutcome{})
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(p.Wait):
		}
	}
}
