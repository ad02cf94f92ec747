package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weft/starter/progress"
	"weft/tests/programs"
)

// TestConversationReport checks what a conversation prints: streamed answers without repetition, and events on stderr.
func TestConversationReport(t *testing.T) {
	part := func(call, text string) progress.Notice {
		return progress.Notice{Event: progress.EventText, Node: "guide#1", Call: call, Attempt: 1, Text: text}
	}
	retry := part("model call 1", "Anew")
	retry.Attempt = 2
	gap := part("model call 1", " and more")
	gap.Skipped = true
	subAgent := part("model call 1", "for the boss alone")
	subAgent.Node = "guide#1 › helper#1"
	for name, tc := range map[string]struct {
		notices []progress.Notice
		result  string
		want    string
	}{
		"no partial answer":    {nil, "Oslo.", "Oslo.\n"},
		"rest of the answer":   {[]progress.Notice{part("model call 1", "It was "), part("model call 1", "a dark")}, "It was a dark night.\n", "It was a dark night.\n"},
		"complete answer":      {[]progress.Notice{part("model call 1", "Oslo.")}, "Oslo.", "Oslo.\n"},
		"tool call in between": {[]progress.Notice{part("model call 1", "I look."), {Event: progress.EventTool, Node: "guide#1", Text: "tool find"}, part("model call 2", "Found")}, "Found it.", "I look.\n[  guide#1  tool find\n]Found it.\n"},
		"second attempt":       {[]progress.Notice{part("model call 1", "Some"), retry}, "Anew it is.", "Some\nAnew it is.\n"},
		"gap":                  {[]progress.Notice{part("model call 1", "Some"), gap}, "Some text and more.", "Some and more\nSome text and more.\n"},
		"different result":     {[]progress.Notice{part("model call 1", "{\"a\":1}")}, "{\"a\": 1}", "{\"a\":1}\n{\"a\": 1}\n"},
		"sub-agent":            {[]progress.Notice{subAgent}, "Oslo.", "Oslo.\n"},
		"control characters":   {[]progress.Notice{part("model call 1", "\x1b[2Jx\u202e")}, "\x1b[2Jx\u202ey", "[2Jxy\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			s := &conversationReport{app: &app{stdout: &out, stderr: bracketed{&out}}, streams: true}
			for _, n := range tc.notices {
				s.Notify(n)
			}
			s.finish(tc.result)
			if out.String() != tc.want {
				t.Errorf("output = %q, want %q", out.String(), tc.want)
			}
		})
	}
}

// bracketed writes standard error in brackets, to distinguish it in the same output.
type bracketed struct{ to *strings.Builder }

func (b bracketed) Write(p []byte) (int, error) {
	b.to.WriteString("[" + string(p) + "]")
	return len(p), nil
}

// TestEndToEndConversation continues a session on a terminal, while another client sends a prompt as well.
func TestEndToEndConversation(t *testing.T) {
	path := programs.Path(t, "WEFT_DEVSERVER")
	model := newStreamingModel(t)
	address := devserverWith(t, path, []string{"WEFT_MODEL=fake/m", "WEFT_PROVIDERS_FAKE_KIND=compatible", "WEFT_PROVIDERS_FAKE_BASE_URL=" + model.url})
	flow := filepath.Join(t.TempDir(), "guide.json")
	if err := os.WriteFile(flow, []byte(`{"name": "guide", "description": "Knows places", "system_prompt": "Be short."}`), 0o600); err != nil {
		t.Fatal(err)
	}
	env := mapEnv{"TERM": "xterm", "NO_COLOR": "1", "TEMPORAL_ADDRESS": address, "TEMPORAL_CONFIG_FILE": filepath.Join(t.TempDir(), "none.toml")}
	stream := func(pieces ...string) {
		t.Helper()
		for _, piece := range pieces {
			select {
			case model.pieces <- piece:
			case <-time.After(3 * time.Minute):
				t.Fatalf("no model call reads %q", piece)
			}
		}
	}
	var plain, errors strings.Builder
	exited := make(chan int, 1)
	go func() {
		exited <- (&app{stdin: strings.NewReader(""), stdout: &plain, stderr: &errors, env: env}).run(context.Background(),
			[]string{"-flow", flow, "-session", "-id", "guide-1", "-input", "Hello"})
	}()
	stream("Old words", endAnswer)
	if code := <-exited; code != exitOK || plain.String() != "Old words\n" || !strings.Contains(errors.String(), "starter resume guide-1 -prompt TEXT, or without -prompt on a terminal") {
		t.Fatalf("exit code %d, %q\n%s", code, plain.String(), errors.String())
	}

	master, slave := pseudoTerminal(t)
	t.Cleanup(func() { slave.Close() })
	code := make(chan int, 1)
	go func() {
		code <- (&app{stdin: slave, stdout: slave, stderr: slave, env: env}).run(context.Background(), []string{"resume", "guide-1"})
	}()
	s := &screen{}
	go s.read(master)
	enter := func(line string) {
		t.Helper()
		if _, err := master.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	s.wait(t, "session guide-1: 1 turn so far; type a prompt on one line; Ctrl-D exits, and the session stays open\r\n> ")
	enter("A city?\n")
	stream("A fine one is ", "Ber")
	s.wait(t, "A fine one is Ber")
	stream("gen.", endAnswer)
	s.wait(t, "A fine one is Bergen.\r\n> ")

	// The turn of another client is also shown.
	plain.Reset()
	go func() {
		exited <- (&app{stdin: strings.NewReader(""), stdout: &plain, stderr: &errors, env: env}).run(context.Background(), []string{"resume", "guide-1", "-prompt", "Another?"})
	}()
	stream("Oslo.", endAnswer)
	s.wait(t, "from another client:\r\n")
	s.wait(t, "Oslo.\r\n> ")
	if code := <-exited; code != exitOK || plain.String() != "Oslo.\n" {
		t.Errorf("the other client: exit code %d, %q", code, plain.String())
	}
	enter("\x04")
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d", got)
	}
	s.wait(t, "the session is open; continue with: starter resume guide-1; close it with: starter stop guide-1")
	s.mu.Lock()
	defer s.mu.Unlock()
	if strings.Contains(s.all.String(), "Old words") {
		t.Errorf("earlier answers are shown again: %q", s.all.String())
	}
}
