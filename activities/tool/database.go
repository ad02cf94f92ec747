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
	return &database{db, at}, at.named(err)
}

// named is an error of the database with the target's name.
func (t *target) named(err error) error {
	if f, ok := errors.AsType[*contract.Failure](err); ok {
		return t.failure(f.Class, f.Text, f.Remedy)
	}
	return err
}

// checkDatabase refuses a connection that the operator has not made a database.
func (t *Tools) checkDatabase(c plan.Connection) error {
	if own, ok := t.settings.Connections[c.ID]; ok && own.Transport == TransportPostgres {
		return nil
	}
	return connectionFailure(fmt.Sprintf("connection %q is not one to a database; known: %s", c.ID, t.settings.known()),
		allowRemedy(fmt.Sprintf("%s: {%q: {transport: %s, url: \"postgres://USER@HOST:5432/DATABASE\", password: \"${PASSWORD}\"}}", SettingConnections, c.ID, TransportPostgres)))
}

// list are the operations of the connection, once its tables are looked at. A change may be repeated where the
// database keeps what was made under which idempotency key.
func (d *database) list(ctx context.Context, c *plan.Connection) ([]contract.ToolSpec, error) {
	specs, err := d.Specs(ctx, c)
	return specs, d.at.named(err)
}

func (d *database) call(ctx context.Context, in contract.ToolInput, m Meta) (Result, error) {
	text, failed, err := d.Call(ctx, &in.Connection, in.Name, in.Arguments, m.IdempotencyKey, func() { delivery.MarkSent(ctx, true) })
	return Result{Text: text, Failed: failed}, d.at.named(err)
}

func (*database) usable(bool) bool { return true }
func (d *database) close()         { d.Close() }
