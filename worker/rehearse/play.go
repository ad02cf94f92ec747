package rehearse

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/textutil"
	"weft/worker/host"
	"weft/workflows"
	"weft/workflows/plan"
)

// Divergence is where a run did something else than the recording.
type Divergence struct {
	// File and Line are the expectation's.
	File string `json:"file"`
	Line int    `json:"line"`
	// Call is the place of the call, Node and Step those of the execution that made it; absent for
	// the run's end.
	Call string `json:"call,omitempty"`
	Node string `json:"node,omitempty"`
	Step int    `json:"step,omitempty"`
	// What is it that differs; Expected and Got are the two sides.
	What     string `json:"what"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
	// FlowAt is the node's declaration, file:line, where the flow tells.
	FlowAt string `json:"flow_at,omitempty"`
}

// Report is what came of a recording.
type Report struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	// Calls is how many calls of the recording were made again, Turns how many the run took that
	// takes turns, Status how it ended.
	Calls  int    `json:"calls"`
	Turns  int    `json:"turns,omitempty"`
	Status string `json:"status"`
	// First is the first divergence; Others counts those behind it.
	First  *Divergence `json:"divergence,omitempty"`
	Others int         `json:"others,omitempty"`
}

// patience bounds how long a rehearsal may stand still, in real time; a busy machine is slow.
const patience = 2 * time.Minute

// maxShown is how many bytes of a value a divergence repeats.
const maxShown = 600

type player struct {
	rec    *Recording
	env    *testsuite.TestWorkflowEnvironment
	real   *activities.Activities
	byAt   map[string]*Call
	answer []bool

	// content holds stored bytes, a [json.RawMessage] each, by their hash.
	content sync.Map
	// mu guards what follows, and answer.
	mu    sync.Mutex
	made  map[string]bool
	gates []*gate
	// passed are deliveries that are made, or no longer can be; those before first are. Only runs use them, one at a time.
	passed map[*Delivery]bool
	first  int
	// took is how many turns the run took.
	took int
	// noting guards found; it may be locked after mu.
	noting sync.Mutex
	found  []Divergence
}

// Play runs a recording again and says where it first becomes another run. Its error is a fault
// of the rehearsal itself.
func Play(r *Recording) (rep *Report, err error) {
	p := &player{rec: r, byAt: map[string]*Call{}, answer: make([]bool, len(r.Answers)), made: map[string]bool{}, passed: map[*Delivery]bool{}}
	for i := range r.Calls {
		p.byAt[r.Calls[i].At] = &r.Calls[i]
	}
	in, err := p.input()
	if err != nil {
		return nil, err
	}
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	p.env = suite.NewTestWorkflowEnvironment()
	p.env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: patience, Interceptors: []interceptor.WorkerInterceptor{&gates{p: p}}})
	p.env.SetTestTimeout(patience)
	p.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: r.ID, TaskQueue: contract.TaskQueue,
		WorkflowExecutionTimeout: 100 * 365 * 24 * time.Hour})
	workflows.Register(p.env)
	models, err := llm.Open(llm.Settings{Default: llm.ScriptModel, Scripted: r.Switches()})
	if err != nil {
		return nil, err
	}
	p.real = activities.New(activities.Deps{Models: models, Source: p, Begin: host.Begin, CacheBytes: 1 << 30})
	p.register()
	p.env.RegisterDelayedCallback(func() { p.during(Start) }, 0)
	p.env.RegisterDelayedCallback(func() { p.look(0, 0) }, time.Second)
	// The test environment panics where a run stands still.
	defer func() {
		if v := recover(); v != nil {
			rep, err = nil, fmt.Errorf("%s: the run did not progress: %.300v", r.Name, v)
		}
	}()
	p.env.ExecuteWorkflow(contract.WorkflowFlow, in)
	return p.report(), nil
}

// input is what the run is started with: its models are the script, and what failed fails, unless the run may have waited for
// an operator when it was ended from outside.
func (p *player) input() (*contract.RunInput, error) {
	in := p.rec.Run
	in.V, in.Script = contract.Version, p.rec.Script
	unstarted := slices.ContainsFunc(p.rec.Calls, func(c Call) bool {
		return c.Kind == contract.ActivityCompileFlow && c.Fail != nil && !strings.Contains(c.At, "/")
	})
	if !unstarted && (!p.rec.Switches() || in.Model == "") {
		in.Model = llm.ScriptModel
	}
	in.MaxEvents = 0
	if s := p.rec.Expect.Status; s != contract.StatusCancelled && s != Terminated {
		in.OnError = contract.OnErrorFail
	}
	chat, err := json.Marshal(in.History)
	if err != nil {
		return nil, err
	}
	// What the run stores of its input, as it is after a journey through a payload.
	for _, v := range []any{in.Script, contract.InputMessage(in.Input, in.Media), &contract.Message{Role: contract.RoleUser, Text: string(chat)}} {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		p.keep(raw)
	}
	return &in, nil
}

func (p *player) keep(raw json.RawMessage) { p.content.Store(contract.SHA(raw), raw) }

// stored gives what has been kept, or nil.
func (p *player) stored(sha string) json.RawMessage {
	raw, _ := p.content.Load(sha)
	out, _ := raw.(json.RawMessage)
	return out
}

// Transcript asks a run for a thread; see [activities.Source].
func (p *player) Transcript(ctx context.Context, id, _ string, q contract.TranscriptQuery) (*contract.TranscriptPage, error) {
	var page contract.TranscriptPage
	return &page, p.ask(ctx, id, contract.QueryTranscript, q, &page)
}

// Content returns stored bytes: known ones, or those of a run.
func (p *player) Content(ctx context.Context, id, _ string, q contract.ContentQuery) (*contract.ContentPage, error) {
	if raw := p.stored(q.SHA); raw != nil && q.Offset <= len(raw) {
		return &contract.ContentPage{Data: raw[q.Offset:], Total: len(raw)}, nil
	}
	var page contract.ContentPage
	return &page, p.ask(ctx, id, contract.QueryContent, q, &page)
}

// ask queries a run of the rehearsal, between two of its tasks.
func (p *player) ask(ctx context.Context, id, query string, arg, out any) error {
	done := make(chan error, 1)
	p.env.RegisterDelayedCallback(func() { done <- p.query(id, out, query, arg) }, 0)
	select {
	case err := <-done:
		if err != nil {
			return &contract.Failure{Class: contract.ClassTranscriptLost, Text: err.Error()}
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// query queries a run of the rehearsal; it is called between two of its tasks.
func (p *player) query(id string, out any, query string, args ...any) (err error) {
	var v converter.EncodedValue
	if id == p.rec.ID {
		v, err = p.env.QueryWorkflow(query, args...)
	} else {
		v, err = p.env.QueryWorkflowByID(id, query, args...)
	}
	if err != nil {
		return err
	}
	return v.Get(out)
}

// place is where an activity's call stands below the run.
func (p *player) place(ctx context.Context) string {
	return strings.TrimPrefix(activities.PlaceOf(ctx), p.rec.ID+"/")
}

// note notes a divergence of a call, or of the run's end.
func (p *player) note(at, what, expected, got string) {
	line := p.rec.Expect.Line
	if c := p.byAt[at]; c != nil {
		line = c.Line
	}
	p.noteAt(line, at, what, expected, got)
}

// noteAt is note for what is in a line.
func (p *player) noteAt(line int, at, what, expected, got string) {
	d := Divergence{File: p.rec.Name, Line: line, Call: at, What: what, Expected: textutil.Cut(expected, maxShown), Got: textutil.Cut(got, maxShown)}
	if at != "" {
		d.Node, d.Step = Execution(at)
		if s := p.rec.Run.Flow.Source; s != nil && d.Node != "" && p.rec.Run.Flow.Plan.Node(d.Node) != nil {
			d.FlowAt = s.At(plan.NodePath(d.Node))
		}
	}
	p.noting.Lock()
	defer p.noting.Unlock()
	p.found = append(p.found, d)
}

func (p *player) diverged() bool {
	p.noting.Lock()
	defer p.noting.Unlock()
	return len(p.found) > 0
}

// report compares the end. Calls of branches that are still running no longer count.
func (p *player) report() *Report {
	p.mu.Lock()
	defer p.mu.Unlock()
	rep := &Report{File: p.rec.Name}
	early := p.diverged()
	for i := range p.rec.Calls {
		c := &p.rec.Calls[i]
		switch {
		case p.made[c.At]:
			rep.Calls++
		case !early && !c.Pending:
			p.note(c.At, "the call is not made", c.asked(), "no such call")
		}
	}
	rep.Status = p.ended()
	rep.Turns = p.took
	p.noting.Lock()
	defer p.noting.Unlock()
	if len(p.found) > 0 {
		rep.First, rep.Others = &p.found[0], len(p.found)-1
	}
	rep.OK = len(p.found) == 0
	return rep
}

func (p *player) ended() string {
	want := &p.rec.Expect
	err := p.env.GetWorkflowError()
	status := contract.StatusCompleted
	class, text := "", ""
	if err != nil {
		f := contract.FailureOf(err)
		status, class, text = contract.StatusFailed, f.Class, f.Error()
	}
	if contract.Cancelled(err) {
		status, class = contract.StatusCancelled, ""
	}
	expected := want.Status
	if expected == Terminated {
		expected = contract.StatusCancelled
	}
	switch {
	case expected != "" && status != expected:
		p.note("", "the run's end", want.Status, strings.TrimSuffix(status+": "+text, ": "))
		return status
	case want.Class != class && status == contract.StatusFailed && want.Class != "":
		p.note("", "the failure", want.Class, class+": "+text)
	}
	if err == nil {
		p.result(want)
	} else if len(want.Turns) > 0 {
		p.turnsBefore(want.Turns)
	}
	p.compareMessages(want.Said)
	return status
}

// Terminated is the status of a run that was ended from outside, without its doing.
const Terminated = "terminated"

// compareMessages compares what nodes added to the flow's conversation.
func (p *player) compareMessages(want []string) {
	texts, err := p.conversation()
	if err != nil {
		p.note("", "the conversation", "messages", err.Error())
	}
	rest := texts
	for _, text := range want {
		i := slices.Index(rest, text)
		if i < 0 {
			p.note("", "the message of a node", text, strings.Join(texts, " | "))
			return
		}
		rest = rest[i+1:]
	}
}

// conversation returns the texts of the flow's conversation, none if it has none.
func (p *player) conversation() (texts []string, err error) {
	for from, total := 0, 1; from < total; {
		var page contract.TranscriptPage
		if p.query(p.rec.ID, &page, contract.QueryTranscript, contract.TranscriptQuery{Thread: contract.ConversationThread, From: from}) != nil {
			return nil, nil // the flow has no conversation
		}
		for _, long := range page.Long {
			if page.Messages[long.Index], err = p.longMessage(long); err != nil {
				return nil, err
			}
		}
		for _, raw := range page.Messages {
			if m, err := contract.DecodeMessage(raw); err == nil {
				texts = append(texts, m.Text)
			}
		}
		from, total = from+len(page.Messages), page.Total
	}
	return texts, nil
}

// longMessage is a message that no page of a transcript holds.
func (p *player) longMessage(long contract.LongMessage) (raw []byte, _ error) {
	for len(raw) < long.Bytes {
		var page contract.ContentPage
		if err := p.query(p.rec.ID, &page, contract.QueryContent, contract.ContentQuery{SHA: long.SHA, Offset: len(raw)}); err != nil {
			return nil, err
		}
		raw = append(raw, page.Data...)
	}
	return raw, nil
}

func (p *player) result(want *Expect) {
	var out contract.RunResult
	if err := p.env.GetWorkflowResult(&out); err != nil {
		p.note("", "the result", "a result", err.Error())
		return
	}
	p.took = len(out.Turns)
	p.turns(want.Turns, out.Turns, true)
	switch text := deref(out.ResultText); {
	case want.ResultNode != "" && want.ResultNode != out.ResultNode:
		p.note("", "the node that gives the result", want.ResultNode, out.ResultNode)
	case want.ResultText != nil && *want.ResultText != text:
		p.note("", "the result's text", *want.ResultText, text)
	case len(want.ResultData) > 0 && !Same(want.ResultData, out.ResultData):
		p.note("", "the result's data", string(want.ResultData), string(out.ResultData))
	}
}
