package harness

import (
	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/specadapter/source"
)

// Compile compiles a document.
func Compile(f contract.FlowRef) (*contract.CompileFlowResult, error) { return CompileWith()(f) }

// CompileWith compiles documents for a worker with functions.
func CompileWith(functions ...tool.Function) func(contract.FlowRef) (*contract.CompileFlowResult, error) {
	return func(f contract.FlowRef) (*contract.CompileFlowResult, error) {
		o := specadapter.Options{Dialect: f.Dialect, Profile: f.Profile, Host: source.Host{UnboundTools: map[string]bool{}}}
		for _, fn := range functions {
			o.UnboundTools[fn.Name()] = true
		}
		res, diags := specadapter.Load(f.Name, []byte(f.Text), o)
		if res == nil {
			fail := &contract.Failure{Class: contract.ClassInvalidFlow, Text: "the document has errors"}
			for _, d := range diags {
				fail.Diagnostics = append(fail.Diagnostics, d.String())
			}
			return nil, fail
		}
		hash, err := res.Flow.Hash()
		return &contract.CompileFlowResult{Plan: res.Flow, Source: res.Source, Hash: hash}, err
	}
}
