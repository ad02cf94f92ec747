package host

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/specadapter/inputs"
	"weft/specadapter/source"
	"weft/worker/config"
	"weft/worker/flows"
	"weft/workflows/plan"
)

// Compiler returns the function that a worker's activities use to compile a document, as the starter does but
// with the worker's configuration. Tools without a connection may be functions of the worker. A
// reference with only a name refers to a flow in the worker's flows.dir. Errors are a [contract.Failure] of class invalid_flow.
func Compiler(cfg *config.Config, functions ...string) func(contract.FlowRef) (*contract.CompileFlowResult, error) {
	return func(ref contract.FlowRef) (*contract.CompileFlowResult, error) {
		doc, err := document(cfg.Flows, ref)
		if err != nil {
			return nil, err
		}
		o := cfg.Reading(ref.Dialect, ref.Profile)
		o.Files, o.Starting = doc.Files, true
		for _, f := range functions {
			o.UnboundTools[f] = true
		}
		for _, d := range ref.Components {
			o.Components = append(o.Components, source.Component(d))
		}
		for _, c := range ref.ComponentIDs {
			o.ComponentIDs = append(o.ComponentIDs, source.ComponentID(c))
		}
		res, diags := specadapter.Load(doc.Name, doc.Text, o)
		if res == nil {
			return nil, invalid(diags)
		}
		if dialect := res.Flow.Dialect; len(ref.Files) > 0 && !specadapter.TraitsOf(dialect).Files {
			return nil, &contract.Failure{Class: contract.ClassInvalidFlow,
				Text:   fmt.Sprintf("the dialect %s does not support additional files, but flow.files has %q", dialect, ref.Files[0].Name),
				Remedy: "remove flow.files, or set another dialect in flow.dialect"}
		}
		hash, err := res.Flow.Hash()
		if err != nil {
			return nil, &contract.Failure{Class: contract.ClassInvalidFlow, Text: err.Error()}
		}
		out := &contract.CompileFlowResult{Plan: res.Flow, Source: res.Source, Hash: hash}
		for _, d := range diags {
			if d.Severity == source.Warning {
				out.Warnings = append(out.Warnings, d.String())
			}
		}
		return out, nil
	}
}

// document returns the document of a reference, or an error if the worker does not accept it.
func document(f config.Flows, ref contract.FlowRef) (*specadapter.Folder, error) {
	switch {
	case ref.Text == "" && ref.Name != "":
		return flows.Named(f, ref.Name)
	case f.Accept == config.AcceptNamed:
		return nil, &contract.Failure{Class: contract.ClassInvalidFlow,
			Text:   "the run supplies a document, but this worker only runs the flows of its flows.dir (flows.accept: named)",
			Remedy: "start the run with the name of a flow; to allow documents, set in the worker's weft.yaml: flows: {accept: any}"}
	case ref.Name == "":
		return &specadapter.Folder{Name: "document", Text: []byte(ref.Text)}, nil
	}
	folder := &specadapter.Folder{Name: ref.Name, Text: []byte(ref.Text)}
	for _, d := range ref.Files {
		folder.Files = append(folder.Files, source.File(d))
	}
	return folder, nil
}

// Begin applies a run's input to a flow that declares inputs, and returns the flow and the text of its input. The error
// for input that does not match the declaration is a [contract.Failure] of class bad_request.
func Begin(ctx context.Context, in *contract.CompileFlowInput, run string) (*plan.Flow, string, error) {
	v := inputs.Values{RunID: run, SessionID: run, Unchecked: in.Unchecked, Replaced: in.Replaced}
	f, text := in.Flow.Plan, ""
	err := v.Read(f.Inputs, in.Params, in.Scope, in.Input)
	if err == nil {
		f, text, err = inputs.Start(ctx, f, v)
	}
	if err == nil || ctx.Err() != nil {
		return f, text, err
	}
	fail := &contract.Failure{Class: contract.ClassBadRequest, Text: err.Error(), Remedy: "pass the inputs that the flow declares"}
	if invalid, ok := errors.AsType[*inputs.Invalid](err); ok {
		for _, e := range invalid.Errors {
			fail.Errors = append(fail.Errors, contract.FieldError(e))
		}
	}
	return nil, "", fail
}

// invalid returns the failure of a document with errors.
func invalid(diags []source.Diagnostic) *contract.Failure {
	f := &contract.Failure{Class: contract.ClassInvalidFlow, Remedy: "fix the document; starter validate FILE reports the same errors without a run"}
	for _, d := range diags {
		if d.Severity != source.Error {
			continue
		}
		f.Diagnostics = append(f.Diagnostics, d.String())
		if d.Code == source.CodeSecretInline && !strings.HasPrefix(f.Remedy, contract.SecretInHistoryRemedy) {
			f.Remedy = contract.SecretInHistoryRemedy + "; " + f.Remedy
		}
	}
	f.Text = fmt.Sprintf("the document has %d error(s), the first: %s", len(f.Diagnostics), f.Diagnostics[0])
	return f
}
