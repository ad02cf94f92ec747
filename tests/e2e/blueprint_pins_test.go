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

// blueprintFiles are the files of an agent that starts others when prompted. OLD stands for the text that is
// edited, SHELF for the address of an MCP server.
var blueprintFiles = map[string]string{
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

// writeBlueprint writes the files to dir, with OLD and SHELF replaced.
func writeBlueprint(t *testing.T, dir, word, shelf string) {
	t.Helper()
	for name, text := range blueprintFiles {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.NewReplacer("OLD", word, "SHELF", shelf).Replace(text)), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEndToEndBlueprintPins checks that a session starts agents as they were when it began, even if their
// files are edited or removed while it is idle, and that it refuses a script that has changed. A later
// session uses the new files.
func TestEndToEndBlueprintPins(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	address, _ := harness.NewToolServer(t)
	writeBlueprint(t, dir, "OLD", address)
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
		return startFamilyOn(t, h, res.Flow, "{node: boss, match: ^one$, say: ready}",
			"{node: boss, match: ^go$, call: ["+startCall("writer", modePoll)+", "+startCall("counter", modePoll)+", "+startCall("late", modePoll)+", {tool: list_agent_blueprints}]}",
			"{node: boss, say: done}", "{say: written}")
	}
	check := func(f *family, word, programStatus string) {
		t.Helper()
		f.waitTurns(1)
		if turn := f.Prompt(t, f.run.GetID(), "a", "go"); turn.Status != contract.TurnCompleted {
			t.Fatalf("turn = %+v", turn)
		}
		children := f.childIDs(3)
		var writer plan.Flow
		v, err := h.Client.QueryWorkflow(context.Background(), children[0], "", contract.QueryPlan)
		if err == nil {
			err = v.Get(&writer)
		}
		if err != nil {
			t.Fatal(err)
		}
		definition := writer.Description + " " + writer.Nodes[0].Agent.System
		for _, c := range writer.Connections {
			definition += " " + c.URL
		}
		if strings.Count(definition, word) != 4 || strings.Contains(definition, "OLD") != (word == "OLD") {
			t.Errorf("definition of the writer = %q, want only %s", definition, word)
		}
		if got := f.waitStatus("the program to end", func(s *contract.SessionStatus) bool {
			return s.Children[1].Status == contract.StatusIdle || s.Children[1].Status == contract.TurnFailed
		}).Children[1].Status; got != programStatus {
			t.Errorf("status of the program = %s, want %s", got, programStatus)
		}
		if turn := f.WaitForTurns(t, children[1], 1)[0]; programStatus == contract.TurnFailed {
			if turn.Failure == nil || !strings.Contains(turn.Failure.Text, "has changed since the run was started") || turn.Failure.Remedy != "start a new run" {
				t.Errorf("failure of the changed script = %+v", turn.Failure)
			}
		} else if string(turn.ResultData) != `"`+word+`"` {
			t.Errorf("result of the program = %s", turn.ResultData)
		}
	}
	first := start()
	first.waitTurns(1)
	writeBlueprint(t, dir, "NEW", address)
	if err := os.RemoveAll(filepath.Join(dir, "agents", "late")); err != nil {
		t.Fatal(err)
	}
	check(first, "OLD", contract.TurnFailed)
	writeBlueprint(t, dir, "NEW", address)
	check(start(), "NEW", contract.StatusIdle)
}

// TestEndToEndBlueprintUntrusted checks that a program in a folder that the operator does not trust is not
// executed, and that the remedy names the setting that allows it.
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
		t.Errorf("run ended with %v", err)
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("the program ran")
	}
}
