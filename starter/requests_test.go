package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/mock"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/mocks"

	"weft/activities/contract"
	"weft/worker/config"
)

// opened are requests of every kind, opened a minute apart.
func opened() []contract.Request {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	due := at.Add(time.Hour)
	return []contract.Request{
		{ID: "a#1/confirm/1.1-0000aaaa", Kind: contract.RequestConfirm, Node: "a", Step: 1, Execution: "a#1", At: "x.json:7", Text: "a wants to call pay", Tool: "pay",
			Connection: "crm", Arguments: json.RawMessage(`{"amount": 30}`), OpenedAt: at, DueAt: &due},
		{ID: "a#1/client/1.2-1111aaaa", Kind: contract.RequestToolResult, Node: "a", Step: 1, Execution: "a#1", Text: "run look_up", Tool: "look_up",
			Call: &contract.ContentRef{SHA: "s"}, OpenedAt: at.Add(time.Minute)},
		{ID: "b#2/model/1~1-2222bbbb", Kind: contract.RequestRetry, Node: "b", Step: 2, Execution: "b#2", Text: "no\x1b[2J key", OpenedAt: at.Add(2 * time.Minute)},
		{ID: "it's/ask-3333bbbb", Kind: contract.RequestMessage, Text: "Which month?", OpenedAt: at.Add(3 * time.Minute)},
	}
}

func TestRequestsAreChosen(t *testing.T) {
	const listing = `; open:
  confirm  a#1/confirm/1.1-0000aaaa  (a wants to call pay)
  tool_result  a#1/client/1.2-1111aaaa  (run look_up)
  retry  b#2/model/1~1-2222bbbb  (no[2J key)
  message  it's/ask-3333bbbb  (Which month?)`
	twice := append(opened(), contract.Request{ID: "a#1/confirm/1.1-0000aaaa/more", Kind: contract.RequestConfirm})
	tests := map[string]struct {
		kind, word string
		open       []contract.Request
		want, err  string
	}{
		"the only one of its kind":             {kind: contract.RequestRetry, open: opened(), want: "b#2/model/1~1-2222bbbb"},
		"by its end":                           {kind: contract.RequestConfirm, word: "0000aaaa", open: opened(), want: "a#1/confirm/1.1-0000aaaa"},
		"by its begin":                         {kind: contract.RequestToolResult, word: "a#1/cl", open: opened(), want: "a#1/client/1.2-1111aaaa"},
		"whole, though another begins with it": {kind: contract.RequestConfirm, word: "a#1/confirm/1.1-0000aaaa", open: twice, want: "a#1/confirm/1.1-0000aaaa"},
		"answered before":                      {kind: contract.RequestConfirm, word: "was#1/confirm", open: opened(), want: "was#1/confirm"},
		"none of its kind":                     {kind: contract.RequestConfirm, open: opened()[2:3], err: "the run \"r\" has no open request of kind confirm; open:\n  retry  b#2/model/1~1-2222bbbb  (no[2J key)"},
		"none at all":                          {kind: contract.RequestConfirm, err: `the run "r" has no open request of kind confirm; nothing of it is open`},
		"unknown":                              {kind: contract.RequestConfirm, word: "zzz", open: opened(), err: `the run "r" has no open request "zzz"` + listing},
		"not clear":                            {kind: contract.RequestConfirm, word: "aaaa", open: opened(), err: `"aaaa" is the begin or end of 2 open requests of the run "r"; write more of it` + listing},
		"of another kind": {kind: contract.RequestConfirm, word: "2222bbbb", open: opened(),
			err: "the request \"b#2/model/1~1-2222bbbb\" is of kind retry, which confirm does not answer; use: starter retry r 'b#2/model/1~1-2222bbbb'\n  or: starter retry r 'b#2/model/1~1-2222bbbb' -give-up -reason TEXT"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			q, err := (&app{}).choose("r", tc.kind, tc.word, &contract.Status{Requests: tc.open, Answered: []contract.Answered{{ID: "was#1/confirm"}}})
			if err != nil {
				if diff := cmp.Diff(tc.err, err.Error()); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				if code := (&app{stderr: &bytes.Buffer{}}).exit(err); code != exitBadInput {
					t.Errorf("exit code %d, want %d", code, exitBadInput)
				}
				return
			}
			if tc.err != "" || q != tc.want {
				t.Errorf("chose %q, want %q%s", q, tc.want, tc.err)
			}
		})
	}
}

func TestRequestsAsText(t *testing.T) {
	zone := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = zone })
	now := time.Date(2026, 1, 2, 3, 9, 5, 0, time.UTC)
	a := &app{flags: flags{dev: true}}
	var got strings.Builder
	for _, q := range opened() {
		x := a.asked("run-1", "", &q, now)
		got.WriteString(block(&x))
	}
	want := `confirm  a#1/confirm/1.1-0000aaaa
  waits     5m0s, since 2026-01-02 03:04:05, until 2026-01-02 04:04:05; no answer means no
  node      a, step 1, x.json:7
  asked     a wants to call pay
  tool      pay, of connection crm
  arguments {"amount": 30}
  answer    starter -dev confirm run-1 'a#1/confirm/1.1-0000aaaa' -yes
  or        starter -dev confirm run-1 'a#1/confirm/1.1-0000aaaa' -no -reason TEXT
tool_result  a#1/client/1.2-1111aaaa
  waits     4m0s, since 2026-01-02 03:05:05
  node      a, step 1
  asked     run look_up
  tool      look_up
  arguments long; they are in: starter transcript run-1
  answer    starter -dev tool-result run-1 'a#1/client/1.2-1111aaaa' -result JSON
  or        starter -dev tool-result run-1 'a#1/client/1.2-1111aaaa' -error TEXT
retry  b#2/model/1~1-2222bbbb
  waits     3m0s, since 2026-01-02 03:06:05
  node      b, step 2
  asked     no[2J key
  answer    starter -dev retry run-1 'b#2/model/1~1-2222bbbb'
  or        starter -dev retry run-1 'b#2/model/1~1-2222bbbb' -give-up -reason TEXT
message  it's/ask-3333bbbb
  waits     2m0s, since 2026-01-02 03:07:05
  asked     Which month?
  answer    starter -dev message run-1 -request 'it'\''s/ask-3333bbbb' TEXT
`
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// answered is a query's answer.
func answered(t *testing.T, v any) converter.EncodedValue {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayloads(v)
	if err != nil {
		t.Fatal(err)
	}
	return encoded{func(to any) error { return converter.GetDefaultDataConverter().FromPayloads(p, to) }}
}

type encoded struct{ get func(any) error }

func (encoded) HasValue() bool { return true }

func (e encoded) Get(to any) error { return e.get(to) }

// TestInbox asks two runs, of which one does not answer.
func TestInbox(t *testing.T) {
	c := &mocks.Client{}
	c.On("QueryWorkflow", mock.Anything, "good", "", contract.QueryStatus).Return(answered(t, contract.Status{Requests: opened()[:2]}), nil)
	c.On("QueryWorkflow", mock.Anything, "silent", "", contract.QueryStatus).Return(nil, serviceerror.NewUnavailable("nobody is there"))
	c.On("QueryWorkflow", mock.Anything, "idle", "", contract.QueryStatus).Return(answered(t, contract.Status{}), nil)
	var out bytes.Buffer
	a := &app{stdout: &out}
	runs := []listed{{ID: "silent", Flow: "S", queue: "q"}, {ID: "good", Flow: "Triage"}, {ID: "idle"}}
	box := a.askAll(context.Background(), &config.Temporal{Client: c, Namespace: "default", Address: "127.0.0.1:7233"}, runs)
	if len(box.Requests) != 2 || box.Requests[0].Of != "good" || box.Requests[0].Flow != "Triage" || box.Requests[1].ID != "a#1/client/1.2-1111aaaa" {
		t.Errorf("requests are %+v", box.Requests)
	}
	want := []silentRun{{Run: "silent", Flow: "S", Error: `the run "silent" is running, but no worker answers for it on task queue "q", namespace default at 127.0.0.1:7233 (nobody is there); start one with: bin/worker`}}
	if diff := cmp.Diff(want, box.Silent); diff != "" {
		t.Errorf("silent runs (-want +got):\n%s", diff)
	}
	a.waitingTable(box.Requests)
	lines := strings.Split(out.String(), "\n")
	if got := strings.Join(strings.Fields(lines[1]), " "); !strings.HasPrefix(got, "Triage confirm ") ||
		!strings.HasSuffix(got, " a x.json:7 a wants to call pay starter confirm good 'a#1/confirm/1.1-0000aaaa' -yes") {
		t.Errorf("the table's first row is %q", got)
	}
}

// TestQuietQueues gives up on a task queue at which nobody answers, and on no other.
func TestQuietQueues(t *testing.T) {
	quiet := errors.New("no answer within 5s")
	tests := map[string]struct {
		silent, broken, good int
		given                bool
	}{
		"nobody is there":           {silent: askedAtOnce, given: true},
		"too few to tell":           {silent: askedAtOnce - 1},
		"runs that cannot go on":    {broken: 5 * askedAtOnce},
		"one of them has an answer": {silent: 5 * askedAtOnce, good: 1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			q := &quietQueues{waited: map[string]int{}, spoke: map[string]bool{}}
			for range tc.silent {
				q.note("a", quiet, askTimeout)
			}
			for range tc.broken {
				q.note("a", quiet, time.Millisecond)
			}
			for range tc.good {
				q.note("a", nil, askTimeout)
			}
			if err := q.hopeless("a"); (err != nil) != tc.given {
				t.Errorf("given up: %v, want %v", err, tc.given)
			}
			if err := q.hopeless("b"); err != nil {
				t.Errorf("another queue: %v", err)
			}
		})
	}
}

func TestAnswersThatAreRefused(t *testing.T) {
	tests := map[string]struct {
		err  error
		code int
		want string
	}{
		"schema": {err: (&contract.Failure{Class: contract.ClassSchema, Text: "it is not what the tool declares", Remedy: "correct it",
			Errors: []contract.FieldError{{Path: "$.to", Message: "is no string"}}}).Wire(), code: exitBadInput,
			want: "starter: confirm was not taken: schema: it is not what the tool declares\n          $.to: is no string\n  remedy: correct it\n"},
		"unknown": {err: (&contract.Failure{Class: contract.ClassUnknownRequest, Text: "no request has the id"}).Wire(), code: exitBadInput,
			want: "starter: confirm was not taken: unknown_request: no request has the id\n"},
		"another answer": {err: (&contract.Failure{Class: contract.ClassAlreadyAnswered, Text: "it has one", Remedy: "look"}).Wire(), code: exitFailed,
			want: "starter: confirm was not taken: already_answered: it has one\n  remedy: look\n"},
		"too large for Temporal": {err: serviceerror.NewInvalidArgument("blob is too large"), code: exitBadInput, want: "starter: confirm was not taken: blob is too large\n"},
		"no receipt": {err: errNoReceipt, code: exitFailed,
			want: "starter: no receipt within 1m0s; start a worker for task queue \"q\" and answer again, or leave the answer for one with -signal\n"},
		"an error of Temporal's": {err: errors.New("strange"), code: exitFailed, want: "starter: confirm was not taken: unavailable: strange\n"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			a := &app{stderr: &stderr}
			code := a.exit(a.refused(context.Background(), nil, about{queue: "q"}, "r", contract.RequestConfirm, tc.err))
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if diff := cmp.Diff(tc.want, stderr.String()); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}
