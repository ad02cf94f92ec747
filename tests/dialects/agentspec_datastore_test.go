package dialects

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"weft/activities/contract"
	"weft/activities/datastore"
	"weft/activities/tool"
	"weft/tests/harness"
)

const storeFlow = `
flow:
  nodes:
    s: {component_type: StartNode, inputs: [{title: product, type: object, additionalProperties: {}}, {title: name, type: string}]}
    add: {component_type: PluginDatastoreCreateNode, datastore: "@shop", collection_name: products, input_mapping: {entity: product}, output_mapping: {created_entity: made}}
    set: {component_type: PluginDatastoreUpdateNode, datastore: "@shop", collection_name: products, where: {title: '{{wanted}}'}, input_mapping: {wanted: name}, inputs: [{title: name, type: string}, {title: update, type: object, additionalProperties: {}, default: {price: 4}}]}
    list: {component_type: PluginDatastoreListNode, datastore: "@shop", collection_name: products, where: {title: '{{wanted}}'}, limit: 1, unpack_single_entity_from_list: true, input_mapping: {wanted: name}, output_mapping: {entities: found}}
    ask: {component_type: PluginDatastoreQueryNode, datastore: "@shop", query: 'SELECT count(*) AS n FROM products WHERE price > :least', inputs: [{title: bind_variables, type: object, additionalProperties: {}, default: {least: 3}}]}
    drop: {component_type: PluginDatastoreDeleteNode, datastore: "@shop", collection_name: products, where: {}}
    e: {component_type: EndNode, outputs: [{title: made, type: object, additionalProperties: {}}, {title: found, type: object, additionalProperties: {}}, {title: result, type: array, items: {type: object, additionalProperties: {}}}]}
  go: ["s > add > set > list > ask > drop > e"]
  data: [s.product > add.product, s.name > set.name, s.name > list.name, add.made > e.made, list.found > e.found, ask.result > e.result]
shop: {component_type: PluginPostgresDatabaseDatastore, name: shop, datastore_schema: {products: {properties: {ID: {type: integer}, title: {type: string}, price: {type: number}}}},
  connection_config: {component_type: PluginTlsPostgresDatabaseConnectionConfig, name: c, user: {$component_ref: c.user}, password: {$component_ref: c.password}, url: {$component_ref: c.url}}}
`

func productsDB(t *testing.T) *harness.Database {
	t.Helper()
	db := harness.Postgres(t)
	db.Run(t, "CREATE TABLE products (id serial PRIMARY KEY, title text NOT NULL, price float8 DEFAULT 0.5)")
	return db
}

// TestDatastoreNodes runs datastore nodes against a real PostgreSQL server, using the worker's connection named after the datastore.
func TestDatastoreNodes(t *testing.T) {
	t.Parallel()
	db := productsDB(t)
	run := func(connections map[string]tool.Connection, params string) harness.Outcome {
		return harness.TestRun{Document: specDoc(t, storeFlow), ToolSettings: tool.Settings{Connections: connections},
			SetInput: func(in *contract.RunInput) { in.Params = json.RawMessage(params) }}.Execute(t)
	}
	shop := map[string]tool.Connection{"shop": {Transport: tool.TransportPostgres, URL: db.URL, Password: "secret"}}
	p := run(shop, `{"product": {"title": "tea"}, "name": "tea"}`)
	const want = `{"made":{"ID":1,"price":0.5,"title":"tea"},"found":{"ID":1,"price":4,"title":"tea"},"result":[{"n":1}]}`
	if p.Err != nil || string(p.Result.ResultData) != want {
		t.Errorf("result = %+v, %v", p.Result, p.Err)
	}
	if p := run(shop, `{"product": {"price": 1}, "name": "tea"}`); p.Err == nil || p.Err.Class != contract.ClassToolErrors || !strings.Contains(p.Err.Text, "null value in column") {
		t.Errorf("failure = %v", p.Err)
	}
	if p := run(nil, `{"product": {}, "name": ""}`); p.Err == nil || p.Err.Class != contract.ClassConnection || !strings.Contains(p.Err.Error(), `connections: {"shop": {transport: postgres`) {
		t.Errorf("failure = %v", p.Err)
	}
}

// cutAfterCommit is a proxy in front of a PostgreSQL server. Instead of forwarding the server's first confirmation of a commit,
// it closes the connection.
func cutAfterCommit(t *testing.T, to string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	var done atomic.Bool
	serve := func(client net.Conn) {
		defer client.Close()
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil || bytes.Contains(buf[:n], []byte("COMMIT\x00")) && done.CompareAndSwap(false, true) {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go serve(client)
		}
	}()
	return l.Addr().String()
}

// TestDatastoreUnconfirmedCommit checks a change whose connection is lost between the commit and its confirmation: with the table
// of idempotency keys it is made once and the run continues; without it the run fails with an unknown outcome.
func TestDatastoreUnconfirmedCommit(t *testing.T) {
	t.Parallel()
	db := productsDB(t)
	u, err := url.Parse(db.URL)
	if err != nil {
		t.Fatal(err)
	}
	server := u.Host
	for _, tt := range []struct{ name, keyTable, want string }{{"without the key table", "", "unknown"}, {"with the key table", datastore.KeyTableSQL, ""}} {
		db.Run(t, "TRUNCATE products RESTART IDENTITY")
		if tt.keyTable != "" {
			db.Run(t, tt.keyTable)
		}
		u.Host = cutAfterCommit(t, server)
		p := harness.TestRun{Document: specDoc(t, `
flow: {nodes: {s: {component_type: StartNode}, add: {component_type: PluginDatastoreCreateNode, datastore: "@shop", collection_name: products, inputs: [{title: entity, type: object, additionalProperties: {}, default: {title: tea}}]},
  e: {component_type: EndNode, outputs: [{title: created_entity, type: object, additionalProperties: {}}]}}, go: [s > add > e], data: [add.created_entity > e.created_entity]}
`+storeFlow[strings.Index(storeFlow, "shop:"):]), ToolSettings: tool.Settings{Connections: map[string]tool.Connection{"shop": {Transport: tool.TransportPostgres, URL: u.String(), Password: "secret"}}},
			SetInput: func(in *contract.RunInput) { in.OnError = contract.OnErrorFail }}.Execute(t)
		var rows int
		if err := db.QueryRow(t.Context(), "SELECT count(*) FROM products").Scan(&rows); err != nil || rows != 1 {
			t.Errorf("%s: %d rows, %v", tt.name, rows, err)
		}
		switch {
		case tt.want == "" && (p.Err != nil || string(p.Result.ResultData) != `{"created_entity":{"ID":1,"price":0.5,"title":"tea"}}`):
			t.Errorf("%s: %+v, %v", tt.name, p.Result, p.Err)
		case tt.want != "" && (p.Err == nil || !strings.Contains(p.Err.Error(), tt.want)):
			t.Errorf("%s: %v, want %s", tt.name, p.Err, tt.want)
		}
	}
}
