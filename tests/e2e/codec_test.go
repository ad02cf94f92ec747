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

// said is what no server may see.
const said = "the treasure lies under the oak"

// codecKey is a key of 32 bytes; keyText is how it is configured.
func codecKey(id string) codec.Key {
	return codec.Key{ID: id, Secret: bytes.Repeat([]byte(id[:1]), codec.KeyBytes)}
}

func keyText(k codec.Key) string {
	return k.ID + ":" + base64.StdEncoding.EncodeToString(k.Secret)
}

// runWorker starts the worker program with variables, until the test ends or stop is called.
func runWorker(t *testing.T, args []string, env ...string) (firstLine string, stop func()) {
	t.Helper()
	cmd := exec.Command(programs.Path(t, "WEFT_WORKER"), args...)
	cmd.Dir, cmd.Env = t.TempDir(), append(programs.Clean(), env...)
	stop = func() { programs.Kill(cmd) }
	if len(args) > 0 {
		return programs.Line(t, cmd, ""), stop
	}
	cmd.Stderr = programs.Log(t, "worker")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return "", stop
}

// encoding is a client with a codec.
func encoding(t *testing.T, address string, s codec.Settings) client.Client {
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

// dump is all that the server has of a run and of those that it started, as text and bytes.
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

// TestEndToEndCodec runs flows whose payloads are encrypted: by a client with the key, by
// programs of npm's client through the endpoint, across a rotation, and without the key.
func TestEndToEndCodec(t *testing.T) {
	t.Parallel()
	whole := t
	address := harness.StartServer(t, "-db", ":memory:", "-port=0").Address
	old, fresh := codecKey("old"), codecKey("fresh")
	common := []string{"TEMPORAL_ADDRESS=" + address, "WEFT_MODEL=script", "WEFT_CODEC_COMPRESS=true"}
	_, stop := runWorker(t, nil, append(common, "WEFT_CODEC_KEYS="+keyText(old), "WEFT_CODEC_KEY=old")...)
	start := func(c client.Client) client.WorkflowRun {
		run, err := c.ExecuteWorkflow(context.Background(), client.StartWorkflowOptions{TaskQueue: contract.TaskQueue, Memo: map[string]any{"note": said}}, "Flow",
			map[string]any{"v": 1, "input": said, "model": "script", "script": map[string]any{"rules": []any{map[string]any{"contains": said, "say": "dig: " + said}}},
				"flow": map[string]any{"name": "one.json", "text": harness.OneNode("")}})
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	t.Run("a client with the key", func(t *testing.T) {
		c := encoding(t, address, codec.Settings{Encrypt: "old", Keys: []codec.Key{old}})
		run := start(c)
		out, err := harness.Result(t, run)
		if err != nil || *out.ResultText != "dig: "+said {
			t.Fatalf("%+v: %v", out, err)
		}
		if raw := dump(t, address, run.GetID()); bytes.Contains(raw, []byte("treasure")) || !bytes.Contains(raw, []byte("binary/encrypted")) {
			t.Error("the server can read what was said")
		}
		list := c.GetWorkflowHistory(context.Background(), run.GetID(), "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
		if e, err := list.Next(); err != nil || !strings.Contains(e.String(), "treasure") {
			t.Errorf("the reader shows %v: %v", e, err)
		}
	})
	t.Run("npm's client, through the endpoint", func(t *testing.T) { codecNode(t, address, old) })
	t.Run("a rotation", func(t *testing.T) {
		before := encoding(t, address, codec.Settings{Encrypt: "old", Keys: []codec.Key{old, fresh}})
		after := encoding(t, address, codec.Settings{Encrypt: "fresh", Keys: []codec.Key{old, fresh}})
		stop()
		waits := start(before)
		_, stop = runWorker(whole, nil, append(common, "WEFT_CODEC_KEYS="+keyText(old)+","+keyText(fresh), "WEFT_CODEC_KEY=fresh")...)
		for _, run := range []client.WorkflowRun{after.GetWorkflow(context.Background(), waits.GetID(), ""), start(after)} {
			if out, err := harness.Result(t, run); err != nil || *out.ResultText != "dig: "+said {
				t.Fatalf("%+v: %v", out, err)
			}
		}
	})
	t.Run("a key that the worker does not have", func(t *testing.T) {
		lost := codecKey("lost")
		run := start(encoding(t, address, codec.Settings{Encrypt: "lost", Keys: []codec.Key{lost, fresh}}))
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		err := run.Get(ctx, nil)
		if f := contract.FailureOf(err); f.Class != contract.ClassPayloadKey || !strings.Contains(f.Text, `the key "lost"`) || f.Remedy == "" {
			t.Fatalf("the failure is %+v of %v", f, err)
		}
	})
}

// codecNode runs the programs of npm's client through worker codec, which alone has the key.
func codecNode(t *testing.T, address string, key codec.Key) {
	for _, name := range []string{"node", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("there is no %s here; the programs in clients/node were not run", name)
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
	e := &embedders{address: address}
	if out, errs, err := e.run(t, dir, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
		t.Skipf("npm ci did not get @temporalio/client (%v), so the program was not run:\n%s%s", err, out, errs)
	}
	out, errs, err := e.run(t, dir, "env", "WEFT_CODEC_ENDPOINT="+endpoint, "WEFT_CODEC_TOKEN=nodenodenodenode", "node", "encoded.mjs", "one.json", said)
	if err != nil || out == "" {
		t.Fatalf("the program printed %q: %v\n%s", out, err, errs)
	}
	_, id, _ := strings.Cut(errs, "run: ")
	id, _, _ = strings.Cut(id, "\n")
	if raw := dump(t, address, id); bytes.Contains(raw, []byte("treasure")) || !bytes.Contains(raw, []byte("binary/encrypted")) {
		t.Errorf("the server can read what %s said", id)
	}
	if out, errs, err = e.run(t, dir, "env", "WEFT_CODEC_ENDPOINT="+endpoint, "WEFT_CODEC_TOKEN=nobody", "node", "encoded.mjs", "one.json", said); err == nil || !strings.Contains(errs, "codec.tokens_env") {
		t.Errorf("without its token the program printed %q: %v\n%s", out, err, errs)
	}
}
