package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"

	"github.com/tmc/langchaingo/llms"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/activities/textutil"
)

const judgeSystem = `You decide where a workflow goes next. Read the material and answer the question about it.
Answer with a JSON object and nothing else: {"answer": "yes" or "no", "reason": "one short sentence"}`

// maxJudgedValue bounds the part of a state value that a judge sees, in bytes.
const maxJudgedValue = 2 << 10

// evaluateCondition answers a yes/no question about a node's output. After an invalid answer it asks once more, then it fails
// with condition_unparsable.
func (a *Activities) evaluateCondition(ctx context.Context, in *contract.JudgeInput, beats *heartbeats) (*contract.JudgeResult, error) {
	prompt, err := a.judgePrompt(ctx, in)
	if err != nil {
		return nil, err
	}
	messages := []contract.Message{{Role: contract.RoleUser, Text: prompt}}
	out := &contract.JudgeResult{}
	for try := 1; ; try++ {
		call := newCall(ctx, llm.KindJudge, fmt.Sprintf("%s/%d", in.IdempotencyKey, try), in.Node, in.Step, try, beats)
		call.Question, call.JSON, call.Partial = in.Question, true, nil
		call.System, call.Messages, call.Options = judgeSystem, messages, llm.Options(llms.WithTemperature(0))
		answer, err := a.generate(ctx, modelCall{model: in.Model, script: in.Script, call: call, beats: beats})
		switch {
		case err != nil && out.Usage.Calls > 0 && ctx.Err() == nil:
			return nil, contract.Spent(err, out.Usage)
		case err != nil:
			return nil, err
		}
		out.Usage.Add(answer.Usage)
		out.Model, out.Fallbacks = answer.Model, append(out.Fallbacks, answer.Fallbacks...)
		yes, reason, ok := verdict(answer.Message.Text)
		if ok {
			out.Yes, out.Reason = yes, textutil.Truncate(reason, 500)
			return fitting(a, "the judge's answer", out, out.Usage)
		}
		if try == 2 || in.Once {
			return nil, contract.Spent(&contract.Failure{Class: contract.ClassConditionUnparsable,
				Text:   fmt.Sprintf("the question %q was answered %q, neither yes nor no", in.Question, textutil.Truncate(answer.Message.Text, 200)),
				Remedy: "word the condition as a yes/no question, or use a stronger model"}, out.Usage)
		}
		messages = append(messages, contract.Message{Role: contract.RoleAssistant, Text: answer.Message.Text},
			contract.Message{Role: contract.RoleUser, Text: "Answer with yes or no, nothing else."})
	}
}

func (a *Activities) judgePrompt(ctx context.Context, in *contract.JudgeInput) (string, error) {
	runs := runsOf(in.Home, ownRun(ctx))
	input := in.Input.Text
	if in.Input.Ref != nil {
		var err error
		if input, err = a.text(ctx, *in.Input.Ref, runs); err != nil {
			return "", err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Question: %s\n\n<input>\n%s\n</input>\n", in.Question, input)
	if in.Output != nil {
		output, err := a.text(ctx, *in.Output, runs)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "\n<output node=%q>\n%s\n</output>\n", cmp.Or(in.Name, in.Node), output)
	}
	if len(in.State)+len(in.Long) == 0 {
		return b.String(), nil
	}
	fmt.Fprintf(&b, "\n<state>\n%s\n", in.State)
	for _, l := range in.Long {
		value, err := a.text(ctx, contract.ContentRef{SHA: l.SHA}, runs)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%q: %s\n", l.Key, textutil.Truncate(value, maxJudgedValue))
	}
	b.WriteString("</state>\n")
	return b.String(), nil
}

// verdict parses {"answer": …}, or the text's first word.
func verdict(text string) (yes bool, reason string, ok bool) {
	// Servers without a parser for a model's reasoning leave it in front of the answer.
	if _, after, ok := strings.Cut(text, "</think>"); ok && strings.HasPrefix(strings.TrimSpace(text), "<think>") {
		text = after
	}
	text = strings.TrimSpace(text)
	var object struct {
		Answer any    `json:"answer"`
		Reason string `json:"reason"`
	}
	if raw := extract(text); raw != nil && json.Unmarshal(raw, &object) == nil {
		// An object without answer must not be parsed by its first word.
		if object.Answer != nil {
			yes, ok = yesOrNo(fmt.Sprint(object.Answer))
		}
		return yes, object.Reason, ok
	}
	yes, ok = yesOrNo(text)
	if ok {
		_, rest, _ := strings.Cut(text, " ")
		reason = textutil.Truncate(strings.TrimSpace(rest), 500)
	}
	return yes, reason, ok
}

// yesOrNo parses a text's first word. Short forms count only alone or before a blank, so that "1. No", n/a and
// 0.5 are not answers.
func yesOrNo(text string) (yes, ok bool) {
	other := func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }
	text = strings.TrimLeftFunc(strings.ToLower(text), other)
	fields := strings.Fields(text)
	if len(fields) == 0 {
		return false, false
	}
	bare := strings.TrimRightFunc(fields[0], other)
	if digit := bare == "1" || bare == "0"; digit && (len(fields) == 1 || bare == fields[0]) {
		return bare == "1", true
	}
	if bare == "y" || bare == "n" {
		return bare == "y", true
	}
	words := strings.FieldsFunc(fields[0], other)
	answers := map[string]bool{"yes": true, "true": true, "no": false, "false": false}
	yes, ok = answers[words[0]]
	for _, w := range words[1:] {
		if again, more := answers[w]; more && again != yes {
			return false, false // such as yes/no
		}
	}
	return yes, ok
}
