// The tutorial of docs/http.md, with a client that is generated from the OpenAPI document. Everything here is checked by
// the compiler against the document: paths, methods, parameters and bodies.
import assert from "node:assert/strict";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

const client = createClient<paths>({ baseUrl: process.env.ADDRESS });
// Bytes and lines are sent and received as they are.
const raw = { bodySerializer: (body: unknown) => body as string, parseAs: "text" } as const;
const status = (answer: { response: Response }) => answer.response.status;

async function keysAndValues() {
  const params = { query: { id: "greeting" } };
  const octets = { "content-type": "application/octet-stream" };
  assert.equal(status(await client.PUT("/v0/entity", { params, body: "hello", headers: octets, ...raw })), 201);
  assert.equal((await client.GET("/v0/entity", { params, parseAs: "text" })).data, "hello");
  assert.equal(status(await client.DELETE("/v0/entity", { params })), 202);
  const gone = await client.GET("/v0/entity", { params, parseAs: "text" });
  assert.equal(status(gone), 404);
}

async function tables() {
  const database = { database: "shop-ts" };
  const made = await client.PUT("/v1/databases/{database}", { params: { path: database }, body: { page_bytes: 8192 } });
  assert.equal(status(made), 201);
  const table: components["schemas"]["NewTable"] = { layout: "lsm", compression: "lz4", ttl_ms: null };
  const path = { ...database, table: "stock" };
  assert.equal(status(await client.PUT("/v1/databases/{database}/tables/{table}", { params: { path }, body: table })), 201);

  const lines = '{"key":"a/b","value":"1"}\n{"key":"plums","value":"9"}\n';
  const ndjson = { "content-type": "application/x-ndjson" };
  const entries = "/v1/databases/{database}/tables/{table}/entries" as const;
  const stored = await client.POST(entries, { params: { path }, body: lines, headers: ndjson, ...raw });
  assert.equal(status(stored), 200);
  const range = await client.GET(entries, { params: { path, query: { limit: 10, prefix: "p" } }, parseAs: "text" });
  assert.equal(range.data, '{"key":"plums","value":"9"}\n');

  // A slash in a key is encoded, and a tag makes a write conditional.
  const one = `${entries}/{key}` as const;
  const key = { ...path, key: "a/b" };
  const read = await client.GET(one, { params: { path: key }, parseAs: "text" });
  assert.equal(read.data, "1");
  const etag = read.response.headers.get("etag")!;
  const octets = { "content-type": "application/octet-stream" };
  const put = (tag: string) =>
    client.PUT(one, {
      params: { path: key, header: { "if-match": tag }, query: { durability: "buffered" } }, body: "2", headers: octets, ...raw,
    });
  assert.equal(status(await put(etag)), 204);
  const refused = await put(etag);
  assert.equal(status(refused), 412);
  assert.equal(refused.error?.type, "urn:pando:problem:precondition-failed");

  const operations: components["schemas"]["Batch"]["operations"] = [
    { op: "check", table: "stock", key: "plums", value: "9" },
    { op: "put", table: "stock", key: "plums", value: "8" },
    { op: "delete_range", table: "stock", prefix: "a" },
  ];
  assert.equal(status(await client.POST("/v1/databases/{database}/batch", { params: { path: database }, body: { operations } })), 200);
}

async function statements() {
  const path = { database: "shop-ts" };
  const sql = async (text: string, params?: components["schemas"]["SqlValue"][]) => {
    const answer = await client.POST("/v1/databases/{database}/sql", {
      params: { path, query: { format: "json" } }, body: { sql: text, params: params ?? null },
    });
    assert.ok(answer.response.ok, JSON.stringify(answer.error));
    return (answer.data as { results: { rows?: unknown[][] }[] }).results;
  };
  await sql("CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT UNIQUE, price REAL, photo BLOB)");
  await sql("INSERT INTO fruit(name, price, photo) VALUES (?, ?, ?)", ["apple", 1.5, { bytes: "ffd8" }]);
  const [found] = await sql("SELECT name, price, photo FROM fruit WHERE price > ?", [1]);
  assert.deepEqual(found?.rows, [["apple", 1.5, { bytes: "ffd8" }]]);

  const document = "/v1/databases/{database}/documents/{table}/{key}" as const;
  const here = { path: { ...path, table: "fruit", key: "3" } };
  assert.ok((await client.PUT(document, { params: here, body: { name: "sloe", price: 0.5 } })).response.ok);
  const { data } = await client.GET(document, { params: here });
  assert.deepEqual(data, { id: 3, name: "sloe", price: 0.5, photo: null });
}

await keysAndValues();
await tables();
await statements();
console.log("typescript: the client type-checks, and the tutorial works");
