// The rail: databases, their typed tables with columns, their plain tables, and internal tables folded. It is a tree of
// which only the rows on the screen are elements, so that 10,000 tables cost no more than ten.
import { h, named, visible, Rows, plural, number } from "./dom.js";
import { at, json } from "./api.js";
import { go, place } from "./route.js";
import { isInternal } from "./source.js";

const HEIGHT = 28;

export class Rail {
  constructor(box) {
    Object.assign(this, { databases: [], catalogs: new Map(), open: new Set(), rows: [], active: null, filter: "" });
    this.search = h("input", { type: "search", placeholder: "Filter tables ( / )", "aria-label": "Filter tables",
      oninput: () => { this.filter = this.search.value; this.draw(); } });
    this.search.addEventListener("keydown", event => { if (event.key === "ArrowDown") { event.preventDefault(); this.tree.focus(); } });
    this.tree = h("div", { role: "tree", class: "tree", tabIndex: 0, "aria-label": "Databases and tables", onkeydown: event => this.key(event) });
    this.note = h("p", { class: "small soft", role: "status" });
    box.append(this.search, this.tree, this.note);
    this.list = new Rows(this.tree, HEIGHT, index => this.row(index));
  }
  /** Shows these databases; the catalog of the one at hand is read. */
  async show(databases, { again } = {}) {
    this.databases = databases;
    for (const name of this.catalogs.keys()) if (!databases.some(database => database.name === name)) this.catalogs.delete(name);
    const { db } = place();
    if (db && !this.seen) { this.open.add(`d/${db}`); this.seen = true; }
    const wanted = databases.filter(({ name }) => this.open.has(`d/${name}`) && (again || !this.catalogs.has(name)));
    await Promise.all(wanted.map(({ name }) => this.read(name)));
    this.draw();
  }
  /** Reads the tables of a database. */
  async read(db) {
    const [{ tables }, typed] = await Promise.all([json(at(db, "tables")), json(at(db, "documents"))]);
    const catalog = { typed: typed.tables.sort(byName), plain: [], internal: [] };
    for (const table of tables.sort(byName)) (isInternal(table.name) ? catalog.internal : catalog.plain).push(table);
    this.catalogs.set(db, catalog);
    return catalog;
  }
  /** The catalog of a database, read if it is not known. */
  async catalog(db) { return this.catalogs.get(db) ?? this.read(db); }

  /** The rows that are unfolded and pass the filter. */
  build() {
    const rows = [], wanted = this.filter.trim().toLowerCase(), passes = name => !wanted || name.toLowerCase().includes(wanted);
    for (const { name: db } of this.databases) {
      const isOpen = this.open.has(`d/${db}`), catalog = this.catalogs.get(db);
      rows.push({ id: `d/${db}`, level: 1, text: db, kind: "database", folds: true, isOpen, go: { tab: place().tab === "data" ? "overview" : place().tab, db } });
      if (!isOpen || !catalog) continue;
      const typed = catalog.typed.filter(({ name, columns }) => passes(name) || (wanted && columns.some(column => passes(column.name))));
      const plain = catalog.plain.filter(({ name }) => passes(name)), internal = catalog.internal.filter(({ name }) => passes(name));
      for (const table of typed) {
        const id = `t/${db}/${table.name}`, unfolded = this.open.has(id);
        rows.push({ id, level: 2, text: table.name, kind: "typed", folds: true, isOpen: unfolded, go: { tab: "data", db, typed: table.name } });
        if (unfolded) for (const column of table.columns) {
          const isKey = table.key.some(part => part.column === column.name);
          rows.push({ id: `${id}/${column.name}`, level: 3, text: column.name, note: column.type + (isKey ? ", key" : column.nullable ? "" : ", not null"), kind: "column" });
        }
      }
      for (const table of plain) rows.push({ id: `p/${db}/${table.name}`, level: 2, text: table.name, note: number(table.approximate_entries), kind: "plain", go: { tab: "data", db, table: table.name } });
      if (internal.length) {
        const id = `i/${db}`, unfolded = this.open.has(id);
        rows.push({ id, level: 2, text: `Internal tables (${internal.length})`, kind: "group", folds: true, isOpen: unfolded });
        if (unfolded) for (const table of internal) rows.push({ id: `p/${db}/${table.name}`, level: 3, text: table.name, note: number(table.approximate_entries), kind: "internal", go: { tab: "data", db, table: table.name } });
      }
      if (!typed.length && !plain.length) rows.push({ id: `n/${db}`, level: 2, text: wanted ? "no table matches" : "no tables yet", kind: "none" });
    }
    return rows;
  }
  draw() {
    this.rows = this.build();
    if (!this.rows.some(row => row.id === this.active)) this.active = this.rows[0]?.id;
    const tables = this.rows.filter(({ kind }) => kind === "typed" || kind === "plain").length;
    this.note.textContent = this.filter ? `${plural(tables, "table")} match${tables === 1 ? "es" : ""}` : "";
    this.list.show(this.rows.length);
  }
  here() {
    const { db, table, typed } = place();
    return typed ? `t/${db}/${typed}` : table ? `p/${db}/${table}` : `d/${db}`;
  }
  row(index) {
    const row = this.rows[index], isActive = row.id === this.active;
    return h("div", { role: "treeitem", id: `rail-${index}`, class: `row ${row.kind}${isActive ? " active" : ""}`, "aria-level": row.level,
      "aria-expanded": row.folds ? String(row.isOpen) : null, "aria-selected": String(row.id === this.here()),
      title: visible(row.text), onclick: event => { this.active = row.id; this.act(row, event.target.classList.contains("fold")); } },
    h("span", { class: "fold", "aria-hidden": "true" }, row.folds ? (row.isOpen ? "▾" : "▸") : ""),
    named(row.text, { class: "text" }), " ", row.note && h("span", { class: "note" }, row.note));
  }
  async act(row, onlyFold) {
    if (row.folds && (onlyFold || !row.go || (row.kind === "database" && (!row.isOpen || row.id === this.here())))) await this.fold(row, !row.isOpen);
    if (row.go && !onlyFold) { go(row.go); document.body.classList.remove("with-rail"); }
    this.list.draw();
  }
  async fold(row, open) {
    this.open[open ? "add" : "delete"](row.id);
    if (open && row.kind === "database" && !this.catalogs.has(row.text)) {
      try { await this.read(row.text); } catch (error) { this.note.textContent = error.message; return; }
    }
    this.draw();
  }
  key(event) {
    const index = this.rows.findIndex(row => row.id === this.active), row = this.rows[index];
    const page = Math.max(1, Math.floor(this.tree.clientHeight / HEIGHT) - 1);
    const to = { ArrowDown: index + 1, ArrowUp: index - 1, PageDown: index + page, PageUp: index - page, Home: 0, End: this.rows.length - 1 }[event.key];
    if (to !== undefined) this.move(to);
    else if (event.key === "ArrowRight" && row?.folds && !row.isOpen) this.fold(row, true);
    else if (event.key === "ArrowRight" && row?.folds) this.move(index + 1);
    else if (event.key === "ArrowLeft" && row?.folds && row.isOpen) this.fold(row, false);
    else if (event.key === "ArrowLeft" && row) this.move(this.rows.findLastIndex((other, at) => at < index && other.level < row.level));
    else if ((event.key === "Enter" || event.key === " ") && row) this.act(row, event.key === " ");
    else return;
    event.preventDefault();
  }
  move(to) {
    const index = Math.max(0, Math.min(this.rows.length - 1, to));
    if (!this.rows[index]) return;
    this.active = this.rows[index].id;
    this.list.reveal(index);
    this.tree.setAttribute("aria-activedescendant", `rail-${index}`);
  }
}
const byName = (one, other) => one.name < other.name ? -1 : one.name > other.name ? 1 : 0;
