package main

import (
	"context"
	stdsql "database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"reflect"

	"github.com/jmoiron/sqlx"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/metrics"
	"go.temporal.io/server/common/persistence/sql"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/resolver"
)

// maxKept bounds the statements that a connection keeps. The server has about eighty; those of
// lists of runs are as many as there are queries.
const maxKept = 200

// keepStatements makes the server's only connection keep its statements compiled: SQLite
// spends as long on compiling one as on running it, and the server sends the same ones all the
// time. The server's plugin opens its pool by a driver's name alone and hands it to nobody, so
// the pool is taken from the plugin's own value and gets another source of connections.
func keepStatements(store *config.SQL) (*stdsql.DB, error) {
	db, err := sql.NewSQLAdminDB(sqlplugin.DbKindUnknown, store, resolver.NewNoopResolver(), log.NewNoopLogger(), metrics.NoopMetricsHandler)
	if err != nil {
		return nil, err
	}
	field := reflect.Indirect(reflect.ValueOf(db)).FieldByName("db")
	if !field.IsValid() || field.Type() != reflect.TypeFor[*sqlx.DB]() {
		return nil, fmt.Errorf("the server's plugin %T has no pool of connections as db", db)
	}
	pool := (*sqlx.DB)(field.UnsafePointer())
	source := keeping{driver: pool.Driver(), dsn: dsn(store)}
	if err := pool.Close(); err != nil {
		return nil, err
	}
	pool.DB = stdsql.OpenDB(source)
	pool.SetMaxOpenConns(1)
	return pool.DB, nil
}

// dsn is how the driver is told of a database and its settings.
func dsn(store *config.SQL) string {
	q := url.Values{"_time_format": {"sqlite"}}
	for key, value := range store.ConnectAttributes {
		if key == "mode" {
			q.Set(key, value)
		} else {
			q.Add("_pragma", key+"="+value)
		}
	}
	return "file:" + store.DatabaseName + "?" + q.Encode()
}

// keeping opens connections that keep their statements.
type keeping struct {
	driver driver.Driver
	dsn    string
}

func (k keeping) Driver() driver.Driver { return k.driver }

func (k keeping) Connect(context.Context) (driver.Conn, error) {
	c, err := k.driver.Open(k.dsn)
	if err != nil {
		return nil, err
	}
	s, ok := c.(sqliteConn)
	if !ok {
		c.Close()
		return nil, fmt.Errorf("connections of the driver are %T", c)
	}
	return &keeper{sqliteConn: s, idle: map[string]statement{}}, nil
}

// sqliteConn is what a connection of the driver can do and package sql uses.
type sqliteConn interface {
	driver.Conn
	driver.ExecerContext
	driver.QueryerContext
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// keeper is a connection that keeps statements. Package sql lets one goroutine at a time use it.
type keeper struct {
	sqliteConn
	// idle are the statements that nobody uses, by their text.
	idle map[string]statement
}

// take gives a statement to one user.
func (k *keeper) take(ctx context.Context, query string) (statement, error) {
	if s, ok := k.idle[query]; ok {
		delete(k.idle, query)
		return s, nil
	}
	s, err := k.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	return s.(statement), nil
}

// give takes a statement back. One that failed is not used again.
func (k *keeper) give(query string, s statement, err error) {
	if _, twice := k.idle[query]; twice || err != nil || len(k.idle) >= maxKept {
		s.Close()
		return
	}
	k.idle[query] = s
}

func (k *keeper) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := k.take(ctx, query)
	if err != nil {
		return nil, err
	}
	r, err := s.ExecContext(ctx, args)
	k.give(query, s, err)
	return r, err
}

func (k *keeper) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := k.take(ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := s.QueryContext(ctx, args)
	if err != nil {
		k.give(query, s, err)
		return nil, err
	}
	return &keptRows{Rows: rows, done: func(err error) { k.give(query, s, err) }}, nil
}

// Close closes the statements with their connection.
func (k *keeper) Close() error {
	for _, s := range k.idle {
		s.Close()
	}
	return k.sqliteConn.Close()
}

// keptRows are the rows of a statement that is given back once they are read.
type keptRows struct {
	driver.Rows
	done func(error)
}

func (r *keptRows) Close() error {
	err := r.Rows.Close()
	if r.done != nil {
		r.done(err)
		r.done = nil
	}
	return err
}
