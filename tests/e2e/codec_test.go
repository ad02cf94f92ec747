package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"

	"weft/activities/contract"
	"weft/tests/harness"
	"weft/tests/programs"
	"weft/worker/codec"
	"weft/worker/store"
)

// secretText must not be readable by a server.
const secretText = "the treasure lies under the oak"

// codecKey returns a key of 32 bytes; keyText returns it as it is configured.
func codecKey(id string) codec.Key {
	return codec.Key{ID: id, Secret: bytes.Repeat([]byte(id[:1]), codec.KeyBytes)}
}

func keyText(k codec.Key) string {
	return k.ID + ":" + base64.StdEncoding.EncodeToString(k.Secret)
}

// runWorker starts the worker program with environment variables. It runs until the test ends or stop is called.
func runWorker(t *testing.T, args []string, env ...string) (firstLine string, stop func()) {
	t.Helper()
	cmd := exec.Command(programs.Path(t, "WEFT_WORKER"), args...)
	cmd.Dir, cmd.Env = t.TempDir(), append(programs.CleanEnv(), env...)
	stop = func() { programs.Kill(cmd) }
	if len(args) > 0 {
		return programs.StartAndReadLine(t, cmd, ""), stop
	}
	cmd.Stderr = programs.Log(t, "worker")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return "", stop
}

// codecClient returns a client with a codec.
func codecClient(t *testing.T, address string, s codec.Settings) client.Client {
	t.Helper()
	c, err := codec.Open(s)
	if err != nil {
		t.Fatal(err)
	}
	o := harness.Options(address)
	c.Apply(&o)
	out, err := client.Dial(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(out.Close)
	return c.Reader(out, new(store.Store).Fetch, func(err error) { t.Log(err) })
}

// dump returns everything that the server stores of a run and its descendants, as raw bytes.
func dump(t *testing.T, address, id string) []byte {
	t.Helper()
	c := harness.Dial(t, address)
	var out bytes.Buffer
	runs := []string{id}
	for i := 0; i < len(runs); i++ {
		d, err := c.DescribeWorkflowExecution(context.Background(), runs[i], "")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := proto.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(raw)
		list := c.GetWorkflowHistory(context.Background(), runs[i], "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		for list.HasNext() {
			e, err := list.Next()
			if err != nil {
				t.Fatal(err)
			}
			if child := e.GetChildWorkflowExecutionStartedEventAttributes(); child != nil {
				runs = append(runs, child.GetWorkflowExecution().GetWorkflowId())
			}
			raw, err := proto.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			out.Write(raw)
		}
	}
	return out.Bytes()
}

// TestEndToEndCodec checks runs with encrypted payloads: with a client that has the key, with a Node.js client that uses
// the codec endpoint, across a key rotation, and without the key.
func TestEndToEndCodec(t *testing.T) {
	t.Parallel()
	parent := t
	address := harness.StartServer(t, "-db", ":memory:", "-port=0").Address
	old, fresh := codecKey("old"), codecKey("fresh")
	common := []string{"TEMPORAL_ADDRESS=" + address, "WEFT_MODEL=script", "WEFT_CODEC_COMPRESS=true"}
	_, stop := runWorker(t, nil, append(common, "WEFT_CODEC_KEYS="+keyText(old), "WEFT_CODEC_KEY=old")...)
	start := func(c client.Client) client.WorkflowRun {
		run, err := c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: contract.TaskQueue, Memo: map[string]any{"note": secretText}}, "Flow",
			map[string]any{"v": 1, "input": secretText, "model": "script", "script": map[string]any{"rules": []any{map[string]any{"contains": secretText, "say": "dig: " + secretText}}},
				"flow": map[string]any{"name": "one.json", "text": harness.OneNode("")}})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	t.Run("a client with the key", func(t *testing.T) {
		c := codecClient(t, address, codec.Settings{Encrypt: "old", Keys: []codec.Key{old}})
		run := start(c)
		out, err := harness.Result(t, run)
		if err != nil || *out.ResultText != "dig: "+secretText {
			t.Fatalf("result = %+v, %v", out, err)
		}
		if raw := dump(t, address, run.GetID()); bytes.Contains(raw, []byte("treasure")) || !bytes.Contains(raw, []byte("binary/encrypted")) {
			t.Error("the text is not encrypted on the server")
		}
		list := c.GetWorkflowHistory(context.Background(), run.GetID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		if e, err := list.Next(); err != nil || !strings.Contains(e.String(), "treasure") {
			t.Errorf("decoded event = %v, %v", e, err)
		}
	})
	t.Run("a Node.js client with the codec endpoint", func(t *testing.T) { codecNode(t, address, old) })
	t.Run("a rotation", func(t *testing.T) {
		before := codecClient(t, address, codec.Settings{Encrypt: "old", Keys: []codec.Key{old, fresh}})
		after := codecClient(t, address, codec.Settings{Encrypt: "fresh", Keys: []codec.Key{old, fresh}})
		stop()
		waiting := start(before)
		_, stop = runWorker(parent, nil, append(common, "WEFT_CODEC_KEYS="+keyText(old)+","+keyText(fresh), "WEFT_CODEC_KEY=fresh")...)
		for _, run := range []client.WorkflowRun{after.GetWorkflow(context.Background(), waiting.GetID(), ""), start(after)} {
			if out, err := harness.Result(t, run); err != nil || *out.ResultText != "dig: "+secretText {
				t.Fatalf("result = %+v, %v", out, err)
			}
		}
	})
	t.Run("a key that the worker does not have", func(t *testing.T) {
		lost := codecKey("lost")
		run := start(codecClient(t, address, codec.Settings{Encrypt: "lost", Keys: []codec.Key{lost, fresh}}))
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		err := run.Get(ctx, nil)
		if f := contract.FailureOf(err); f.Class != contract.ClassPayloadKey || !strings.Contains(f.Text, `the key "lost"`) || f.Remedy == "" {
			t.Fatalf("failure = %+v of %v", f, err)
		}
	})
}

// codecNode runs a Node.js client that encrypts through worker codec, which alone has the key.
func codecNode(t *testing.T, address string, key codec.Key) {
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("%s is not installed", name)
		}
	}
	endpoint, _ := runWorker(t, []string{"codec", "-listen", "127.0.0.1:0"}, "WEFT_CODEC_KEYS="+keyText(key), "WEFT_CODEC_KEY="+key.ID, "WEFT_CODEC_TOKENS=node:nodenodenodenode")
	dir := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "encoded.mjs", "codec.mjs"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(harness.ReadFile(t, "../clients/node/"+name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "one.json"), []byte(harness.OneNode("")), 0o600); err != nil {
		t.Fatal(err)
	}
	e := &clientPrograms{address: address}
	if out, errs, err := e.run(t, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		t.Skipf("npm ci did not install @temporalio/client: %v\n%s%s", err, out, errs)
	}
	out, errs, err := e.run(t, dir, "env", "WEFT_CODEC_ENDPOINT="+endpoint, "WEFT_CODEC_TOKEN=nodenodenodenode", "node", "encoded.mjs", "one.json", secretText)
	if err != nil || out == "" {
		t.Fatalf("program printed %q: %v\n%s", out, err, errs)
	}
	_, id, _ := strings.Cut(errs, "run: ")
	id, _, _ = strings.Cut(id, "\n")
	if raw := dump(t, address, id); bytes.Contains(raw, []byte("treasure")) || !bytes.Contains(raw, []byte("binary/encrypted")) {
		t.Errorf("the text of %s is not encrypted on the server", id)
	}
	if out, errs, err = e.run(t, dir, "env", "WEFT_CODEC_ENDPOINT="+endpoint, "WEFT_CODEC_TOKEN=nobody", "node", "encoded.mjs", "one.json", secretText); err == nil || !strings.Contains(errs, "codec.tokens_env") {
		t.Errorf("without a valid token, the program printed %q: %v\n%s", out, err, errs)
	}
}
