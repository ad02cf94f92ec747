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
	// chaosLanes is how many runs are disturbed at once.
	chaosLanes = 8
	// chaosPatience is how long a disturbed run may take. Recovery takes seconds; a slow
	// machine and the server's own timeout of workflow tasks (10 s) need more.
	chaosPatience = 10 * time.Minute
	// chaosEvents is how many events of a flow the full form takes at most.
	chaosEvents = 450
)

// chaosCase is one disturbed run.
type chaosCase struct {
	flow *chaosFlow
	moment
}

func (c chaosCase) String() string { return c.flow.name + "/" + c.moment.String() }

// TestEndToEndChaos kills the worker's process, then the server's, at moments of every
// sample flow: when a call has come and is not answered, just after it was answered, and
// when histories have so many events. Every run must come to the result that it comes to
// undisturbed, repeat nothing that history has, and repeat what was under way at most once,
// under the same key.
//
// CHAOS=full takes every call and every event in turn, of very long histories chaosEvents events in equal
// distances; any other text takes those whose name has it ("judged loop/event 12"); without CHAOS one call and
// one event of each flow are taken, and every call that must not be repeated.
func TestEndToEndChaos(t *testing.T) {
	programs.Path(t, "WEFT_WORKER")
	form := os.Getenv("CHAOS")
	report := newChaosReport()
	flows := slices.DeleteFunc(slices.Clone(chaosFlows), func(f chaosFlow) bool { return f.long && form == "" })
	calm := killWorkers(t, form, flows, report)
	if calm == nil || t.Failed() && form == "" {
		return
	}
	killServers(t, form, flows, calm, report)
	fmt.Print(report)
	if len(report.rows) == 0 {
		t.Errorf("CHAOS is %q, which no run's name has; names are like %q", form, chaosCase{&chaosFlows[0], moment{atEvent, 12}})
	}
}

// killWorkers disturbs runs on the shared server, several at once, and returns how each flow
// runs undisturbed.
func killWorkers(t *testing.T, form string, flows []chaosFlow, report *chaosReport) []*passage {
	lanes := newLanes(t, harness.ServerAddress(t), "chaos", chaosLanes)
	calm := make([]*passage, len(flows))
	inLanes(lanes, len(flows), func(l *lane, i int) {
		calm[i] = l.undisturbed(&flows[i])
		if p := calm[i].problems(&flows[i], calm[i]); len(p) > 0 {
			t.Errorf("%s, undisturbed: %s", flows[i].name, strings.Join(p, "\n"))
		}
		if n := calm[i].repeated(); n > 0 {
			t.Errorf("%s, undisturbed: %d calls were repeated", flows[i].name, n)
		}
	})
	if t.Failed() {
		return nil
	}
	var cases []chaosCase
	base := map[*chaosFlow]*passage{}
	for i := range flows {
		f := &flows[i]
		base[f] = calm[i]
		for _, m := range moments(form, i, calm[i]) {
			if c := (chaosCase{f, m}); form == "" || form == "full" || strings.Contains(c.String(), form) {
				cases = append(cases, c)
			}
		}
	}
	inLanes(lanes, len(cases), func(l *lane, i int) {
		c := cases[i]
		p := l.play(c.flow, &c.moment)
		problems := p.problems(c.flow, base[c.flow])
		if p.before == nil && c.kind != atEvent {
			problems = append(problems, "the moment did not come")
		}
		if n := report.add(c.flow, c.kind, p, problems); n%100 == 0 {
			t.Logf("%d of %d runs", n, len(cases))
		}
		if len(problems) > 0 {
			t.Errorf("%s: %s\nthe worker said: %s", c, strings.Join(problems, "\n"), l.tail())
		}
	})
	for _, l := range lanes {
		l.stop()
	}
	return calm
}

// moments are when to kill in the i-th flow, which undisturbed goes like this. Once the last event is
// there, there is nothing to disturb.
func moments(form string, i int, calm *passage) []moment {
	calls, events := len(calm.log), calm.after.events
	var out []moment
	for n := 1; n <= calls; n++ {
		all, middle := form != "" || calm.log[n-1].never, n == (calls+1)/2
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

// killServers runs all flows at once on a server of their own and kills it when so many
// calls have come.
func killServers(t *testing.T, form string, flows []chaosFlow, calm []*passage, report *chaosReport) {
	total := 0
	for _, p := range calm {
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
		enough := newGate(n)
		var started, ended sync.WaitGroup
		for i := range flows {
			l := lanes[i]
			started.Add(1)
			ended.Go(func() {
				f := &flows[i]
				p := l.playOn(f, enough, started.Done)
				problems := p.problems(f, calm[i])
				report.add(f, atServer, p, problems)
				if len(problems) > 0 {
					t.Errorf("%s/%s %d: %s\nthe worker said: %s", f.name, atServer, n, strings.Join(problems, "\n"), l.tail())
				}
			})
		}
		started.Wait()
		select {
		case <-enough.open:
		case <-time.After(chaosPatience):
			t.Errorf("%s %d: so many calls did not come", atServer, n)
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

// undisturbedRuns are how flows have run that nothing disturbed, by name.
var undisturbedRuns sync.Map

// undisturbed is how a flow runs that nothing disturbs. It is run once for all tests.
func (l *lane) undisturbed(f *chaosFlow) *passage {
	if p, ok := undisturbedRuns.Load(f.name); ok {
		return p.(*passage)
	}
	p := l.play(f, nil)
	undisturbedRuns.Store(f.name, p)
	return p
}

// gate opens when so many calls have come.
type gate struct {
	mu   sync.Mutex
	left int
	open chan struct{}
	at   time.Time
}

func newGate(n int) *gate { return &gate{left: n, open: make(chan struct{})} }

func (g *gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.left--; g.left == 0 {
		g.at = time.Now()
		close(g.open)
	}
}

// since is how long the gate has been open; 0 if it is not.
func (g *gate) since() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at.IsZero() {
		return 0
	}
	return time.Since(g.at)
}

// lane runs flows one after another, with a task queue, a worker's process and a world
// outside of its own.
type lane struct {
	client  client.Client
	outside *outside
	address string
	queue   string
	dir     string
	runs    int
	// repeater, if set, repeats the signals of the next runs.
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
		out[i] = &lane{client: c, outside: newOutside(t), address: address, dir: t.TempDir(),
			queue: fmt.Sprintf("%s-%d-%d", name, i, time.Now().UnixNano())}
		t.Cleanup(out[i].stop)
		if err := out[i].revive(); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// inLanes does n things, each in one lane.
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

// revive starts the lane's next worker.
func (l *lane) revive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.generation++
	base := fmt.Sprintf("%s/%d", l.outside.url, l.generation)
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
	cmd.Env = append(programs.Clean(), "TEMPORAL_ADDRESS="+l.address, "WEFT_TASK_QUEUE="+l.queue,
		"WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_BASE_URL="+base+"/v1")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start a worker: %w", err)
	}
	l.process, l.log = cmd, log
	return nil
}

// stop kills the lane's worker, if it has one, and waits until it is dead.
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

// tail is the end of what the lane's workers said.
func (l *lane) tail() string {
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
	id := l.next()
	l.runs++
	return l.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: l.queue, ID: id}, contract.WorkflowFlow, in)
}

// next is the id of the run that is started next.
func (l *lane) next() string { return fmt.Sprintf("%s-%d", l.queue, l.runs+1) }

// play runs a flow; if at is set, the lane's worker is killed then, and another started.
func (l *lane) play(f *chaosFlow, at *moment) *passage {
	ctx, cancel := context.WithTimeout(context.Background(), chaosPatience)
	defer cancel()
	struck := make(chan struct{})
	var b *blow
	if at != nil {
		b = &blow{moment: *at, fall: func() { l.stop(); close(struck) }}
	}
	l.outside.expect(f, l.next(), b)
	p := &passage{}
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
	if b != nil && b.kind == atEvent {
		w := &eventWatch{client: l.client, blow: b}
		go w.follow(ctx, p.run.GetID(), first)
	}
	ended := l.await(ctx, f, p)
	select {
	case <-ended:
	case <-struck:
	}
	// A blow that is late must not hit the lane's next run.
	if !b.callOff() {
		l.recover(ctx, p, first, ended)
	}
	l.settle(ctx, p, first)
	return p
}

// recover lets another worker go on where one was killed.
func (l *lane) recover(ctx context.Context, p *passage, first string, ended <-chan struct{}) {
	killed := time.Now()
	before, err := accountOf(ctx, l.client, p.run.GetID(), first)
	if err == nil {
		err = l.revive()
	}
	revived := fmt.Sprint(l.generation)
	<-ended
	p.before, p.revived, p.recovery = before, revived, time.Since(killed)
	if err != nil {
		p.err = err
	}
}

// playOn runs a flow while the server may die; started is called when it has begun.
func (l *lane) playOn(f *chaosFlow, enough *gate, started func()) *passage {
	ctx, cancel := context.WithTimeout(context.Background(), chaosPatience)
	defer cancel()
	l.outside.expect(f, l.next(), nil)
	l.outside.each(enough.pass)
	p := &passage{}
	p.run, p.err = l.start(ctx, f)
	started()
	if p.err != nil {
		return p
	}
	first := p.run.GetRunID()
	go l.answer(ctx, f, p.run.GetID())
	go l.prompt(ctx, f, p.run.GetID())
	<-l.await(ctx, f, p)
	p.recovery = enough.since()
	l.settle(ctx, p, first)
	return p
}

// await reads the run's result.
func (l *lane) await(ctx context.Context, f *chaosFlow, p *passage) <-chan struct{} {
	ended := make(chan struct{})
	run := l.client.GetWorkflow(ctx, p.run.GetID(), "")
	go func() {
		defer close(ended)
		var out contract.RunResult
		// While the server is away the call ends with an error of the connection's.
		for {
			err := run.Get(ctx, &out)
			if err == nil {
				p.result, p.err = timeless(f, &out, p.run.GetID())
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

// settle reads what the run left, and ends a run that did not.
func (l *lane) settle(ctx context.Context, p *passage, first string) {
	p.log = l.outside.came()
	if p.err != nil {
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		_ = l.client.TerminateWorkflow(late, p.run.GetID(), "", "the test gave up")
		return
	}
	p.after, p.err = accountOf(ctx, l.client, p.run.GetID(), first)
}

// eventWatch strikes when the histories of a run and of all below it have so many events.
type eventWatch struct {
	client client.Client
	blow   *blow
	mu     sync.Mutex
	events int
}

func (w *eventWatch) follow(ctx context.Context, id, run string) {
	it := w.client.GetWorkflowHistory(ctx, id, run, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for it.HasNext() {
		e, err := it.Next()
		if err != nil {
			return // the run is over, or its time
		}
		w.mu.Lock()
		w.events++
		n := w.events
		w.mu.Unlock()
		w.blow.when(moment{atEvent, n})
		if nextID, next := leadsTo(e, id); next != "" {
			go w.follow(ctx, nextID, next)
		}
	}
}
