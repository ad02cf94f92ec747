// Package limits is the client, for activities/llm, of the workflow that rate-limits the calls of all workers (workflows/limiter).
//
// Concurrent calls are batched: at most one Update per key is in flight. A key without configured limits costs one lookup every
// ten seconds until its provider has refused a call. If the limiter does not respond, calls are not limited. Start at [New].
package limits

import (
	"cmp"
	"context"
	"crypto/rand"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"golang.org/x/sync/singleflight"

	"weft/activities/contract"
	"weft/activities/llm"
)

const (
	// updateTimeout bounds one Update; retryAfter is the delay before the next Update after one has failed.
	updateTimeout = 15 * time.Second
	retryAfter    = time.Second
	// taskTimeout is the limiter's workflow task timeout: another worker takes over after it if one is killed while processing an Update.
	taskTimeout = 5 * time.Second
	// lookEvery is the interval at which a key without limits is looked up; lookTimeout bounds a lookup, for which calls wait.
	lookEvery   = 10 * time.Second
	lookTimeout = 2 * time.Second
	// pause is the delay between two Updates; maxCalls is the maximum number of calls in one.
	pause    = 50 * time.Millisecond
	maxCalls = 500
)

// Server is a worker of [contract.LimiterQueue] that has not been started.
type Server interface {
	Start() error
	Stop()
}

// Limits is one worker's connection to the limiters. It is safe for concurrent use.
type Limits struct {
	client client.Client
	server Server
	worker string
	window time.Duration
	log    log.Logger

	mu               sync.Mutex
	serving, stopped bool
	keys             map[string]*key
}

// New returns the limits of a worker. The server is started before the first request to a limiter. Limits apply per window,
// which is one minute except in tests.
func New(c client.Client, s Server, window time.Duration, l log.Logger) *Limits {
	return &Limits{client: c, server: s, worker: rand.Text()[:12], window: window, log: l, keys: map[string]*key{}}
}

// Stop stops the server. Limits must not be used afterwards.
func (l *Limits) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopped = true
	if l.serving {
		l.server.Stop()
	}
}

func (l *Limits) serve() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.serving || l.stopped {
		return nil
	}
	err := l.server.Start()
	l.serving = err == nil
	return err
}

// key is the state of one key in this worker.
type key struct {
	*Limits
	of llm.LimitedKey

	mu sync.Mutex
	// shared reports whether a limiter exists; looked is the time of the last lookup.
	shared  bool
	looked  time.Time
	looking singleflight.Group
	// asking holds the calls that wait for a turn; sending reports whether send is running.
	asking  []*ask
	sending bool
	// sent holds the start times of the last window's calls that were not refused; unused and used are reported with the next Update.
	sent         []time.Time
	unused, used int
	// refusal, if set, is reported with the next Update; its call was sent at refused. lastText is the text of the last refusal.
	refusal  *contract.LimitRefusal
	refused  time.Time
	lastText string
}

// ask is a call that waits for its turn: cancelled if its caller has stopped waiting, late if a turn may have expired once.
type ask struct {
	call            contract.LimitedCall
	reply           chan answer
	cancelled, late bool
}

// answer is a permit, or a turn that begins after the duration in.
type answer struct {
	llm.Permit
	in time.Duration
}

// Begin implements [llm.Limits].
func (l *Limits) Begin(ctx context.Context, of llm.LimitedKey, call contract.LimitedCall) (llm.Permit, error) {
	l.mu.Lock()
	k := l.keys[of.Fingerprint]
	if k == nil {
		k = &key{Limits: l, of: of, shared: of.Requests > 0 || of.Tokens > 0}
		l.keys[of.Fingerprint] = k
	}
	l.mu.Unlock()
	k.mu.Lock()
	for !k.shared && time.Since(k.looked) > lookEvery {
		k.mu.Unlock()
		select {
		case <-ctx.Done():
			return llm.Permit{}, ctx.Err()
		case <-k.looking.DoChan("", k.findLimiter):
		}
		k.mu.Lock()
	}
	if !k.shared {
		k.mu.Unlock()
		return k.admitted(llm.Permit{Unlimited: true}), nil
	}
	a := &ask{call: call, reply: make(chan answer, 1)}
	k.asking = append(k.asking, a)
	k.start()
	k.mu.Unlock()
	select {
	case <-ctx.Done():
		k.leave(a)
		return llm.Permit{}, ctx.Err()
	case p := <-a.reply:
		if p.Wait > 0 {
			return p.Permit, nil
		}
		select {
		case <-ctx.Done():
			k.returnTurn(a, p)
			return llm.Permit{}, ctx.Err()
		case <-time.After(p.in):
		}
		return k.admitted(p.Permit), nil
	}
}

// leave cancels a call whose caller has stopped waiting; a turn that it has or receives is returned.
func (k *key) leave(a *ask) {
	k.mu.Lock()
	a.cancelled = true
	k.asking = slices.DeleteFunc(k.asking, func(b *ask) bool { return a == b })
	k.mu.Unlock()
	select {
	case p := <-a.reply:
		k.returnTurn(a, p)
	default:
	}
}

// returnTurn returns a call's turn, if it has one, with the next Update.
func (k *key) returnTurn(a *ask, p answer) {
	if p.Wait > 0 || p.Unlimited {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unused++
	k.used -= a.call.Tokens
}

// admitted records that a call begins.
func (k *key) admitted(p llm.Permit) llm.Permit {
	began := time.Now()
	k.mu.Lock()
	k.sent = append(k.recent(began), began)
	k.mu.Unlock()
	p.End = func(o llm.LimitOutcome) {
		if p.Unlimited {
			o.Used = 0 // nothing was reserved
		}
		k.end(began, o)
	}
	return p
}

// recent returns the start times of the calls sent in the last window, and drops older ones.
func (k *key) recent(now time.Time) []time.Time {
	for len(k.sent) > 0 && now.Sub(k.sent[0]) > k.window {
		k.sent = k.sent[1:]
	}
	return k.sent
}

// end records the outcome of a call. A refusal is reported immediately.
func (k *key) end(began time.Time, o llm.LimitOutcome) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used += o.Used
	if o.Refused == "" {
		return
	}
	if i := slices.IndexFunc(k.sent, began.Equal); i >= 0 {
		k.sent = slices.Delete(k.sent, i, i+1)
	}
	k.shared, k.lastText = true, o.Refused
	if k.refusal == nil || began.After(k.refused) {
		k.refused = began
		k.refusal = &contract.LimitRefusal{AfterMillis: o.After.Milliseconds()}
	}
	k.start()
}

// findLimiter checks whether another worker has started a limiter. It always returns nil; the signature is singleflight's.
func (k *key) findLimiter() (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookTimeout)
	defer cancel()
	out, err := k.client.DescribeWorkflowExecution(ctx, contract.LimiterID(k.of.Fingerprint), "")
	k.mu.Lock()
	defer k.mu.Unlock()
	k.shared = k.shared || err == nil && out.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	k.looked = time.Now()
	return nil, nil
}

// start starts send, unless it is running. The caller holds k.mu.
func (k *key) start() {
	if !k.sending {
		k.sending = true
		go k.send()
	}
}

// send sends Updates until there are no waiting calls and no refusal to report.
func (k *key) send() {
	for {
		k.mu.Lock()
		now := time.Now()
		batch := k.asking[:min(len(k.asking), maxCalls)]
		k.asking = slices.Clone(k.asking[len(batch):])
		if len(batch) == 0 && k.refusal == nil {
			k.sending = false
			k.mu.Unlock()
			return
		}
		in := contract.LimitRequest{Worker: k.worker, Requests: k.of.Requests, Tokens: k.of.Tokens,
			Unused: k.unused, Used: k.used, Sent: len(k.recent(now)), Refusal: k.refusal}
		if in.Refusal != nil {
			in.Refusal.AgoMillis = now.Sub(k.refused).Milliseconds()
		}
		k.unused, k.used, k.refusal = 0, 0, nil
		k.mu.Unlock()
		for _, a := range batch {
			in.Calls = append(in.Calls, a.call)
		}
		reply, err := k.update(&in)
		k.answered(batch, reply, time.Since(now), err)
		if err == nil {
			time.Sleep(pause)
		} else {
			time.Sleep(retryAfter)
		}
	}
}

// update sends an Update to the limiter, which it starts if necessary.
func (k *key) update(in *contract.LimitRequest) (*contract.LimitReply, error) {
	if err := k.serve(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), updateTimeout)
	defer cancel()
	id := contract.LimiterID(k.of.Fingerprint)
	start := k.client.NewWithStartWorkflowOperation(client.StartWorkflowOptions{ID: id, TaskQueue: contract.LimiterQueue, WorkflowTaskTimeout: taskTimeout,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING, StaticSummary: "limits the calls with one key of a provider, on all workers"},
		contract.WorkflowLimiter, contract.LimiterInput{WindowMillis: k.window.Milliseconds()})
	h, err := k.client.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{StartWorkflowOperation: start,
		UpdateOptions: client.UpdateWorkflowOptions{WorkflowID: id, UpdateName: contract.UpdateReserve, Args: []any{in}, WaitForStage: client.WorkflowUpdateStageCompleted}})
	if err != nil {
		return nil, err
	}
	out := &contract.LimitReply{}
	return out, h.Get(ctx, out)
}

// answered gives the calls their turns after an Update, which took as long as took. On an error, all waiting calls begin unlimited.
func (k *key) answered(batch []*ask, reply *contract.LimitReply, took time.Duration, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err != nil {
		k.log.Warn("the shared limits are not available; calls are not limited until they are", "limiter", contract.LimiterID(k.of.Fingerprint), "error", err)
		for _, a := range append(batch, k.asking...) {
			a.reply <- answer{Permit: llm.Permit{Unlimited: true}}
		}
		k.asking = nil
		return
	}
	lastText := ""
	if reply.Refused {
		lastText = cmp.Or(k.lastText, "it refused a call of another worker")
	}
	for i, a := range batch {
		in := time.Duration(reply.Turns[i].Micros) * time.Microsecond
		if reply.Turns[i].Ask {
			a.reply <- answer{Permit: llm.Permit{Wait: max(in, time.Millisecond), Reason: lastText}}
		} else {
			k.assignTurn(a, in, took)
		}
	}
	if reply.Free && k.of.Requests == 0 && k.of.Tokens == 0 && k.refusal == nil {
		k.shared, k.looked = false, time.Now()
	}
}

// assignTurn gives a call its turn, which begins after in; took is the duration of the Update. A turn that may have expired is
// returned and requested again, once; that of a cancelled call is returned.
func (k *key) assignTurn(a *ask, in, took time.Duration) {
	again := took > k.window/50 && !a.late && !a.cancelled
	if again || a.cancelled {
		k.unused++
		k.used -= a.call.Tokens
	}
	if again {
		a.late = true
		k.asking = append(k.asking, a)
		return
	}
	a.reply <- answer{in: in}
}
