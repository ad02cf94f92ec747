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
	// yieldsAtOnce is the number of concurrent runs. Most of them wait, since the server lets a run continue
	// as new at most once per second.
	yieldsAtOnce = 40
	// yieldTimeout is the timeout of one run.
	yieldTimeout = 5 * time.Minute
	// noRun replaces the workflow id in outcomes, so that they can be compared.
	noRun = "no-run-id"
)

// yieldFlow is a flow that continues as new at each of its awaits.
type yieldFlow struct {
	name string
	in   contract.RunInput
	// messages are the answers to requests of kind message, in order.
	messages []string
	// results are the results of client-side tools; those of other tools are {"sent":true}.
	results map[string]string
	// prompts are sent to a session, each when the previous turn has ended; then the session is closed.
	prompts []string
	// callbacks is set if child sessions call back. Depending on timing, two callbacks are the prompt of one
	// turn or of two, so the numbers of turns and calls are not compared.
	callbacks bool
	// worker runs the flow.
	worker *harness.Worker
}

// yieldOutcome is the outcome of a run, which must not depend on where the run continues as new.
type yieldOutcome struct {
	Result   *contract.RunResult
	Failure  string
	Requests []string
	Problems []string
	tree     *Tree
}

// TestEndToEndYields lets all runs of a flow's tree continue as new when their history has n events, and checks that each
// activity is scheduled once, each request is opened once, and result and usage equal those of the undisturbed run.
//
// YIELDS=all selects every n up to the undisturbed run's length, and another text the flows whose name contains it, or the
// single run of that name ("continuum/triage/12"). Without YIELDS, one n in the middle of each flow is selected.
func TestEndToEndYields(t *testing.T) {
	t.Parallel()
	flows := slices.Concat(yieldExamples(t), yieldCases(t))
	filter, slots := os.Getenv("YIELDS"), make(chan struct{}, yieldsAtOnce)
	var ran, histories atomic.Int32
	t.Run("flows", func(t *testing.T) {
		for _, f := range flows {
			if filter != "" && filter != "all" && !strings.Contains(filter, f.name) && !strings.Contains(f.name, filter) {
				continue
			}
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				undisturbed := f.play(0, slots)
				if len(undisturbed.Problems) > 0 {
					t.Fatalf("undisturbed: %s", strings.Join(undisturbed.Problems, "\n"))
				}
				var all sync.WaitGroup
				for n := 1; n <= undisturbed.tree.Longest; n++ {
					if !yieldsAt(filter, f.name, n, undisturbed.tree.Longest) {
						continue
					}
					ran.Add(1)
					all.Go(func() {
						got := f.play(n, slots)
						if got.tree != nil {
							histories.Add(int32(got.tree.Runs))
						}
						if diff := undisturbed.diff(got); diff != "" {
							t.Errorf("%s/%d: %s", f.name, n, diff)
						}
					})
				}
				all.Wait()
			})
		}
	})
	if ran.Load() == 0 {
		t.Errorf("no run matches YIELDS=%q; an example of a name is %q", filter, flows[0].name+"/12")
	}
	t.Logf("%d runs with %d histories", ran.Load(), histories.Load())
}

// yieldsAt reports whether the filter selects the run of a flow that continues as new at n events.
func yieldsAt(filter, name string, n, longest int) bool {
	switch filter {
	case "":
		return n == longest/2
	case "all":
		return true
	}
	full := fmt.Sprintf("%s/%d", name, n)
	return full == filter || strings.Contains(name, filter)
}

// diff returns the differences of an outcome from that of the undisturbed run, o.
func (o *yieldOutcome) diff(got *yieldOutcome) string {
	out := slices.Clone(got.Problems)
	if diff := gocmp.Diff(o.Result, got.Result); diff != "" {
		out = append(out, "result (-undisturbed +got):\n"+diff)
	}
	if o.Failure != got.Failure {
		out = append(out, fmt.Sprintf("failure %q, want %q", got.Failure, o.Failure))
	}
	if diff := gocmp.Diff(o.Requests, got.Requests); diff != "" {
		out = append(out, "requests (-undisturbed +got):\n"+diff)
	}
	if o.tree != nil && got.tree != nil {
		if diff := gocmp.Diff(o.tree.Scheduled, got.tree.Scheduled); diff != "" {
			out = append(out, "activities (-undisturbed +got):\n"+diff)
		}
	}
	return strings.Join(out, "\n")
}

// play runs the flow to its end with n as the limit of events after which runs continue as new.
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
	user := &yieldUser{flow: f, id: id, answered: map[string]bool{}}
	go func() {
		defer close(done)
		user.answer(ctx, ended)
	}()
	var result contract.RunResult
	err = f.worker.Client.GetWorkflow(ctx, id, "").Get(ctx, &result)
	close(ended)
	<-done
	out.Problems, out.Requests = append(out.Problems, user.problems...), user.requests()
	switch {
	case ctx.Err() != nil:
		out.Problems = append(out.Problems, fmt.Sprintf("%s did not end in time", id))
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
	// A worker executes these in the workflow task, unless it is too busy.
	maps.DeleteFunc(out.tree.Scheduled, func(a string, _ int) bool {
		return strings.HasSuffix(a, contract.ActivityListTools) || strings.HasSuffix(a, contract.ActivityCompileFlow)
	})
	return out
}

// onlyRepeated removes the activities that were scheduled once.
func onlyRepeated(scheduled map[string]int) map[string]int {
	maps.DeleteFunc(scheduled, func(_ string, n int) bool { return n == 1 })
	return scheduled
}

// yieldUser answers the requests of a run, in all roles.
type yieldUser struct {
	flow     *yieldFlow
	id       string
	answered map[string]bool
	messages int
	problems []string
}

func (p *yieldUser) requests() []string { return slices.Sorted(maps.Keys(p.answered)) }

// answer answers each request once, until the run has ended.
func (p *yieldUser) answer(ctx context.Context, ended <-chan struct{}) {
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

func (p *yieldUser) query(ctx context.Context, name string, out any) error {
	within, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	v, err := p.flow.worker.Client.QueryWorkflow(within, p.id, "", name)
	if err != nil {
		return err
	}
	return v.Get(out)
}

func (p *yieldUser) update(ctx context.Context, name string, arg any) error {
	within, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	u, err := p.flow.worker.Client.UpdateWorkflow(within, client.UpdateWorkflowOptions{
		WorkflowID: p.id, UpdateName: name, Args: []any{arg}, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return err
	}
	return u.Get(within, nil)
}

// prompt sends an idle session the prompt for its next turn, or closes it. If that is interrupted, the next
// poll repeats it.
func (p *yieldUser) prompt(ctx context.Context) {
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

// reply answers a request. It is a problem if the request was answered before.
func (p *yieldUser) reply(ctx context.Context, q contract.Request) {
	id := strings.ReplaceAll(q.ID, p.id, "")
	if p.answered[id] {
		p.problems = append(p.problems, fmt.Sprintf("%s is opened again: %s", id, q.Text))
		return
	}
	if q.Timeout > 0 || p.update(ctx, q.Kind, p.reaction(q)) != nil {
		return // it times out without an answer, or the run continues as new and the request remains open
	}
	p.answered[id] = true
	if q.Kind == contract.RequestMessage {
		p.messages++
	}
}

// reaction returns the answer to a request. Calls with a 2 in their arguments are rejected.
func (p *yieldUser) reaction(q contract.Request) any {
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

// yieldExamples returns the examples that need no other workers or clients.
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

// exampleFile returns the document of an example, or "" if it needs other workers or a client.
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
