package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"weft/activities/contract"
	"weft/activities/llm"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/worker/config"
)

// maxRead bounds every file that is read here: one byte above what a document may have,
// so that its own message says so.
const maxRead = source.MaxBytes + 1

// readFile reads a file, or standard input for "-".
func (a *app) readFile(flag, name string) ([]byte, error) {
	if name == "-" {
		if in, ok := a.stdin.(*os.File); ok && terminal(in) {
			a.say("reading %s from the terminal; end with Ctrl-D on an empty line", flag)
		}
		data, err := io.ReadAll(io.LimitReader(a.stdin, maxRead))
		if err != nil {
			return nil, bad("read %s from standard input: %v", flag, err)
		}
		return data, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, bad("read %s: %v", flag, cause(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, bad("read %s: %s is a folder; use a file", flag, name)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxRead))
	if err != nil {
		return nil, bad("read %s: %v", flag, err)
	}
	return data, nil
}

// cause shortens the error of a file: "open x: no such file or directory".
func cause(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return fmt.Errorf("%s: %w", path.Path, path.Err)
	}
	return err
}

// examined is a flow's document and what was found in it. The result is nil if and only if
// a diagnostic is an error.
type examined struct {
	data  []byte
	res   *specadapter.Result
	diags []source.Diagnostic
}

// examine reads a flow, to run it or just to look at it. It prints nothing.
func (a *app) examine(cfg *config.Config, file string, starting bool) (*examined, error) {
	folder, err := a.readFlow(file)
	if err != nil {
		return nil, err
	}
	o := cfg.Reading(a.flags.dialect, a.flags.profile)
	o.Files, o.Starting = folder.Files, starting
	if a.flags.dev {
		o.PassSecret = a.lends
	}
	if err := a.readComponents(&o); err != nil {
		return nil, err
	}
	e := &examined{data: folder.Text}
	e.res, e.diags = specadapter.Load(folder.Name, folder.Text, o)
	return e, nil
}

// compile reads a flow and prints all its diagnostics. It fails with exit code 2, printed,
// where one is an error.
func (a *app) compile(cfg *config.Config, file string, starting bool) (*specadapter.Result, error) {
	e, err := a.examine(cfg, file, starting)
	if err != nil {
		return nil, err
	}
	for _, d := range e.diags {
		a.say("%s", d)
	}
	if e.res == nil {
		return nil, coded(exitBadInput)
	}
	return e.res, nil
}

// readInput gives the text for the flow.
func (a *app) readInput() (string, error) {
	text := a.flags.input
	if name, ok := strings.CutPrefix(text, "@"); ok || text == "-" {
		if ok && name == "" {
			return "", bad("-input is @ without a file; use @FILE")
		}
		if text == "-" {
			name = "-"
		}
		data, err := a.readFile("-input", name)
		if err != nil {
			return "", err
		}
		text = string(data)
	}
	if !utf8.ValidString(text) {
		return "", bad("-input is not valid UTF-8; convert it, or pass the file's text")
	}
	return text, nil
}

// readScript gives the script, or nil.
func (a *app) readScript() ([]byte, error) {
	if a.flags.script == "" {
		return nil, nil
	}
	data, err := a.readFile("-script", a.flags.script)
	if err != nil {
		return nil, err
	}
	script, err := llm.ParseScript(a.flags.script, data)
	if err != nil {
		return nil, badInput{contract.FailureOf(err).Text}
	}
	return script, nil
}

// chooseModel gives the model that the caller names, by flag or WEFT_MODEL; a script
// without a model means the scripted one. Empty leaves it to the worker.
func (a *app) chooseModel() (string, error) {
	model := a.flags.model
	if model == "" {
		model, _ = a.env.LookupEnv("WEFT_MODEL")
	}
	for _, ref := range llm.Refs(model) {
		if ref != llm.ScriptModel && !strings.Contains(ref, "/") {
			return "", bad("the model %q is not PROVIDER/MODEL; use for example openai/%s", ref, ref)
		}
	}
	switch {
	case model == "" && a.flags.script != "":
		return llm.ScriptModel, nil
	case model != "" && len(llm.Refs(model)) == 0:
		return "", bad("the model %q has no name; use for example openai/gpt-5-mini", model)
	case a.flags.script != "" && !llm.AsksScript(model):
		return "", bad("-script needs the model script, but -model is %q; remove one of them", model)
	}
	return model, nil
}
