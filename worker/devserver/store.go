package main

import (
	stdsql "database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"go.temporal.io/server/common/config"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// inMemory as the name of a database keeps it in memory.
const inMemory = ":memory:"

// clusterName is written into every database; it can never change.
const clusterName = "active"

// openStore names the database for the server and makes it if there is none. A file is
// written under another name first, so that a process that dies here leaves no database
// without its schema.
func openStore(db string) (*config.SQL, error) {
	if db == inMemory {
		store := sqliteStore(fmt.Sprintf("memory-%d", os.Getpid()), map[string]string{"mode": "memory", "cache": "shared"})
		return store, makeNamespace(store)
	}
	store := sqliteStore(db, map[string]string{"mode": "rwc", "journal_mode": "wal", "synchronous": "1",
		// By default 2 MB of the database are kept in memory, and every 4 MB that are written are copied into the file.
		"cache_size": "-65536", "wal_autocheckpoint": "8000", "temp_store": "memory"})
	_, err := os.Stat(db)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := createDatabase(db); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := dropIndexes(db); err != nil {
		return nil, fmt.Errorf("open database %q: %w; %s", db, err, noDatabase)
	}
	return store, makeNamespace(store)
}

// noDatabase is what to do where a file is none of a server's.
const noDatabase = "if the file is no Temporal database, name another with -db"

// unused are indexes of lists of runs by what nothing here filters by. Every start and every
// end of a run writes into all of the 58 that the server's schema has.
const unused = `SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility' AND name GLOB 'by_*'
 AND name NOT GLOB 'by_keyword_*' AND name NOT IN ('by_execution_time', 'by_workflow_id', 'by_workflow_type', 'by_status', 'by_task_queue',
 'by_parent_workflow_id', 'by_parent_run_id', 'by_root_workflow_id', 'by_root_run_id', 'by_temporal_namespace_division',
 'by_temporal_scheduled_start_time', 'by_temporal_scheduled_by_id', 'by_temporal_schedule_paused')`

// dropIndexes drops the indexes that cost every run something and serve no list. A list
// that would use one is still right, and reads more. The server's plugin registers the driver.
func dropIndexes(file string) error {
	db, err := stdsql.Open("sqlite", "file:"+file)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Query(unused)
	if err != nil {
		return err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return err
		}
		names = append(names, name)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for _, name := range names {
		if _, err := db.Exec(`DROP INDEX "` + name + `"`); err != nil {
			return err
		}
	}
	return db.Close()
}

func sqliteStore(name string, attributes map[string]string) *config.SQL {
	return &config.SQL{PluginName: sqliteplugin.PluginName, DatabaseName: name, ConnectAttributes: attributes}
}

func createDatabase(db string) error {
	fresh := db + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make database: %w", err)
	}
	if err := sqliteschema.SetupSchema(sqliteStore(fresh, map[string]string{"mode": "rwc"})); err != nil {
		return fmt.Errorf("make database %q: %w", db, err)
	}
	if err := os.Rename(fresh, db); err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	return nil
}

// makeNamespace makes the namespace, with the search attributes of runs, unless the database
// has it.
func makeNamespace(store *config.SQL) error {
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, namespace, false, keywords())
	if err != nil {
		return fmt.Errorf("describe namespace %q: %w", namespace, err)
	}
	if err := sqliteschema.CreateNamespaces(store, ns); err != nil {
		return fmt.Errorf("make namespace %q in database %q: %w; %s", namespace, store.DatabaseName, err, noDatabase)
	}
	return nil
}

// lock keeps a second server away from a database. The kernel frees it when the process
// ends, however it ends.
func lock(db string) (*os.File, error) {
	if db == inMemory {
		return nil, nil
	}
	if err := os.MkdirAll(filepath.Dir(db), 0o755); err != nil {
		return nil, fmt.Errorf("make the database's folder: %w", err)
	}
	f, err := os.OpenFile(db+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock database: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("database %q is in use by another weft-devserver; stop that one, or name another file with -db", db)
		}
		return nil, fmt.Errorf("lock database %q: %w", db, err)
	}
	return f, nil
}
