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

// TestEndToEndUndecodableSignals sends signals that no worker can decode. It checks that they are counted as rejected,
// and remain so in every replay, even on a worker that has their key, and that a worker without the key of an accepted
// signal cannot replay the run.
func TestEndToEndUndecodableSignals(t *testing.T) {
	t.Parallel()
	address, queue := harness.ServerAddress(t), fmt.Sprintf("unread-%d", time.Now().UnixNano())
	old, fresh := codecKey("old"), codecKey("fresh")
	stop := func() {}
	restart := func(keys ...codec.Key) {
		stop()
		var texts []string
		for _, k := range keys {
			texts = append(texts, keyText(k))
		}
		_, stop = runWorker(t, nil, "TEMPORAL_ADDRESS="+address, "WEFT_TASK_QUEUE="+queue, "WEFT_MODEL=script", "WEFT_CODEC_KEY=none", "WEFT_CODEC_KEYS="+strings.Join(texts, ","))
	}
	restart(old)
	h := &harness.Worker{Client: harness.Dial(t, address), Queue: queue}
	run := h.Start(t, contract.RunInput{Flow: contract.FlowRef{Text: harness.OneNode(harness.ClientTools), Name: "flow.json"}, DataConnections: harness.ClientConnection("look_up", 0), Model: "script",
		Script: harness.Script(t, `rules: [{turn: 1, call: [{tool: look_up}]}, {contains: found it, say: done}]`)})
	ctx, id := context.Background(), run.GetID()
	answer := map[string]any{"id": h.WaitForRequests(t, id, 1)[0].ID, "result": "found it"}
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
		signal(h.Client, contract.SignalReply, converter.NewRawValue(p)) // internal signals are not counted
	}
	signal(codecClient(t, address, codec.Settings{Encrypt: "fresh", Keys: []codec.Key{fresh}}), "tool_result", answer)
	signal(codecClient(t, address, codec.Settings{Encrypt: "old", Keys: []codec.Key{old}}), "message", map[string]any{"text": "read"})
	check := func() error {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		v, err := h.Client.QueryWorkflow(ctx, id, "", contract.QueryStatus)
		var s contract.Status
		if err == nil {
			err = v.Get(&s)
		}
		if err == nil && (s.Rejected != 6 || len(s.Requests) != 1 || len(s.Inbox) != 1) {
			raw, _ := json.Marshal(s)
			err = fmt.Errorf("want 6 rejected signals, a request and a message: %s", raw)
		}
		return err
	}
	waitCheck := func(worker, want string) {
		t.Helper()
		var err error
		for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
			if err = check(); err == nil && want == "" || err != nil && want != "" && strings.Contains(err.Error(), want) {
				return
			}
		}
		t.Fatalf("%s: %v", worker, err)
	}
	waitCheck("worker with the old key", "")
	restart(old, fresh)
	waitCheck("worker with both keys, which could decode all", "")
	restart(fresh)
	waitCheck("worker without the key of the message", `encrypted with the key "old"`)
	restart(old)
	waitCheck("worker with the old key again", "")
	if _, err := h.Update(t, id, "tool_result", answer); err != nil {
		t.Fatal(err)
	}
	if out, err := harness.Result(t, run); err != nil || *out.ResultText != "done" {
		t.Fatalf("result = %+v, %v", out, err)
	}
}
