// Requests to the documented interface. Every address is relative to the page, which may be below the path of a proxy.

/** What the server refused: its status, the type of the problem and the sentence for people. */
export class Refused extends Error {
  constructor(status, kind, detail) { super(detail); this.status = status; this.kind = kind; }
}

/** Sends a request. A response of 400 or more becomes an error that says what happened and what to do. */
export async function ask(path, options) {
  let response;
  try { response = await fetch(path, { redirect: "error", ...options }); } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "unreachable", "The server does not respond. Check that it runs; this page tries again by itself.");
  }
  if (response.ok) return response;
  let problem = {};
  try { problem = await response.json(); } catch { /* an absent key has no body */ }
  const said = problem.detail ?? (response.status === 404 ? "it does not exist (any more)" : `status ${response.status}`);
  throw new Refused(response.status, (problem.type ?? "").split(":").pop(), `${said[0].toUpperCase()}${said.slice(1)}.`.replace(/\.\.$/, "."));
}
export const json = async (path, options) => (await ask(path, options)).json();

const segment = text => {
  if (text === "." || text === "..") throw new Error(`A browser cannot send the name “${text}” in an address. Use the command or SQL for it.`);
  if (text === "") throw new Error("An empty name cannot be sent in an address. Use SQL or the command for it.");
  return encodeURIComponent(text);
};
/** The path of something in a database. */
export const at = (db, ...parts) => ["v1/databases", segment(db), ...parts.map(segment)].join("/");
/** The path of a document by its key as the server writes it in addresses. */
export function documentAt(db, table, key) {
  for (const part of key.split("/")) segment(decodeURIComponent(part));
  return `${at(db, "documents", table)}/${key}`;
}
export function query(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  return given.length ? `${path}?${given.map(([name, value]) => `${name}=${value instanceof Escaped ? value.text : encodeURIComponent(value)}`).join("&")}` : path;
}
/** A part of an address that is escaped already. */
export class Escaped { constructor(text) { this.text = text; } }

// A number with all its digits, and its point if it has one: JavaScript would lose both.
export class Digits { constructor(text) { this.text = text; } }
// No document that was stored before can have such a member.
const MARK = `digits ${crypto.getRandomValues(new Uint32Array(4)).join(" ")}`;
/** Reads JSON without losing digits: numbers become `Digits`. */
export function exactly(text) {
  const marked = text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g, one => one[0] === "\"" ? one : `{"${MARK}":"${one}"}`);
  return JSON.parse(marked, (_, value) => value !== null && typeof value === "object" && MARK in value ? new Digits(value[MARK]) : value);
}
/** Writes such JSON, with spaces if `indent` is given. */
export function written(value, indent = "") {
  const inner = indent && `${indent}  `, gap = indent && `\n${inner}`, end = indent && `\n${indent.slice(1)}`;
  if (value instanceof Digits) return value.text;
  if (Array.isArray(value)) return value.length ? `[${gap}${value.map(one => written(one, inner)).join(`,${gap}`)}${end}]` : "[]";
  if (value !== null && typeof value === "object") {
    const members = Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}:${indent ? " " : ""}${written(one, inner)}`);
    return members.length ? `{${gap}${members.join(`,${gap}`)}${end}}` : "{}";
  }
  return JSON.stringify(value);
}

const MOST_BLOCKED_MS = 20;
/** Calls `each` on every line of a response of NDJSON as it comes; `each` may return false to end it. The page reacts meanwhile,
 * however many lines come at once. */
export async function lines(response, each) {
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let rest = "", begun;
  for (;;) {
    const { value, done } = await reader.read();
    begun = performance.now();
    const parts = (rest + (value ? decoder.decode(value, { stream: true }) : "")).split("\n");
    rest = parts.pop();
    for (const line of parts) {
      if (line && each(line) === false) { await reader.cancel(); return; }
      if (performance.now() - begun > MOST_BLOCKED_MS) { await new Promise(go => setTimeout(go)); begun = performance.now(); }
    }
    if (done) return;
  }
}

/** What this token may do. */
export const rights = {
  all: null, databases: new Map(), isReplica: false,
  read(list) { this.all = list.scope; this.databases = new Map(list.databases.map(({ name, scope }) => [name, scope])); },
  mayWrite(db) { return !this.isReplica && ["write", "admin"].includes(this.databases.get(db)); },
  scopeIn(db) { return this.databases.get(db) ?? null; },
  mayAdminister(db) { return this.databases.get(db) === "admin"; },
  seesServer() { return this.all === "admin"; },
};
