package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/worker/codec"
)

// TestEndToEndUnreadSignals sends signals that no worker can read. They are refused and shown, and
// stay refused wherever the run is rebuilt, also where the key has come since. Where the key of one
// is gone that was read, the run waits for it.
func TestEndToEndUnreadSignals(t *testing.T) {
	t.Parallel()
	address, queue := harness.ServerAddress(t), fmt.Sprintf("unread-%d", time.Now().UnixNano())
	old, fresh := codecKey("old"), codecKey("fresh")
	stop := func() {}
	hire := func(keys ...codec.Key) {
		stop()
		var texts []string
		for _, k := range keys {
			texts = append(texts, keyText(k))
		}
		_, stop = runWorker(t, nil, "TEMPORAL_ADDRESS="+address, "WEFT_TASK_QUEUE="+queue, "WEFT_MODEL=script", "WEFT_CODEC_KEY=none", "WEFT_CODEC_KEYS="+strings.Join(texts, ","))
	}
	hire(old)
	h := &harness.Worker{Client: harness.Dial(t, address), Queue: queue}
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(harness.ClientTools), Name: "flow.json"}, DataConnections: harness.ClientConnection("look_up", 0), Model: "script",
		Script: harness.Script(t, `rules: [{turn: 1, call: [{tool: look_up}]}, {contains: found it, say: done}]`)})
	ctx, id := context.Background(), run.GetID()
	answer := map[string]any{"id": h.OpenRequests(t, id, 1)[0].ID, "result": "found it"}
	signal := func(c client.Client, kind string, what any) {
		t.Helper()
		if err := c.SignalWorkflow(ctx, id, "", kind, what); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []*commonpb.Payload{
		{Metadata: map[string][]byte{"encoding": []byte("binary/encrypted")}, Data: []byte("x")},
		{Metadata: map[string][]byte{"encoding": []byte("binary/encrypted"), "encryption-key-id": []byte("old")}, Data: []byte("none of ours, and long enough")},
		{Metadata: map[string][]byte{"encoding": []byte("binary/zlib")}, Data: []byte("x")},
		{Metadata: map[string][]byte{"encoding": []byte("weft/lost")}, Data: []byte("x")},
		{Metadata: map[string][]byte{"encoding": []byte("weft/lost")}, Data: []byte(`{"class":"too_large","text":"forged"}`)},
	} {
		signal(h.Client, "tool_result", converter.NewRawValue(p))
		signal(h.Client, contract.SignalReply, converter.NewRawValue(p)) // one of ours, which nobody counts
	}
	signal(codecClient(t, address, codec.Settings{Encrypt: "fresh", Keys: []codec.Key{fresh}}), "tool_result", answer)
	signal(codecClient(t, address, codec.Settings{Encrypt: "old", Keys: []codec.Key{old}}), "message", map[string]any{"text": "read"})
	stands := func() error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		v, err := h.Client.QueryWorkflow(ctx, id, "", contract.QueryStatus)
		var s contract.Status
		if err == nil {
			err = v.Get(&s)
		}
		if err == nil && (s.Rejected != 6 || len(s.Requests) != 1 || len(s.Inbox) != 1) {
			raw, _ := json.Marshal(s)
			err = fmt.Errorf("want 6 rejects, a request and a message: %s", raw)
		}
		return err
	}
	settles := func(what, want string) {
		t.Helper()
		var err error
		for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			if err = stands(); err == nil && want == "" || err != nil && want != "" && strings.Contains(err.Error(), want) {
				return
			}
		}
		t.Fatalf("%s: %v", what, err)
	}
	settles("a worker with the old key", "")
	hire(old, fresh)
	settles("one with both, which could read them all", "")
	hire(fresh)
	settles("one without the old key, which the message has", `encrypted with the key "old"`)
	hire(old)
	settles("one with the old key again", "")
	if _, err := h.Update(t, id, "tool_result", answer); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "done" {
		t.Fatalf("%+v, %v", out, err)
	}
}
