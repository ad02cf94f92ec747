// Package datastore reads and changes tables of PostgreSQL.
//
// Input from a flow or a model is passed as parameters of a statement, never as part of its text; names of tables and columns
// come from the flow's schema and are quoted. Every operation is one transaction. If the database has the table [KeyTable], a
// change is recorded under its idempotency key: repeating it returns the first result.
//
// Start at [Open], then [DB.Do].
package datastore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"weft/activities/contract"
	"weft/workflows/plan"
	"weft/workflows/plan/collection"
	"weft/workflows/plan/value"
)

// KeyTable has a row for each change, which the operator may delete after some days.
const KeyTable = "weft_calls"

// KeyTableSQL creates KeyTable.
const KeyTableSQL = "CREATE TABLE " + KeyTable + " (key text PRIMARY KEY, result text, made_at timestamptz NOT NULL DEFAULT now())"

const maxRows = 10_000

// Settings are the settings of a database.
type Settings struct {
	// URL is postgres://USER@HOST:PORT/DATABASE; without sslmode the server's certificate is verified.
	URL, Password string
	// TLS has the operator's certificates; nil means those of the system.
	TLS *tls.Config
	// MaxBytes bounds a result and each message of the server, in bytes.
	MaxBytes int
}

// Check validates the settings.
func (s Settings) Check() error {
	_, err := s.config()
	return err
}

func (s Settings) config() (*pgxpool.Config, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Hostname() == "" || u.User.Username() == "" || strings.Trim(u.Path, "/") == "" {
		return nil, errors.New("must be postgres://USER@HOST:PORT/DATABASE")
	}
	if _, set := u.User.Password(); set {
		return nil, errors.New("contains a password; set it as password")
	}
	q := u.Query()
	if !q.Has("sslmode") {
		q.Set("sslmode", "verify-full")
		u.RawQuery = q.Encode()
	}
	c, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, errors.New("is not the URL of a PostgreSQL database")
	}
	c.ConnConfig.Password = s.Password
	c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec // DISCARD ALL drops prepared statements
	if own := c.ConnConfig.TLSConfig; own != nil && s.TLS != nil {
		if s.TLS.RootCAs != nil {
			own.RootCAs = s.TLS.RootCAs
		}
		own.Certificates = s.TLS.Certificates
	}
	c.ConnConfig.BuildFrontend = func(r io.Reader, w io.Writer) *pgproto3.Frontend {
		f := pgproto3.NewFrontend(r, w)
		f.SetMaxBodyLen(s.MaxBytes + 1<<20)
		return f
	}
	return c, nil
}

// DB is a database. Its methods may be called concurrently.
type DB struct {
	pool     *pgxpool.Pool
	maxBytes int
}

// Open connects to a database.
func Open(ctx context.Context, s Settings) (*DB, error) {
	c, err := s.config()
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(ctx), c)
	if err != nil {
		return nil, err
	}
	d := &DB{pool: pool, maxBytes: s.MaxBytes}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, failure(err)
	}
	return d, nil
}

// Close ends all connections.
func (d *DB) Close() { d.pool.Close() }

// Verify checks that the tables and columns of collections exist, and reports whether changes are recorded by key.
func (d *DB) Verify(ctx context.Context, list []plan.Collection) (keys bool, err error) {
	err = d.within(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(t *tx) error {
		for i := range list {
			if _, err := t.table(&list[i]); err != nil {
				return err
			}
		}
		keys, err = t.keeps()
		return err
	})
	return keys, err
}

// Specs returns the operations of a connection after verifying its tables. A change is repeatable if it is recorded by key.
func (d *DB) Specs(ctx context.Context, c *plan.Connection) ([]contract.ToolSpec, error) {
	keys, err := d.Verify(ctx, c.Collections)
	var specs []contract.ToolSpec
	for i := range c.Operations {
		o := &c.Operations[i]
		specs = append(specs, contract.ToolSpec{Name: o.Name, Schema: []byte(`{"type":"object"}`), Repeatable: keys || !o.Changes()})
	}
	return specs, err
}

// Call runs an operation of a connection. If failed is set, text is an error in the arguments, for the caller.
func (d *DB) Call(ctx context.Context, conn *plan.Connection, name string, args []byte, key string, commit func()) (text string, failed bool, err error) {
	v, err := value.Parse(args)
	if err != nil {
		return err.Error(), true, nil
	}
	c, err := collection.Fill(conn, name, v)
	if err != nil {
		return err.Error(), true, nil
	}
	text, err = d.Do(ctx, c, key, commit)
	if invalid, ok := errors.AsType[Invalid](err); ok {
		return string(invalid), true, nil
	}
	return text, false, err
}

type tx struct {
	ctx context.Context
	pgx.Tx
	db *DB
}

// within runs f in a transaction, which is rolled back unless f commits it.
func (d *DB) within(ctx context.Context, o pgx.TxOptions, f func(*tx) error) error {
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return failure(err)
	}
	defer conn.Release()
	t, err := conn.BeginTx(ctx, o)
	if err != nil {
		return failure(err)
	}
	err = f(&tx{ctx, t, d})
	if rolled := t.Rollback(ctx); rolled != nil && !errors.Is(rolled, pgx.ErrTxClosed) {
		_ = conn.Conn().Close(ctx) // which ends the transaction
	}
	if o.AccessMode == pgx.ReadOnly && !conn.Conn().IsClosed() {
		// A flow's statement may have changed settings of the session, or hold a lock.
		if _, reset := conn.Exec(ctx, "DISCARD ALL"); reset != nil {
			_ = conn.Conn().Close(ctx)
		}
	}
	return failure(err)
}

// Do runs a call. Errors are an [Invalid], for the caller to fix, or a *[contract.Failure]. Do calls commit before it commits
// a change.
func (d *DB) Do(ctx context.Context, c *collection.Call, key string, commit func()) (text string, err error) {
	if !c.Operation.Changes() {
		err = d.within(ctx, pgx.TxOptions{AccessMode: pgx.ReadOnly}, func(t *tx) error {
			text, err = t.run(c)
			return err
		})
		return text, err
	}
	err = d.within(ctx, pgx.TxOptions{}, func(t *tx) error {
		keeps, err := t.keeps()
		if err != nil {
			return err
		}
		if keeps {
			// It waits for an earlier attempt that is still running.
			tag, err := t.Exec(ctx, "INSERT INTO "+KeyTable+" (key) VALUES ($1) ON CONFLICT DO NOTHING", key)
			if err != nil {
				return err
			}
			if tag.RowsAffected() == 0 {
				return t.QueryRow(ctx, "SELECT result FROM "+KeyTable+" WHERE key = $1", key).Scan(&text)
			}
		}
		if text, err = t.run(c); err != nil {
			return err
		}
		if keeps {
			if _, err = t.Exec(ctx, "UPDATE "+KeyTable+" SET result = $2 WHERE key = $1", key, text); err != nil {
				return err
			}
		}
		commit()
		return t.Commit(ctx)
	})
	return text, err
}

// keeps reports whether the database has the table [KeyTable].
func (t *tx) keeps() (there bool, err error) {
	err = t.QueryRow(t.ctx, "SELECT to_regclass($1) IS NOT NULL", KeyTable).Scan(&there)
	return there, err
}

// table is a collection's table: its quoted name, and the quoted names of its columns by member.
type table struct {
	name    string
	columns map[string]string
}

// table finds a collection's table and columns by name, or by name in lower case.
func (t *tx) table(c *plan.Collection) (*table, error) {
	var found *string
	err := t.QueryRow(t.ctx, "SELECT COALESCE(to_regclass(quote_ident($1)), to_regclass(quote_ident(lower($1))))::text", c.Name).Scan(&found)
	if err != nil {
		return nil, err
	}
	if found == nil {
		return nil, missing("the database has no table %q", c.Name)
	}
	name := *found
	rows, err := t.Query(t.ctx, "SELECT attname::text FROM pg_attribute WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped", name)
	if err != nil {
		return nil, err
	}
	columns, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, err
	}
	out, has := &table{name: name, columns: map[string]string{}}, map[string]bool{}
	for _, column := range columns {
		has[column] = true
	}
	for _, m := range collection.Members(c) {
		switch {
		case has[m]:
			out.columns[m] = quote(m)
		case has[strings.ToLower(m)]:
			out.columns[m] = quote(strings.ToLower(m))
		default:
			return nil, missing("the table %s has no column %q", name, m)
		}
	}
	return out, nil
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func missing(format string, args ...any) error {
	return &contract.Failure{Class: contract.ClassConnection, Text: fmt.Sprintf(format, args...), Remedy: "create it, grant the user access to it, or correct datastore_schema"}
}

func (t *tx) run(c *collection.Call) (string, error) {
	s, err := t.statement(c)
	if err != nil {
		return "", err
	}
	rows, err := t.rows(s)
	if err != nil {
		return "", err
	}
	v, err := c.Results(rows)
	if err != nil {
		return "", Invalid(err.Error())
	}
	return string(v.JSON()), nil
}

// statement is SQL with its parameters as text; nil is NULL.
type statement struct {
	sql    strings.Builder
	values [][]byte
}

func (s *statement) add(parts ...string) { s.sql.WriteString(strings.Join(parts, "")) }

// value adds a parameter and returns its placeholder.
func (s *statement) value(v value.Value) string {
	text := []byte(v.Spaced())
	if v.Kind == value.Null {
		text = nil
	}
	s.values = append(s.values, text)
	return fmt.Sprintf("$%d", len(s.values))
}

func (t *tx) statement(c *collection.Call) (*statement, error) {
	s := &statement{}
	if c.Operation.Do == plan.DoQuery {
		return s, s.query(c)
	}
	tab, err := t.table(c.Collection)
	if err != nil {
		return nil, err
	}
	var names, values, sets, all []string
	for _, m := range c.Values {
		column, v := tab.columns[m.Key], s.value(m.Value)
		names, values, sets = append(names, column), append(values, v), append(sets, column+" = "+v)
	}
	for _, m := range c.Members {
		all = append(all, tab.columns[m]+" AS "+quote(m))
	}
	switch c.Operation.Do {
	case plan.DoList:
		s.add("SELECT ", strings.Join(all, ", "), " FROM ", tab.name)
	case plan.DoCreate:
		s.add("INSERT INTO ", tab.name)
		if len(names) == 0 {
			s.add(" DEFAULT VALUES")
		} else {
			s.add(" (", strings.Join(names, ", "), ") VALUES (", strings.Join(values, ", "), ")")
		}
	case plan.DoUpdate:
		s.add("UPDATE ", tab.name, " SET ", strings.Join(sets, ", "))
	case plan.DoDelete:
		s.add("DELETE FROM ", tab.name)
	default:
		return nil, Invalid(fmt.Sprintf("unknown operation %q", c.Operation.Do))
	}
	for i, m := range c.Where {
		s.add([]string{" WHERE ", " AND "}[min(i, 1)], tab.columns[m.Key])
		if m.Value.Kind == value.Null {
			s.add(" IS NULL")
		} else {
			s.add(" = ", s.value(m.Value))
		}
	}
	switch {
	case c.Operation.Do == plan.DoCreate, c.Operation.Do == plan.DoUpdate:
		s.add(" RETURNING ", strings.Join(all, ", "))
	case c.Operation.Do == plan.DoList && c.Operation.Limit > 0:
		s.add(fmt.Sprintf(" LIMIT %d", c.Operation.Limit))
	}
	return s, nil
}

// placeholder matches a placeholder, :NAME, as its group, and the parts of a query that may contain none.
var placeholder = regexp.MustCompile(`(?s)[eE]'(?:[^'\\]|\\.)*'|'[^']*'|"[^"]*"|--[^\n]*|/\*.*?\*/|\$\$.*?\$\$|::|:([\p{L}_][\p{L}\p{N}_]*)`)

// query replaces the placeholders of a query with parameters.
func (s *statement) query(c *collection.Call) error {
	places, unknown := map[string]string{}, ""
	s.add(placeholder.ReplaceAllStringFunc(c.Operation.Query, func(m string) string {
		name := placeholder.FindStringSubmatch(m)[1]
		if name == "" {
			return m
		}
		if places[name] == "" {
			v, ok := (value.Value{Members: c.Values}).Get(name)
			if !ok {
				unknown = name
			}
			places[name] = s.value(v)
		}
		return places[name]
	}))
	if unknown != "" {
		return Invalid(fmt.Sprintf("%s has no value for :%s", collection.Bind, unknown))
	}
	return nil
}

// rows runs a statement and returns its rows as objects.
func (t *tx) rows(s *statement) ([]value.Value, error) {
	r := t.Conn().PgConn().ExecParams(t.ctx, s.sql.String(), s.values, nil, nil, nil)
	out, size := []value.Value{}, 0
	for r.NextRow() {
		row := value.Value{Kind: value.Object}
		for i, f := range r.FieldDescriptions() {
			raw := r.Values()[i]
			size += len(f.Name) + len(raw) + 8
			row.Members = append(row.Members, value.Member{Key: f.Name, Value: valueOf(f.DataTypeOID, raw)})
		}
		if out = append(out, row); size > t.db.maxBytes || len(out) > maxRows {
			_ = t.Conn().Close(t.ctx) // the rest is not read
			_, _ = r.Close()
			return nil, &contract.Failure{Class: contract.ClassTooLarge, Text: fmt.Sprintf("the result has more than %d rows or %d bytes", maxRows, t.db.maxBytes), Remedy: "set limit, or ask for less"}
		}
	}
	_, err := r.Close()
	return out, err
}

// valueOf converts a column's text: numbers, booleans and JSON as such, and all else as text, including numbers out of range.
func valueOf(oid uint32, raw []byte) value.Value {
	if raw == nil {
		return value.Value{}
	}
	switch oid {
	case pgtype.BoolOID:
		return value.Of(string(raw) == "t")
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.Float4OID, pgtype.Float8OID, pgtype.NumericOID, pgtype.JSONOID, pgtype.JSONBOID:
		// A number out of the range of doubles stays text.
		if v, err := value.Parse(raw); err == nil && (v.Kind != value.Double || !math.IsInf(v.Float, 0)) {
			return v
		}
	}
	return value.Of(string(raw))
}

// Invalid is an error in a call, for the caller.
type Invalid string

func (e Invalid) Error() string { return string(e) }

// failure classifies an error. A failed transaction has no effect, so transient errors can be retried.
func failure(err error) error {
	var classified *contract.Failure
	var invalid Invalid
	var pg *pgconn.PgError
	var large *pgproto3.ExceededMaxBodyLenErr
	switch {
	case err == nil, errors.As(err, &classified), errors.As(err, &invalid), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &large):
		return &contract.Failure{Class: contract.ClassTooLarge, Text: "a row is too large", Remedy: "ask for less"}
	case !errors.As(err, &pg):
		f := &contract.Failure{Class: contract.ClassUnavailable, Text: err.Error(), Remedy: "check that the database is up and reachable from the worker"}
		if strings.Contains(f.Text, "refused TLS") {
			f.Class, f.Remedy = contract.ClassConnection, "give the server a certificate, or add ?sslmode=disable to the url if the network is trusted"
		}
		return f
	}
	text := fmt.Sprintf("%s (SQLSTATE %s)", pg.Message, pg.Code)
	switch pg.Code[:min(2, len(pg.Code))] {
	case "08", "40", "53", "57", "58", "XX":
		return &contract.Failure{Class: contract.ClassUnavailable, Text: text}
	case "28":
		return &contract.Failure{Class: contract.ClassDenied, Text: text, Remedy: "correct the user of the url, and password"}
	case "3D":
		return &contract.Failure{Class: contract.ClassConnection, Text: text, Remedy: "correct the database of the url"}
	}
	if pg.Code == "42501" {
		return &contract.Failure{Class: contract.ClassDenied, Text: text, Remedy: "grant the user the privilege"}
	}
	return Invalid(text)
}
