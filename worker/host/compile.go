package host

import (
	"fmt"

	"weft/activities/contract"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/worker/config"
)

// Compiler is how a worker's activities compile a document: as the starter does, with the
// worker's configuration. Tools that a flow binds to no connection may be functions of the
// worker. A reference with a name alone is a flow of the worker's own
// folder. Its error is a [contract.Failure] of class invalid_flow.
func Compiler(cfg *config.Config, functions ...string) func(contract.FlowRef) (*contract.PrepareResult, error) {
	return func(ref contract.FlowRef) (*contract.PrepareResult, error) {
		name, text, err := document(cfg.Flows, ref)
		if err != nil {
			return nil, err
		}
		o := cfg.Reading(ref.Dialect, ref.Profile)
		for _, f := range functions {
			o.UnboundTools[f] = true
		}
		for _, d := range ref.Components {
			o.Components = append(o.Components, source.Component(d))
		}
		for _, c := range ref.ComponentIDs {
			o.ComponentIDs = append(o.ComponentIDs, source.ComponentID(c))
		}
		res, diags := specadapter.Load(name, []byte(text), o)
		if res == nil {
			return nil, invalid(diags)
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

// document gives a reference's text and the name for messages, as far as the worker takes it.
func document(f config.Flows, ref contract.FlowRef) (name, text string, err error) {
	switch {
	case ref.Text == "" && ref.Name != "":
		return named(f, ref.Name)
	case f.Accept == config.AcceptNamed:
		return "", "", &contract.Failure{Class: contract.ClassInvalidFlow,
			Text:   "the run brings a document of its own, but this worker runs the flows of its folder alone (flows.accept: named)",
			Remedy: "start the run with the name of a flow instead, or ask the worker's operator"}
	case ref.Name == "":
		return "document", ref.Text, nil
	}
	return ref.Name, ref.Text, nil
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
