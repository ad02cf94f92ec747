package main

import (
	stdsql "database/sql"
	"path/filepath"
	"testing"
)

func TestUnusedIndexesAreDropped(t *testing.T) {
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
	var left, all int
	if err := db.QueryRow("SELECT count(*) FROM (" + unused + ")").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow("SELECT count(*) FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql > ''").Scan(&all); err != nil {
		t.Fatal(err)
	}
	if left != 0 || all != 24 {
		t.Errorf("%d unused indexes are left, of %d", left, all)
	}
	var journal string
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&journal); err != nil {
		t.Fatal(err)
	}
	if pages := store.ConnectAttributes["wal_autocheckpoint"]; journal != "wal" || pages != "8000" {
		t.Errorf("journal %q, checkpoints every %s pages", journal, pages)
	}
}
