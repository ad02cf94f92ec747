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

func mustOpen(t *testing.T, s Settings) *Codec {
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
		"plain":                                {Settings{}, Settings{}, converter.MetadataEncodingJSON, false},
		"compressed":                           {Settings{Compress: true}, Settings{}, "binary/zlib", true},
		"encrypted":                            {Settings{Encrypt: "a", Keys: []Key{key("a")}}, Settings{Keys: []Key{key("a")}}, "binary/encrypted", false},
		"compressed and encrypted":             {Settings{Compress: true, Encrypt: "a", Keys: []Key{key("a")}}, Settings{Keys: []Key{key("a")}}, "binary/encrypted", true},
		"old key":                              {Settings{Encrypt: "a", Keys: []Key{key("a")}}, Settings{Encrypt: "b", Keys: []Key{key("a"), key("b")}}, "binary/encrypted", false},
		"next key":                             {Settings{Encrypt: "b", Keys: []Key{key("b")}}, Settings{Encrypt: "a", Keys: []Key{key("a"), key("b")}}, "binary/encrypted", false},
		"plain, read by an encrypting process": {Settings{}, Settings{Encrypt: "a", Compress: true, Keys: []Key{key("a")}}, converter.MetadataEncodingJSON, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := mustOpen(t, tc.write).Encode([]*commonpb.Payload{long})
			if err != nil {
				t.Fatal(err)
			}
			if got := string(out[0].Metadata["encoding"]); got != tc.encoding {
				t.Errorf("encoding = %s, want %s", got, tc.encoding)
			}
			if small := len(out[0].Data) < len(long.Data)/10; small != tc.smaller {
				t.Errorf("encoded %d bytes as %d, want much smaller: %v", len(long.Data), len(out[0].Data), tc.smaller)
			}
			if id := string(out[0].Metadata["encryption-key-id"]); id != tc.write.Encrypt {
				t.Errorf("key id = %q", id)
			}
			if tc.encoding == encodingEncrypted && bytes.Contains(out[0].Data, []byte("to be said")) {
				t.Error("the encrypted payload contains the plain text")
			}
			back, err := mustOpen(t, tc.read).Decode(out)
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(back[0], long) {
				t.Errorf("decoded %v", back[0])
			}
		})
	}
}

// TestSampleFormat checks that the encryption is compatible with Temporal's public sample:
// a nonce of 12 bytes, then the encoded payload sealed with AES-GCM.
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
	c := mustOpen(t, Settings{Encrypt: "test", Keys: []Key{{"test", secret}}})
	out, err := c.Decode([]*commonpb.Payload{in})
	if err != nil || !proto.Equal(out[0], want) {
		t.Fatalf("decoded %v: %v", out, err)
	}
	if out, err = c.Encode(out); err != nil {
		t.Fatal(err)
	}
	back, err := gcm.Open(nil, out[0].Data[:12], out[0].Data[12:], nil)
	if err != nil || !bytes.Equal(back, raw) {
		t.Errorf("the sample's format decrypts to %q: %v", back, err)
	}
}

func TestDecodeErrors(t *testing.T) {
	sealed, err := mustOpen(t, Settings{Encrypt: "a", Keys: []Key{key("a")}}).Encode([]*commonpb.Payload{payload(t, "x")})
	if err != nil {
		t.Fatal(err)
	}
	bomb, err := mustOpen(t, Settings{Compress: true}).Encode([]*commonpb.Payload{payload(t, strings.Repeat("x", 10_000))})
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
		"no key":              {Settings{}, sealed[0], contract.ClassPayloadKey, `encrypted with the key "a", which this process does not have`},
		"different key":       {Settings{Keys: []Key{{"a", bytes.Repeat([]byte("z"), KeyBytes)}}}, sealed[0], contract.ClassPayloadKey, `with that id does not decrypt it`},
		"truncated":           {own, with(encodingEncrypted, "short"), contract.ClassPayloadLost, "has only 5 bytes"},
		"invalid zlib":        {own, with(encodingZlib, "what is this"), contract.ClassPayloadLost, "compressed payload of 12 bytes"},
		"decompression limit": {Settings{MaxBytes: 1000}, bomb[0], contract.ClassTooLarge, "decompresses to more than 1000"},
		"oversized key id":    {own, &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encodingEncrypted), "encryption-key-id": bytes.Repeat([]byte("k"), 1<<20)}}, contract.ClassPayloadKey, "…"},
		"binary key id":       {own, &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encodingEncrypted), "encryption-key-id": {0xff, '\n'}}}, contract.ClassPayloadKey, `"\xff\n"`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := mustOpen(t, tc.read).Decode([]*commonpb.Payload{payload(t, "before"), tc.p})
			var f *contract.Failure
			if !errors.As(err, &f) || f.Class != tc.class || !strings.Contains(f.Text, tc.text) || f.Remedy == "" || len(f.Text) > 400 {
				t.Errorf("error = %#v", err)
			}
		})
	}
}

func TestInvalidKeys(t *testing.T) {
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
			t.Errorf("%s: error = %v, want %s", name, err, tc.want)
		}
	}
}

// TestClientOptions checks that a client with a codec and a store encrypts stored payloads and
// the messages of failures, and that a process without the key reports that.
func TestClientOptions(t *testing.T) {
	c := mustOpen(t, Settings{Encrypt: "a", Keys: []Key{key("a")}})
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
		t.Errorf("payload = %v", p)
	}
	var back contract.ModelResult
	if err := o.DataConverter.FromPayload(p, &back); err != nil || string(back.Message) != `"canary"` {
		t.Errorf("decoded message %s: %v", back.Message, err)
	}
	f := o.FailureConverter.ErrorToFailure((&contract.Failure{Class: contract.ClassRefused, Text: "a canary sang"}).ApplicationError())
	raw, err := proto.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(raw, []byte("canary")) || !bytes.Contains(raw, []byte(contract.ClassRefused)) {
		t.Errorf("failure = %v", f)
	}
	if got := contract.FailureOf(o.FailureConverter.FailureToError(proto.Clone(f).(*failurepb.Failure))); got.Text != "a canary sang" {
		t.Errorf("decoded failure = %+v", got)
	}
	// A worker without the key fails with this class, not wrapped by the SDK.
	var other client.Options
	mustOpen(t, Settings{Encrypt: "b", Keys: []Key{key("b")}}).Apply(&other)
	s.Apply(&other)
	err = other.DataConverter.FromPayload(p, &back)
	if out := other.FailureConverter.ErrorToFailure(err); out.GetApplicationFailureInfo().GetType() != contract.ClassPayloadKey || !out.GetApplicationFailureInfo().GetNonRetryable() ||
		!strings.Contains(out.GetMessage(), `the key "a"`) || out.GetEncodedAttributes() != nil {
		t.Errorf("failure without the key = %v", out)
	}
	// So does a run whose input was not decoded yet; but the failure of a node stays encrypted.
	own := contract.FailureOf(err)
	if out := other.FailureConverter.ErrorToFailure(own.ApplicationError()); !strings.Contains(out.GetMessage(), `the key "a"`) || out.GetEncodedAttributes() != nil {
		t.Errorf("failure of an input = %v", out)
	}
	if out := other.FailureConverter.ErrorToFailure((&contract.Failure{Class: own.Class, Text: own.Text, Node: "n"}).ApplicationError()); out.GetEncodedAttributes() == nil {
		t.Errorf("failure of a node = %v", out)
	}
	// A history reader decrypts messages.
	var notes []error
	event := &historypb.HistoryEvent{Attributes: &historypb.HistoryEvent_WorkflowExecutionFailedEventAttributes{
		WorkflowExecutionFailedEventAttributes: &historypb.WorkflowExecutionFailedEventAttributes{Failure: f}}}
	r := c.Reader(nil, fetch, func(err error) { notes = append(notes, err) }).(*reader)
	if err := r.decode(t.Context(), &historypb.History{Events: []*historypb.HistoryEvent{event}}); err != nil {
		t.Fatal(err)
	}
	if got := event.GetWorkflowExecutionFailedEventAttributes().GetFailure().GetMessage(); got != "a canary sang" || len(notes) > 0 {
		t.Errorf("message = %q, notes %v", got, notes)
	}
	r = mustOpen(t, Settings{}).Reader(nil, fetch, func(err error) { notes = append(notes, err) }).(*reader)
	list := &commonpb.Payloads{Payloads: []*commonpb.Payload{p, p}}
	if err := r.decode(t.Context(), &historypb.History{Events: []*historypb.HistoryEvent{{Attributes: &historypb.HistoryEvent_WorkflowExecutionSignaledEventAttributes{
		WorkflowExecutionSignaledEventAttributes: &historypb.WorkflowExecutionSignaledEventAttributes{Input: list}}}}}); err != nil || len(notes) != 1 || !proto.Equal(list.Payloads[0], p) {
		t.Errorf("without the key: %v, notes %v", err, notes)
	}
	if strings.Contains(notes[0].Error(), base64.StdEncoding.EncodeToString(key("a").Secret)) {
		t.Error("a note contains the key")
	}
}

// fetch is a fake store: a claim is a payload that refers to another one.
func fetch(_ context.Context, p *commonpb.Payload) (*commonpb.Payload, error) {
	switch string(p.GetMetadata()["claim"]) {
	case "":
		return p, nil
	case "stored":
		return &commonpb.Payload{Data: []byte("stored")}, nil
	}
	return nil, errors.New("it is in another store")
}

// history iterates over events in memory.
type history []*historypb.HistoryEvent

func (h *history) HasNext() bool { return len(*h) > 0 }

func (h *history) Next() (*historypb.HistoryEvent, error) {
	e := (*h)[0]
	*h = (*h)[1:]
	return e, nil
}

func TestHistoryReaderFetchesPayloads(t *testing.T) {
	claim := func(of string) *commonpb.Payload {
		return &commonpb.Payload{Metadata: map[string][]byte{"claim": []byte(of)}, Data: []byte("claim")}
	}
	in := history{{Attributes: &historypb.HistoryEvent_ActivityTaskCompletedEventAttributes{ActivityTaskCompletedEventAttributes: &historypb.ActivityTaskCompletedEventAttributes{
		Result: &commonpb.Payloads{Payloads: []*commonpb.Payload{claim("stored"), {Data: []byte("inline")}, claim("other"), claim("another")}}}}}}
	var notes []error
	r := mustOpen(t, Settings{}).Reader(nil, fetch, func(err error) { notes = append(notes, err) }).(*reader)
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
		t.Errorf("payloads = %v, want %v; notes %v", got, want, notes)
	}
}
