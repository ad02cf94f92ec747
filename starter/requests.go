package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"weft/activities/contract"
	"weft/starter/follow"
	"weft/starter/history"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/worker/config"
)

// asked is a request as -output json prints it: the contract's, and what a person needs to
// answer it.
type asked struct {
	// Of is the run to which an answer is sent.
	Of   string `json:"workflow_id"`
	Flow string `json:"flow,omitempty"`
	// Seconds are those since it was opened.
	Seconds float64 `json:"seconds"`
	// Commands are the command lines that answer it; words in capital letters are to be
	// replaced.
	Commands []string `json:"commands"`
	contract.Request
}

func (a *app) asked(run, flow string, q *contract.Request, now time.Time) asked {
	return asked{Of: run, Flow: flow, Request: *q, Commands: a.answers(run, q),
		Seconds: max(0, now.Sub(q.OpenedAt).Round(time.Millisecond).Seconds())}
}

// answers are the command lines that answer a request.
func (a *app) answers(run string, q *contract.Request) []string {
	starter, run, id := a.self(), plaintext.ShellQuote(run), plaintext.ShellQuote(q.ID)
	switch q.Kind {
	case contract.RequestConfirm:
		line := starter + "confirm " + run + " " + id
		return []string{line + " -yes", line + " -no -reason TEXT"}
	case contract.RequestToolResult:
		line := starter + "tool-result " + run + " " + id
		return []string{line + " -result JSON", line + " -error TEXT"}
	case contract.RequestRetry:
		line := starter + "retry " + run + " " + id
		return []string{line, line + " -give-up -reason TEXT"}
	}
	return []string{starter + "message " + run + " -request " + id + " TEXT"}
}

// requests lists what a run waits for.
func (a *app) requests(ctx context.Context, args []string) error {
	temporal, about, err := a.find(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	list := []asked{}
	if about.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		st, err := a.open(ctx, temporal, args[0], about)
		if err != nil {
			return err
		}
		for i := range st.Requests {
			list = append(list, a.asked(args[0], "", &st.Requests[i], time.Now()))
		}
	} else {
		a.say("%s", a.ended(ctx, temporal, args[0], about))
	}
	switch a.flags.output {
	case outputJSON:
		a.object(list)
	case outputLines:
		for _, q := range list {
			a.object(q)
		}
	default:
		for i, q := range list {
			if i > 0 {
				fmt.Fprintln(a.stdout)
			}
			fmt.Fprint(a.stdout, block(&q))
		}
		if len(list) == 0 && about.status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
			a.say("the run %q waits for nobody", args[0])
		}
	}
	return nil
}

// open asks a run's worker what the run waits for, and says so when none is there to answer.
func (a *app) open(ctx context.Context, t *config.Temporal, id string, about about) (*contract.Status, error) {
	defer a.whileSilent(ctx, t, about)()
	var st contract.Status
	if err := ask(ctx, t, id, about, contract.QueryStatus, &st); err != nil {
		return nil, err
	}
	return &st, nil
}

// block shows a request as text.
func block(q *asked) string {
	var b strings.Builder
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-10s%s\n", label, fmt.Sprintf(format, args...))
	}
	fmt.Fprintf(&b, "%s  %s\n", q.Kind, plaintext.Lines(q.ID))
	due := ""
	if q.DueAt != nil {
		due = ", until " + q.DueAt.Local().Format(time.DateTime) + "; no answer means no"
	}
	line("waits", "%s, since %s%s", progress.Span(q.Seconds), q.OpenedAt.Local().Format(time.DateTime), due)
	if where := whereOf(&q.Request); where != "" {
		line("node", "%s", where)
	}
	line("asked", "%s", plaintext.Line(q.Text, 2000))
	if q.Tool != "" {
		tool := plaintext.Line(q.Tool, 100)
		if q.Connection != "" {
			tool += ", of connection " + plaintext.Line(q.Connection, 200)
		}
		line("tool", "%s", tool)
	}
	switch {
	case len(q.Arguments) > 0:
		line("arguments", "%s", plaintext.Line(string(q.Arguments), 4000))
	case q.Call != nil:
		line("arguments", "long; they are in: starter transcript %s", plaintext.ShellQuote(q.Of))
	}
	for i, c := range q.Commands {
		line([]string{"answer", "or"}[min(i, 1)], "%s", plaintext.Lines(c))
	}
	return b.String()
}

// whereOf is a request's node, step and place.
func whereOf(q *contract.Request) string {
	if q.Node == "" {
		return ""
	}
	where := plaintext.Line(q.Node, 200)
	if q.Step > 0 {
		where += fmt.Sprintf(", step %d", q.Step)
	}
	if q.At != "" {
		where += ", " + plaintext.Line(q.At, 300)
	}
	return where
}

// ended says that a run has ended, and how.
func (a *app) ended(ctx context.Context, t *config.Temporal, id string, about about) string {
	text := fmt.Sprintf("the run %q is already closed: %s", id, history.StatusName(about.status))
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := t.Client.GetWorkflow(ctx, id, about.run).Get(ctx, nil)
	if f := contract.FailureOf(err); f != nil && f.Class != contract.ClassCancelled && ctx.Err() == nil {
		text += fmt.Sprintf(" (%s: %s)", plaintext.Line(f.Class, 100), plaintext.Line(f.Text, 500))
	}
	return text + "; see: " + a.self() + "result " + plaintext.ShellQuote(id)
}

// silence is how long a question may go without an answer before it is looked whether a
// worker is there at all.
const silence = 3 * time.Second

// whileSilent says so where no worker polls a task queue, when what comes next takes long. The
// caller calls what it gives when it has its answer.
func (a *app) whileSilent(ctx context.Context, t *config.Temporal, about about) (answered func()) {
	if about.status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return func() {} // its history answers instead, or nobody is waited for so long
	}
	queue := about.queue
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer a.caught()
		defer close(done)
		select {
		case <-ctx.Done():
			return
		case <-time.After(silence):
		}
		last, err := follow.LastPoll(ctx, t, queue)
		switch {
		case err != nil:
		case last.IsZero():
			a.say("no worker polls task queue %q, namespace %s at %s; start one with: bin/worker or make dev; waiting", queue, t.Namespace, t.Address)
		default:
			a.say("no answer yet; on task queue %q, namespace %s at %s, a worker was last seen %.0f s ago; waiting", queue, t.Namespace, t.Address, time.Since(last).Seconds())
		}
	}()
	return func() { cancel(); <-done }
}

// matching are the requests whose id is word, or begins or ends with it; for "" those of a
// kind.
func matching(kind, word string, open []contract.Request) []*contract.Request {
	var found []*contract.Request
	for i := range open {
		q := &open[i]
		switch {
		case q.ID == word:
			return []*contract.Request{q}
		case word == "" && q.Kind == kind, word != "" && (strings.HasPrefix(q.ID, word) || strings.HasSuffix(q.ID, word)):
			found = append(found, q)
		}
	}
	return found
}

// choose finds the request that an answer of a kind is for, and gives its id. word is the id,
// or the begin or the end of one; "" stands for the only one of its kind.
func (a *app) choose(run, kind, word string, st *contract.Status) (string, error) {
	open := st.Requests
	found := matching(kind, word, open)
	switch {
	case word == "" && len(found) == 0:
		return "", bad("the run %q has no open request of kind %s%s", run, kind, a.listing(run, open))
	case word == "" && len(found) > 1:
		return "", bad("the run %q has %d open requests of kind %s; name one%s", run, len(found), kind, a.listing(run, open))
	case len(found) == 0 && slices.ContainsFunc(st.Answered, func(x contract.Answered) bool { return x.ID == word }):
		return word, nil // the run reports whether this is the same answer again
	case len(found) == 0:
		return "", bad("the run %q has no open request %q%s", run, word, a.listing(run, open))
	case len(found) > 1:
		return "", bad("%q is the begin or end of %d open requests of the run %q; write more of it%s", word, len(found), run, a.listing(run, open))
	case found[0].Kind != kind:
		return "", bad("the request %q is of kind %s, which %s does not answer; use: %s", found[0].ID, found[0].Kind, commandOf(kind),
			strings.Join(a.answers(run, found[0]), "\n  or: "))
	}
	return found[0].ID, nil
}

// commandOf is the command that answers requests of a kind.
func commandOf(kind string) string { return strings.ReplaceAll(kind, "_", "-") }

// maxListed bounds the open requests that an error lists.
const maxListed = 10

// listing lists open requests for an error.
func (a *app) listing(run string, open []contract.Request) string {
	if len(open) == 0 {
		return "; nothing of it is open"
	}
	var b strings.Builder
	b.WriteString("; open:")
	for i := range open {
		if i == maxListed {
			fmt.Fprintf(&b, "\n  and %d more, see: %srequests %s", len(open)-i, a.self(), plaintext.ShellQuote(run))
			break
		}
		fmt.Fprintf(&b, "\n  %s  %s  (%s)", open[i].Kind, plaintext.Lines(open[i].ID), plaintext.Line(open[i].Text, 100))
	}
	return b.String()
}

// unanswered reports whether an error means that no worker answers.
func unanswered(err error) bool {
	var silent *noAnswer
	return errors.As(err, &silent)
}
