// A grid of rows, of which only those on the screen are elements. Arrows move, Enter or a click opens a row. With `select`,
// a box in front of each row, Space, or Ctrl+A selects rows.
import { h, visible, Rows } from "./dom.js";

export const ROW_HEIGHT = 29;
const HEIGHT = ROW_HEIGHT, SHOWN = 300;
let grids = 0;

/** `columns`: `{name, note}`; `rows`: arrays of `{text, kind, title}`; `open(at)` is called for a row, and `select(places)` when
 * other rows are selected. With `cells`, rows are anything, and `cells(row)` makes the array when a row is shown. */
export class Grid {
  constructor({ label, columns, open, select, cells = row => row }) {
    Object.assign(this, { columns, open, select, cells, selected: new Set(), rows: [], active: 0, id: `grid${grids += 1}` });
    this.head = h("div", { role: "row", class: "row head" });
    this.box = h("div", { role: "grid", class: "grid", tabIndex: 0, "aria-label": label, "aria-multiselectable": select ? "true" : null, onkeydown: event => this.key(event) });
    this.box.append(h("div", { role: "rowgroup", class: "heads" }, this.head));
    this.list = new Rows(this.box, HEIGHT, at => this.row(at));
    this.list.tall.setAttribute("role", "rowgroup");
  }
  /** Shows rows; the first hundred decide how wide the columns are. */
  show(rows) {
    this.rows = rows;
    if (this.select && this.selected.size) { this.selected.clear(); this.select([]); }
    this.active = Math.min(this.active, Math.max(0, rows.length - 1));
    this.sample = rows.slice(0, 100).map(row => this.cells(row));
    const widths = this.columns.map(({ name, note }, at) => {
      const longest = this.sample.reduce((most, row) => Math.max(most, row[at].text.length), Math.max(name.length, (note ?? "").length));
      return Math.min(Math.max(longest, 5), 44);
    });
    this.box.style.setProperty("--columns", (this.select ? "2.2rem " : "") + widths.map(width => `minmax(calc(${width}ch + 1.4rem), ${width}fr)`).join(" "));
    const total = widths.reduce((sum, width) => sum + width, 0);
    this.box.style.setProperty("--least", `calc(${total}ch + ${widths.length * 1.4 + (this.select ? 2.2 : 0)}rem)`);
    this.box.setAttribute("aria-rowcount", rows.length + 1);
    this.all = this.select && h("input", { type: "checkbox", "aria-label": "Select all records of the page", disabled: !rows.length, onchange: () => this.choose(this.all.checked ? rows.keys() : []) });
    this.head.replaceChildren(...this.select ? [h("div", { role: "columnheader", class: "pick" }, this.all)] : [], ...this.columns.map(({ name, note }, at) => h("div", { role: "columnheader", class: this.isNumber(at) ? "number" : "" },
      h("span", { dir: "auto" }, visible(name)), note && h("small", {}, note))));
    this.list.show(rows.length);
    this.box.classList.toggle("short", rows.length < 12);
    this.box.style.setProperty("--rows", Math.max(rows.length, 1));
  }
  isNumber(at) { return this.sample.length > 0 && this.sample.every(row => row[at].kind === "number" || row[at].kind === "null"); }
  row(at) {
    const isActive = at === this.active, isSelected = this.selected.has(at), cells = this.cells(this.rows[at]);
    return h("div", { role: "row", id: `${this.id}-${at}`, class: isActive ? "row active" : "row", "aria-rowindex": at + 2, "aria-selected": this.select ? String(isSelected) : null,
      onclick: () => { if (!String(getSelection())) { this.active = at; this.open(at); } } },
    this.select && h("div", { role: "gridcell", class: "pick", onclick: event => event.stopPropagation() }, h("input", { type: "checkbox", tabIndex: -1, checked: isSelected, "aria-label": `Select ${visible(cells[0].text)}`,
      onchange: event => this.toggle(at, event.target.checked) })),
    cells.map(({ text, kind, title }) => h("div", { role: "gridcell", class: kind ?? "", title, dir: kind === "number" ? null : "auto" },
      visible(text.length > SHOWN ? `${text.slice(0, SHOWN)}…` : text).replace(/\n/g, "⏎"))));
  }
  toggle(at, isSelected) { this.selected[isSelected ? "add" : "delete"](at); this.choose([...this.selected]); }
  choose(places) {
    this.selected = new Set(places);
    this.all.checked = this.rows.length > 0 && this.selected.size === this.rows.length;
    this.all.indeterminate = this.selected.size > 0 && !this.all.checked;
    this.list.draw();
    this.select([...this.selected].sort((one, other) => one - other));
  }
  key(event) {
    if (this.select && event.key === "a" && (event.ctrlKey || event.metaKey) && event.target === this.box) { event.preventDefault(); this.choose(this.rows.keys()); return; }
    if (event.ctrlKey || event.altKey || event.metaKey || event.target !== this.box) return;
    const page = Math.max(1, Math.floor(this.box.clientHeight / HEIGHT) - 2), last = this.rows.length - 1;
    const to = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page, Home: 0, End: last }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.active = Math.max(0, Math.min(last, to));
      this.list.reveal(this.active);
      this.box.setAttribute("aria-activedescendant", `${this.id}-${this.active}`);
    } else if (event.key === " " && this.select && this.rows.length) {
      event.preventDefault();
      this.toggle(this.active, !this.selected.has(this.active));
    } else if (event.key === "Enter" && this.rows.length) { event.preventDefault(); this.open(this.active); }
  }
}
