// The tutorial of docs/http.md, with a client that is generated from the OpenAPI document.
package client_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"client.test/client"
)

func of[T any](value T) *T { return &value }

// said returns the body of a response, which must have the status.
func said(t *testing.T, status int, response *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != status {
		t.Fatalf("%d instead of %d: %s", response.StatusCode, status, body)
	}
	return string(body)
}

func start(t *testing.T) (*client.Client, context.Context) {
	t.Helper()
	pando, err := client.NewClient(os.Getenv("ADDRESS"))
	if err != nil {
		t.Fatal(err)
	}
	return pando, context.Background()
}

const octets = "application/octet-stream"

func TestKeysAndValues(t *testing.T) {
	pando, ctx := start(t)
	put, err := pando.PutV0EntityWithBody(ctx, &client.PutV0EntityParams{Id: "greeting"}, octets, strings.NewReader("hello"))
	said(t, 201, put, err)
	got, err := pando.GetV0Entity(ctx, &client.GetV0EntityParams{Id: "greeting"})
	if value := said(t, 200, got, err); value != "hello" {
		t.Fatal(value)
	}
	gone, err := pando.DeleteV0Entity(ctx, &client.DeleteV0EntityParams{Id: "greeting"})
	said(t, 202, gone, err)
}

func TestTables(t *testing.T) {
	pando, ctx := start(t)
	made, err := pando.PutV1DatabasesDatabase(ctx, "shop-go", nil, client.NewDatabase{PageBytes: of(client.N8192)})
	said(t, 201, made, err)
	table := client.NewTable{Layout: of(client.LayoutLsm), Compression: of(client.CompressionLz4)}
	made, err = pando.PutV1DatabasesDatabaseTablesTable(ctx, "shop-go", "stock", nil, table)
	said(t, 201, made, err)

	lines := strings.NewReader("{\"key\":\"a/b\",\"value\":\"1\"}\n{\"key\":\"plums\",\"value\":\"9\"}\n")
	stored, err := pando.PostV1DatabasesDatabaseTablesTableEntriesWithBody(ctx, "shop-go", "stock", nil, "application/x-ndjson", lines)
	said(t, 200, stored, err)
	some := &client.GetV1DatabasesDatabaseTablesTableEntriesParams{Limit: of(10), Prefix: of("p")}
	found, err := pando.GetV1DatabasesDatabaseTablesTableEntries(ctx, "shop-go", "stock", some)
	if body := said(t, 200, found, err); body != "{\"key\":\"plums\",\"value\":\"9\"}\n" {
		t.Fatal(body)
	}

	// A slash in a key is encoded, and a tag makes a write conditional.
	read, err := pando.GetV1DatabasesDatabaseTablesTableEntriesKey(ctx, "shop-go", "stock", "a/b", nil)
	if value := said(t, 200, read, err); value != "1" {
		t.Fatal(value)
	}
	tag := read.Header.Get("etag")
	put := func(status int) string {
		params := &client.PutV1DatabasesDatabaseTablesTableEntriesKeyParams{IfMatch: &tag}
		answer, err := pando.PutV1DatabasesDatabaseTablesTableEntriesKeyWithBody(ctx, "shop-go", "stock", "a/b", params, octets, strings.NewReader("2"))
		return said(t, status, answer, err)
	}
	put(204)
	var problem client.Problem
	if err := json.Unmarshal([]byte(put(412)), &problem); err != nil || problem.Type != "urn:pando:problem:precondition-failed" {
		t.Fatal(problem, err)
	}

	var check, change client.Batch_Operations_Item
	if err := check.FromCheckStep(client.CheckStep{Op: client.Check, Table: "stock", Key: of("plums"), Value: of("9")}); err != nil {
		t.Fatal(err)
	}
	if err := change.FromPutStep(client.PutStep{Op: client.Put, Table: "stock", Key: of("plums"), Value: of("8")}); err != nil {
		t.Fatal(err)
	}
	batch := client.Batch{Operations: []client.Batch_Operations_Item{check, change}}
	done, err := pando.PostV1DatabasesDatabaseBatch(ctx, "shop-go", nil, batch)
	said(t, 200, done, err)
	again, err := pando.PostV1DatabasesDatabaseBatch(ctx, "shop-go", nil, batch)
	said(t, 412, again, err)
}

func TestStatements(t *testing.T) {
	pando, ctx := start(t)
	made, err := pando.PutV1DatabasesDatabase(ctx, "sql-go", nil, client.NewDatabase{})
	said(t, 201, made, err)
	run := func(statements client.Statements) string {
		params := &client.PostV1DatabasesDatabaseSqlParams{Format: of(client.PostV1DatabasesDatabaseSqlParamsFormatJson)}
		answer, err := pando.PostV1DatabasesDatabaseSql(ctx, "sql-go", params, statements)
		return said(t, 200, answer, err)
	}
	run(client.Statements{Sql: "CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT UNIQUE, photo BLOB)"})
	var name, photo client.SqlValue
	if err := name.FromSqlValue3("apple"); err != nil {
		t.Fatal(err)
	}
	if err := photo.FromSqlBytes(client.SqlBytes{Bytes: "ffd8"}); err != nil {
		t.Fatal(err)
	}
	var params client.Statements_Params
	if err := params.FromStatementsParams1(client.StatementsParams1{&name, &photo}); err != nil {
		t.Fatal(err)
	}
	run(client.Statements{Sql: "INSERT INTO fruit(name, photo) VALUES (?, ?)", Params: &params})
	rows := run(client.Statements{Sql: "SELECT id, name, photo FROM fruit", ReadOnly: of(true)})
	if !strings.Contains(rows, `[1,"apple",{"bytes":"ffd8"}]`) {
		t.Fatal(rows)
	}
	document, err := pando.PutV1DatabasesDatabaseDocumentsTableKey(ctx, "sql-go", "fruit", "3", nil, client.Document{"name": "sloe"})
	said(t, 204, document, err)
	read, err := pando.GetV1DatabasesDatabaseDocumentsTableKey(ctx, "sql-go", "fruit", "3", nil)
	if body := said(t, 200, read, err); body != `{"id":3,"name":"sloe","photo":null}` {
		t.Fatal(body)
	}
}
