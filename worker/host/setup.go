package host

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/urfave/cli/v3"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"google.golang.org/protobuf/types/known/durationpb"

	"weft/activities"
	"weft/activities/contract"
	"weft/worker/config"
)

// minRetention is the minimum retention that a server accepts by default.
const minRetention = 24 * time.Hour

const retryInterval = time.Second

func (p *program) setupCommand() *cli.Command {
	var retention, wait time.Duration
	return p.command("setup", "create the namespace and the search attributes",
		"Creates the namespace (TEMPORAL_NAMESPACE) of a self-hosted Temporal, and the search attributes\nof runs. Existing ones are not changed.",
		p.configured(func(ctx context.Context, cfg *config.Config) error {
			if retention < minRetention {
				return config.Problems{fmt.Sprintf("-retention is %v; it must be at least %v", retention, minRetention)}
			}
			return retry(ctx, wait, func() (again bool, err error) {
				err = setUp(ctx, cfg, retention, p.stdout)
				return !is[config.Problems](err), err
			})
		}),
		&cli.DurationFlag{Name: "retention", Usage: "how long a new namespace keeps closed runs, as `AGE`", Value: 72 * time.Hour, Destination: &retention},
		waitFlag(&wait, "how long to wait for Temporal to start, as `TIME`"))
}

// waitFlag is the flag that limits how long a command waits for another program to start.
func waitFlag(p *time.Duration, text string) cli.Flag {
	return &cli.DurationFlag{Name: "wait", Usage: text, Value: 30 * time.Second, Destination: p}
}

// retry makes attempts until one succeeds, must not be repeated, or wait has elapsed.
func retry(ctx context.Context, wait time.Duration, attempt func() (again bool, err error)) error {
	for deadline := time.Now().Add(wait); ; {
		again, err := attempt()
		if err == nil || !again || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(retryInterval):
		}
	}
}

// setUp makes one attempt to create a missing namespace and its missing search attributes. A new namespace takes seconds to appear.
func setUp(ctx context.Context, cfg *config.Config, retention time.Duration, stdout io.Writer) error {
	t, err := cfg.Dial(ctx, log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return err
	}
	defer t.Client.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if err := createNamespace(ctx, t, retention, stdout); err != nil {
		return err
	}
	state, err := activities.NewAttributes(t.Client).Of(ctx, t.Namespace)
	if err != nil {
		return err
	}
	if len(state.Wrong) > 0 {
		return config.Problems{fmt.Sprintf("search attributes of a type other than Keyword: %s; remove them with: temporal operator search-attribute remove", strings.Join(state.Wrong, ", "))}
	}
	if len(state.Missing) > 0 {
		if err := AddAttributes(ctx, t.Client, t.Namespace, state.Missing); err != nil {
			return err
		}
		fmt.Fprintf(stdout, "worker: namespace %s: added search attributes %s\n", t.Namespace, strings.Join(state.Missing, ", "))
	}
	// Check that the frontend accepts requests for the namespace; otherwise it would reject a worker.
	_, err = t.Client.WorkflowService().CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: t.Namespace, Query: contract.Attributes[0] + ` = "none"`})
	if err != nil {
		return fmt.Errorf("namespace %s is not ready: %w", t.Namespace, err)
	}
	fmt.Fprintf(stdout, "worker: namespace %s at %s is ready\n", t.Namespace, t.Address)
	return nil
}

func createNamespace(ctx context.Context, t *config.Temporal, retention time.Duration, stdout io.Writer) error {
	_, err := t.Client.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: t.Namespace})
	if !is[*serviceerror.NamespaceNotFound](err) {
		return err
	}
	_, err = t.Client.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: t.Namespace, WorkflowExecutionRetentionPeriod: durationpb.New(retention), Description: "Weft"})
	switch {
	case is[*serviceerror.NamespaceAlreadyExists](err):
		return nil
	case is[*serviceerror.PermissionDenied](err):
		return config.Problems{fmt.Sprintf("cannot create namespace %s: %v; ask the operator of your Temporal to create it", t.Namespace, err)}
	case err != nil:
		return fmt.Errorf("create namespace %s: %w", t.Namespace, err)
	}
	fmt.Fprintf(stdout, "worker: created namespace %s with a retention of %v\n", t.Namespace, retention)
	return nil
}

// AddAttributes adds search attributes of runs to a namespace. The error is [config.Problems] if that is not permitted.
func AddAttributes(ctx context.Context, c client.Client, namespace string, names []string) error {
	add := map[string]enumspb.IndexedValueType{}
	for _, name := range names {
		add[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	_, err := c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: add})
	switch {
	case err == nil || is[*serviceerror.AlreadyExists](err):
		return nil
	case is[*serviceerror.PermissionDenied](err) || is[*serviceerror.Unimplemented](err):
		return config.Problems{fmt.Sprintf("cannot add search attributes to namespace %s: %v; ask its operator to run: %s; on Temporal Cloud: tcld namespace search-attributes add --namespace %s --search-attribute %s=Keyword",
			namespace, err, activities.RegisterCommand(namespace, names...), namespace, strings.Join(names, "=Keyword --search-attribute "))}
	}
	return fmt.Errorf("add search attributes to namespace %s: %w", namespace, err)
}
