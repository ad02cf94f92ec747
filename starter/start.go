package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/starter/progress"
	"weft/worker/config"
)

// maxID leaves room for what children add to a run's id, of Temporal's 1,000 bytes.
const maxID = 200

// maxInput is the most that Temporal takes as a run's input, with room for its envelope.
const maxInput = 1_900 << 10

// start runs a flow: everything that can be wrong is looked at before a server is needed.
func (a *app) start(ctx context.Context, _ []string) error {
	if a.flags.flow == "" {
		return bad("missing -flow; usage: starter -flow FILE [-input TEXT|@FILE|-]")
	}
	a.reached("no run was started")
	if err := checkID(a.flags.id); err != nil {
		return err
	}
	cfg, err := a.load()
	if err != nil {
		return err
	}
	in, name, err := a.input(ctx, cfg)
	if err != nil {
		return err
	}
	if err := a.mayStart(cfg, in.Flow.Plan); err != nil {
		return err
	}
	if err := a.lend(ctx); err != nil {
		return err
	}
	temporal, err := a.connect(ctx, cfg)
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	id := a.flags.id
	if id == "" {
		id = newID(name)
	}
	a.reached(fmt.Sprintf("whether the run was started says: %sstatus %s", a.self(), plaintext.ShellQuote(id)))
	run, err := launch(ctx, temporal, client.StartWorkflowOptions{
		ID: id, TaskQueue: cfg.TaskQueue, Priority: a.flags.temporalPriority(),
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		WorkflowIDConflictPolicy:                 enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
	}, in)
	var open *serviceerror.WorkflowExecutionAlreadyStarted
	if errors.As(err, &open) {
		return bad("a run with the id %q is already open; follow it with: %sfollow %s, or choose another -id", id, a.self(), plaintext.ShellQuote(id))
	}
	if err != nil {
		return fmt.Errorf("start the run %q: %w", id, err)
	}
	a.reached(a.detachedText(id))
	started := fmt.Sprintf("run: %s (task queue %s, namespace %s at %s)", id, cfg.TaskQueue, temporal.Namespace, temporal.Address)
	if a.flags.detach {
		a.say("%s", started)
		a.detached(id)
		return nil
	}
	f := a.newFollower(temporal, run.GetID(), run.GetRunID(), cfg.TaskQueue)
	f.Tell(progress.Notice{Event: progress.EventRun, Run: id}, "%s", started)
	if in.Model != "" {
		f.Model(in.Model)
	}
	if in.Session {
		return f.toTurn(ctx, 1)
	}
	return f.toTheEnd(ctx)
}

// detached hands a run over to whoever asked for it alone.
func (a *app) detached(id string) {
	if a.flags.asJSON() {
		a.object(map[string]string{"status": "running", "run": id})
	} else {
		_ = a.exactly([]byte(id + "\n"))
	}
	a.say("%s", a.detachedText(id))
}

// input puts together what the run needs, and the flow's name. A wrong flow does not hide
// what is wrong with the rest.
func (a *app) input(ctx context.Context, cfg *config.Config) (*contract.RunInput, string, error) {
	res, flowErr := a.compile(cfg, a.flags.flow, true)
	dialect := ""
	if res != nil {
		dialect = res.Flow.Dialect
	}
	given, inputErr := a.readGiven(dialect)
	script, scriptErr := a.readScript()
	model, modelErr := a.chooseModel()
	if err := errors.Join(inputErr, scriptErr, modelErr, a.flags.checkPair()); err != nil {
		return nil, "", badInput{errors.Join(plainly(flowErr), err).Error()}
	}
	if flowErr != nil {
		return nil, "", flowErr
	}
	if a.flags.session && res.Flow.LoneAgent() == nil {
		return nil, "", bad("the flow %q cannot be a session: it is not one agent alone; leave out -session", res.Flow.Name)
	}
	if err := a.held(ctx, res.Flow, given); err != nil {
		return nil, "", err
	}
	in := &contract.RunInput{
		V: contract.Version, Input: given.text, Images: given.images, Params: given.params, Scope: given.scope, Value: given.value, State: given.state,
		Model: model, Script: script, MaxSteps: a.flags.maxSteps, Budget: a.flags.budget.budget(), OnError: a.flags.onError, Session: a.flags.session,
		Flow: contract.FlowRef{Plan: res.Flow, Source: &res.Source},
	}
	encoded, err := json.Marshal(in)
	if err != nil {
		return nil, "", bad("encode the run's input: %v", err)
	}
	if len(encoded) > maxInput {
		return nil, "", bad("the run's input is %d bytes with flow, input (%d) and script (%d), at most %d can be sent through Temporal; shorten the largest",
			len(encoded), len(given.text)+len(given.params), len(script), maxInput)
	}
	return in, res.Flow.Name, nil
}

// plainly drops an error that has been printed.
func plainly(err error) error {
	var code coded
	if errors.As(err, &code) {
		return nil
	}
	return err
}

// newID makes a workflow id of a flow's name: its letters and digits, and 8 random
// characters.
func newID(name string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if b.Len() > 0 && !strings.HasSuffix(b.String(), "-") {
			b.WriteByte('-')
		}
		if b.Len() >= 60 {
			break
		}
	}
	slug := strings.Trim(b.String(), "-")
	if slug == "" {
		slug = "flow"
	}
	return slug + "-" + strings.ToLower(rand.Text()[:8])
}
