package host

import (
	"fmt"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/worker/config"
	"weft/workflows/plan"
)

// Compiler is how a worker's activities compile a document: as the starter does, with the
// worker's configuration. Tools that a flow binds to no connection may be functions of the
// worker. A reference with a name alone is a flow of the worker's own
// folder. Its error is a [contract.Failure] of class invalid_flow.
func Compiler(cfg *config.Config, functions ...string) func(contract.FlowRef) (*contract.PrepareResult, error) {
	return func(ref contract.FlowRef) (*contract.PrepareResult, error) {
		doc, err := document(cfg.Flows, ref)
		if err != nil {
			return nil, err
		}
		reading := cfg.Reading(ref.Dialect, ref.Profile)
		for _, f := range functions {
			reading.UnboundTools[f] = true
		}
		reading.Files = doc.Files
		res, diags := specadapter.Load(doc.Name, doc.Text, reading)
		if res == nil {
			return nil, invalid(diags)
		}
		if err := undeclared(res.Flow); err != nil {
			return nil, err
		}
		hash, err := res.Flow.Hash()
		if err != nil {
			return nil, &contract.Failure{Class: contract.ClassInvalidFlow, Text: err.Error()}
		}
		out := &contract.PrepareResult{Plan: res.Flow, Source: res.Source, Hash: hash}
		for _, d := range diags {
			if d.Severity == source.Warning {
				out.Warnings = append(out.Warnings, d.String())
			}
		}
		return out, nil
	}
}

// document gives a reference's document, as far as the worker takes it.
func document(f config.Flows, ref contract.FlowRef) (*specadapter.Folder, error) {
	switch {
	case ref.Text == "" && ref.Name != "":
		return named(f, ref.Name)
	case f.Accept == config.AcceptNamed:
		return nil, &contract.Failure{Class: contract.ClassInvalidFlow,
			Text:   "the run brings a document of its own, but this worker runs the flows of its folder alone (flows.accept: named)",
			Remedy: "start the run with the name of a flow instead, or ask the worker's operator"}
	case ref.Name == "":
		return &specadapter.Folder{Name: "document", Text: []byte(ref.Text)}, nil
	}
	return &specadapter.Folder{Name: ref.Name, Text: []byte(ref.Text)}, nil
}

// undeclared refuses a flow whose inputs nobody has looked at: the run's input is text, and
// only the starter makes such text of parameters so far.
func undeclared(f *plan.Flow) error {
	in := f.Inputs
	if in == nil || !in.Placeholders && (len(in.Schema) == 0 || string(in.Schema) == "{}") {
		return nil
	}
	return &contract.Failure{Class: contract.ClassInvalidFlow,
		Text:   fmt.Sprintf("the flow %q declares inputs, which a run that brings a document or a name cannot have yet", f.Name),
		Remedy: "start it with starter -flow, which checks the inputs and sends the plan"}
}

func invalid(diags []source.Diagnostic) *contract.Failure {
	f := &contract.Failure{Class: contract.ClassInvalidFlow, Remedy: "mend the document; starter validate FILE says the same without a run"}
	for _, d := range diags {
		if d.Severity == source.Error {
			f.Diagnostics = append(f.Diagnostics, d.String())
		}
	}
	f.Text = fmt.Sprintf("the document has %d error(s), the first: %s", len(f.Diagnostics), f.Diagnostics[0])
	return f
}
