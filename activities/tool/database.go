package tool

import (
	"context"
	"errors"
	"fmt"

	"weft/activities/contract"
	"weft/activities/datastore"
	"weft/activities/tool/delivery"
	"weft/workflows/plan"
)

type database struct {
	*datastore.DB
	at *target
}

func dialDatabase(ctx context.Context, at *target) (remote, error) {
	s := datastore.Settings{URL: at.conn.URL, Password: at.conn.Password, MaxBytes: at.settings.MaxResultBytes}
	var err error
	if s.TLS, err = tlsConfig(at.conn); err != nil {
		return nil, connectionFailure(fmt.Sprintf("connection %q: %v", at.id, err), "correct the certificate")
	}
	db, err := datastore.Open(ctx, s)
	return &database{db, at}, at.annotate(err)
}

// annotate adds the target's name to a failure of the database, and returns other errors unchanged.
func (t *target) annotate(err error) error {
	if f, ok := errors.AsType[*contract.Failure](err); ok {
		return t.failure(f.Class, f.Text, f.Remedy)
	}
	return err
}

// checkDatabase returns a failure unless the operator has configured the connection as a database.
func (t *Tools) checkDatabase(c plan.Connection) error {
	if configured, ok := t.settings.Connections[c.ID]; ok && configured.Transport == TransportPostgres {
		return nil
	}
	return connectionFailure(fmt.Sprintf("connection %q is not a database; available connections: %s", c.ID, t.settings.connectionNames()),
		allowRemedy(fmt.Sprintf("%s: {%q: {transport: %s, url: \"postgres://USER@HOST:5432/DATABASE\", password: \"${PASSWORD}\"}}", SettingConnections, c.ID, TransportPostgres)))
}

// list returns the operations of the connection after checking its tables. A change is repeatable if the database has the
// table that stores results by idempotency key.
func (d *database) list(ctx context.Context, c *plan.Connection) ([]contract.ToolSpec, error) {
	specs, err := d.Specs(ctx, c)
	return specs, d.at.annotate(err)
}

func (d *database) call(ctx context.Context, in contract.ToolInput, m Meta) (Result, error) {
	text, failed, err := d.Call(ctx, &in.Connection, in.Name, in.Arguments, m.IdempotencyKey, func() { delivery.MarkSent(ctx, true) })
	return Result{Text: text, Failed: failed}, d.at.annotate(err)
}

func (*database) usable(bool) bool { return true }
func (d *database) close()         { d.Close() }
