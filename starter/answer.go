package main

import (
	"context"

	"weft/activities/contract"
	"weft/starter/plaintext"
	"weft/worker/config"
)

// confirm reports whether a tool may be called.
func (a *app) confirm(ctx context.Context, args []string) error {
	if a.flags.yes == a.flags.no {
		return bad("confirm needs exactly one of -yes and -no")
	}
	if a.flags.no && a.flags.arguments != "" {
		return bad("-arguments cannot be combined with -no")
	}
	arguments, err := a.rawJSON("-arguments", a.flags.arguments)
	if err == nil && len(arguments) > 0 && arguments[0] != '{' {
		err = bad("-arguments is %s, want a JSON object such as {\"to\": \"ann\"}", plaintext.Line(string(arguments), 60))
	}
	if err != nil {
		return err
	}
	return a.reply(ctx, contract.RequestConfirm, args, func(id string) any {
		return contract.ConfirmAnswer{ID: id, Approve: &a.flags.yes, Reason: a.flags.reason, Arguments: arguments, Remember: a.flags.remember, By: a.by()}
	})
}

// toolResult gives the result of a tool that a client runs, or its error.
func (a *app) toolResult(ctx context.Context, args []string) error {
	if a.flags.has("result") == (a.flags.toolError != "") {
		return bad("tool-result needs exactly one of -result and -error")
	}
	result, err := a.rawJSON("-result", a.flags.result)
	if err == nil && a.flags.has("result") && len(result) == 0 {
		err = bad("-result is empty, want JSON; quote a string: '\"text\"'")
	}
	if err != nil {
		return err
	}
	return a.reply(ctx, contract.RequestToolResult, args, func(id string) any {
		return contract.ToolResultAnswer{ID: id, Result: result, Error: a.flags.toolError, By: a.by()}
	})
}

// retry answers one request of kind retry, or all of a run.
func (a *app) retry(ctx context.Context, args []string) error {
	if a.flags.reason != "" && !a.flags.giveUp {
		return bad("-reason needs -give-up")
	}
	body := func(id string) any {
		return contract.RetryAnswer{ID: id, GiveUp: a.flags.giveUp, Reason: a.flags.reason, By: a.by()}
	}
	if len(args) > 1 {
		return a.reply(ctx, contract.RequestRetry, args, body)
	}
	temporal, about, err := a.findOpen(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	st, err := a.open(ctx, temporal, args[0], about)
	if err != nil {
		return err
	}
	n := 0
	for i := range st.Requests {
		if q := &st.Requests[i]; q.Kind == contract.RequestRetry {
			n++
			if err := a.send(ctx, temporal, about, args[0], q.Kind, q.ID, body(q.ID)); err != nil {
				return err
			}
		}
	}
	if n == 0 {
		_, err = a.choose(args[0], contract.RequestRetry, "", st)
	}
	return err
}

// message answers a question of a run's, or else tells it something.
func (a *app) message(ctx context.Context, args []string) error {
	if a.flags.key != "" && a.flags.request != "" {
		return bad("-key and -request cannot be combined")
	}
	text, err := a.readMessage(args[1:])
	if err != nil {
		return err
	}
	temporal, about, err := a.findOpen(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	id, err := a.question(ctx, temporal, about, args[0])
	if err != nil {
		return err
	}
	m := contract.MessageAnswer{ID: id, Text: text, Node: a.flags.node, Key: a.flags.key, By: a.by()}
	return a.send(ctx, temporal, about, args[0], contract.RequestMessage, id, m)
}

// question finds the request that a message answers, or "" where it answers none.
func (a *app) question(ctx context.Context, t *config.Temporal, about about, run string) (string, error) {
	if a.flags.key != "" {
		return "", nil // the run itself knows whether it had this one
	}
	st, err := a.open(ctx, t, run, about)
	if unanswered(err) && a.flags.signal {
		return a.flags.request, nil
	}
	if err != nil {
		return "", err
	}
	if a.flags.request != "" {
		return a.choose(run, contract.RequestMessage, a.flags.request, st)
	}
	var same []contract.Request
	for _, q := range st.Requests {
		if q.Kind == contract.RequestMessage && (a.flags.node == "" || a.flags.node == q.Node) {
			same = append(same, q)
		}
	}
	switch len(same) {
	case 0:
		return "", nil
	case 1:
		return same[0].ID, nil
	}
	return "", bad("the run %q has %d open questions; name one with -request%s", run, len(same), a.listing(run, same))
}

// reply answers the request that the second argument names, or the only one of a kind. body
// makes the answer.
func (a *app) reply(ctx context.Context, kind string, args []string, body func(id string) any) error {
	temporal, about, err := a.findOpen(ctx, args[0])
	if err != nil {
		return err
	}
	defer temporal.Client.Close()
	word := ""
	if len(args) > 1 {
		word = args[1]
	}
	st, err := a.open(ctx, temporal, args[0], about)
	switch {
	case unanswered(err) && a.flags.signal && word != "":
		a.say("no worker answers; sending to the request %s as given", plaintext.Lines(word))
	case err != nil:
		return err
	default:
		if word, err = a.choose(args[0], kind, word, st); err != nil {
			return err
		}
	}
	return a.send(ctx, temporal, about, args[0], kind, word, body(word))
}
