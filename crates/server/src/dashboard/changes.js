// Changes: the commits of a database as they come, and the consumers whose places the server keeps.
//
// One stream is open while the view is on the screen. It continues after the last complete commit, so that a pause, a lost
// connection or a restart of the server leaves nothing out. Only the newest rows are kept.
import { h, fill, visible, named, confirm, toast, bytes, count, plural, table } from "./dom.js";
import { ask, at, exactly, lines, query, written } from "./api.js";
import { go } from "./route.js";
import { Grid, ROW_HEIGHT } from "./grid.js";

const MOST_ROWS = 1000, VALUE_BYTES = 200, EARLIER_COMMITS = 100, DRAW_MS = 250, MOST_WAIT_MS = 10000;
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const NAMES = { put: "put", delete: "delete", delete_range: "delete range", clear: "delete all", create_table: "create table", drop_table: "drop table", rename_table: "rename table", alter_table: "alter table" };
/** A row or a key, which are objects, as one line. `cut` has the lengths of the values of which only the beginning came. */
const inLine = (one, cut = {}) => Object.entries(one).map(([name, value]) => `${name}=${written(value)}${name in cut ? `… (${bytes(cut[name])})` : ""}`).join(" ");
const MOST_CHARS = 800;
/** Whether a change is of rows with columns: of a typed table, or of one that SQL made. */
const isOfRows = ({ row, key, op, unknown }) => row !== undefined || unknown !== undefined || ["clear", "define", "drop"].includes(op) || typeof key === "object";
const COLUMNS = [{ name: "commit" }, { name: "time" }, { name: "change" }, { name: "table" }, { name: "key" }, { name: "value", note: `its first ${VALUE_BYTES} bytes` }];

export class Changes {
  constructor(app) {
    this.app = app;
    Object.assign(this, { rows: [], added: 0, typed: new Set() });
    this.table = h("select", { "aria-label": "Changes of", onchange: () => this.filter() });
    this.prefix = h("input", { type: "search", placeholder: "Key begins with", "aria-label": "Keys that begin with" });
    this.pause = h("button", { type: "button", onclick: () => { this.isPaused = !this.isPaused; this.run(); } }, "Pause");
    this.status = h("span", { class: "small soft push", role: "status" });
    this.grid = new Grid({ label: "Changes, newest first", columns: COLUMNS, open: index => this.open(this.rows[index]), cells: row => this.cells(row) });
    this.consumers = h("section", {});
    this.root = h("div", {}, h("form", { class: "bar", onsubmit: event => { event.preventDefault(); this.filter(); } }, h("label", {}, "Table", this.table), this.prefix, h("button", {}, "Apply"), this.pause,
      h("button", { type: "button", onclick: () => { Object.assign(this, { rows: [], added: 0 }); this.draw(); } }, "Clear"), this.status),
    this.note = h("p", { class: "small bad", role: "alert" }), this.grid.box, h("div", { class: "gap" }), this.consumers);
    document.addEventListener("visibilitychange", () => this.run());
  }
  async show(to) {
    this.isShown = true;
    const name = JSON.stringify([to.db, to.of, to.prefix]);
    if (name === this.name) { this.run(); return; }
    Object.assign(this, { name, place: to, rows: [], added: 0, after: null, isPaused: false });
    this.stop();
    this.prefix.value = to.prefix ?? "";
    this.said = null;
    fill(this.consumers, h("p", { class: "soft" }, "Reading…"));
    this.draw();
    try { await this.showTables(to); } catch (error) { this.note.textContent = error.message; }
    if (name === this.name) { this.run(); this.update(); }
  }
  hide() { this.isShown = false; this.stop(); }
  async showTables({ db, of }) {
    const { typed, plain } = await this.app.rail.catalog(db);
    const names = [...typed, ...plain].map(({ name }) => name);
    this.typed = new Set(typed.map(({ name }) => name));
    if (of && !names.includes(of)) names.push(of);
    fill(this.table, h("option", { value: "" }, "all tables"), names.map(name => h("option", { value: name, selected: name === of }, visible(name))));
    // Rows with columns have no such keys.
    const isPlain = !of || plain.some(({ name }) => name === of);
    Object.assign(this.prefix, { disabled: !isPlain, title: isPlain ? "" : "Keys of plain tables alone have a beginning.", ...isPlain ? {} : { value: "" } });
  }
  filter() { go({ ...this.place, of: this.table.value, prefix: this.typed.has(this.table.value) ? "" : this.prefix.value }); }
  stop() { this.stream?.abort(); this.stream = null; clearTimeout(this.again); }
  /** Opens the stream, or closes it, as it should be now. */
  run() {
    const isWanted = this.isShown && !this.isPaused && !document.hidden;
    this.pause.textContent = this.isPaused ? "Continue" : "Pause";
    if (!isWanted) { this.stop(); this.say(); return; }
    if (!this.stream) this.follow(0);
  }
  async follow(failures) {
    const stream = this.stream = new AbortController(), { db, of } = this.place, prefix = this.typed.has(of) ? "" : this.place.prefix, { signal } = stream;
    const isOld = () => this.stream !== stream;
    try {
      if (this.after === null) {
        const { last_commit } = await (await ask(at(db, "stats"), { signal })).json();
        this.newest = last_commit;
        // The last ones are shown at once, if they are kept.
        this.after = Math.max(0, last_commit - EARLIER_COMMITS);
      }
      let response;
      const begin = after => ask(query(at(db, "changes"), { after, table: of, prefix: prefix || undefined, rows: !prefix || undefined, value_bytes: VALUE_BYTES }), { signal });
      try { response = await begin(this.after); } catch (error) {
        if (error.status !== 410 && error.status !== 400) throw error;
        this.note.textContent = this.rows.length ? "Some changes are no longer kept: the list has a gap here." : "";
        this.after = this.newest;
        response = await begin(this.after);
      }
      if (isOld()) { await response.body.cancel(); return; }
      this.isLive = true;
      this.say();
      failures = 0;
      let commit = [];
      await lines(response, line => {
        if (isOld()) return false;
        const one = JSON.parse(line);
        if (isOfRows(one)) { const { row, key } = exactly(line); Object.assign(one, { row, key }); }
        if (one.error) throw new Error(one.error.detail);
        if (one.op !== "commit") { commit.push(one); if (commit.length > 2 * MOST_ROWS) commit = commit.slice(-MOST_ROWS); return true; }
        this.note.textContent = "";
        this.add(commit, one);
        commit = [];
        return true;
      });
      if (!isOld()) throw new Error("The stream has ended.");
    } catch (error) {
      if (isOld() || error.name === "AbortError") return;
      this.isLive = false;
      this.stream = null;
      this.say();
      this.note.textContent = `${error.message} Trying again…`;
      this.again = setTimeout(() => { if (this.isShown && !this.isPaused && !document.hidden && !this.stream) this.follow(failures + 1); }, Math.min(MOST_WAIT_MS, 500 * 2 ** failures));
    }
  }
  add(operations, { commit, time_ms }) {
    this.after = commit;
    for (const one of operations) one.time_ms = time_ms;
    this.rows = [...operations.reverse(), ...this.rows].slice(0, MOST_ROWS);
    this.added += operations.length;
    // A busy database is drawn a few times a second.
    this.drawing ??= setTimeout(() => { this.drawing = null; this.draw(); }, DRAW_MS);
  }
  say() {
    this.status.textContent = this.isPaused ? `Paused after commit ${this.after ?? "–"}; Continue shows what came since.` : this.stream && this.isLive ? `Live. ${plural(this.rows.length, "row")}${this.rows.length === MOST_ROWS ? ", the newest" : ""}.` : "Connecting…";
  }
  /** Draws the rows. A reader who has scrolled down keeps the place, although new rows come in above. */
  draw() {
    const { grid, added } = this, { scrollTop } = grid.box;
    if (grid.active > 0) grid.active += added;
    this.added = 0;
    grid.show(this.rows);
    if (scrollTop > 0) grid.box.scrollTop = scrollTop + added * ROW_HEIGHT;
    this.say();
  }
  cells(row) {
    const text = (name, kind = "") => row[name] !== undefined ? { text: row[name], kind } : row[`${name}_hex`] !== undefined ? { text: `0x${row[`${name}_hex`]}`, kind: `${kind} blob` } : { text: "", kind };
    const key = row.op === "delete_range" ? { text: `${text("start").text} … ${text("end").text || "the end"}`, kind: "key" } : row.op === "rename_table" ? { text: `was ${row.from}`, kind: "key" }
      : row.name ? { text: row.name, kind: "key" } : typeof row.key === "object" ? { text: inLine(row.key), kind: "key" } : text("key", "key");
    const value = row.row ? { text: inLine(row.row, row.cut), kind: "" } : row.unknown ? { text: `not shown: ${row.unknown}`, kind: "" } : row.sql ? { text: row.sql, kind: "" } : text("value");
    const cut = row.value_bytes ? `${value.text}… (${bytes(row.value_bytes)})` : value.text, of = row.table ?? row.stored_in;
    return [{ text: String(row.commit), kind: "number" }, { text: row.time_ms ? CLOCK.format(row.time_ms) : "", kind: "" }, { text: `${NAMES[row.op] ?? row.op} ${row.type ?? ""}`.trim(), kind: /^(delete|drop|clear)/.test(row.op) ? "gone" : "" },
      { text: of, kind: "" }, key, { text: cut.length > MOST_CHARS ? `${cut.slice(0, MOST_CHARS)}…` : cut, kind: value.kind }];
  }
  /** Opens what a change is about. */
  open(row) {
    const { db } = this.place;
    if (isOfRows(row) || this.typed.has(row.table)) { if (row.table && row.type !== "view" && row.op !== "drop") go({ tab: "data", db, typed: row.table }); return; }
    const key = row.key_hex ?? (row.key === undefined ? undefined : Array.from(new TextEncoder().encode(row.key), byte => byte.toString(16).padStart(2, "0")).join(""));
    go({ tab: "data", db, table: row.table, key: row.op === "put" ? key : undefined });
  }
  async update() {
    const { db } = this.place;
    let listed;
    try { ({ consumers: listed } = await (await ask(at(db, "consumers"))).json()); } catch (error) { if (db === this.place.db) fill(this.consumers, h("p", { class: "bad" }, error.message)); return; }
    const last = this.app.stats.get(db)?.last_commit, text = JSON.stringify([db, listed, last]);
    // What is the same stays, with its focus.
    if (db !== this.place.db || text === this.said) return;
    this.said = text;
    const mayDelete = this.app.rights.scopeIn(db) !== "read", focused = document.activeElement?.getAttribute("aria-label");
    fill(this.consumers, h("h2", {}, `Consumers of ${db}`), listed.length ? table(["name", "has acknowledged commit", "lags by", "", ""].slice(0, mayDelete ? 5 : 4), listed.map(one => [
      named(one.name), count(one.position), last === undefined ? "" : plural(Math.max(0, last - one.position), "commit"), one.is_lost ? { text: "lost its place: what it needs is no longer kept", class: "bad" } : "",
      ...mayDelete ? [h("button", { type: "button", class: "danger", "aria-label": `Delete ${visible(one.name)}`, onclick: () => this.remove(db, one.name) }, "Delete")] : []]), { label: "Consumers" })
      : h("p", { class: "small soft" }, "None. A consumer is a place in the changes that the server keeps for a program while that is away. Create one with PUT …/consumers/NAME."));
    if (focused) [...this.consumers.querySelectorAll("[aria-label]")].find(one => one.getAttribute("aria-label") === focused)?.focus();
  }
  async remove(db, name) {
    if (!await confirm("Delete the consumer?", `${visible(name)} of ${db} loses its place, and what was kept for it is freed. The program that uses it has to begin again.`, "Delete")) return;
    try { await ask(at(db, "consumers", name), { method: "DELETE" }); toast(`Deleted the consumer ${visible(name)}.`); } catch (error) { toast(error.message, { bad: true }); }
    await this.update();
  }
}
