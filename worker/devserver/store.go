package main

import (
	"context"
	"crypto/rand"
	stdsql "database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/server/common/config"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	sqliteschema "go.temporal.io/server/schema/sqlite"

	"weft/activities"
	"weft/activities/contract"
	"weft/worker/codec"
	"weft/worker/host"
)

const inMemory = ":memory:"

// clusterName is stored in every database; it must never change.
const clusterName = "active"

// sealKey returns the key that seals the grants of runs. It is stored next to the database and created if it does not
// exist. For a database in memory the key is not stored: its runs do not outlive this process.
func sealKey(db string) (*codec.Key, error) {
	secret := make([]byte, codec.KeyBytes)
	if _, err := rand.Read(secret); err != nil || db == inMemory {
		return &codec.Key{ID: "dev", Secret: secret}, err
	}
	file := db + ".key"
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(secret)
		return &codec.Key{ID: "dev", Secret: secret}, errors.Join(err, f.Close())
	}
	if errors.Is(err, fs.ErrExist) {
		secret, err = os.ReadFile(file)
	}
	if err == nil && len(secret) != codec.KeyBytes {
		err = fmt.Errorf("%s has %d bytes, expected a key of %d; remove the file", file, len(secret), codec.KeyBytes)
	}
	return &codec.Key{ID: "dev", Secret: secret}, err
}

// openStore returns the server's database configuration and creates the database if it does not exist. A
// file is first written under a temporary name, so that a crash leaves no database without its schema.
func openStore(db string) (*config.SQL, error) {
	if db == inMemory {
		name := fmt.Sprintf("memory-%d", os.Getpid())
		store := sqliteStore(name, map[string]string{"mode": "memory", "cache": "shared", "temp_store": "memory"})
		if err := makeNamespace(store); err != nil {
			return nil, err
		}
		return store, replaceIndexes(name + "?mode=memory&cache=shared")
	}
	store := sqliteStore(db, map[string]string{"mode": "rwc", "journal_mode": "wal", "synchronous": "1",
		// By default, SQLite caches 2 MB and writes a checkpoint every 4 MB.
		"cache_size": "-65536", "wal_autocheckpoint": "8000", "temp_store": "memory"})
	_, err := os.Stat(db)
	if errors.Is(err, fs.ErrNotExist) {
		err = createDatabase(db)
	}
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := replaceIndexes(db); err != nil {
		return nil, fmt.Errorf("open database %q: %w; %s", db, err, noDatabase)
	}
	return store, makeNamespace(store)
}

// noDatabase is the remedy for a file that is not a server's database.
const noDatabase = "if the file is not a Temporal database, use another with -db"

// inefficient selects visibility indexes, each with the statement that creates its replacement, if any. Every start and close of a run
// writes to all 58 indexes of the server's schema: most are used by no query here, and others index columns that few runs set.
const inefficient = `SELECT name, CASE WHEN name GLOB 'by_keyword_*' OR name GLOB 'by_parent_*' OR name IN ('by_temporal_namespace_division',
  'by_temporal_scheduled_start_time', 'by_temporal_scheduled_by_id', 'by_temporal_schedule_paused')
  THEN sql || ' WHERE ' || (SELECT name FROM pragma_index_info(indexes.name) WHERE seqno = 1) || ' IS NOT NULL' ELSE '' END
 FROM sqlite_master AS indexes WHERE type = 'index' AND tbl_name = 'executions_visibility' AND name GLOB 'by_*' AND sql NOT LIKE '% WHERE %'
 AND name NOT IN ('by_execution_time', 'by_workflow_id', 'by_workflow_type', 'by_status', 'by_task_queue', 'by_root_workflow_id', 'by_root_run_id')`

// replaceIndexes replaces the inefficient indexes. A query that would use a dropped index still works, but reads more rows.
// The server's SQLite plugin registers the driver.
func replaceIndexes(file string) error {
	db, err := stdsql.Open("sqlite", "file:"+file)
	if err != nil {
		return err
	}
	defer db.Close()
	rows, err := db.Query(inefficient)
	if err != nil {
		return err
	}
	defer rows.Close()
	change := "BEGIN"
	for rows.Next() {
		var name, replacement string
		if err := rows.Scan(&name, &replacement); err != nil {
			return err
		}
		change += fmt.Sprintf("; DROP INDEX %q; %s", name, replacement)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	if _, err := db.Exec(change + "; COMMIT"); err != nil {
		return err
	}
	return db.Close()
}

func sqliteStore(name string, attributes map[string]string) *config.SQL {
	return &config.SQL{PluginName: sqliteplugin.PluginName, DatabaseName: name, ConnectAttributes: attributes}
}

func createDatabase(db string) error {
	fresh := db + ".new"
	if err := os.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := sqliteschema.SetupSchema(sqliteStore(fresh, map[string]string{"mode": "rwc"})); err != nil {
		return fmt.Errorf("create database %q: %w", db, err)
	}
	return os.Rename(fresh, db)
}

// makeNamespace creates the namespace, with the search attributes of runs, if it does not exist.
func makeNamespace(store *config.SQL) error {
	ns, err := sqliteschema.NewNamespaceConfig(clusterName, namespace, false, keywords())
	if err != nil {
		return fmt.Errorf("describe namespace %q: %w", namespace, err)
	}
	if err := sqliteschema.CreateNamespaces(store, ns); err != nil {
		return fmt.Errorf("create namespace %q in database %q: %w; %s", namespace, store.DatabaseName, err, noDatabase)
	}
	return nil
}

// lock prevents a second server from using a database. The kernel releases it when the process exits.
func lock(db string) (*os.File, error) {
	if db == inMemory {
		return nil, nil
	}
	if err := os.MkdirAll(filepath.Dir(db), 0o755); err != nil {
		return nil, fmt.Errorf("create the database's directory: %w", err)
	}
	f, err := os.OpenFile(db+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock database: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("database %q is in use by another weft-devserver; stop that one, or use another file with -db", db)
		}
		return nil, fmt.Errorf("lock database %q: %w", db, err)
	}
	return f, nil
}

// addTimeout bounds the addition of search attributes to a database of an earlier build.
const addTimeout = 20 * time.Second

// keywords returns the search attributes of runs with their type.
func keywords() map[string]enumspb.IndexedValueType {
	out := map[string]enumspb.IndexedValueType{}
	for _, name := range contract.Attributes {
		out[name] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	}
	return out
}

// addAttributes adds the search attributes of runs to a namespace of an earlier build, and waits until all services have reloaded it.
func addAttributes(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, addTimeout)
	defer cancel()
	c, err := client.DialContext(ctx, client.Options{HostPort: address, Namespace: namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return fmt.Errorf("list search attributes: %w", err)
	}
	defer c.Close()
	have, err := activities.NewAttributes(c).Of(ctx, namespace)
	if err != nil || len(have.Missing) == 0 {
		return err
	}
	if err := host.AddAttributes(ctx, c, namespace, have.Missing); err != nil {
		return err
	}
	select {
	case <-time.After(cacheRefresh + time.Second):
	case <-ctx.Done():
	}
	return ctx.Err()
}
