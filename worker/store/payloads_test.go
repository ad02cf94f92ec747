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

// clientOptions returns the client options that a store sets.
func clientOptions(t *testing.T, s *Store) client.Options {
	t.Helper()
	var o client.Options
	s.Apply(&o)
	return o
}

func TestStoredValues(t *testing.T) {
	long, huge := strings.Repeat("x", 200<<10), strings.Repeat("x", Inline)
	short, offloaded := strings.Repeat("x", 2<<10), contract.Offloading{Offloaded: true}
	text := func(s string) json.RawMessage { return json.RawMessage(`"` + s + `"`) }
	internal := func(v any) converter.RawValue {
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
		"short model result":                     {&contract.ModelResult{Message: text("x")}, false},
		"long model result":                      {&contract.ModelResult{Message: text(long)}, true},
		"internal input of a call":               {internal(contract.ModelInput{Profile: contract.ProfileRef{Body: text(long)}}), true},
		"branch result":                          {&contract.BranchResult{Messages: []json.RawMessage{text(long)}}, true},
		"input from a client":                    {contract.RunInput{V: 1, Input: long}, false},
		"input above Temporal's limit":           {contract.RunInput{V: 1, Input: huge}, true},
		"input of a continued run":               {contract.RunInput{V: 1, Snapshot: &contract.RunSnapshot{Plan: &plan.Flow{Description: long}}}, true},
		"input of a sub-agent":                   {contract.RunInput{V: 1, Depth: 1, Input: long}, true},
		"run result":                             {&contract.RunResult{ResultText: &long}, false},
		"run result above Temporal's limit":      {&contract.RunResult{ResultText: &huge}, true},
		"failure":                                {contract.Failure{Text: long}, false},
		"transcript page":                        {contract.TranscriptPage{Messages: []json.RawMessage{text(long)}}, false},
		"content page":                           {contract.ContentPage{Data: []byte(long)}, false},
		"plan":                                   {&plan.Flow{Description: long}, false},
		"nil":                                    {nil, false},
		"nil model result":                       {(*contract.ModelResult)(nil), false},
		"nil tool result":                        {(*contract.ToolResult)(nil), false},
		"short tool result":                      {&contract.ToolResult{Message: text(short)}, false},
		"short tool result, offloaded":           {&contract.ToolResult{Offloading: offloaded, Message: text(short)}, true},
		"short branch result, offloaded":         {&contract.BranchResult{Offloading: offloaded, Messages: []json.RawMessage{text(short)}}, true},
		"short run result, offloaded":            {&contract.RunResult{Offloading: offloaded, ResultText: &short}, true},
		"offloaded result as short as its claim": {&contract.ToolResult{Offloading: offloaded, Message: text("x")}, false},
	}
	o := clientOptions(t, open(t, t.TempDir()))
	plain := clientOptions(t, &Store{driver: &driver{}})
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
			// Without a store, payloads are byte for byte those of Temporal's converter.
			want, err := converter.GetDefaultDataConverter().ToPayload(tc.value)
			if err != nil {
				t.Fatal(err)
			}
			delete(want.GetMetadata(), contract.MetadataInternal)
			if got, err := plain.DataConverter.ToPayload(tc.value); err != nil || got.String() != want.String() {
				t.Errorf("without a store: %.100s, %v", got, err)
			}
		})
	}
}

// TestAllResultsAreInternal checks that the results of all activities are marked as internal to workers.
func TestAllResultsAreInternal(t *testing.T) {
	contractPkg, calls := reflect.TypeFor[contract.Failure]().PkgPath(), 0
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
		if v.PkgPath() != contractPkg {
			continue
		}
		if calls++; !isInternal(reflect.Zero(v).Interface()) {
			t.Errorf("%s: %s is not internal", a.Name, v)
		}
	}
	if calls < 8 {
		t.Errorf("checked only %d results", calls)
	}
}

func TestDataConverter(t *testing.T) {
	c := clientOptions(t, open(t, t.TempDir())).DataConverter
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
		t.Error("a string was decoded as a model result")
	}
	gone, err := lost("payload %s is away", "abc")
	if err != nil {
		t.Fatal(err)
	}
	list.Payloads[1] = gone
	if f := contract.FailureOf(c.FromPayloads(list, &text, &out)); f == nil || f.Class != contract.ClassPayloadLost {
		t.Errorf("failure = %+v", f)
	}
	if err := c.FromPayloads(list, &text); err != nil {
		t.Errorf("error of an unread payload: %v", err)
	}
}

func TestFailureConverterKeepsClass(t *testing.T) {
	c := clientOptions(t, open(t, t.TempDir())).FailureConverter
	unavailable := &contract.Failure{Class: contract.ClassUnavailable, Text: "the folder is away", Remedy: "mount it"}
	lost := &contract.Failure{Class: contract.ClassPayloadLost, Text: "it is gone"}
	tests := map[string]struct {
		err   error
		class string
		final bool
	}{
		"wrapped by the SDK":               {fmt.Errorf("storage driver %q retrieve failed: %w", "weft", unavailable), contract.ClassUnavailable, false},
		"decoding error":                   {fmt.Errorf("unable to decode: %w", fmt.Errorf("payload item 0: %w", lost)), contract.ClassPayloadLost, true},
		"application error of an activity": {lost.ApplicationError(), contract.ClassPayloadLost, true},
		"error of another application":     {temporal.NewApplicationError("x", "own"), "own", false},
		"any other error":                  {fmt.Errorf("x: %w", errors.New("y")), "wrapError", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := c.ErrorToFailure(tc.err)
			info := got.GetApplicationFailureInfo()
			if info.GetType() != tc.class || info.GetNonRetryable() != tc.final {
				t.Errorf("failure = %v", got)
			}
			if f := contract.FailureOf(c.FailureToError(got)); f.Class != tc.class {
				t.Errorf("converted back to %+v", f)
			}
		})
	}
	if got := c.ErrorToFailure(temporal.NewCanceledError()); got.GetCanceledFailureInfo() == nil {
		t.Errorf("cancellation converted to %v", got)
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
	stored := claim(storeAll(t, s, "stored")[0], driverName)
	foreignClaim := claim(converter.StorageDriverClaim{ClaimData: map[string]string{"x": "y"}}, "s3")
	otherStore := claim(converter.StorageDriverClaim{ClaimData: map[string]string{claimStore: "other"}}, driverName)
	for _, tc := range []struct {
		in   *commonpb.Payload
		want string
	}{{stored, "stored"}, {payload("inline"), "inline"}, {foreignClaim, string(foreignClaim.GetData())}} {
		if got, err := s.Fetch(t.Context(), tc.in); err != nil || string(got.GetData()) != tc.want {
			t.Errorf("Fetch(%v) = %v, %v", tc.in, got, err)
		}
	}
	if _, err := s.Fetch(t.Context(), otherStore); err == nil || !strings.Contains(err.Error(), `is in the store "other"`) {
		t.Errorf("error = %v", err)
	}
}
