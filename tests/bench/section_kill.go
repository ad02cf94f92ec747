package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"weft/activities/contract"
	"weft/workflows/plan"
)

// fakeModel is the name in plans of the model of the fake server.
const fakeModel = "fake/m"

// kills is workload W4: the worker program is killed during a model call.
func kills(ctx context.Context, b *bench) error {
	b.table.plainHead("W4: the worker is killed (SIGKILL) with call %d of %d under way, and started again at once", b.scale.killInMid, b.scale.killCalls)
	for _, seconds := range b.scale.heartbeats {
		if err := b.killOnce(ctx, seconds); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) killOnce(ctx context.Context, heartbeat int) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	model, err := serveModel(b.scale.killCalls, b.scale.killInMid)
	if err != nil {
		return err
	}
	defer model.close()
	w, err := b.productWorker(model.url)
	if err != nil {
		return err
	}
	defer func() { w.kill() }()
	b.runs++
	run, err := b.begin(ctx, b.id(b.runs), contract.TaskQueue, killed(heartbeat, b.scale.killCalls))
	if err != nil {
		return err
	}
	select {
	case <-model.held:
	case <-ctx.Done():
		return fmt.Errorf("call %d did not come: %w; the worker said: %s", b.scale.killInMid, ctx.Err(), w.tail())
	}
	w.kill()
	at := time.Now()
	if w, err = b.productWorker(model.url); err != nil {
		return err
	}
	if err := run.Get(ctx, nil); err != nil {
		return fmt.Errorf("the run after the kill: %w; the worker said: %s", err, w.tail())
	}
	c := model.counts()
	b.table.note("heartbeat timeout %d s: %d of %d calls repeated; the call was made again after %.1f s, the next one after %.1f s; done by itself",
		heartbeat, c.repeated, c.calls, c.again.Sub(at).Seconds(), c.next.Sub(at).Seconds())
	return nil
}

// killed is an agent that calls a built-in tool of the interpreter after each model call except
// the last.
func killed(heartbeat, calls int) start {
	n := node("agent")
	n.Agent.Builtins = []string{plan.BuiltinListStateKeys}
	s := onlyNode(n, fmt.Sprintf("%d calls", calls), fakeModel, nil)
	if in, ok := s.input.(contract.RunInput); ok {
		in.Flow.Plan.Policy.HeartbeatSeconds = heartbeat
	}
	return s
}

// productWorker runs the worker program against the server and the fake model, with additional settings.
func (b *bench) productWorker(model string, more ...string) (*process, error) {
	dir := filepath.Join(b.dir, "empty") // no settings file here
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	path, err := filepath.Abs(b.settings.worker)
	if err != nil {
		return nil, err
	}
	env := append(append([]string{}, b.env...), "TEMPORAL_ADDRESS="+b.address,
		"WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_BASE_URL="+model,
		"WEFT_SEAL_KEYS=k1:"+base64.StdEncoding.EncodeToString(make([]byte, 32)))
	env = append(env, more...)
	return launch("program", dir, env, path)
}
