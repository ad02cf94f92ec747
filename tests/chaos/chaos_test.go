package chaos

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/tests/programs"
)

const (
	// chaosLanes is how many runs have a fault injected at the same time. Most of the time they wait for timeouts.
	chaosLanes = 16
	// chaosPatience is how long a run with a fault may take. Recovery usually takes seconds, but
	// a slow machine and the server's workflow task timeout (10 s) can add to it.
	chaosPatience = 10 * time.Minute
	// chaosEvents is the maximum number of events of a flow at which CHAOS=full kills the worker.
	chaosEvents = 450
)

// chaosCase is one run with a fault.
type chaosCase struct {
	flow *chaosFlow
	moment
}

func (c chaosCase) String() string { return c.flow.name + "/" + c.moment.String() }

// TestEndToEndChaos kills the worker process, and then the server process, at various moments
// of every sample flow: after a call was received but not answered, just after it was
// answered, and when the histories have n events. It checks that every run has the same
// result as without a fault, repeats no call recorded in history, and repeats calls in
// flight at most once, with the same idempotency key.
//
// CHAOS=full covers every call and every event, or chaosEvents evenly spaced events of very long histories. Any other
// value selects the cases whose name contains it ("judged loop/event 12"). Without CHAOS, one call and one event of
// each flow are covered, and every call that must not be repeated.
func TestEndToEndChaos(t *testing.T) {
	programs.Path(t, "WEFT_WORKER")
	form := os.Getenv("CHAOS")
	report := newChaosReport()
	flows := slices.DeleteFunc(slices.Clone(chaosFlows), func(f chaosFlow) bool { return f.long && form == "" })
	baselines := killWorkers(t, form, flows, report)
	if baselines == nil || t.Failed() && form == "" {
		return
	}
	killServers(t, form, flows, baselines, report)
	fmt.Print(report)
	if len(report.rows) == 0 {
		t.Errorf("CHAOS=%q matches no case; case names are like %q", form, chaosCase{&chaosFlows[0], moment{atEvent, 12}})
	}
}

// killWorkers kills workers of runs on the shared server, several at a time, and returns the
// baseline run of each flow.
func killWorkers(t *testing.T, form string, flows []chaosFlow, report *chaosReport) []*flowRun {
	lanes := newLanes(t, harness.ServerAddress(t), "chaos", chaosLanes)
	baselines := make([]*flowRun, len(flows))
	inLanes(lanes, len(flows), func(l *lane, i int) {
		baselines[i] = l.baseline(&flows[i])
		if p := baselines[i].problems(&flows[i], baselines[i]); len(p) > 0 {
			t.Errorf("%s, baseline: %s", flows[i].name, strings.Join(p, "\n"))
		}
		if n := baselines[i].repeated(); n > 0 {
			t.Errorf("%s, baseline: %d calls were repeated", flows[i].name, n)
		}
	})
	if t.Failed() {
		return nil
	}
	var cases []chaosCase
	baseOf := map[*chaosFlow]*flowRun{}
	for i := range flows {
		f := &flows[i]
		baseOf[f] = baselines[i]
		for _, m := range moments(form, i, baselines[i]) {
			if c := (chaosCase{f, m}); form == "" || form == "full" || strings.Contains(c.String(), form) {
				cases = append(cases, c)
			}
		}
	}
	inLanes(lanes, len(cases), func(l *lane, i int) {
		c := cases[i]
		p := l.runFlow(c.flow, &c.moment)
		problems := p.problems(c.flow, baseOf[c.flow])
		if p.atKill == nil && c.kind != atEvent {
			problems = append(problems, "the run did not reach the moment of the fault")
		}
		if n := report.add(c.flow, c.kind, p, problems); n%100 == 0 {
			t.Logf("%d of %d runs", n, len(cases))
		}
		if len(problems) > 0 {
			t.Errorf("%s: %s\nworker log: %s", c, strings.Join(problems, "\n"), l.logTail())
		}
	})
	for _, l := range lanes {
		l.stop()
	}
	return baselines
}

// moments returns the moments of the i-th flow at which to kill the worker, given its baseline run. The last event is
// left out: the run has ended then.
func moments(form string, i int, baseline *flowRun) []moment {
	calls, events := len(baseline.log), baseline.after.events
	var out []moment
	for n := 1; n <= calls; n++ {
		all, middle := form != "" || baseline.log[n-1].noRetry, n == (calls+1)/2
		if all || middle && i%2 == 0 {
			out = append(out, moment{atRequest, n})
		}
		if all || middle && i%2 == 1 {
			out = append(out, moment{afterAnswer, n})
		}
	}
	step := 1
	if form == "full" {
		step = (events + chaosEvents - 1) / chaosEvents
	}
	for n := 1; n < events; n += step {
		if form != "" || n == (1+i%2)*events/3 {
			out = append(out, moment{atEvent, n})
		}
	}
	return out
}

// killServers runs all flows concurrently on a dedicated server and kills it after a number
// of calls.
func killServers(t *testing.T, form string, flows []chaosFlow, baselines []*flowRun, report *chaosReport) {
	total := 0
	for _, p := range baselines {
		total += len(p.log)
	}
	var at []int
	for i := 1; i <= 8; i++ {
		if form == "full" || form == "" && i == 4 || strings.Contains(fmt.Sprintf("all/%s %d", atServer, total*i/10), form) && form != "" {
			at = append(at, total*i/10)
		}
	}
	for _, n := range at {
		db := filepath.Join(t.TempDir(), "temporal.db")
		s := harness.StartServer(t, "-db", db, "-port=0")
		_, port, _ := strings.Cut(s.Address, ":")
		lanes := newLanes(t, s.Address, fmt.Sprintf("server-%d", n), len(flows))
		callGate := newGate(n)
		var started, ended sync.WaitGroup
		for i := range flows {
			l := lanes[i]
			started.Add(1)
			ended.Go(func() {
				f := &flows[i]
				p := l.runAcrossKill(f, callGate, started.Done)
				problems := p.problems(f, baselines[i])
				report.add(f, atServer, p, problems)
				if len(problems) > 0 {
					t.Errorf("%s/%s %d: %s\nworker log: %s", f.name, atServer, n, strings.Join(problems, "\n"), l.logTail())
				}
			})
		}
		started.Wait()
		select {
		case <-callGate.open:
		case <-time.After(chaosPatience):
			t.Errorf("%s %d: fewer calls were received", atServer, n)
		}
		s.Kill()
		time.Sleep(300 * time.Millisecond)
		s = harness.StartServer(t, "-db", db, "-port="+port)
		ended.Wait()
		for _, l := range lanes {
			l.stop()
		}
		s.Kill()
	}
}

// baselines has the baseline runs by name of the flow.
var baselines sync.Map

// baseline returns a run of the flow without a fault. It is executed once for all tests.
func (l *lane) baseline(f *chaosFlow) *flowRun {
	if p, ok := baselines.Load(f.name); ok {
		return p.(*flowRun)
	}
	p := l.runFlow(f, nil)
	baselines.Store(f.name, p)
	return p
}

// gate opens after a number of calls.
type gate struct {
	mu   sync.Mutex
	left int
	open chan struct{}
	at   time.Time
}

func newGate(n int) *gate { return &gate{left: n, open: make(chan struct{})} }

func (g *gate) count() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left--; g.left == 0 {
		g.at = time.Now()
		close(g.open)
	}
}

// since returns how long the gate has been open; 0 if it is not.
func (g *gate) since() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at.IsZero() {
		return 0
	}
	return time.Since(g.at)
}

// lane runs flows one after another on its own task queue, with its own worker process and
// fake services.
type lane struct {
	client   client.Client
	services *services
	address  string
	queue    string
	dir      string
	runs     int
	// repeater, if set, sends the signals of the next runs again.
	repeater *repeater

	mu         sync.Mutex
	generation int
	process    *exec.Cmd
	log        *os.File
}

func newLanes(t *testing.T, address, name string, n int) []*lane {
	t.Helper()
	c := harness.Dial(t, address)
	out := make([]*lane, n)
	for i := range out {
		out[i] = &lane{client: c, services: newServices(t), address: address, dir: t.TempDir(),
			queue: fmt.Sprintf("%s-%d-%d", name, i, time.Now().UnixNano())}
		t.Cleanup(out[i].stop)
		if err := out[i].startWorker(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// inLanes calls do n times, distributed over the lanes.
func inLanes(lanes []*lane, n int, do func(l *lane, i int)) {
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var all sync.WaitGroup
	for _, l := range lanes {
		all.Go(func() {
			for i := range next {
				do(l, i)
			}
		})
	}
	all.Wait()
}

// startWorker starts the lane's next worker process.
func (l *lane) startWorker() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generation++
	base := fmt.Sprintf("%s/%d", l.services.url, l.generation)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	settings := fmt.Sprintf("timeouts: {heartbeat: 12s, first_retry: 100ms}\nconnections:\n  web: {url: %q}\n  mail: {url: %q}\n  jobs: {url: %q}\n"+
		"  cart: {transport: stdio, command: %q, env: {%s: %q}}\ntools: {pay: web}\nproviders: {compatible: {base_url: %q}}\nconfirm:\n  money: {tools: [pay]}\n",
		base+"/web", base+"/mail", base+"/jobs", self, cartURL, base+"/cart", base+"/v1")
	if err := os.WriteFile(filepath.Join(l.dir, "weft.yaml"), []byte(settings), 0o600); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(l.dir, fmt.Sprintf("worker-%d.log", l.generation)))
	if err != nil {
		return err
	}
	cmd := exec.Command(os.Getenv("WEFT_WORKER"))
	cmd.Dir = l.dir
	cmd.Env = append(programs.CleanEnv(), "TEMPORAL_ADDRESS="+l.address, "WEFT_TASK_QUEUE="+l.queue,
		"WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_BASE_URL="+base+"/v1")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	l.process, l.log = cmd, log
	return nil
}

// stop kills the lane's worker, if one is running, and waits until it has exited.
func (l *lane) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.process == nil {
		return
	}
	_ = l.process.Process.Kill()
	_ = l.process.Wait()
	_ = l.log.Close()
	l.process = nil
}

// logTail returns the end of the logs of the lane's last two workers.
func (l *lane) logTail() string {
	var b strings.Builder
	for g := max(1, l.generation-1); g <= l.generation; g++ {
		raw, _ := os.ReadFile(filepath.Join(l.dir, fmt.Sprintf("worker-%d.log", g)))
		fmt.Fprintf(&b, "%d: %s\n", g, raw[max(0, len(raw)-2000):])
	}
	return b.String()
}

// start starts a run of a flow.
func (l *lane) start(ctx context.Context, f *chaosFlow) (client.WorkflowRun, error) {
	in := contract.RunInput{V: contract.Version, Flow: contract.FlowRef{Text: f.doc, Name: "flow.json"},
		Input: f.input, Model: "fake/m", MaxEvents: f.maxEvents, Session: f.prompts != nil}
	if f.plan != nil {
		in.Flow, in.Input, in.Params = contract.FlowRef{Plan: f.plan}, "", fmt.Appendf(nil, `{"prompt":%q}`, f.input)
	}
	id := l.nextID()
	l.runs++
	return l.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: l.queue, ID: id}, contract.WorkflowFlow, in)
}

// nextID returns the workflow id of the next run.
func (l *lane) nextID() string { return fmt.Sprintf("%s-%d", l.queue, l.runs+1) }

// runFlow runs a flow. If at is set, the lane's worker is killed at that moment, and another is started.
func (l *lane) runFlow(f *chaosFlow, at *moment) *flowRun {
	ctx, cancel := context.WithTimeout(context.Background(), chaosPatience)
	defer cancel()
	killed := make(chan struct{})
	var kill *fault
	if at != nil {
		kill = &fault{moment: *at, inject: func() { l.stop(); close(killed) }}
	}
	l.services.reset(f, l.nextID(), kill)
	p := &flowRun{}
	if p.run, p.err = l.start(ctx, f); p.err != nil {
		return p
	}
	first := p.run.GetRunID()
	go l.answer(ctx, f, p.run.GetID())
	go l.prompt(ctx, f, p.run.GetID())
	if l.repeater != nil {
		go l.repeater.follow(ctx, p.run.GetID(), first)
		go l.repeater.repeat(ctx)
	}
	if kill != nil && kill.kind == atEvent {
		w := &eventWatch{client: l.client, fault: kill}
		go w.follow(ctx, p.run.GetID(), first)
	}
	ended := l.awaitResult(ctx, f, p)
	select {
	case <-ended:
	case <-killed:
	}
	// A late kill must not hit the lane's next run.
	if !kill.cancel() {
		l.recover(ctx, p, first, ended)
	}
	l.collect(ctx, p, first)
	return p
}

// recover starts another worker after a kill and waits for the end of the run.
func (l *lane) recover(ctx context.Context, p *flowRun, first string, ended <-chan struct{}) {
	killed := time.Now()
	before, err := summarize(ctx, l.client, p.run.GetID(), first)
	if err == nil {
		err = l.startWorker()
	}
	newWorker := fmt.Sprint(l.generation)
	<-ended
	p.atKill, p.newWorker, p.recovery = before, newWorker, time.Since(killed)
	if err != nil {
		p.err = err
	}
}

// runAcrossKill runs a flow during which the server may be killed; started is called after the start.
func (l *lane) runAcrossKill(f *chaosFlow, callGate *gate, started func()) *flowRun {
	ctx, cancel := context.WithTimeout(context.Background(), chaosPatience)
	defer cancel()
	l.services.reset(f, l.nextID(), nil)
	l.services.onRequest(callGate.count)
	p := &flowRun{}
	p.run, p.err = l.start(ctx, f)
	started()
	if p.err != nil {
		return p
	}
	first := p.run.GetRunID()
	go l.answer(ctx, f, p.run.GetID())
	go l.prompt(ctx, f, p.run.GetID())
	<-l.awaitResult(ctx, f, p)
	p.recovery = callGate.since()
	l.collect(ctx, p, first)
	return p
}

// awaitResult waits for the run's result.
func (l *lane) awaitResult(ctx context.Context, f *chaosFlow, p *flowRun) <-chan struct{} {
	ended := make(chan struct{})
	run := l.client.GetWorkflow(ctx, p.run.GetID(), "")
	go func() {
		defer close(ended)
		var out contract.RunResult
		// While the server is down the call fails with a connection error.
		for {
			err := run.Get(ctx, &out)
			if err == nil {
				p.result, p.err = normalized(f, &out, p.run.GetID())
				return
			}
			if f := contract.FailureOf(err); ctx.Err() != nil || f.Class != contract.ClassUnavailable {
				p.err = err
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return ended
}

// collect records the run's requests and history, and terminates a run that has not ended.
func (l *lane) collect(ctx context.Context, p *flowRun, first string) {
	p.log = l.services.requests()
	if p.err != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = l.client.TerminateWorkflow(late, p.run.GetID(), "", "the test timed out")
		return
	}
	p.after, p.err = summarize(ctx, l.client, p.run.GetID(), first)
}

// eventWatch injects a fault when the histories of a run and its descendants have a number of events.
type eventWatch struct {
	client client.Client
	fault  *fault
	mu     sync.Mutex
	events int
}

func (w *eventWatch) follow(ctx context.Context, id, run string) {
	it := w.client.GetWorkflowHistory(ctx, id, run, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return // the run has ended, or timed out
		}
		w.mu.Lock()
		w.events++
		n := w.events
		w.mu.Unlock()
		w.fault.at(moment{atEvent, n})
		if nextID, next := startedBy(e, id); next != "" {
			go w.follow(ctx, nextID, next)
		}
	}
}
