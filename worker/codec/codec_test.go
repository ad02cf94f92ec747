package codec

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"weft/activities/contract"
	"weft/worker/store"
)

func key(id string) Key {
	return Key{ID: id, Secret: bytes.Repeat([]byte(id[:1]), KeyBytes)}
}

func opened(t *testing.T, s Settings) *Codec {
	t.Helper()
	c, err := Open(s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func payload(t *testing.T, v any) *commonpb.Payload {
	t.Helper()
	p, err := converter.GetDefaultDataConverter().ToPayload(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRoundTrip(t *testing.T) {
	long := payload(t, strings.Repeat("to be said ", 1000))
	tests := map[string]struct {
		write, read Settings
		encoding    string
		smaller     bool
	}{
		"nothing":                   {Settings{}, Settings{}, converter.MetadataEncodingJSON, false},
		"compressed":                {Settings{Compress: true}, Settings{}, "binary/zlib", true},
		"encrypted":                 {Settings{Encrypt: "a", Keys: []Key{key("a")}}, Settings{Keys: []Key{key("a")}}, "binary/encrypted", false},
		"both":                      {Settings{Compress: true, Encrypt: "a", Keys: []Key{key("a")}}, Settings{Keys: []Key{key("a")}}, "binary/encrypted", true},
		"a key that was rotated":    {Settings{Encrypt: "a", Keys: []Key{key("a")}}, Settings{Encrypt: "b", Keys: []Key{key("a"), key("b")}}, "binary/encrypted", false},
		"a key that is coming soon": {Settings{Encrypt: "b", Keys: []Key{key("b")}}, Settings{Encrypt: "a", Keys: []Key{key("a"), key("b")}}, "binary/encrypted", false},
		"plain for who encrypts":    {Settings{}, Settings{Encrypt: "a", Compress: true, Keys: []Key{key("a")}}, converter.MetadataEncodingJSON, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := opened(t, tc.write).Encode([]*commonpb.Payload{long})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(out[0].Metadata["encoding"]); got != tc.encoding {
				t.Errorf("the encoding is %s, want %s", got, tc.encoding)
			}
			if small := len(out[0].Data) < len(long.Data)/10; small != tc.smaller {
				t.Errorf("%d bytes became %d", len(long.Data), len(out[0].Data))
			}
			if id := string(out[0].Metadata["encryption-key-id"]); id != tc.write.Encrypt {
				t.Errorf("the key's id is %q", id)
			}
			if tc.encoding == encodingEncrypted && bytes.Contains(out[0].Data, []byte("to be said")) {
				t.Error("the text can be read")
			}
			back, err := opened(t, tc.read).Decode(out)
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(back[0], long) {
				t.Errorf("it came back as %v", back[0])
			}
		})
	}
}

// TestSampleFormat reads what an implementation of the public sample's makes: the nonce of 12
// bytes, then AES-GCM of the encoded payload.
func TestSampleFormat(t *testing.T) {
	secret := []byte("test-key-test-key-test-key-test!")
	block, err := aes.NewCipher(secret)
	if err != nil {
		t.Fatal(err)
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	want := payload(t, "hello")
	raw, err := proto.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	nonce := []byte("twelve bytes")
	in := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("binary/encrypted"), "encryption-key-id": []byte("test")},
		Data: append(nonce, gcm.Seal(nil, nonce, raw, nil)...)}
	c := opened(t, Settings{Encrypt: "test", Keys: []Key{{"test", secret}}})
	out, err := c.Decode([]*commonpb.Payload{in})
	if err != nil || !proto.Equal(out[0], want) {
		t.Fatalf("decoded %v: %v", out, err)
	}
	if out, err = c.Encode(out); err != nil {
		t.Fatal(err)
	}
	back, err := gcm.Open(nil, out[0].Data[:12], out[0].Data[12:], nil)
	if err != nil || !bytes.Equal(back, raw) {
		t.Errorf("the sample would decrypt it to %q: %v", back, err)
	}
}

func TestUnreadable(t *testing.T) {
	sealed, err := opened(t, Settings{Encrypt: "a", Keys: []Key{key("a")}}).Encode([]*commonpb.Payload{payload(t, "x")})
	if err != nil {
		t.Fatal(err)
	}
	bomb, err := opened(t, Settings{Compress: true}).Encode([]*commonpb.Payload{payload(t, strings.Repeat("x", 10_000))})
	if err != nil {
		t.Fatal(err)
	}
	with := func(encoding, data string) *commonpb.Payload {
		return &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding), "encryption-key-id": []byte("a")}, Data: []byte(data)}
	}
	own := Settings{Keys: []Key{key("a")}}
	tests := map[string]struct {
		read        Settings
		p           *commonpb.Payload
		class, text string
	}{
		"no key":                {Settings{}, sealed[0], contract.ClassPayloadKey, `encrypted with the key "a", which this process does not have`},
		"another key":           {Settings{Keys: []Key{{"a", bytes.Repeat([]byte("z"), KeyBytes)}}}, sealed[0], contract.ClassPayloadKey, `with that id does not decrypt it`},
		"cut":                   {own, with(encodingEncrypted, "short"), contract.ClassPayloadLost, "has only 5 bytes"},
		"no zlib":               {own, with(encodingZlib, "what is this"), contract.ClassPayloadLost, "compressed payload of 12 bytes"},
		"more than the bound":   {Settings{MaxBytes: 1000}, bomb[0], contract.ClassTooLarge, "decompresses to more than 1000"},
		"an id of a megabyte":   {own, &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encodingEncrypted), "encryption-key-id": bytes.Repeat([]byte("k"), 1<<20)}}, contract.ClassPayloadKey, "…"},
		"an id that is no text": {own, &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encodingEncrypted), "encryption-key-id": {0xff, '\n'}}}, contract.ClassPayloadKey, `"\xff\n"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := opened(t, tc.read).Decode([]*commonpb.Payload{payload(t, "before"), tc.p})
			var f *contract.Failure
			if !errors.As(err, &f) || f.Class != tc.class || !strings.Contains(f.Text, tc.text) || f.Remedy == "" || len(f.Text) > 400 {
				t.Errorf("the error is %#v", err)
			}
		})
	}
}

func TestKeysThatCannotBe(t *testing.T) {
	secret := Key{"a", []byte("canary")}
	for name, tc := range map[string]struct {
		s    Settings
		want string
	}{
		"short":   {Settings{Keys: []Key{secret}}, `the key "a" has 6 bytes, expected 32`},
		"twice":   {Settings{Keys: []Key{key("a"), key("a")}}, `duplicate key "a"`},
		"missing": {Settings{Encrypt: "b", Keys: []Key{key("a")}}, `encryption key "b" not found`},
	} {
		if _, err := Open(tc.s); err == nil || err.Error() != tc.want {
			t.Errorf("%s: the error is %v, want %s", name, err, tc.want)
		}
	}
}

// TestClientOptions encodes as a client does, with a store behind: what lies there, and the
// texts of failures, are encrypted.
func TestClientOptions(t *testing.T) {
	c := opened(t, Settings{Encrypt: "a", Keys: []Key{key("a")}})
	s, err := store.Open(store.Settings{Dir: t.TempDir(), Threshold: store.DefaultThreshold, MaxPayload: store.DefaultMaxPayload})
	if err != nil {
		t.Fatal(err)
	}
	var o client.Options
	c.Apply(&o)
	s.Apply(&o)
	p, err := o.DataConverter.ToPayload(&contract.ModelResult{Message: []byte(`"canary"`)})
	if err != nil {
		t.Fatal(err)
	}
	if string(p.Metadata["encoding"]) != encodingEncrypted || len(p.Metadata["weft-internal"]) == 0 || bytes.Contains(p.Data, []byte("canary")) {
		t.Errorf("the payload is %v", p)
	}
	var back contract.ModelResult
	if err := o.DataConverter.FromPayload(p, &back); err != nil || string(back.Message) != `"canary"` {
		t.Errorf("it came back as %s: %v", back.Message, err)
	}
	f := o.FailureConverter.ErrorToFailure((&contract.Failure{Class: contract.ClassRefused, Text: "a canary sang"}).ApplicationError())
	raw, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte("canary")) || !bytes.Contains(raw, []byte(contract.ClassRefused)) {
		t.Errorf("the failure is %v", f)
	}
	if got := contract.FailureOf(o.FailureConverter.FailureToError(proto.Clone(f).(*failurepb.Failure))); got.Text != "a canary sang" {
		t.Errorf("the failure came back as %+v", got)
	}
	// A worker that lacks the key says so, with the class, and not in a wrapper of the SDK's.
	var other client.Options
	opened(t, Settings{Encrypt: "b", Keys: []Key{key("b")}}).Apply(&other)
	s.Apply(&other)
	err = other.DataConverter.FromPayload(p, &back)
	if out := other.FailureConverter.ErrorToFailure(err); out.GetApplicationFailureInfo().GetType() != contract.ClassPayloadKey || !out.GetApplicationFailureInfo().GetNonRetryable() ||
		!strings.Contains(out.GetMessage(), `the key "a"`) || out.GetEncodedAttributes() != nil {
		t.Errorf("without the key the failure is %v", out)
	}
	// So does a run that took its argument as it came; but what a node had done stays encrypted.
	own := contract.FailureOf(err)
	if out := other.FailureConverter.ErrorToFailure(own.ApplicationError()); !strings.Contains(out.GetMessage(), `the key "a"`) || out.GetEncodedAttributes() != nil {
		t.Errorf("of an argument it is %v", out)
	}
	if out := other.FailureConverter.ErrorToFailure((&contract.Failure{Class: own.Class, Text: own.Text, Node: "n"}).ApplicationError()); out.GetEncodedAttributes() == nil {
		t.Errorf("of a node it is %v", out)
	}
	// Who reads a history sees texts again.
	var notes []error
	event := &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{
		WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{Failure: f}}}
	r := c.Reader(nil, fetch, func(err error) { notes = append(notes, err) }).(*reader)
	if err := r.decode(t.Context(), &historypb.History{Events: []*historypb.HistoryEvent{event}}); err != nil {
		t.Fatal(err)
	}
	if got := event.GetWorkflowExecutionFailedEventAttributes().GetFailure().GetMessage(); got != "a canary sang" || len(notes) > 0 {
		t.Errorf("the reader shows %q, and notes %v", got, notes)
	}
	r = opened(t, Settings{}).Reader(nil, fetch, func(err error) { notes = append(notes, err) }).(*reader)
	list := &commonpb.Payloads{Payloads: []*commonpb.Payload{p, p}}
	if err := r.decode(t.Context(), &historypb.History{Events: []*historypb.HistoryEvent{{Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
		WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{Input: list}}}}}); err != nil || len(notes) != 1 || !proto.Equal(list.Payloads[0], p) {
		t.Errorf("without the key: %v, notes %v", err, notes)
	}
	if strings.Contains(notes[0].Error(), base64.StdEncoding.EncodeToString(key("a").Secret)) {
		t.Error("a note holds the key")
	}
}

// fetch stands for the store: a claim is a payload that names another one.
func fetch(_ context.Context, p *commonpb.Payload) (*commonpb.Payload, error) {
	switch string(p.GetMetadata()["claim"]) {
	case "":
		return p, nil
	case "stored":
		return &commonpb.Payload{Data: []byte("stored")}, nil
	}
	return nil, errors.New("it is in another store")
}

// history is a history of events that have been read.
type history []*historypb.HistoryEvent

func (h *history) HasNext() bool { return len(*h) > 0 }

func (h *history) Next() (*historypb.HistoryEvent, error) {
	e := (*h)[0]
	*h = (*h)[1:]
	return e, nil
}

func TestHistoriesHoldThePayloadsThemselves(t *testing.T) {
	claim := func(of string) *commonpb.Payload {
		return &commonpb.Payload{Metadata: map[string][]byte{"claim": []byte(of)}, Data: []byte("claim")}
	}
	in := history{{Attributes: &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{
		Result: &commonpb.Payloads{Payloads: []*commonpb.Payload{claim("stored"), {Data: []byte("inline")}, claim("other"), claim("another")}}}}}}
	var notes []error
	r := opened(t, Settings{}).Reader(nil, fetch, func(err error) { notes = append(notes, err) }).(*reader)
	it := &events{HistoryEventIterator: &in, ctx: t.Context(), reader: r}
	e, err := it.Next()
	if err != nil || it.HasNext() {
		t.Fatal(err)
	}
	var got []string
	for _, p := range e.GetActivityTaskCompletedEventAttributes().GetResult().GetPayloads() {
		got = append(got, string(p.GetData()))
	}
	if want := []string{"stored", "inline", "claim", "claim"}; !slices.Equal(got, want) || len(notes) != 1 {
		t.Errorf("payloads are %v, want %v; notes %v", got, want, notes)
	}
}
