package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"weft/activities/contract"
)

// fakeClient answers queries with its answers in order, and repeats the last one.
type fakeClient struct {
	client.Client
	answers []func() (any, error)
	queries []string
}

func (c *fakeClient) QueryWorkflow(ctx context.Context, workflow, run, query string, args ...any) (converter.EncodedValue, error) {
	if _, ok := ctx.Deadline(); !ok {
		return nil, errors.New("a query without a time limit")
	}
	c.queries = append(c.queries, fmt.Sprint(workflow, "/", run, " ", query, " ", args))
	next := c.answers[0]
	if len(c.answers) > 1 {
		c.answers = c.answers[1:]
	}
	v, err := next()
	return encodedJSON{v}, err
}

// encodedJSON is the answer of a query, encoded as JSON.
type encodedJSON struct{ v any }

func (j encodedJSON) HasValue() bool { return j.v != nil }

func (j encodedJSON) Get(out any) error {
	raw, err := json.Marshal(j.v)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

func busy() (any, error) {
	return nil, serviceerror.NewResourceExhausted(enums.RESOURCE_EXHAUSTED_CAUSE_RPS_LIMIT, "slow down")
}

func TestSourceQueriesRuns(t *testing.T) {
	c := &fakeClient{answers: []func() (any, error){
		func() (any, error) {
			return contract.TranscriptPage{Messages: []json.RawMessage{json.RawMessage(`{"role":"user"}`)}, Total: 7}, nil
		},
		func() (any, error) { return contract.ContentPage{Data: []byte("\x00\xff"), Total: 2}, nil },
	}}
	s := NewClientSource(c)
	page, err := s.Transcript(t.Context(), "wf", "run", contract.TranscriptQuery{Thread: "t", From: 1, Upto: 2})
	if err != nil || page.Total != 7 || string(page.Messages[0]) != `{"role":"user"}` {
		t.Errorf("page is %+v, %v", page, err)
	}
	piece, err := s.Content(t.Context(), "wf", "run", contract.ContentQuery{SHA: "abc", Offset: 5})
	if err != nil || string(piece.Data) != "\x00\xff" || piece.Total != 2 {
		t.Errorf("piece is %+v, %v", piece, err)
	}
	want := "[wf/run transcript [{t 1 2}] wf/run content [{abc 5}]]"
	if got := fmt.Sprint(c.queries); got != want {
		t.Errorf("queries = %s, want %s", got, want)
	}
}

func TestBusyServerIsAskedAgain(t *testing.T) {
	c := &fakeClient{answers: []func() (any, error){busy, busy, func() (any, error) { return contract.ContentPage{Data: []byte("x"), Total: 1}, nil }}}
	piece, err := NewClientSource(c).Content(t.Context(), "wf", "run", contract.ContentQuery{SHA: "abc"})
	if err != nil || string(piece.Data) != "x" || len(c.queries) != 3 {
		t.Errorf("%+v, %v after %d queries", piece, err, len(c.queries))
	}
}

func TestBusyServerIsAskedAsLongAsTheCallLasts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	c := &fakeClient{answers: []func() (any, error){busy}}
	if _, err := NewClientSource(c).Content(ctx, "wf", "run", contract.ContentQuery{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error is %v", err)
	}
}

// queryFailed returns the error that a client receives if a query handler fails with err.
func queryFailed(err error) error {
	return serviceerror.NewQueryFailedWithFailure(err.Error(), temporal.GetDefaultFailureConverter().ErrorToFailure(err))
}

// TestUntypedQueryErrors covers queries that the SDK answers together with a workflow task, whose
// error has only a text.
func TestUntypedQueryErrors(t *testing.T) {
	untyped := func() (any, error) { return nil, serviceerror.NewQueryFailed(`this run has no thread "t"`) }
	typed := func() (any, error) {
		return nil, queryFailed((&contract.Failure{Class: contract.ClassTranscriptLost, Text: `this run has no thread "t"`}).ApplicationError())
	}
	for name, tc := range map[string]struct {
		answers []func() (any, error)
		class   string
		queries int
	}{
		"typed when asked again": {[]func() (any, error){untyped, typed}, contract.ClassTranscriptLost, 2},
		"never typed":            {[]func() (any, error){untyped}, contract.ClassUnavailable, maxUntyped},
	} {
		t.Run(name, func(t *testing.T) {
			c := &fakeClient{answers: tc.answers}
			_, err := NewClientSource(c).Transcript(t.Context(), "wf", "run", contract.TranscriptQuery{Thread: "t"})
			var f *contract.Failure
			if !errors.As(err, &f) || f.Class != tc.class || len(c.queries) != tc.queries {
				t.Errorf("failure is %+v after %d queries, want class %s after %d", f, len(c.queries), tc.class, tc.queries)
			}
		})
	}
}

func TestFailedQueries(t *testing.T) {
	tests := map[string]struct {
		err   error
		class string
	}{
		"a run that is gone":                   {serviceerror.NewNotFound("workflow not found"), contract.ClassTranscriptLost},
		"a message that the run does not have": {queryFailed((&contract.Failure{Class: contract.ClassTranscriptLost, Text: `this run has no thread "t"`}).ApplicationError()), contract.ClassTranscriptLost},
		"a query that the run cannot serve":    {queryFailed(errors.New("unknown queryType transcript")), contract.ClassUnavailable},
		"a run whose worker is down":           {serviceerror.NewDeadlineExceeded("deadline exceeded"), contract.ClassUnavailable},
		"a server that is down":                {serviceerror.NewUnavailable("connection refused"), contract.ClassUnavailable},
		"a worker that is not ready":           {serviceerror.NewWorkflowNotReady("not ready"), contract.ClassUnavailable},
		"an unknown error":                     {errors.New("odd"), contract.ClassUnavailable},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := &fakeClient{answers: []func() (any, error){func() (any, error) { return nil, tc.err }}}
			_, err := NewClientSource(c).Transcript(t.Context(), "wf", "run", contract.TranscriptQuery{Thread: "t"})
			var f *contract.Failure
			if !errors.As(err, &f) || f.Class != tc.class || len(c.queries) != 1 {
				t.Fatalf("failure is %+v after %d queries, want class %s", f, len(c.queries), tc.class)
			}
			if (f.Class == contract.ClassTranscriptLost) == contract.Retryable(f.Class) {
				t.Errorf("%s is retried: %v", f.Class, contract.Retryable(f.Class))
			}
		})
	}
}
