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

// Divergence is a difference between a replay and its recording.
type Divergence struct {
	// File and Line are the position of the recorded side.
	File string `json:"file"`
	Line int    `json:"line"`
	// Call is the path of the call, Node and Step are the execution that made it; absent for the
	// outcome of the run.
	Call string `json:"call,omitempty"`
	Node string `json:"node,omitempty"`
	Step int    `json:"step,omitempty"`
	// What names the difference; Expected is the recorded side, Got the replayed one.
	What     string `json:"what"`
	Expected string `json:"expected"`
	Got      string `json:"got"`
	// FlowAt is the position of the node's declaration, file:line, if known.
	FlowAt string `json:"flow_at,omitempty"`
}

// Report is the outcome of a replay.
type Report struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	// Calls is the number of recorded calls that were made, Turns the number of turns of a session,
	// Status the status of the run.
	Calls  int    `json:"calls"`
	Turns  int    `json:"turns,omitempty"`
	Status string `json:"status"`
	// First is the first divergence; Others counts those after it.
	First  *Divergence `json:"divergence,omitempty"`
	Others int         `json:"others,omitempty"`
}

// patience is the timeout of a replay without progress, in real time; long enough for a busy machine.
const patience = 2 * time.Minute

// maxShown bounds the part of a value in a divergence, in bytes.
const maxShown = 600

type player struct {
	rec    *Recording
	env    *testsuite.TestWorkflowEnvironment
	real   *activities.Activities
	byAt   map[string]*Call
	answer []bool

	// content holds stored messages and other content, a [json.RawMessage] each, by hash.
	content sync.Map
	// mu guards what follows, and answer.
	mu    sync.Mutex
	made  map[string]bool
	gates []*gate
	// passed are deliveries that have been made, or no longer can be, including all before first. Only the runs use both fields,
	// one run at a time.
	passed map[*Delivery]bool
	first  int
	// turns is the number of turns of the run.
	turns int
	// noting guards found; it may be locked after mu.
	noting sync.Mutex
	found  []Divergence
}

// Play replays a recording and reports where the run diverges from it. The error is a problem of
// the replay itself.
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
	models, err := llm.Open(llm.Settings{Default: llm.ScriptModel, Scripted: r.HasFallbacks()})
	if err != nil {
		return nil, err
	}
	p.real = activities.New(activities.Deps{Models: models, Source: p, Begin: host.Begin, CacheBytes: 1 << 30})
	p.register()
	p.env.RegisterDelayedCallback(func() { p.sendMessages(Start) }, 0)
	p.env.RegisterDelayedCallback(func() { p.poll(0, 0) }, time.Second)
	// The test environment panics if a run makes no progress.
	defer func() {
		if v := recover(); v != nil {
			rep, err = nil, fmt.Errorf("%s: the run did not progress: %.300v", r.Name, v)
		}
	}()
	p.env.ExecuteWorkflow(contract.WorkflowFlow, in)
	return p.report(), nil
}

// input returns the input of the run: its model is the script, and a failed call fails the run, unless the run may have been
// waiting for an operator when it was cancelled or terminated.
func (p *player) input() (*contract.RunInput, error) {
	in := p.rec.Run
	in.V, in.Script = contract.Version, p.rec.Script
	unstarted := slices.ContainsFunc(p.rec.Calls, func(c Call) bool {
		return c.Kind == contract.ActivityCompileFlow && c.Fail != nil && !strings.Contains(c.At, "/")
	})
	if !unstarted && (!p.rec.HasFallbacks() || in.Model == "") {
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
	// The content that the run stores of its input, as encoded in a payload.
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

// stored returns content by its hash, or nil.
func (p *player) stored(sha string) json.RawMessage {
	raw, _ := p.content.Load(sha)
	out, _ := raw.(json.RawMessage)
	return out
}

// Transcript queries a run for a thread; see [activities.Source].
func (p *player) Transcript(ctx context.Context, id, _ string, q contract.TranscriptQuery) (*contract.TranscriptPage, error) {
	var page contract.TranscriptPage
	return &page, p.ask(ctx, id, contract.QueryTranscript, q, &page)
}

// Content returns stored content, or queries a run for it.
func (p *player) Content(ctx context.Context, id, _ string, q contract.ContentQuery) (*contract.ContentPage, error) {
	if raw := p.stored(q.SHA); raw != nil && q.Offset <= len(raw) {
		return &contract.ContentPage{Data: raw[q.Offset:], Total: len(raw)}, nil
	}
	var page contract.ContentPage
	return &page, p.ask(ctx, id, contract.QueryContent, q, &page)
}

// ask queries a run from an activity, between two of the run's tasks.
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

// query queries a run; it must be called between two of the run's tasks.
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

// place returns the path of an activity's call.
func (p *player) place(ctx context.Context) string {
	return strings.TrimPrefix(activities.PlaceOf(ctx), p.rec.ID+"/")
}

// note notes a divergence of a call, or of the run's outcome if at is "".
func (p *player) note(at, what, expected, got string) {
	line := p.rec.Expect.Line
	if c := p.byAt[at]; c != nil {
		line = c.Line
	}
	p.noteAt(line, at, what, expected, got)
}

// noteAt notes a divergence from a line of the recording.
func (p *player) noteAt(line int, at, what, expected, got string) {
	d := Divergence{File: p.rec.Name, Line: line, Call: at, What: what, Expected: textutil.Cut(expected, maxShown), Got: textutil.Cut(got, maxShown)}
	if at != "" {
		d.Node, d.Step = ParseExecution(at)
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

// report compares the outcome. After a divergence, missing calls are not reported.
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
			p.note(c.At, "the call was not made", c.asked(), "no such call")
		}
	}
	rep.Status = p.ended()
	rep.Turns = p.turns
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
		p.note("", "the run's status", want.Status, strings.TrimSuffix(status+": "+text, ": "))
		return status
	case want.Class != class && status == contract.StatusFailed && want.Class != "":
		p.note("", "the failure", want.Class, class+": "+text)
	}
	if err == nil {
		p.result(want)
	} else if len(want.Turns) > 0 {
		p.compareTurnsOfFailed(want.Turns)
	}
	p.compareMessages(want.Said)
	return status
}

// Terminated is the status of a terminated run.
const Terminated = "terminated"

// compareMessages compares the messages that nodes added to the flow's conversation.
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

// longMessage returns a message that is too large for a page of a transcript.
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
	p.turns = len(out.Turns)
	p.compareTurns(want.Turns, out.Turns, true)
	switch text := deref(out.ResultText); {
	case want.ResultNode != "" && want.ResultNode != out.ResultNode:
		p.note("", "the node of the result", want.ResultNode, out.ResultNode)
	case want.ResultText != nil && *want.ResultText != text:
		p.note("", "the result's text", *want.ResultText, text)
	case len(want.ResultData) > 0 && !EqualJSON(want.ResultData, out.ResultData):
		p.note("", "the result's data", string(want.ResultData), string(out.ResultData))
	}
}
