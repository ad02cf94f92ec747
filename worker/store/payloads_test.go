package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"weft/activities"
	"weft/activities/contract"
	"weft/workflows/plan"
)

// applied is what a client gets of a store.
func applied(t *testing.T, s *Store) client.Options {
	t.Helper()
	var o client.Options
	s.Apply(&o)
	return o
}

func TestWhatGoesToTheStore(t *testing.T) {
	long, huge := strings.Repeat("x", 200<<10), strings.Repeat("x", Inline)
	short, outside := strings.Repeat("x", 2<<10), contract.Offloading{Offloaded: true}
	text := func(s string) json.RawMessage { return json.RawMessage(`"` + s + `"`) }
	marked := func(v any) converter.RawValue {
		p, err := converter.GetDefaultDataConverter().ToPayload(v)
		if err != nil {
			t.Fatal(err)
		}
		contract.MarkInternal(p)
		return converter.NewRawValue(p)
	}
	tests := map[string]struct {
		value  any
		stored bool
	}{
		"a short answer of a model":           {&contract.ModelResult{Message: text("x")}, false},
		"a long one":                          {&contract.ModelResult{Message: text(long)}, true},
		"what a call is told":                 {marked(contract.ModelInput{Profile: contract.ProfileRef{Body: text(long)}}), true},
		"what a branch brings back":           {&contract.BranchResult{Messages: []json.RawMessage{text(long)}}, true},
		"a client's input":                    {contract.RunInput{V: 1, Input: long}, false},
		"one that Temporal does not take":     {contract.RunInput{V: 1, Input: huge}, true},
		"the input of a run that goes on":     {contract.RunInput{V: 1, Snapshot: &contract.RunSnapshot{Plan: &plan.Flow{Description: long}}}, true},
		"that of a sub-agent":                 {contract.RunInput{V: 1, Depth: 1, Input: long}, true},
		"a result":                            {&contract.RunResult{ResultText: &long}, false},
		"a result that Temporal refuses":      {&contract.RunResult{ResultText: &huge}, true},
		"a failure":                           {contract.Failure{Text: long}, false},
		"an answer about a transcript":        {contract.TranscriptPage{Messages: []json.RawMessage{text(long)}}, false},
		"an answer about content":             {contract.ContentPage{Data: []byte(long)}, false},
		"an answer about the plan":            {&plan.Flow{Description: long}, false},
		"nothing":                             {nil, false},
		"nothing of a kind that is internal":  {(*contract.ModelResult)(nil), false},
		"nothing of what may go outside":      {(*contract.ToolResult)(nil), false},
		"a tool's short result":               {&contract.ToolResult{Message: text(short)}, false},
		"one without room":                    {&contract.ToolResult{Offloading: outside, Message: text(short)}, true},
		"a branch's without room":             {&contract.BranchResult{Offloading: outside, Messages: []json.RawMessage{text(short)}}, true},
		"a sub-agent's without room":          {&contract.RunResult{Offloading: outside, ResultText: &short}, true},
		"what a claim is hardly shorter than": {&contract.ToolResult{Offloading: outside, Message: text("x")}, false},
	}
	o := applied(t, open(t, t.TempDir()))
	none := applied(t, &Store{driver: &driver{}})
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			one, err := o.DataConverter.ToPayload(tc.value)
			if err != nil {
				t.Fatal(err)
			}
			list, err := o.DataConverter.ToPayloads("before", tc.value)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range []*commonpb.Payload{one, list.Payloads[1]} {
				d, err := o.ExternalStorage.DriverSelector.SelectDriver(converter.StorageDriverSelectContext{}, p)
				if err != nil {
					t.Fatal(err)
				}
				if stored := d != nil && p.Size() >= o.ExternalStorage.PayloadSizeThreshold; stored != tc.stored {
					t.Errorf("stored: %v, want %v", stored, tc.stored)
				}
			}
			// Without a store, payloads are Temporal's own to the byte.
			want, err := converter.GetDefaultDataConverter().ToPayload(tc.value)
			if err != nil {
				t.Fatal(err)
			}
			delete(want.GetMetadata(), contract.MetadataInternal)
			if got, err := none.DataConverter.ToPayload(tc.value); err != nil || got.String() != want.String() {
				t.Errorf("without a store: %.100s, %v", got, err)
			}
		})
	}
}

// What a call gives is for workers alone, of whatever kind the call is.
func TestAllResultsAreInternal(t *testing.T) {
	own, calls := reflect.TypeFor[contract.Failure]().PkgPath(), 0
	all := reflect.TypeFor[activities.Activities]()
	for i := range all.NumField() {
		a := all.Field(i)
		if a.Type.Kind() != reflect.Func {
			continue
		}
		v := a.Type.Out(0)
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		if v.PkgPath() != own {
			continue
		}
		if calls++; !isInternal(reflect.Zero(v).Interface()) {
			t.Errorf("%s: %s is not in the table", a.Name, v)
		}
	}
	if calls < 8 {
		t.Errorf("%d results were looked at", calls)
	}
}

func TestConvertersAreTemporalsOtherwise(t *testing.T) {
	c := applied(t, open(t, t.TempDir())).DataConverter
	list, err := c.ToPayloads("a", contract.ModelResult{Stop: "s"}, converter.NewRawValue(payload(`"raw"`)))
	if err != nil {
		t.Fatal(err)
	}
	var text string
	var out contract.ModelResult
	var raw converter.RawValue
	if err := c.FromPayloads(list, &text, &out, &raw); err != nil || text != "a" || out.Stop != "s" || string(raw.Payload().GetData()) != `"raw"` {
		t.Errorf("%q, %+v, %v, %v", text, out, raw, err)
	}
	if err := c.FromPayload(list.Payloads[0], &out); err == nil {
		t.Error("a text was read as a result")
	}
	gone, err := lost("payload %s is away", "abc")
	if err != nil {
		t.Fatal(err)
	}
	list.Payloads[1] = gone
	if f := contract.FailureOf(c.FromPayloads(list, &text, &out)); f == nil || f.Class != contract.ClassPayloadLost {
		t.Errorf("failure is %+v", f)
	}
	if err := c.FromPayloads(list, &text); err != nil {
		t.Errorf("what is not read fails: %v", err)
	}
}

func TestFailuresKeepTheirClass(t *testing.T) {
	c := applied(t, open(t, t.TempDir())).FailureConverter
	away := &contract.Failure{Class: contract.ClassUnavailable, Text: "the folder is away", Remedy: "mount it"}
	gone := &contract.Failure{Class: contract.ClassPayloadLost, Text: "it is gone"}
	tests := map[string]struct {
		err   error
		class string
		final bool
	}{
		"as the SDK wraps it":        {fmt.Errorf("storage driver %q retrieve failed: %w", "weft", away), contract.ClassUnavailable, false},
		"one that cannot be decoded": {fmt.Errorf("unable to decode: %w", fmt.Errorf("payload item 0: %w", gone)), contract.ClassPayloadLost, true},
		"as it leaves an activity":   {gone.ApplicationError(), contract.ClassPayloadLost, true},
		"another application's":      {temporal.NewApplicationError("x", "own"), "own", false},
		"any other":                  {fmt.Errorf("x: %w", errors.New("y")), "wrapError", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := c.ErrorToFailure(tc.err)
			info := got.GetApplicationFailureInfo()
			if info.GetType() != tc.class || info.GetNonRetryable() != tc.final {
				t.Errorf("failure is %v", got)
			}
			if f := contract.FailureOf(c.FailureToError(got)); f.Class != tc.class {
				t.Errorf("it comes back as %+v", f)
			}
		})
	}
	if got := c.ErrorToFailure(temporal.NewCanceledError()); got.GetCanceledFailureInfo() == nil {
		t.Errorf("a cancellation became %v", got)
	}
}

func TestFetch(t *testing.T) {
	s := open(t, t.TempDir())
	claim := func(c converter.StorageDriverClaim, driver string) *commonpb.Payload {
		raw, err := json.Marshal(map[string]any{"driverName": driver, "claimData": c.ClaimData})
		if err != nil {
			t.Fatal(err)
		}
		return &commonpb.Payload{Data: raw, Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingProtoJSON),
			converter.MetadataMessageType: []byte("temporal.api.sdk.v1.ExternalStorageReference")}}
	}
	own := claim(keep(t, s, "stored")[0], driverName)
	foreign := claim(converter.StorageDriverClaim{ClaimData: map[string]string{"x": "y"}}, "s3")
	other := claim(converter.StorageDriverClaim{ClaimData: map[string]string{claimStore: "other"}}, driverName)
	for _, tc := range []struct {
		in   *commonpb.Payload
		want string
	}{{own, "stored"}, {payload("inline"), "inline"}, {foreign, string(foreign.GetData())}} {
		if got, err := s.Fetch(t.Context(), tc.in); err != nil || string(got.GetData()) != tc.want {
			t.Errorf("Fetch(%v) is %v, %v", tc.in, got, err)
		}
	}
	if _, err := s.Fetch(t.Context(), other); err == nil || !strings.Contains(err.Error(), `is in the store "other"`) {
		t.Errorf("the error is %v", err)
	}
}
