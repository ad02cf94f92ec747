package datastore_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"weft/activities/contract"
	"weft/activities/datastore"
	"weft/tests/harness"
	"weft/workflows/plan"
	"weft/workflows/plan/collection"
	"weft/workflows/plan/value"
)

func shop() plan.Connection {
	where := []plan.Condition{{Member: "title", Value: json.RawMessage(`"{{name}}"`)}}
	return plan.Connection{
		Collections: []plan.Collection{{Name: "Products", Schema: json.RawMessage(`{"properties": {"ID": {"type": "integer"}, "title": {}, "price": {}, "odd \" name": {}}}`)}},
		Operations: []plan.Operation{
			{Name: "all", Do: plan.DoList, Collection: "Products"},
			{Name: "one", Do: plan.DoList, Collection: "Products", Where: where, Limit: 1, One: true},
			{Name: "add", Do: plan.DoCreate, Collection: "Products"},
			{Name: "set", Do: plan.DoUpdate, Collection: "Products", Where: where},
			{Name: "drop", Do: plan.DoDelete, Collection: "Products", Where: where},
			{Name: "cheap", Do: plan.DoQuery, Query: `SELECT count(*) AS "n:x", ':no' AS t FROM products WHERE price < :most::numeric -- :no`},
			{Name: "dear", Do: plan.DoQuery, Query: `SELECT title FROM products WHERE price >= :größe`},
			{Name: "entitled", Do: plan.DoList, Collection: "Products", Where: []plan.Condition{{Member: "title", Value: json.RawMessage(`"{{ 名前 }}"`)}}},
			{Name: "write", Do: plan.DoQuery, Query: "DELETE FROM products"},
			{Name: "session", Do: plan.DoQuery, Query: "SET search_path = nowhere"},
			{Name: "much", Do: plan.DoQuery, Query: "SELECT repeat('x', 1000) FROM generate_series(1, 5000)"},
			{Name: "row", Do: plan.DoQuery, Query: "SELECT repeat('x', 3000000)"},
			{Name: "named", Do: plan.DoList, Collection: "{{name}}"},
		},
	}
}

func TestDatastore(t *testing.T) {
	t.Parallel()
	ctx, admin := context.Background(), harness.Postgres(t)
	url := admin.URL
	admin.Run(t, `CREATE TABLE products (id int PRIMARY KEY, title text NOT NULL, price numeric DEFAULT 0.1, "odd "" name" text)`)
	db, err := datastore.Open(ctx, datastore.Settings{URL: url, Password: "secret", MaxBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, commits := shop(), 0
	do := func(op, args, key string) (string, error) {
		t.Helper()
		v, err := value.Parse([]byte(args))
		if err != nil {
			t.Fatal(err)
		}
		c, err := collection.Fill(&conn, op, v)
		if err != nil {
			return err.Error(), nil
		}
		return db.Do(ctx, c, key, func() { commits++ })
	}
	for _, tt := range []struct{ op, args, want string }{
		{"add", `{"entity": {"ID": 1, "title": "'; DROP TABLE products; --"}}`, `{"created_entity":{"ID":1,"title":"'; DROP TABLE products; --","price":0.1,"odd \" name":null}}`},
		{"add", `{"entity": {"ID": 2, "title": "tea", "price": 3.25, "odd \" name": "x"}}`, `{"created_entity":{"ID":2,"title":"tea","price":3.25,"odd \" name":"x"}}`},
		{"add", `{"entity": {"ID": 2, "title": "again"}}`, "duplicate key value violates unique constraint"},
		{"add", `{"entity": {"ID": "two", "title": "x"}}`, "invalid input syntax for type integer"},
		{"add", `{"entity": {"colour": "red"}}`, `objects of the collection "Products" have no member "colour"; they have: ID, title, price, odd " name`},
		{"add", `{"entity": 3}`, "entity must be an object, got an integer"},
		{"one", `{"name": "tea"}`, `{"entities":{"ID":2,"title":"tea","price":3.25,"odd \" name":"x"}}`},
		{"one", `{"name": "coffee"}`, `no object of the collection "Products" matches the filter`},
		{"set", `{"name": "tea", "update": {"price": 3}}`, `{"entities":[{"ID":2,"title":"tea","price":3,"odd \" name":"x"}]}`},
		{"cheap", `{"bind_variables": {"most": 1}}`, `{"result":[{"n:x":1,"t":":no"}]}`},
		{"cheap", `{"bind_variables": {}}`, "bind_variables has no value for :most"},
		{"dear", `{"bind_variables": {"größe": 3}}`, `{"result":[{"title":"tea"}]}`},
		{"entitled", `{"名前": "tea"}`, `{"entities":[{"ID":2,"title":"tea","price":3,"odd \" name":"x"}]}`},
		{"write", `{"bind_variables": {}}`, "cannot execute DELETE in a read-only transaction"},
		{"session", `{"bind_variables": {}}`, `{"result":[]}`},
		{"named", `{"name": "pg_authid"}`, `unknown collection "pg_authid"; available collections: Products`},
		{"drop", `{"name": "tea"}`, `{}`},
		{"all", `{}`, `{"entities":[{"ID":1,"title":"'; DROP TABLE products; --","price":0.1,"odd \" name":null}]}`},
	} {
		got, err := do(tt.op, tt.args, "")
		if invalid, ok := errors.AsType[datastore.Invalid](err); ok {
			got, err = string(invalid), nil
		}
		if err != nil || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s %s: %s, %v; want %s", tt.op, tt.args, got, err, tt.want)
		}
	}
	for _, op := range []string{"much", "row"} {
		if _, err := do(op, `{"bind_variables": {}}`, ""); contract.FailureOf(err).Class != contract.ClassTooLarge {
			t.Errorf("%s: %v", op, err)
		}
	}
	if commits != 4 {
		t.Errorf("%d commits", commits)
	}

	// With the table of idempotency keys, a repeated change returns the first result.
	if keys, err := db.Verify(ctx, conn.Collections); keys || err != nil {
		t.Error(keys, err)
	}
	admin.Run(t, datastore.KeyTableSQL)
	if keys, err := db.Verify(ctx, conn.Collections); !keys || err != nil {
		t.Error(keys, err)
	}
	first, err := do("add", `{"entity": {"ID": 7, "title": "milk"}}`, "run/1")
	again, err2 := do("add", `{"entity": {"ID": 7, "title": "milk"}}`, "run/1")
	if err != nil || err2 != nil || first != again || !strings.Contains(first, "milk") {
		t.Error(first, again, err, err2)
	}

	admin.Run(t, "ALTER TABLE products DROP COLUMN price")
	if _, err := db.Verify(ctx, conn.Collections); contract.FailureOf(err).Class != contract.ClassConnection || !strings.Contains(err.Error(), `no column "price"`) {
		t.Error(err)
	}
	admin.Run(t, "DROP TABLE products")
	if _, err := db.Verify(ctx, conn.Collections); !strings.Contains(err.Error(), `no table "Products"`) {
		t.Error(err)
	}
	if _, err := datastore.Open(ctx, datastore.Settings{URL: url, Password: "wrong"}); contract.FailureOf(err).Class != contract.ClassDenied {
		t.Error(err)
	}
	if _, err := datastore.Open(ctx, datastore.Settings{URL: strings.Replace(url, "?sslmode=disable", "", 1), Password: "secret"}); contract.FailureOf(err).Class != contract.ClassConnection {
		t.Error(err)
	}
}
