package main

import (
	"encoding/json"

	commonpb "go.temporal.io/api/common/v1"

	"weft/activities/contract"
	"weft/worker/rehearse"
)

// elsewhereTool is a tool that is an activity of another worker. In a recording its calls are as
// those of any tool, so that they can be played again where that worker is not.
type elsewhereTool struct {
	name string
	how  *contract.Elsewhere
}

// listed takes a catalogue.
func (c *recordedRun) listed(x *rehearse.Call, p *commonpb.Payloads) {
	var raw json.RawMessage
	var out contract.CatalogueResult
	var described contract.Catalogue
	if !decode(p, &raw) {
		return
	}
	x.Data = raw
	if json.Unmarshal(raw, &out) != nil || out.Elsewhere == nil || json.Unmarshal(out.Catalogue, &described) != nil || len(described.Tools) != 1 {
		return
	}
	c.elsewhere[[2]string{out.Elsewhere.TaskQueue, out.Elsewhere.Activity}] = &elsewhereTool{described.Tools[0].Name, out.Elsewhere}
}

// asks is what a call asks.
func (t *elsewhereTool) asks(at string, input *commonpb.Payloads) rehearse.Call {
	x := rehearse.Call{At: at, Kind: contract.ActivityTool, Tool: t.name, Pending: true}
	if all := input.GetPayloads(); len(all) > 0 {
		decode(&commonpb.Payloads{Payloads: all[:1]}, &x.Arguments)
	}
	return x
}

// said takes what the activity returned.
func (t *elsewhereTool) said(x *rehearse.Call, p *commonpb.Payloads) {
	var raw json.RawMessage
	decode(p, &raw)
	text := rehearse.Said(raw)
	x.Result = &text
}
