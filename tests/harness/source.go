package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"weft/activities/contract"
)

// FixedSource answers for what the run was given; all else must come from the cache.
type FixedSource map[string][]byte

// Transcript fails.
func (FixedSource) Transcript(context.Context, string, string, contract.TranscriptQuery) (*contract.TranscriptPage, error) {
	return nil, fmt.Errorf("no run can be asked here")
}

// Content reads what the run was given.
func (k FixedSource) Content(_ context.Context, _, _ string, q contract.ContentQuery) (*contract.ContentPage, error) {
	raw, ok := k[q.SHA]
	if !ok {
		return nil, &contract.Failure{Class: contract.ClassTranscriptLost, Text: "no run can be asked here"}
	}
	return &contract.ContentPage{Data: raw[q.Offset:], Total: len(raw)}, nil
}

// sourceOf is what a run with this input stores of it.
func sourceOf(t *testing.T, in *contract.RunInput, stores ...*contract.Message) FixedSource {
	k := FixedSource{}
	for _, m := range stores {
		raw, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		k[contract.SHA(raw)] = raw
	}
	if in.Script != nil {
		// As it is after a journey through a payload.
		raw, err := json.Marshal(in.Script)
		if err != nil {
			t.Fatal(err)
		}
		k[contract.SHA(raw)] = raw
	}
	chat, err := json.Marshal(in.History)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*contract.Message{contract.InputMessage(in.Input, in.Images), {Role: contract.RoleUser, Text: string(chat)}} {
		raw, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		k[contract.SHA(raw)] = raw
	}
	return k
}
