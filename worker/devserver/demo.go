package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"weft/activities/llm"
	"weft/worker/config"
)

// demo runs a flow once with the starter.
type demo struct{ flow, input, script string }

// exitCode is an error that makes the process exit with the code; the starter has already printed the cause.
type exitCode int

// Error returns a message with the starter's exit code.
func (e exitCode) Error() string { return fmt.Sprintf("starter exited with code %d", int(e)) }

// run starts the flow, follows it, and on a terminal keeps the Web UI running until the user presses Enter.
func (d *demo) run(ctx context.Context, s *server, cfg *config.Config, db string) error {
	name := strings.TrimSuffix(filepath.Base(d.flow), filepath.Ext(d.flow))
	id := name + "-" + strings.ToLower(rand.Text()[:8])
	args := append([]string{"-flow", d.flow, "-input", "@" + d.input, "-id", id, "-task-queue", cfg.TaskQueue}, d.model(ctx, cfg)...)
	fmt.Fprintf(os.Stderr, "\n$ starter %s\n", strings.Join(args, " "))
	starter, err := sibling("starter")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, starter, args...)
	// An interrupted starter detaches from its run and exits. On a terminal, the starter also receives
	// the signal directly.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), "TEMPORAL_ADDRESS="+s.address, "TEMPORAL_NAMESPACE="+namespace, "TEMPORAL_TLS=false", "TEMPORAL_API_KEY=")
	if cfg.Store.Dir != "" {
		cmd.Env = append(cmd.Env, "WEFT_STORE_DIR="+cfg.Store.Dir)
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = exitCode(max(1, exit.ExitCode()))
	}
	d.show(ctx, s, id, db)
	return err
}

// model returns the flags that select the model: the configured one, one that the environment provides,
// or else the script.
func (d *demo) model(ctx context.Context, cfg *config.Config) []string {
	script := []string{"-model", llm.ScriptModel, "-script", d.script}
	if cfg.Model == llm.ScriptModel {
		return script
	}
	model, err := cfg.DefaultModel(ctx)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%v; using scripted answers\n", err)
	}
	if model == "" {
		return script
	}
	return []string{"-model", model}
}

// show, on a terminal, prints the run's address in the Web UI and waits for Enter. It always prints the
// command that serves the same data again.
func (d *demo) show(ctx context.Context, s *server, id, db string) {
	page := fmt.Sprintf("/namespaces/%s/workflows/%s", namespace, id)
	if ctx.Err() == nil && s.ui != "" && term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stderr.Fd())) {
		fmt.Fprintf(os.Stderr, "\nThe run in the Web UI: %s%s\nPress Enter to stop. ", s.ui, page)
		entered := make(chan struct{})
		go func() {
			defer close(entered)
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		}()
		select {
		case <-entered:
		case <-ctx.Done():
		}
	}
	fmt.Fprintf(os.Stderr, "\nStopping. To see the run again, run: bin/weft-devserver -db %s\nand open http://127.0.0.1:8233%s\n", db, page)
}

// sibling returns the path of a program in this program's directory.
func sibling(name string) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	path := filepath.Join(filepath.Dir(self), name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find %s next to weft-devserver: %w; build it with: make build", name, err)
	}
	return path, nil
}
