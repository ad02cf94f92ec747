package workflows

import (
	"fmt"
	"weft/activities/contract"
	"weft/workflows/prepare"
	"weft/workflows/schedule"

	"weft/workflows/runtime"

	"go.temporal.io/sdk/workflow"
)

// Begin starts the run again at START, with another input in the same conversation.
func (f *flowRun) Begin(n int, prompt *contract.Prompt) error {
	if err := prepare.MendThread(f.run); err != nil {
		return err
	}
	view := f.known()
	view.Outputs = nil
	schedule.ForgetVersions(&view)
	f.dropped += len(f.trace)
	f.trace, f.answers, f.conflicts, f.rest = nil, nil, nil, nil
	f.sched.Reset()
	f.entry = &contract.EntryState{View: view}
	return f.setInput(fmt.Sprintf("input~%d", n), prompt.Text, prompt.Media)
}

// setInput makes a text the run's input, under a thread's name. What has images is read by reference.
func (f *flowRun) setInput(thread, prompt string, images []contract.Media) error {
	m := &contract.Message{Role: contract.RoleUser, Text: prompt}
	if len(images) > 0 {
		m = contract.InputMessage(prompt, images)
	}
	var err error
	f.run.Shared.Text = ""
	f.run.Shared.Input, err = f.run.Transcript.Write(f.run.Transcript.Open(thread), m)
	if err == nil && len(prompt) <= runtime.MaxInline && len(images) == 0 {
		f.run.Shared.Text = prompt
	}
	return err
}

// Turn runs the flow once, after the hook before a turn that somebody asked for; that before the first has
// been asked when the run began.
func (f *flowRun) Turn(ctx workflow.Context, n int, prompt *contract.Prompt) error {
	if prompt != nil {
		text, err := f.hook.beforeTurn(ctx, n, prompt.Text)
		if err == nil && text != prompt.Text {
			err = f.setInput(fmt.Sprintf("input~%d/hook", n), text, prompt.Media)
		}
		if err != nil {
			return err
		}
	}
	return f.once(ctx)
}

// Show shows how the run stands. It tells webhooks of a turn's end, and runs the hook after it.
func (f *flowRun) Show(ctx workflow.Context, ended *contract.Turn, out *contract.RunResult) {
	if ended == nil {
		f.Changed(ctx)
		return
	}
	f.pub.TurnFinished(ctx, ended, out)
	if ended.Status == contract.TurnCompleted && len(ended.Callbacks) == 0 {
		f.hook.after(ctx, out, ended.N)
	}
}
