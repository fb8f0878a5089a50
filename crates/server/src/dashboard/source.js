// Where the records of a table come from: documents of typed tables, and entries of plain tables, with one interface.
//
// `page` reads one page in either direction, with at most VALUE_BYTES of each value; `read` the whole record;
// `write` and `remove` act only if the record is still as `base` says, and fail with status 412 otherwise.
import { bytes, plural, toHex, utf8 } from "./dom.js";
import { Digits, Escaped, ask, at, documentAt, exactly, json, lines, query, written } from "./api.js";

export const PAGE = 50, VALUE_BYTES = 200, PREVIEW_BYTES = 65536, MOST_EDITED_BYTES = 1 << 20;

/** Reads a page of NDJSON; `more` says whether there are records beyond it, in the direction of reading. */
async function readPage(path, back) {
  const rows = [];
  let more = false;
  await lines(await ask(path), line => {
    const one = exactly(line);
    if (one.cursor !== undefined && one.document === undefined && one.key === undefined && one.key_hex === undefined) more = true;
    else rows.push(one);
  });
  return { rows: back ? rows.reverse() : rows, more };
}

/** The first values of a key as an address has them. */
const starting = prefix => prefix ? new Escaped(prefix.split("/").map(encodeURIComponent).join("/")) : "";
/** The tag of a long value, which the server computes only for a condition. The value itself is not read into the browser. */
const tagOf = async address => (await ask(address, { method: "HEAD", headers: { "if-none-match": "\"no value has this tag\"" } })).headers.get("etag");

export class Documents {
  constructor(db, described) {
    Object.assign(this, { db, name: described.name, described, path: at(db, "documents", described.name) });
    this.whyReadOnly = described.read_only ? `Only SQL can change the rows of this table: ${described.why_read_only}.` : "";
    this.isKey = column => described.key.some(part => part.column === column);
    this.columns = described.columns.map(({ name, type }) => ({ name, note: this.isKey(name) ? `${type}, key` : type }));
    this.orders = described.indexes.filter(({ building }) => !building).map(({ name }) => name);
  }
  async page({ cursor, back, order, prefix }) {
    const start = starting(prefix);
    const { rows, more } = await readPage(query(this.path, { limit: PAGE, value_bytes: VALUE_BYTES, index: order, prefix: start, reverse: back, cursor }), back);
    return { more, rows: rows.map(row => ({ key: row.key, cursor: row.cursor, cells: this.described.columns.map(column => this.cell(row, column)) })) };
  }
  cell({ document, cut }, { name, type }) {
    const value = document[name], length = cut?.[name] && Number(cut[name].text);
    if (value === null) return { text: "NULL", kind: "null" };
    if (value instanceof Digits) return { text: value.text, kind: this.isKey(name) ? "number key" : "number" };
    const isBytes = type === "bytes" || (typeof value === "object" && value.bytes !== undefined), digits = type === "bytes" ? value : value.bytes;
    if (isBytes) return { text: `${bytes(length ?? digits.length / 2)}  ${digits.slice(0, 40)}`, kind: "blob" };
    const text = typeof value === "string" ? value : written(value);
    return { text: length ? `${text}… (${bytes(length)})` : text, kind: this.isKey(name) ? "key" : "" };
  }
  /** `{value, tag}`; a document with values of more than a megabyte is `{value, cut}`, and cannot be saved from here. */
  async read(key) {
    const beginning = async most => {
      const { rows: [row] } = await readPage(query(this.path, { limit: 1, value_bytes: most, prefix: new Escaped(key) }));
      return { row, length: Object.values(row?.cut ?? {}).reduce((sum, length) => sum + Number(length.text), 0) };
    };
    if ((await beginning(0)).length > MOST_EDITED_BYTES) {
      // What is shown is read after the tag, so that the tag is never that of a later version.
      const tag = await tagOf(documentAt(this.db, this.name, key)), { row, length } = await beginning(PREVIEW_BYTES);
      if (length > MOST_EDITED_BYTES) return { tag, value: row.document, cut: row.cut, length };
    }
    const response = await ask(documentAt(this.db, this.name, key));
    return { value: exactly(await response.text()), tag: response.headers.get("etag") };
  }
  keyOf(value) {
    const text = ({ column }) => {
      const one = value[column], { type } = this.described.columns.find(({ name }) => name === column);
      if (one === null) return "\\N";
      if (one instanceof Digits) return one.text;
      if (typeof one === "string") return type === "any" ? JSON.stringify(one) : /^\\*\\N$/.test(one) ? `\\${one}` : one;
      return typeof one === "object" && one.bytes !== undefined ? `bytes'${one.bytes}'` : written(one);
    };
    return this.described.key.map(part => encodeURIComponent(text(part))).join("/");
  }
  async write(key, { value }, base) {
    const headers = { "content-type": "application/json", ...(base ? { "if-match": base.tag } : { "if-none-match": "*" }) };
    await ask(documentAt(this.db, this.name, key), { method: "PUT", body: written(value), headers });
  }
  async remove(key, base) { await ask(documentAt(this.db, this.name, key), { method: "DELETE", headers: { "if-match": base.tag } }); }
  /** Puts back a record that was deleted. */
  restore(key, base) { return this.write(key, base, null); }
  title(key) { return key.split("/").map(decodeURIComponent).join(" / "); }
  exports({ order, prefix } = {}) {
    const found = { index: order, prefix: starting(prefix) };
    return [["CSV", query(this.path, { format: "csv", ...found }), `${this.name}.csv`], ["NDJSON", query(this.path, found), `${this.name}.ndjson`]];
  }
  address(key) { return documentAt(this.db, this.name, key); }
  fields(value) { return this.described.columns.map(({ name }) => [name, value === null ? null : value[name] === null ? "NULL" : typeof value[name] === "string" ? value[name] : written(value[name], " ")]); }
}

/** Whether a table holds part of a typed table, or of one that SQL made. The server refuses to write to it. */
export const isInternal = name => name.startsWith("rows/") || name.startsWith("sql:");

export class Entries {
  constructor(db, info) {
    Object.assign(this, { db, name: info.name, info, path: at(db, "tables", info.name, "entries"), orders: [] });
    this.whyReadOnly = !isInternal(info.name) ? "" : info.name.startsWith("sql:")
      ? "These entries belong to a table that SQL made. Change its rows there or with SQL, which update its indexes."
      : "These entries belong to a typed table. Change its rows there or with SQL, which update its indexes.";
    this.columns = [{ name: "key" }, { name: "length" }, { name: "value", note: `its first ${VALUE_BYTES} bytes` }];
  }
  async page({ cursor, back, prefix }) {
    // A cursor is the last key in hexadecimal digits, in either direction.
    const { rows, more } = await readPage(query(this.path, { limit: PAGE, value_bytes: VALUE_BYTES, prefix, reverse: back, cursor }), back);
    return { more, rows: rows.map(row => {
      const key = row.key_hex ?? toHex(utf8(row.key)), isText = row.value !== undefined;
      const length = row.value_bytes ? Number(row.value_bytes.text) : isText ? utf8(row.value).length : row.value_hex.length / 2;
      return { key, cursor: key, cells: [
        { text: row.key ?? `0x${row.key_hex}`, kind: row.key === undefined ? "key blob" : "key" }, { text: bytes(length), kind: "number" },
        { text: isText ? row.value : row.value_hex, kind: isText ? "" : "blob" }] };
    }) };
  }
  // Browsers take `.` and `..` out of addresses, and an empty key is no segment: such a key goes in a list or a batch.
  isOdd(key) { return key === "" || key === "2e" || key === "2e2e"; }
  address(key) { return `${this.path}/${key.replace(/../g, "%$&")}`; }
  async read(key) {
    const looked = async most => {
      let found = null;
      await lines(await ask(query(this.path, { key: new Escaped(key.replace(/../g, "%$&")), value_bytes: most })), line => { found = JSON.parse(line); });
      return found;
    };
    let beginning = await looked(0), tag;
    if (beginning?.value_bytes > MOST_EDITED_BYTES) {
      // What is shown is read after the tag, so that the tag is never that of a later version.
      if (!this.isOdd(key)) tag = await tagOf(this.address(key));
      beginning = await looked(PREVIEW_BYTES);
    }
    if (beginning === null || beginning.absent) throw Object.assign(new Error("The record does not exist any more."), { status: 404 });
    const content = one => one.value !== undefined ? utf8(one.value) : new Uint8Array((one.value_hex.match(/../g) ?? []).map(pair => parseInt(pair, 16)));
    if (beginning.value_bytes > MOST_EDITED_BYTES) return { tag, value: content(beginning), length: beginning.value_bytes, cut: true };
    // When its time to live was read, by a clock that is never set back.
    const base = { ttl_ms: null, read_ms: performance.now() };
    if (this.info.ttl_by_key && !this.isOdd(key)) base.ttl_ms = (await json(`${at(this.db, "tables", this.name, "expiry")}/${key.replace(/../g, "%$&")}`)).ttl_ms;
    if (this.isOdd(key)) return { ...base, value: content(await looked(MOST_EDITED_BYTES)) };
    const response = await ask(this.address(key));
    return { ...base, value: new Uint8Array(await response.arrayBuffer()), tag: response.headers.get("etag") };
  }
  /** `ttl_ms` of undefined keeps the time at which the record expires. */
  async write(key, { value, ttl_ms }, base) {
    if (!this.isOdd(key)) {
      await ask(query(this.address(key), ttl_ms === undefined && this.info.ttl_by_key ? { keep_ttl: true } : { ttl_ms }), { method: "PUT", body: value, headers: base ? { "if-match": base.tag } : { "if-none-match": "*" } });
      return;
    }
    if (this.info.ttl_by_key) throw new Error("A browser cannot send this key in an address, and so not with a time to live. Use the command for it.");
    await this.batch(key, base, { op: "put", value_hex: toHex(value) });
  }
  async remove(key, base) {
    if (this.isOdd(key)) await this.batch(key, base, { op: "delete" });
    else await ask(this.address(key), { method: "DELETE", headers: { "if-match": base.tag } });
  }
  /** Puts back a record that was deleted, for the rest of its time. */
  restore(key, { value, ttl_ms, read_ms }) {
    const left = ttl_ms === null ? null : Math.ceil(ttl_ms - (performance.now() - read_ms));
    if (left !== null && left <= 0) throw new Error("Its time to live has passed meanwhile.");
    return this.write(key, { value, ttl_ms: left }, null);
  }
  async batch(key, base, operation) {
    const check = base ? (base.cut ? [] : [{ op: "check", value_hex: toHex(base.value) }]) : [{ op: "check", absent: true }];
    const operations = [...check, operation].map(one => ({ ...one, table: this.name, key_hex: key }));
    await ask(at(this.db, "batch"), { method: "POST", body: JSON.stringify({ operations }), headers: { "content-type": "application/json" } });
  }
  title(key) { return textOf(key) ?? `0x${key}`; }
  exports({ prefix } = {}) { return [["NDJSON", query(this.path, { prefix }), `${this.name}.ndjson`]]; }
  fields(value) { return [["value", value === null ? null : isPlainText(value) ? new TextDecoder().decode(value) : `${plural(value.length, "byte")}: ${toHex(value.slice(0, 4096))}`]]; }
}

/** The text of bytes in hexadecimal digits; `null` if they are no text. */
export function textOf(hex) {
  const content = new Uint8Array((hex.match(/../g) ?? []).map(pair => parseInt(pair, 16)));
  try { return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content); } catch { return null; }
}
/** Whether a field of text keeps these bytes as they are: it would lose bytes that are none, and kinds of line ends. */
export function isPlainText(content) {
  try { return !/[\r\u0000]/.test(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content)); } catch { return false; }
}
