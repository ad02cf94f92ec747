package main

import (
	stdsql "database/sql"
	"path/filepath"
	"strings"
	"testing"
)

func TestIndexes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "t.db")
	store, err := openStore(file)
	if err != nil {
		t.Fatal(err)
	}
	db, err := stdsql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var left, all, partial int
	if err := db.QueryRow("SELECT count(*) FROM (" + inefficient + ")").Scan(&left); err != nil {
		t.Fatal(err)
	}
	const count = "SELECT count(*), sum(sql LIKE '% WHERE % IS NOT NULL') FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql > ''"
	if err := db.QueryRow(count).Scan(&all, &partial); err != nil {
		t.Fatal(err)
	}
	if left != 0 || all != 24 || partial != 16 {
		t.Errorf("%d inefficient indexes left of %d; %d are partial", left, all, partial)
	}
	for condition, index := range map[string]string{
		"status = 1 AND parent_workflow_id IS NULL AND (Keyword01 = 'x' OR Keyword01 IS NULL)": "by_status",
		"Keyword01 = 'x'": "by_keyword_01", "TemporalScheduledById = 'x'": "by_temporal_scheduled_by_id", "parent_workflow_id = 'x'": "by_parent_workflow_id",
	} {
		var id, parent, unused int
		var plan string
		query := "EXPLAIN QUERY PLAN SELECT * FROM executions_visibility WHERE namespace_id = 'n' AND " + condition + " ORDER BY coalesce(close_time, '9999-12-31 23:59:59+00:00') DESC, start_time DESC, run_id LIMIT 10"
		if err := db.QueryRow(query).Scan(&id, &parent, &unused, &plan); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(plan, index+" ") {
			t.Errorf("query plan for %s: %s", condition, plan)
		}
	}
	var journal string
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&journal); err != nil {
		t.Fatal(err)
	}
	if pages := store.ConnectAttributes["wal_autocheckpoint"]; journal != "wal" || pages != "8000" {
		t.Errorf("journal %q, checkpoints every %s pages", journal, pages)
	}
}
