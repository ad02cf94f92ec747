// Command embed starts a run of a flow from your own Go program and prints its result:
// embed FLOW [INPUT].
//
// It compiles the flow itself, with specadapter.Load, so that its errors are reported
// before anything starts; it runs no worker. Alternatively, a program can send the document,
// as the other programs in this folder do.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"

	"weft/activities/contract"
	"weft/specadapter"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: embed FLOW [INPUT]")
		os.Exit(2)
	}
	text, err := run(context.Background(), os.Args[1], strings.Join(os.Args[2:], " "))
	if err != nil {
		fmt.Fprintln(os.Stderr, "embed:", err)
		os.Exit(1)
	}
	fmt.Println(text)
}

func run(ctx context.Context, file, input string) (string, error) {
	doc, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	flow, diagnostics := specadapter.Load(filepath.Base(file), doc, specadapter.Options{})
	for _, d := range diagnostics {
		fmt.Fprintln(os.Stderr, d)
	}
	if flow == nil {
		return "", fmt.Errorf("%s cannot be run", file)
	}
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return "", err
	}
	c, err := client.Dial(options)
	if err != nil {
		return "", err
	}
	defer c.Close()
	started, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: contract.TaskQueue}, contract.WorkflowFlow, contract.RunInput{
		V: contract.Version, Input: input, Flow: contract.FlowRef{Plan: flow.Flow, Source: &flow.Source},
	})
	if err != nil {
		return "", err
	}
	var result contract.RunResult
	if err := started.Get(ctx, &result); err != nil {
		// A failure has class, node, place and remedy.
		return "", contract.FailureOf(err)
	}
	if result.ResultText != nil {
		return *result.ResultText, nil
	}
	return string(result.ResultData), nil
}
