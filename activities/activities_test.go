package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/mask"
	"weft/workflows/plan"
)

// quiet drops Temporal's log.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

// bench registers a worker's activities in Temporal's test environment, with the scripted model.
func bench(t *testing.T, d Deps) (*Activities, *testsuite.TestActivityEnvironment) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestActivityEnvironment()
	if d.Models == nil {
		d.Models = modelsOf(t, llm.Settings{Default: "script"})
	}
	a := New(d)
	a.Register(env)
	return a, env
}

// perform runs an activity and reads its result.
func perform[T any](t *testing.T, env *testsuite.TestActivityEnvironment, name string, in any) (*T, *contract.Failure) {
	t.Helper()
	v, err := env.ExecuteActivity(name, in)
	if err != nil {
		var app *temporal.ApplicationError
		if !errors.As(err, &app) {
			t.Fatalf("%s failed with %T: %v", name, err, err)
		}
		f := contract.FailureOf(err)
		if app.NonRetryable() == contract.Retryable(f.Class) || app.Type() != f.Class {
			t.Errorf("class %s is encoded as type %s, retried: %v", f.Class, app.Type(), !app.NonRetryable())
		}
		return nil, f
	}
	out := new(T)
	if err := v.Get(out); err != nil {
		t.Fatal(err)
	}
	return out, nil
}

// scripted stores a script with the run.
func scripted(t *testing.T, r *fakeRun, source string) *contract.ContentRef {
	t.Helper()
	raw, err := llm.ParseScript("s.yaml", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	r.content[contract.SHA(raw)] = raw
	return &contract.ContentRef{Workflow: "wf", Run: "run", SHA: contract.SHA(raw)}
}

func TestToActivityError(t *testing.T) {
	denied := &contract.Failure{Class: contract.ClassDenied, Text: "no key"}
	tests := map[string]struct {
		err                 error
		cancelled, stopping bool
		cause               error // of the cancellation; nil: requested
		// class of the expected application error, or the expected error itself.
		class, text string
		is          error
	}{
		"nothing went wrong":                       {},
		"a failure keeps its class":                {err: denied, class: contract.ClassDenied},
		"a wrapped failure too":                    {err: fmt.Errorf("call: %w", denied), class: contract.ClassDenied},
		"any other error is retryable":             {err: errors.New("odd"), class: contract.ClassUnavailable},
		"a cancelled call":                         {err: denied, cancelled: true, is: context.Canceled},
		"a call that its run cancelled":            {err: denied, cancelled: true, cause: temporal.NewCanceledError(), is: context.Canceled},
		"a heartbeat that failed":                  {err: denied, cancelled: true, cause: errors.New("no server"), class: contract.ClassUnavailable, text: "heartbeat failed: no server"},
		"a paused call":                            {err: denied, cancelled: true, cause: activity.ErrActivityPaused, class: contract.ClassUnavailable, text: "activity paused"},
		"a call that the worker's end cut":         {err: denied, cancelled: true, stopping: true, class: contract.ClassUnavailable},
		"a failure while the worker stops":         {err: denied, stopping: true, class: contract.ClassDenied},
		"a result in time, although all is ending": {cancelled: true, stopping: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a, env := bench(t, Deps{})
			stop := make(chan struct{})
			if tc.stopping {
				close(stop)
			}
			env.SetWorkerStopChannel(stop)
			var got error
			env.RegisterActivityWithOptions(func(ctx context.Context) error {
				ctx, cancel := context.WithCancelCause(ctx)
				defer cancel(nil)
				if tc.cancelled {
					cancel(tc.cause)
				}
				got = a.toActivityError(ctx, tc.err)
				return nil
			}, activity.RegisterOptions{Name: "fail"})
			if _, err := env.ExecuteActivity("fail"); err != nil {
				t.Fatal(err)
			}
			var app *temporal.ApplicationError
			switch {
			case tc.class != "":
				if !errors.As(got, &app) || app.Type() != tc.class || app.NonRetryable() == contract.Retryable(tc.class) {
					t.Errorf("error is %#v, want class %s", got, tc.class)
				} else if !strings.Contains(app.Message(), tc.text) {
					t.Errorf("error is %v, want %q", got, tc.text)
				}
			case tc.is != nil:
				if got != tc.is {
					t.Errorf("error is %v, want %v as it is", got, tc.is)
				}
			case got != nil:
				t.Errorf("error is %v", got)
			}
		})
	}
}

func TestCheckSize(t *testing.T) {
	fits := strings.Repeat("x", contract.MaxPayload-2) // two quotes make it full
	a := New(Deps{})
	if err := a.checkSize("it", fits); err != nil {
		t.Errorf("a value that fits is rejected: %v", err)
	}
	f := contract.FailureOf(a.checkSize("the answer", fits+"x"))
	if f.Class != contract.ClassTooLarge || !strings.Contains(f.Text, "the answer is 1945601 bytes, at most 1945600") || !strings.HasSuffix(f.Remedy, "give the workers a store (store.dir)") {
		t.Errorf("failure is %+v", f)
	}
	if err := a.checkSize("it", func() {}); err == nil {
		t.Error("a value that cannot be encoded is accepted")
	}
	small := strings.Repeat("x", 998)
	if err := a.checkRoom("it", small, 1000); err != nil {
		t.Errorf("a value within the limit is rejected: %v", err)
	}
	if f := contract.FailureOf(a.checkRoom("it", small+"x", 1000)); f.Class != contract.ClassTooLarge || !strings.HasPrefix(f.Text, "it is 1001 bytes, at most 1000 can go into the run's history") {
		t.Errorf("failure is %+v", f)
	}
	if err := a.checkRoom("it", fits+"x", 4<<20); err == nil {
		t.Error("room lifts the server's limit")
	}
	stored := New(Deps{MaxPayload: 4 << 20})
	if err := stored.checkRoom("it", small+"x", 1000); err != nil {
		t.Errorf("a value that the store can hold is rejected: %v", err)
	}
	for n, want := range map[int]bool{-10: false, 10: true} {
		out := &contract.ToolResult{Message: []byte(`"` + strings.Repeat("x", 1000+n-len(`{"message":""}`)) + `"`)}
		if err := stored.checkRoom("it", out, 1000); err != nil || out.Offloaded != want {
			t.Errorf("%d bytes over the limit, offloaded: %t, %v", n, out.Offloaded, err)
		}
		if err := stored.checkRoom("it", out, 0); err != nil {
			t.Error(err)
		}
	}
	if err := stored.checkSize("it", strings.Repeat("x", 4<<20-contract.Envelope-2)); err != nil {
		t.Errorf("a value that fits into the store is rejected: %v", err)
	}
	f = contract.FailureOf(stored.checkSize("the answer", strings.Repeat("x", 4<<20)))
	if f.Class != contract.ClassTooLarge || !strings.Contains(f.Text, "the answer is 4194306 bytes, at most 4190208 can go into the store") || !strings.HasSuffix(f.Remedy, "raise store.max_payload") {
		t.Errorf("failure is %+v", f)
	}
}

// beats records the heartbeats of activities.
type beats struct {
	interceptor.WorkerInterceptorBase
	mu   sync.Mutex
	seen []contract.Heartbeat
}

func (b *beats) all() []contract.Heartbeat {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.seen)
}

func (b *beats) InterceptActivity(ctx context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &beatsInbound{beats: b}
	in.Next = next
	return in
}

type beatsInbound struct {
	interceptor.ActivityInboundInterceptorBase
	beats *beats
}

func (i *beatsInbound) Init(out interceptor.ActivityOutboundInterceptor) error {
	o := &beatsOutbound{beats: i.beats}
	o.Next = out
	return i.Next.Init(o)
}

type beatsOutbound struct {
	interceptor.ActivityOutboundInterceptorBase
	beats *beats
}

func (o *beatsOutbound) RecordHeartbeat(ctx context.Context, details ...any) {
	o.beats.mu.Lock()
	o.beats.seen = append(o.beats.seen, details[0].(contract.Heartbeat))
	o.beats.mu.Unlock()
	o.Next.RecordHeartbeat(ctx, details...)
}

// beatFor runs an activity with a heartbeat timeout and returns its heartbeats.
func beatFor(t *testing.T, timeout time.Duration, work func(tell func(string))) []contract.Heartbeat {
	t.Helper()
	return waitingBeatFor(t, timeout, func(tell, _ func(string)) { work(tell) })
}

// waitingBeatFor is beatFor for work that can wait.
func waitingBeatFor(t *testing.T, timeout time.Duration, work func(tell, waits func(string))) []contract.Heartbeat {
	t.Helper()
	return watchedFor(t, timeout, nil, func(tell, waits func(string), _ func() []contract.Heartbeat) { work(tell, waits) })
}

// watchedFor is waitingBeatFor for work that reads its heartbeats so far; watched reports whether a client
// follows a run.
func watchedFor(t *testing.T, timeout time.Duration, watched func(string) bool, work func(tell, waits func(string), seen func() []contract.Heartbeat), first ...func(*heartbeats)) []contract.Heartbeat {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	b := &beats{}
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{b}, DeadlockDetectionTimeout: time.Minute})
	env.SetTestTimeout(3 * time.Minute)
	a := New(Deps{Mask: mask.New(testSecret), Watched: watched})
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		h := a.heartbeat(ctx)
		tell, waits, stop := h.progress, h.waiting, h.stop
		defer stop()
		for _, f := range first {
			f(h)
		}
		work(tell, waits, b.all)
		return nil
	}, activity.RegisterOptions{Name: "work"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: timeout})
		return workflow.ExecuteActivity(ctx, "work").Get(ctx, nil)
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	return b.all()
}

func TestHeartbeatHasTheLatestText(t *testing.T) {
	long := strings.Repeat("x", 10) + strings.Repeat("y", maxHeartbeat)
	watchedFor(t, 500*time.Millisecond, nil, func(tell, _ func(string), seen func() []contract.Heartbeat) {
		began := time.Now()
		says := func(text string) {
			for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				if slices.Contains(seen(), contract.Heartbeat{Attempt: 1, Text: text}) {
					return
				}
			}
			t.Errorf("no heartbeat says %.20q… of %d bytes: %.300q", text, len(text), fmt.Sprint(seen()))
		}
		for i := range 1000 {
			tell(fmt.Sprint("text ", i)) // never waits for a heartbeat
		}
		says("text 999")
		tell(long)
		says(long[len(long)-len(truncateText(contract.Heartbeat{Attempt: 1, Text: long}).Text):])
		if n, most := len(seen()), int(time.Since(began)/minInterval)+2; n > most {
			t.Errorf("%d heartbeats in %v, want one each %v at most", n, time.Since(began), minInterval)
		}
	})
}

func TestHeartbeatsAreBounded(t *testing.T) {
	for name, text := range map[string]string{
		"short": "a story", "plain": strings.Repeat("x", maxHeartbeat), "quotes and lines": strings.Repeat("\"\n", maxHeartbeat/2),
		"marks": strings.Repeat("<b>", maxHeartbeat), "of several bytes": strings.Repeat("日本", maxHeartbeat), "no text": strings.Repeat("\x00\xff", maxHeartbeat),
	} {
		for _, waiting := range []string{"", "its turn: 3s"} {
			b := truncateText(contract.Heartbeat{Attempt: 1, Text: text, Waiting: waiting})
			raw, err := json.Marshal(b)
			if err != nil || len(raw) > maxHeartbeat || !strings.HasSuffix(text, b.Text) || b.Waiting != waiting {
				t.Errorf("%s: %d bytes of JSON (%v) with %d of the text", name, len(raw), err, len(b.Text))
			}
			if full := len(text) < maxHeartbeat/2; full && b.Text != text || b.Text == "" || utf8.ValidString(text) && !utf8.ValidString(b.Text) {
				t.Errorf("%s: the text is %.40q… of %d bytes", name, b.Text, len(b.Text))
			}
		}
	}
}

// TestHeartbeatWithoutFollowers checks that new text waits for the next regular heartbeat if no client follows the
// run, and is sent at once when one starts to.
func TestHeartbeatWithoutFollowers(t *testing.T) {
	const timeout = time.Hour // its quarter is more than slowest
	var watched atomic.Bool
	watchedFor(t, timeout, func(run string) bool { return run != "" && watched.Load() }, func(tell, _ func(string), seen func() []contract.Heartbeat) {
		began := time.Now()
		for i := range 20 {
			tell(fmt.Sprint("text ", i))
			time.Sleep(minInterval)
		}
		if n, most := len(seen()), int(time.Since(began)/maxInterval)+1; n > most {
			t.Errorf("%d heartbeats in %v, want one each %v at most", n, time.Since(began), maxInterval)
		}
		watched.Store(true)
		tell("the end")
		for end := time.Now().Add(time.Minute); !slices.Contains(seen(), contract.Heartbeat{Attempt: 1, Text: "the end"}); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("no heartbeat says the end: %.300q", fmt.Sprint(seen()))
			}
		}
	})
}

// TestNoHeartbeatOfAQuickCall tries three times, because the machine may be busy.
func TestNoHeartbeatOfAQuickCall(t *testing.T) {
	for range 3 {
		if len(beatFor(t, time.Second, func(tell func(string)) { tell("x") })) == 0 {
			return
		}
	}
	t.Error("calls that end at once send heartbeats")
}

func TestNoHeartbeatWithoutATimeout(t *testing.T) {
	if seen := beatFor(t, 0, func(tell func(string)) { tell("x") }); len(seen) != 0 {
		t.Errorf("heartbeats are %v", seen)
	}
}

func TestCompileFlow(t *testing.T) {
	compiled := &contract.CompileFlowResult{Plan: &plan.Flow{Name: "f"}, Hash: "h"}
	tests := map[string]struct {
		in    contract.CompileFlowInput
		err   error
		model string
		plan  bool
		class string
	}{
		"a document and no model":     {in: contract.CompileFlowInput{Flow: contract.FlowRef{Text: "{}"}}, model: "script", plan: true},
		"a document and a model":      {in: contract.CompileFlowInput{Flow: contract.FlowRef{Text: "{}"}, Model: "openai/x"}, model: "openai/x", plan: true},
		"no document and no model":    {model: "script"},
		"a document that is too long": {in: contract.CompileFlowInput{Flow: contract.FlowRef{Text: "long"}}, class: contract.ClassTooLarge},
		"an invalid document": {in: contract.CompileFlowInput{Flow: contract.FlowRef{Text: "{}"}},
			err: &contract.Failure{Class: contract.ClassInvalidFlow, Text: "wrong", Diagnostics: []string{"f:1", "f:2"}}, class: contract.ClassInvalidFlow},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, env := bench(t, Deps{Compile: func(f contract.FlowRef) (*contract.CompileFlowResult, error) {
				if f.Text == "long" {
					return &contract.CompileFlowResult{Plan: &plan.Flow{Name: strings.Repeat("x", contract.MaxPayload)}}, nil
				}
				return compiled, tc.err
			}})
			out, f := perform[contract.CompileFlowResult](t, env, contract.ActivityCompileFlow, tc.in)
			if tc.class != "" {
				if f == nil || f.Class != tc.class || tc.err != nil && len(f.Diagnostics) != 2 {
					t.Errorf("failure is %+v, want %s", f, tc.class)
				}
				return
			}
			if f != nil {
				t.Fatal(f)
			}
			if out.Model != tc.model || (out.Plan != nil) != tc.plan {
				t.Errorf("result is %+v", out)
			}
		})
	}
	if compiled.Model != "" {
		t.Error("the compiler's result was changed")
	}
}
