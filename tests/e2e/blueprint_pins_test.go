package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/activities"
	"weft/activities/contract"
	"weft/activities/tool"
	"weft/specadapter"
	"weft/specadapter/source"
	"weft/tests/harness"
	"weft/workflows"
	"weft/workflows/plan"
)

// pinned is the folder of an agent that starts others when it is told to. OLD stands for what is
// edited, SHELF for the address of an MCP server.
var pinned = map[string]string{
	"agents/boss/agent.json":                `{"name":"boss","description":"d","system_prompt":"Lead OLD.","mcp_servers":{"o":{"ref":"orchestrator"}}}`,
	"agents/writer/agent.json":              `{"name":"writer","description":"OLD writer","capabilities":["style"]}`,
	"agents/writer/agent.system-prompt.md":  "Write OLD.",
	"agents/writer/agent.mcp.json":          `{"mcpServers":{"books":{"ref":"shelf"}}}`,
	"capabilities/style/capability.json":    `{"name":"style","description":"d","type":"text"}`,
	"capabilities/style/capability.text.md": "In OLD style.",
	"mcp-servers/shelf/mcp-server.json":     `{"id":"shelf","name":"Shelf","url":"SHELF/OLD"}`,
	"agents/counter/agent.json":             `{"name":"counter","description":"d","type":"procedural","script":"count"}`,
	"scripts/count/script.json":             `{"name":"count","description":"d","script_file":"count.sh"}`,
	"scripts/count/count.sh":                "#!/bin/sh\necho '\"OLD\"'\n",
	"agents/late/agent.json":                `{"name":"late","description":"OLD"}`,
}

// rewrite writes the folder with another word in OLD's place.
func rewrite(t *testing.T, dir, word, shelf string) {
	t.Helper()
	for name, text := range pinned {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.NewReplacer("OLD", word, "SHELF", shelf).Replace(text)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEndToEndBlueprintPins edits everything that a session can start while it is idle: what it
// starts then is what was there at its start, and a script that is another one is refused. A later
// session has what is there now.
func TestEndToEndBlueprintPins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address, _ := harness.NewToolServer(t)
	rewrite(t, dir, "OLD", address)
	tools, err := tool.Open(tool.Settings{Trusted: []string{dir}, AllowLoopback: true})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("pins-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorkerWith(t, h.Client, h.Queue, workflows.Settings{}, activities.Deps{Tools: tools})
	t.Cleanup(func() { h.Worker.Stop(); tools.Close() })
	start := func() *family {
		folder, err := specadapter.ReadFolder(os.DirFS(dir), "agents/boss/agent.json")
		if err != nil {
			t.Fatal(err)
		}
		res, diags := specadapter.Load(folder.Name, folder.Text, specadapter.Options{Dialect: "blueprint", Host: source.Host{Files: folder.Files}})
		if res == nil {
			t.Fatal(diags)
		}
		return familyOn(t, h, res.Flow, "{node: boss, match: ^one$, say: ready}",
			"{node: boss, match: ^go$, call: ["+launches("writer", polled)+", "+launches("counter", polled)+", "+launches("late", polled)+", {tool: list_agent_blueprints}]}",
			"{node: boss, say: done}", "{say: written}")
	}
	check := func(f *family, word, counted string) {
		t.Helper()
		f.idle(1)
		if turn := f.Prompt(t, f.run.GetID(), "a", "go"); turn.Status != contract.TurnCompleted {
			t.Fatalf("the turn is %+v", turn)
		}
		kids := f.children(3)
		var writer plan.Flow
		v, err := h.Client.QueryWorkflow(context.Background(), kids[0], "", contract.QueryPlan)
		if err == nil {
			err = v.Get(&writer)
		}
		if err != nil {
			t.Fatal(err)
		}
		said := writer.Description + " " + writer.Nodes[0].Agent.System
		for _, c := range writer.Connections {
			said += " " + c.URL
		}
		if strings.Count(said, word) != 4 || strings.Contains(said, "OLD") != (word == "OLD") {
			t.Errorf("the writer is %q, want all of it %s", said, word)
		}
		if got := f.look("the program's end", func(s *contract.SessionStatus) bool {
			return s.Children[1].Status == contract.StatusIdle || s.Children[1].Status == contract.TurnFailed
		}).Children[1].Status; got != counted {
			t.Errorf("the program is %s, want %s", got, counted)
		}
		if boss := f.Turns(t, kids[1], 1)[0]; counted == contract.TurnFailed {
			if boss.Failure == nil || !strings.Contains(boss.Failure.Text, "has changed since the run was started") || boss.Failure.Remedy != "start a new run" {
				t.Errorf("the changed script is refused with %+v", boss.Failure)
			}
		} else if string(boss.ResultData) != `"`+word+`"` {
			t.Errorf("the program gave %s", boss.ResultData)
		}
	}
	first := start()
	first.idle(1)
	rewrite(t, dir, "NEW", address)
	if err := os.RemoveAll(filepath.Join(dir, "agents", "late")); err != nil {
		t.Fatal(err)
	}
	check(first, "OLD", contract.TurnFailed)
	rewrite(t, dir, "NEW", address)
	check(start(), "NEW", contract.StatusIdle)
}

// TestEndToEndBlueprintUntrusted has a program whose folder no operator trusts: it is not run, and
// the refusal has the setting that allows it.
func TestEndToEndBlueprintUntrusted(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	dir := harness.ProgramFolder(t, `touch "$2"`)
	tools, err := tool.Open(tool.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness.Worker{Client: harness.Dial(t, harness.ServerAddress(t)), Queue: fmt.Sprintf("untrusted-%d", time.Now().UnixNano())}
	h.Worker = harness.RunWorkerWith(t, h.Client, h.Queue, workflows.Settings{}, activities.Deps{Tools: tools})
	t.Cleanup(func() { h.Worker.Stop(); tools.Close() })
	folder, err := specadapter.ReadFolder(os.DirFS(dir), "agents/greeter/agent.json")
	if err != nil {
		t.Fatal(err)
	}
	res, diags := specadapter.Load(folder.Name, folder.Text, specadapter.Options{Dialect: "blueprint", Host: source.Host{Files: folder.Files}})
	if res == nil {
		t.Fatal(diags)
	}
	_, err = harness.Result(t, h.Start(t, contract.RunInput{Flow: contract.FlowRef{Plan: res.Flow}, Params: harness.EncodeJSON(t, map[string]string{"who": mark}), OnError: "fail"}))
	if f := contract.FailureOf(err); f == nil || f.Class != contract.ClassDenied || !strings.Contains(f.Remedy, "agents: {trusted: [/PATH/TO/FOLDER]}") {
		t.Errorf("the run gave %v", err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program ran")
	}
}
