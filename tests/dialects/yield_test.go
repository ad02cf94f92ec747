package dialects

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/tests/harness"
)

const (
	// yieldsAtOnce is how many runs are under way at a time: most of them wait, since the server lets a run
	// continue as new once a second.
	yieldsAtOnce = 40
	// yieldTimeout bounds one run.
	yieldTimeout = 5 * time.Minute
	// noRun stands for the id of whatever run it is.
	noRun = "no-run-id"
)

// yieldFlow is a flow that is stopped at each of its awaits.
type yieldFlow struct {
	name string
	in   contract.RunInput
	// messages are the answers to requests of kind message, in their order.
	messages []string
	// results are the answers of clients, by tool; others get {"sent":true}.
	results map[string]string
	// prompts are given to a session, each when the turn before it has ended; then it is closed.
	prompts []string
	// callbacks is set where sessions below call back: two of them are the prompt of one turn or of two, as
	// they come. Then the numbers of turns and calls are not compared.
	callbacks bool
	// worker runs it.
	worker *harness.Worker
}

// yieldOutcome is what a run gave: it must be the same wherever the run stops and goes on.
type yieldOutcome struct {
	Result   *contract.RunResult
	Failure  string
	Asked    []string
	Problems []string
	tree     *Tree
}

// TestEndToEndYields has every run of a flow's tree continue as new where its history has n events: each
// activity is scheduled once, everybody is asked once, and result and usage are those of the undisturbed run.
//
// YIELDS=all takes every n up to the undisturbed run's length, other texts take the runs whose name has them
// ("continuum/triage/12"); without YIELDS one n in the middle of each flow is taken.
func TestEndToEndYields(t *testing.T) {
	t.Parallel()
	flows := slices.Concat(yieldExamples(t), yieldCases(t))
	form, slots := os.Getenv("YIELDS"), make(chan struct{}, yieldsAtOnce)
	var ran, histories atomic.Int32
	t.Run("flows", func(t *testing.T) {
		for _, f := range flows {
			if form != "" && form != "all" && !strings.Contains(form, f.name) && !strings.Contains(f.name, form) {
				continue
			}
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				calm := f.play(0, slots)
				if len(calm.Problems) > 0 {
					t.Fatalf("undisturbed: %s", strings.Join(calm.Problems, "\n"))
				}
				var all sync.WaitGroup
				for n := 1; n <= calm.tree.Longest; n++ {
					if !yieldsAt(form, f.name, n, calm.tree.Longest) {
						continue
					}
					ran.Add(1)
					all.Go(func() {
						got := f.play(n, slots)
						if got.tree != nil {
							histories.Add(int32(got.tree.Runs))
						}
						if diff := calm.diff(got); diff != "" {
							t.Errorf("%s/%d: %s", f.name, n, diff)
						}
					})
				}
				all.Wait()
			})
		}
	})
	if ran.Load() == 0 {
		t.Errorf("YIELDS is %q, which no run's name has; names are like %q", form, flows[0].name+"/12")
	}
	t.Logf("%d runs with %d histories", ran.Load(), histories.Load())
}

// yieldsAt reports whether the run of a flow that continues at n events is taken.
func yieldsAt(form, name string, n, longest int) bool {
	switch form {
	case "":
		return n == longest/2
	case "all":
		return true
	}
	full := fmt.Sprintf("%s/%d", name, n)
	return full == form || strings.Contains(name, form)
}

// diff tells how an outcome differs from that of the undisturbed run.
func (o *yieldOutcome) diff(got *yieldOutcome) string {
	out := slices.Clone(got.Problems)
	if diff := gocmp.Diff(o.Result, got.Result); diff != "" {
		out = append(out, "result (-undisturbed +got):\n"+diff)
	}
	if o.Failure != got.Failure {
		out = append(out, fmt.Sprintf("failure %q, want %q", got.Failure, o.Failure))
	}
	if diff := gocmp.Diff(o.Asked, got.Asked); diff != "" {
		out = append(out, "requests (-undisturbed +got):\n"+diff)
	}
	if o.tree != nil && got.tree != nil {
		if diff := gocmp.Diff(o.tree.Scheduled, got.tree.Scheduled); diff != "" {
			out = append(out, "activities (-undisturbed +got):\n"+diff)
		}
	}
	return strings.Join(out, "\n")
}

// play runs the flow to its end; it continues as new at n events.
func (f *yieldFlow) play(n int, slots chan struct{}) *yieldOutcome {
	slots <- struct{}{}
	defer func() { <-slots }()
	ctx, cancel := context.WithTimeout(context.Background(), yieldTimeout)
	defer cancel()
	in, out := f.in, &yieldOutcome{}
	in.V, in.MaxEvents = contract.Version, n
	if in.Model == "" {
		in.Model = "script"
	}
	id := fmt.Sprintf("yield-%s-%d-%d", strings.ReplaceAll(f.name, "/", "-"), n, time.Now().UnixNano())
	run, err := f.worker.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: f.worker.Queue, ID: id}, contract.WorkflowFlow, in)
	if err != nil {
		out.Problems = append(out.Problems, fmt.Sprintf("start: %v", err))
		return out
	}
	first := run.GetRunID()
	ended, done := make(chan struct{}), make(chan struct{})
	people := &yieldPeople{flow: f, id: id, answered: map[string]bool{}}
	go func() {
		defer close(done)
		people.answer(ctx, ended)
	}()
	var result contract.RunResult
	err = f.worker.Client.GetWorkflow(ctx, id, "").Get(ctx, &result)
	close(ended)
	<-done
	out.Problems, out.Asked = append(out.Problems, people.problems...), people.asked()
	switch {
	case ctx.Err() != nil:
		out.Problems = append(out.Problems, fmt.Sprintf("%s did not end", id))
		return out
	case err != nil:
		out.Failure = strings.ReplaceAll(contract.FailureOf(err).Error(), id, noRun)
	default:
		for i := range result.Turns {
			result.Turns[i].StartedAt, result.Turns[i].EndedAt = nil, nil
		}
		raw, _ := json.Marshal(result)
		out.Result = &contract.RunResult{}
		if err := json.Unmarshal(bytes.ReplaceAll(raw, []byte(id), []byte(noRun)), out.Result); err != nil {
			out.Problems = append(out.Problems, err.Error())
		}
	}
	if out.tree, err = ReadTree(ctx, f.worker.Client, id, first); err != nil {
		out.Problems = append(out.Problems, err.Error())
		return out
	}
	if f.callbacks && out.Result != nil {
		out.Result, out.tree.Scheduled = &contract.RunResult{ResultText: out.Result.ResultText, ResultNode: out.Result.ResultNode}, onlyRepeated(out.tree.Scheduled)
	}
	for a, n := range out.tree.Scheduled {
		if n > 1 {
			out.Problems = append(out.Problems, fmt.Sprintf("%s was scheduled %d times", a, n))
		}
	}
	// A worker does these within the workflow task, unless it is too busy.
	maps.DeleteFunc(out.tree.Scheduled, func(a string, _ int) bool {
		return strings.HasSuffix(a, contract.ActivityListTools) || strings.HasSuffix(a, contract.ActivityCompileFlow)
	})
	return out
}

// onlyRepeated leaves out what was scheduled once.
func onlyRepeated(scheduled map[string]int) map[string]int {
	maps.DeleteFunc(scheduled, func(_ string, n int) bool { return n == 1 })
	return scheduled
}

// yieldPeople answer what a run asks.
type yieldPeople struct {
	flow     *yieldFlow
	id       string
	answered map[string]bool
	messages int
	problems []string
}

func (p *yieldPeople) asked() []string { return slices.Sorted(maps.Keys(p.answered)) }

// answer answers each request once, until the run has ended.
func (p *yieldPeople) answer(ctx context.Context, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			return
		case <-time.After(100 * time.Millisecond):
		}
		var s contract.Status
		if p.query(ctx, contract.QueryStatus, &s) != nil {
			continue
		}
		slices.SortFunc(s.Requests, func(a, b contract.Request) int { return strings.Compare(a.ID, b.ID) })
		for _, q := range s.Requests {
			p.reply(ctx, q)
		}
		if p.flow.in.Session && s.Status == contract.StatusIdle {
			p.prompt(ctx)
		}
	}
}

func (p *yieldPeople) query(ctx context.Context, name string, out any) error {
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	v, err := p.flow.worker.Client.QueryWorkflow(within, p.id, "", name)
	if err != nil {
		return err
	}
	return v.Get(out)
}

func (p *yieldPeople) update(ctx context.Context, name string, arg any) error {
	within, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	u, err := p.flow.worker.Client.UpdateWorkflow(within, client.UpdateWorkflowOptions{
		WorkflowID: p.id, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return err
	}
	return u.Get(within, nil)
}

// prompt gives an idle session the prompt for its next turn, or closes it. Where that is cut off, the next
// round does it again.
func (p *yieldPeople) prompt(ctx context.Context) {
	var turns []contract.Turn
	if p.query(ctx, contract.QueryTurns, &turns) != nil || slices.ContainsFunc(turns, func(t contract.Turn) bool { return !t.Done() }) {
		return
	}
	switch n := len(turns); {
	case n == 0:
	case n > len(p.flow.prompts):
		_ = p.update(ctx, contract.UpdateCloseSession, contract.CloseSessionInput{Reason: "enough"})
	default:
		id := fmt.Sprintf("prompt-%d", n)
		if err := p.flow.worker.Client.SignalWorkflow(ctx, p.id, "", contract.UpdatePrompt, contract.PromptInput{ID: id, Prompt: p.flow.prompts[n-1]}); err != nil {
			p.problems = append(p.problems, err.Error())
		}
	}
}

// reply answers a request, unless that was done.
func (p *yieldPeople) reply(ctx context.Context, q contract.Request) {
	id := strings.ReplaceAll(q.ID, p.id, "")
	if p.answered[id] {
		p.problems = append(p.problems, fmt.Sprintf("%s is asked again: %s", id, q.Text))
		return
	}
	if q.Timeout > 0 || p.update(ctx, q.Kind, p.reaction(q)) != nil {
		return // nobody is there in time, or the run continues as new: then the request is still there
	}
	p.answered[id] = true
	if q.Kind == contract.RequestMessage {
		p.messages++
	}
}

// reaction is the answer to a request. Calls with a 2 in their arguments are refused.
func (p *yieldPeople) reaction(q contract.Request) any {
	switch yes := !strings.Contains(string(q.Arguments), "2"); q.Kind {
	case contract.RequestConfirm:
		return contract.ConfirmAnswer{ID: q.ID, Approve: &yes}
	case contract.RequestToolResult:
		return contract.ToolResultAnswer{ID: q.ID, Result: json.RawMessage(cmp.Or(p.flow.results[q.Tool], `{"sent":true}`))}
	case contract.RequestRetry:
		return contract.RetryAnswer{ID: q.ID}
	}
	text := "Yes"
	if p.messages < len(p.flow.messages) {
		text = p.flow.messages[p.messages]
	}
	return contract.MessageAnswer{ID: q.ID, Text: text}
}

// yieldExamples are the examples that need no servers of their own.
func yieldExamples(t *testing.T) []yieldFlow {
	t.Helper()
	root, err := filepath.Abs("../examples/blueprint")
	if err != nil {
		t.Fatal(err)
	}
	greet, shop := greetings(t), articles(t)
	worker := yieldWorker(t, harness.TestRun{Tools: exampleTools, Functions: exampleFunctions,
		ToolSettings: tool.Settings{AllowPrivate: true, Trusted: []string{root}}})
	files, err := filepath.Glob("../examples/*/*.script")
	if err != nil {
		t.Fatal(err)
	}
	var out []yieldFlow
	for _, script := range files {
		base := strings.TrimSuffix(script, ".script")
		file := exampleFile(base)
		if file == "" {
			continue
		}
		name := strings.TrimPrefix(base, "../examples/")
		res := loadExample(t, file)
		f := yieldFlow{name: name, worker: worker, in: contract.RunInput{Script: harness.Script(t, harness.ReadFile(t, script))}}
		if filepath.Base(file) != specadapter.FolderMain {
			doc := strings.NewReplacer("http://localhost:3002/sse", greet+"/sse", "http://localhost:3003", shop).Replace(harness.ReadFile(t, file))
			o := specadapter.Options{Host: source.Host{UnboundTools: map[string]bool{}}}
			for _, fn := range exampleFunctions {
				o.UnboundTools[fn.Name()] = true
			}
			if res, _ = specadapter.Load(filepath.Base(file), []byte(doc), o); res == nil {
				t.Fatalf("%s does not load", file)
			}
		}
		f.callbacks = strings.Contains(string(f.in.Script), "async_callback")
		setExampleFlow(t, res, base, &f.in)
		if raw, err := os.ReadFile(base + ".input.txt"); err == nil {
			f.in.Input = strings.TrimSpace(string(raw))
		}
		if raw, err := os.ReadFile(base + ".answers"); err == nil {
			f.messages = strings.Split(strings.TrimSpace(string(raw)), "\n")
		}
		out = append(out, f)
	}
	return out
}

// exampleFile is the document of an example, or "" where it needs other workers or a client.
func exampleFile(base string) string {
	folder := filepath.Base(filepath.Dir(base))
	if folder == "elsewhere" || folder == "weather" {
		return ""
	}
	for _, file := range []string{base + ".json", base + ".yaml", filepath.Join(filepath.Dir(base), "agents", filepath.Base(base), specadapter.FolderMain)} {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	return ""
}

// yieldWorker starts a worker with the tools of r.
func yieldWorker(t *testing.T, r harness.TestRun) *harness.Worker {
	t.Helper()
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("yields-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorker(t, h.Client, h.Queue, 0, r.OpenTools(t))
	t.Cleanup(h.Worker.Stop)
	return h
}
