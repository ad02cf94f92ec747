package main

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// TestSearchAttributes checks that a new database has the search attributes, and that they are added to one that an
// earlier build created without them.
func TestSearchAttributes(t *testing.T) {
	old := filepath.Join(t.TempDir(), "old.db")
	if err := createDatabase(old); err != nil {
		t.Fatal(err)
	}
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, namespace, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sqliteschema.CreateNamespaces(sqliteStore(old, map[string]string{"mode": "rwc"}), ns); err != nil {
		t.Fatal(err)
	}
	for name, db := range map[string]string{"new": inMemory, "old": old} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, start(t, "-db", db, "-port", "0", "-ui-port", "0", "-worker=false").ready.Address)
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			list, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
			if err != nil {
				t.Fatal(err)
			}
			for attribute, kind := range keywords() {
				if got := list.GetCustomAttributes()[attribute]; got != kind {
					t.Errorf("type of %s = %v, want %v", attribute, got, kind)
				}
			}
			// The server caches a namespace for some seconds.
			for ready := time.Now(); ; time.Sleep(50 * time.Millisecond) {
				_, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{Query: `WeftStatus = "running"`})
				if err == nil {
					t.Logf("usable %v after the ready line", time.Since(ready).Round(time.Millisecond))
					break
				}
				if ctx.Err() != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
