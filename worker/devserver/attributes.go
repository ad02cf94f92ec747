package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"weft/activities/contract"
)

// addTimeout bounds adding search attributes to a database of an earlier build.
const addTimeout = 20 * time.Second

// keywords are the search attributes of runs, with their type.
func keywords() map[string]enumspb.IndexedValueType {
	out := map[string]enumspb.IndexedValueType{}
	for _, name := range contract.Attributes {
		out[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	return out
}

// addAttributes adds the search attributes of runs to a namespace of an earlier build, and waits until all services know them.
func addAttributes(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, addTimeout)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Namespace: namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return fmt.Errorf("list search attributes: %w", err)
	}
	defer c.Close()
	have, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("list search attributes: %w", err)
	}
	missing := keywords()
	for name := range have.GetCustomAttributes() {
		delete(missing, name)
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{Namespace: namespace, SearchAttributes: missing})
	if err != nil {
		return fmt.Errorf("add search attributes: %w", err)
	}
	select {
	case <-time.After(cacheRefresh + time.Second):
	case <-ctx.Done():
	}
	return ctx.Err()
}
