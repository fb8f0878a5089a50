// SQL: an editor with completion from the catalog, the rows as a grid, plans as a tree, and a history in this browser.
import { h, fill, named, visible, dialog, download, plural, time } from "./dom.js";
import { Digits, ask, at, exactly, lines, query } from "./api.js";
import { Grid } from "./grid.js";

const WORDS = ("SELECT FROM WHERE GROUP BY ORDER LIMIT OFFSET HAVING JOIN LEFT INNER ON USING AS AND OR NOT NULL IS IN LIKE BETWEEN EXISTS CASE WHEN THEN ELSE END DISTINCT UNION ALL WITH RECURSIVE VALUES "
  + "INSERT INTO UPDATE SET DELETE CREATE TABLE INDEX UNIQUE PRIMARY KEY DROP ALTER ADD COLUMN DEFAULT REFERENCES EXPLAIN QUERY PLAN RETURNING CONFLICT DO NOTHING COUNT SUM MIN MAX AVG CAST TEXT INTEGER REAL BLOB DESC ASC").split(" ");
const KNOWN = new Set(WORDS), MOST_HISTORY = 50, MOST_CHOICES = 12;
const TOKENS = /(--[^\n]*|\/\*[^]*?(?:\*\/|$))|('(?:[^']|'')*'?)|("(?:[^"]|"")*"?)|(\b\d+(?:\.\d+)?\b)|([A-Za-z_]\w*)/g;

const quoted = name => /^[a-z_][a-z0-9_]*$/i.test(name) && !KNOWN.has(name.toUpperCase()) ? name : `"${name.replaceAll('"', '""')}"`;

export class Sql {
  constructor(app) {
    this.app = app;
    this.running = null;
    this.colours = h("pre", { "aria-hidden": "true" });
    this.choices = h("div", { class: "choices", role: "listbox", id: "choices", "aria-label": "Completions", hidden: true });
    this.box = h("textarea", { "aria-label": "SQL statement", spellcheck: "false", autocapitalize: "off", "aria-autocomplete": "list", "aria-controls": "choices", rows: 5,
      placeholder: "SELECT …", oninput: () => { this.paint(); this.suggest(); }, onkeydown: event => this.key(event), onblur: () => this.shut(), onscroll: () => { this.colours.scrollTop = this.box.scrollTop; } });
    this.run = h("button", { class: "main", title: "Ctrl+Enter" }, "Run");
    this.plan = h("button", { type: "button", onclick: () => this.explain() }, "Explain");
    this.cancel = h("button", { type: "button", hidden: true, title: "Escape", onclick: () => this.running?.abort() }, "Cancel");
    this.most = h("select", { "aria-label": "Maximum number of rows" }, [100, 1000, 10000].map(value => h("option", { value, selected: value === 1000 }, `${value.toLocaleString("en")} rows`)));
    this.writes = h("input", { type: "checkbox" });
    this.writesLabel = h("label", {}, this.writes, "Allow writes");
    this.saves = h("span", { hidden: true }, ["csv", "json"].map(format => h("button", { type: "button", onclick: () => this.save(format) }, `Download ${format.toUpperCase()}`)));
    this.said = h("p", { role: "status", class: "small soft" });
    this.results = h("div", {});
    this.history = h("details", { class: "history" });
    this.root = h("div", {}, h("form", { onsubmit: event => { event.preventDefault(); this.go(); }, onkeydown: event => { if (event.key === "Escape" && this.running) this.running.abort(); } },
      h("div", { class: "code" }, this.colours, this.box, this.choices), h("div", { class: "bar" }, this.run, this.plan, this.cancel, this.most, this.writesLabel, h("span", { class: "push" }), this.saves)),
    this.said, this.results, this.history);
    this.showHistory();
  }
  update() {}
  async show({ db }) {
    const mayWrite = this.app.rights.mayWrite(db);
    this.writesLabel.hidden = !mayWrite;
    if (this.db === db) return;
    this.db = db;
    // A download would run the statement in the other database.
    this.saves.hidden = true;
    this.writes.checked = false;
    this.names = [];
    if (!this.running) this.say(mayWrite ? `Statements run in ${db}. They can only read, unless you allow writes.` : `Statements run in ${db}. They can only read.`);
    try {
      const { typed } = await this.app.rail.catalog(db);
      if (this.db !== db) return;
      this.names = typed.flatMap(table => [{ text: table.name, note: "table" }, ...table.columns.map(column => ({ text: column.name, note: `${table.name}, ${column.type}` }))]);
      if (!typed.length && !this.box.value) this.say("The database has no tables with columns yet. Allow writes and create one: CREATE TABLE fruit(id INTEGER PRIMARY KEY, name TEXT)");
    } catch (error) { this.say(error.message, true); }
  }
  say(text, bad) { this.said.textContent = text; this.said.className = bad ? "small bad" : "small soft"; }

  /** Draws the text in colours under the box, whose own text is transparent. */
  paint() {
    const parts = [], text = this.box.value;
    let end = 0;
    for (const found of text.matchAll(TOKENS)) {
      const [all, note, string, name, number, word] = found, kind = note ? "k-note" : string ? "k-text" : number ? "k-number" : word && KNOWN.has(word.toUpperCase()) ? "k-word" : null;
      parts.push(text.slice(end, found.index), kind ? h("span", { class: kind }, all) : name ?? all);
      end = found.index + all.length;
    }
    fill(this.colours, parts, `${text.slice(end)}\n`);
  }
  suggest() {
    const before = this.box.value.slice(0, this.box.selectionStart), word = before.match(/[A-Za-z_][\w]*$/)?.[0] ?? "";
    // Nothing is completed within a comment or a text.
    const inside = [...before.matchAll(TOKENS)].at(-1), isOpen = inside && (inside[1] || inside[2]) && inside.index + inside[0].length === before.length;
    if (word.length < 2 || isOpen) { this.shut(); return; }
    const begins = text => text.toLowerCase().startsWith(word.toLowerCase()) && text !== word;
    const seen = new Set(), found = [];
    for (const one of [...this.names ?? [], ...WORDS.map(text => ({ text, note: "" }))]) {
      if (begins(one.text) && !seen.has(one.text)) { seen.add(one.text); found.push(one); }
      if (found.length === MOST_CHOICES) break;
    }
    this.word = word;
    this.found = found;
    this.chosen = 0;
    this.drawChoices();
  }
  drawChoices() {
    this.choices.hidden = !this.found.length;
    fill(this.choices, this.found.map(({ text, note }, index) => h("div", { role: "option", id: `choice${index}`, "aria-selected": String(index === this.chosen), onpointerdown: event => { event.preventDefault(); this.take(index); } }, named(text), h("small", {}, visible(note)))));
    if (this.found.length) this.box.setAttribute("aria-activedescendant", `choice${this.chosen}`); else this.box.removeAttribute("aria-activedescendant");
    const line = this.box.value.slice(0, this.box.selectionStart).split("\n").length;
    this.choices.style.top = `${Math.min(line * 21 + 12, this.box.clientHeight)}px`;
    this.choices.style.left = "10px";
  }
  shut() { this.found = []; this.choices.hidden = true; this.box.removeAttribute("aria-activedescendant"); }
  take(index) {
    const { text, note } = this.found[index], end = this.box.selectionStart, start = end - this.word.length;
    this.box.setRangeText(note ? quoted(text) : text, start, end, "end");
    this.shut();
    this.paint();
    this.box.focus();
  }
  key(event) {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); this.shut(); this.go(); return; }
    if (this.choices.hidden) return;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) { event.preventDefault(); this.chosen = (this.chosen + step + this.found.length) % this.found.length; this.drawChoices(); }
    else if (event.key === "Tab" || event.key === "Enter") { event.preventDefault(); this.take(this.chosen); }
    else if (event.key === "Escape") { event.preventDefault(); event.stopPropagation(); this.shut(); }
  }

  /** Whether statements may write as things stand. */
  mayChange() { return this.writes.checked && this.app.rights.mayWrite(this.db); }
  request(sql, format, signal) {
    const body = JSON.stringify({ sql, read_only: !this.mayChange() });
    return ask(query(at(this.db, "sql"), { format }), { method: "POST", body, headers: { "content-type": "application/json" }, signal });
  }
  async go() {
    const sql = this.box.value.trim();
    if (!sql || this.running) return;
    this.remember(sql);
    // The view may show another database, and another choice, when the rows come.
    const { db } = this, mayChange = this.mayChange();
    const begun = performance.now(), most = Number(this.most.value), took = () => time((performance.now() - begun) * 1e6);
    this.begin();
    try {
      const all = await this.read(await this.request(sql, null, this.running.signal), most);
      const rows = all.results.reduce((sum, one) => sum + one.rows.length, 0), changes = all.results.reduce((sum, one) => sum + (one.changes ?? 0), 0);
      this.say(`${all.isWhole ? "" : "The first "}${plural(rows, "row")}${changes ? `, ${plural(changes, "row")} changed` : ""}${db === this.db ? "" : ` in the database ${db}`}, in ${took()}${all.isWhole ? "" : "; there are more. A download has all of them."}`);
      fill(this.results, all.results.map(one => this.draw(one)));
      this.last = sql;
      this.saves.hidden = mayChange || db !== this.db || all.results.length !== 1 || !all.results[0].columns;
      if (mayChange) this.app.rail.show(this.app.databases, { again: true });
    } catch (error) { this.fail(error, ` after ${took()}`); }
    this.finish();
  }
  fail(error, when = "") { if (error.name === "AbortError") this.say(`Cancelled${when}.`); else this.say(error.message, true); }
  begin() { this.shut(); this.running = new AbortController(); this.cancel.hidden = false; this.run.disabled = this.plan.disabled = this.saves.hidden = true; fill(this.results); this.say("Running…"); }
  finish() { this.running = null; this.cancel.hidden = true; this.run.disabled = this.plan.disabled = false; }
  /** Reads results as they come, with at most so many rows. */
  async read(response, most) {
    const results = [];
    let total = 0, isWhole = false, isCut = false;
    await lines(response, line => {
      let one;
      // A row that broke off is no line: the next one says why.
      try { one = exactly(line); } catch { return true; }
      if (Array.isArray(one)) {
        if (total === most) { isCut = true; return false; }
        results.at(-1).rows.push(one);
        total += 1;
      } else if (one.columns) results.push({ columns: one.columns, rows: [] });
      else if (one.error) throw new Error(`${one.error.detail}.`);
      else if (one.done) isWhole = true;
      else if (one.changes !== undefined && one.rows === undefined) results.push({ rows: [], changes: Number(one.changes.text) });
      return true;
    });
    if (!isWhole && !isCut) throw new Error("The response ended early: some rows are missing. Run the statement again.");
    return { results, isWhole };
  }
  draw({ columns, rows, changes }) {
    if (!columns) return h("p", { class: "small" }, `${plural(changes, "row")} changed.`);
    const grid = new Grid({ label: "Result", columns: columns.map((name, index) => ({ name, note: typesOf(rows, index) })), open: index => this.open(columns, rows[index]) });
    grid.show(rows.map(row => row.map(cell)));
    return h("div", { class: "result" }, rows.length ? grid.box : h("p", { class: "empty" }, "No rows."));
  }
  open(columns, row) {
    dialog("Row", h("div", { class: "wide" }, h("table", {}, h("tbody", {}, columns.map((name, index) => h("tr", {}, h("th", { scope: "row" }, named(name)), h("td", {}, h("pre", { class: "value", dir: "auto" }, visible(cell(row[index]).text)))))))), [{ label: "Close", value: null }], { wide: true });
  }
  async explain() {
    const sql = this.box.value.trim().replace(/^explain\s+(query\s+plan\s+)?/i, "");
    if (!sql || this.running) return;
    this.begin();
    try {
      const { results: [{ rows }] } = await this.read(await this.request(`EXPLAIN QUERY PLAN ${sql}`, null, this.running.signal), 1000);
      const below = parent => { const list = rows.filter(row => row[1].text === parent); return list.length > 0 && h("ul", {}, list.map(row => h("li", { class: /^SCAN/.test(row[3]) ? "scan" : "" }, visible(row[3]), below(row[0].text)))); };
      const tree = below("0");
      if (tree) tree.className = "plan";
      fill(this.results, h("section", {}, h("h2", {}, "Plan"), tree || h("p", {}, "The statement reads no table.")));
      this.say("The plan, from the outermost loop inwards. A SCAN reads a whole table or index; a SEARCH finds rows by a key.");
    } catch (error) { this.fail(error); }
    this.finish();
  }
  /** Runs the statement again and stores all of its rows as a file. */
  async save(format) {
    if (this.running) return;
    this.begin();
    try {
      const response = await this.request(this.last, format, this.running.signal);
      download(`result.${format}`, format === "csv" ? "text/csv" : "application/json", [await response.blob()]);
      this.say("Downloaded.");
    } catch (error) { this.fail(error); }
    this.finish();
  }
  kept() { try { return JSON.parse(localStorage.getItem("pando-sql") ?? "[]"); } catch { return []; } }
  remember(sql) {
    const kept = [sql, ...this.kept().filter(one => one !== sql)].slice(0, MOST_HISTORY);
    try { localStorage.setItem("pando-sql", JSON.stringify(kept)); } catch { /* the browser keeps nothing for this page */ }
    this.showHistory();
  }
  showHistory() {
    const kept = this.kept();
    this.history.hidden = !kept.length;
    fill(this.history, h("summary", {}, `History (${kept.length}), kept in this browser`), kept.map(sql => h("button", { type: "button", title: visible(sql), onclick: () => { this.box.value = sql; this.paint(); this.box.focus(); } }, visible(sql.replace(/\s+/g, " ").slice(0, 200)))),
      h("button", { type: "button", class: "danger", onclick: () => { localStorage.removeItem("pando-sql"); this.showHistory(); } }, "Clear the history"));
  }
}
function typesOf(rows, index) {
  const types = new Set(rows.slice(0, 100).map(row => row[index]).filter(value => value !== null).map(value => typeof value === "string" ? "TEXT" : value instanceof Digits ? (/[.e]/i.test(value.text) ? "REAL" : "INTEGER") : value.float !== undefined ? "REAL" : "BLOB"));
  return [...types].join(", ");
}
function cell(value) {
  if (value === null) return { text: "NULL", kind: "null" };
  if (value instanceof Digits) return { text: value.text, kind: "number" };
  if (typeof value === "string") return { text: value, kind: "" };
  return value.float !== undefined ? { text: String(value.float), kind: "number" } : { text: `x'${value.bytes}'`, kind: "blob" };
}
