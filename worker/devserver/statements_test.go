package main

import (
	"context"
	stdsql "database/sql"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// kept opens a fresh database as the server does, and gives its pool.
func kept(t *testing.T) *stdsql.DB {
	t.Helper()
	store, err := openStore(filepath.Join(t.TempDir(), "t.db"))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := keepStatements(store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	return pool
}

// idleOf are the statements that the only connection keeps.
func idleOf(t *testing.T, db *stdsql.DB) []string {
	t.Helper()
	c, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var out []string
	if err := c.Raw(func(c any) error {
		for query := range c.(*keeper).idle {
			out = append(out, query)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func TestStatementsAreKept(t *testing.T) {
	db := kept(t)
	const insert, ask = "INSERT INTO words VALUES (?)", "SELECT word FROM words WHERE word >= ? ORDER BY word"
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := db.Exec(query, args...); err != nil {
			t.Fatal(err)
		}
	}
	words := func(from string) string {
		t.Helper()
		rows, err := db.Query(ask, from)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		var out []string
		for rows.Next() {
			var word string
			if err := rows.Scan(&word); err != nil {
				t.Fatal(err)
			}
			out = append(out, word)
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return strings.Join(out, " ")
	}
	exec("CREATE TABLE words (word TEXT PRIMARY KEY)")
	for _, word := range []string{"c", "a", "b"} {
		exec(insert, word)
	}
	if got := words("b") + "; " + words("a") + "; " + words("x"); got != "b c; a b c; " {
		t.Errorf("the words are %q", got)
	}
	// One that failed is compiled anew, and the connection goes on.
	if _, err := db.Exec(insert, "a"); err == nil {
		t.Error("a word is there twice")
	}
	if got := idleOf(t, db); !slices.Contains(got, ask) || slices.Contains(got, insert) {
		t.Errorf("after a failure kept are %q", got)
	}
	exec(insert, "d")
	// The table changes under its statements.
	exec("ALTER TABLE words ADD COLUMN note TEXT")
	exec("DELETE FROM words WHERE word = ?", "c")
	if got := words("a"); got != "a b d" {
		t.Errorf("afterwards the words are %q", got)
	}
	// Rows that are read in part, and a statement that is used twice at the same time.
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	outer, err := tx.Query(ask, "a")
	if err != nil {
		t.Fatal(err)
	}
	for outer.Next() {
		var a, b string
		if err := outer.Scan(&a); err != nil {
			t.Fatal(err)
		}
		if err := tx.QueryRow(ask, a).Scan(&b); err != nil {
			t.Fatal(err)
		}
		all = append(all, a+b)
	}
	if err := outer.Close(); err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(all, " "); got != "aa bb dd" {
		t.Errorf("one within the other the words are %q", got)
	}
	// However many statements there are, some are kept.
	for i := range maxKept + 10 {
		exec(fmt.Sprintf("DELETE FROM words WHERE word = 'w%d'", i))
	}
	if n := len(idleOf(t, db)); n != maxKept {
		t.Errorf("%d statements are kept", n)
	}
}

func TestIndexesOfNoList(t *testing.T) {
	db := kept(t)
	var left, all int
	if err := db.QueryRow("SELECT count(*) FROM (" + unused + ")").Scan(&left); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow("SELECT count(*) FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility' AND sql > ''").Scan(&all); err != nil {
		t.Fatal(err)
	}
	if left != 0 || all != 24 {
		t.Errorf("%d indexes that nobody uses are left, of %d", left, all)
	}
	var journal string
	var pages int
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&journal); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow("PRAGMA wal_autocheckpoint").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	if journal != "wal" || pages != 8000 {
		t.Errorf("journal %q, checkpoints every %d pages", journal, pages)
	}
}
