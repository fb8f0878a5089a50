// Data: the records of a table, page by page in both directions. Only one page is in memory. The page, its order and the
// open record are in the URL.
import { h, fill, named, visible, confirm, plural } from "./dom.js";
import { ask, at, exactly, json } from "./api.js";
import { go } from "./route.js";
import { Grid } from "./grid.js";
import { Documents, Entries, PAGE } from "./source.js";
import { Editor } from "./editor.js";
import { exportAll, removeAll } from "./bulk.js";

export class Data {
  constructor(app) {
    this.app = app;
    this.root = h("div", {});
    this.asked = 0;
    addEventListener("beforeunload", event => { if (this.editor?.isDirty()) event.preventDefault(); });
  }
  update() {}
  async show(to) {
    const { db, table, typed } = to, name = JSON.stringify([db, typed ?? null, table ?? null]);
    const shownKey = this.editor ? JSON.stringify([this.name, this.editor.key]) : null;
    const wanted = to.key !== undefined ? to.key : to.new ? null : undefined;
    if (shownKey !== null && this.editor.isDirty() && (name !== this.name || this.editor.key !== wanted)) {
      const back = this.place;
      if (!await confirm("Discard your changes?", "The open record has changes that are not saved.", "Discard")) { go(back); return; }
      this.editor = null;
    }
    this.place = to;
    if (name !== this.name) {
      // What was asked for another place is drawn no more.
      const asked = this.asked += 1;
      this.name = name;
      this.editor = this.source = this.page = null;
      if (!table && !typed) { fill(this.root, h("div", { class: "empty" }, h("h2", {}, "Choose a table"), h("p", {}, "The tables of each database are in the rail. Press / to filter them."))); return; }
      fill(this.root, h("p", { class: "soft" }, "Reading…"));
      try {
        const source = typed ? await this.typed(db, typed) : new Entries(db, await json(at(db, "tables", table)));
        if (asked !== this.asked) return;
        this.source = source;
      } catch (error) {
        if (asked === this.asked) { this.name = null; fill(this.root, h("div", { class: "empty" }, h("p", { class: "bad" }, error.message))); }
        return;
      }
      this.build();
    }
    if (!this.source) return;
    await this.load();
    // Somebody may have gone on meanwhile.
    if (to !== this.place) return;
    if (wanted === undefined) { this.editor = null; fill(this.pane); this.pane.hidden = true; } else if (!this.editor || this.editor.key !== wanted) await this.edit(wanted);
  }
  async typed(db, name) {
    // Defaults of columns keep all their digits.
    const { tables } = exactly(await (await ask(at(db, "documents"))).text());
    const found = tables.find(one => one.name === name);
    if (!found) throw new Error(`${db} has no typed table ${visible(name)} (any more). Choose another one in the rail.`);
    return new Documents(db, found);
  }
  build() {
    const { source } = this, mayWrite = this.app.rights.mayWrite(source.db) && !source.whyReadOnly;
    const isTyped = source instanceof Documents;
    this.grid = new Grid({ label: `Records of ${visible(source.name)}`, columns: source.columns, open: index => this.to({ key: this.rows[index].key, new: undefined }), select: places => this.showBulk(places) });
    this.bulk = h("div", { class: "bar bulk", role: "group", "aria-label": "Selected records", hidden: true });
    this.exports = h("span", { class: "bar" });
    this.order = source.orders.length > 0 && h("select", { onchange: () => this.to({ order: this.order.value, cursor: undefined, back: undefined, prefix: undefined }) },
      h("option", { value: "" }, "primary key"), source.orders.map(name => h("option", { value: name }, visible(name))));
    this.prefix = h("input", { type: "search", size: 26, placeholder: isTyped ? "Key begins with, as in Ulm/Ann" : "Key begins with", "aria-label": isTyped ? "First values of the key, separated by slashes" : "Keys that begin with" });
    const button = (label, run) => h("button", { type: "button", onclick: run }, label);
    this.first = button("First", () => this.to({ cursor: undefined, back: undefined }));
    this.previous = button("Previous", () => this.to({ cursor: this.rows[0]?.cursor ?? this.place.cursor, back: 1 }));
    this.next = button("Next", () => this.to({ cursor: this.rows.at(-1)?.cursor ?? this.place.cursor, back: undefined }));
    this.last = button("Last", () => this.to({ cursor: undefined, back: 1 }));
    this.status = h("span", { class: "small soft", role: "status" });
    this.pane = h("div", { hidden: true });
    const info = source.info;
    const about = isTyped ? `typed table of ${source.db}` : `plain table of ${source.db}, ${info.layout}${info.compression === "none" ? "" : `, ${info.compression}`}${info.ttl_ms ? `, entries live ${info.ttl_ms / 1000} s` : ""}${info.ttl_by_key ? ", each entry has its own time to live" : ""}, about ${plural(info.approximate_entries, "entry").replace("entrys", "entries")}`;
    fill(this.root, h("div", { class: "bar" }, h("h2", {}, named(source.name)), h("span", { class: "small soft" }, about),
      h("span", { class: "push bar" }, this.exports,
        mayWrite && h("button", { type: "button", class: "main", onclick: () => this.to({ new: 1, key: undefined }) }, "New record"))),
    h("form", { class: "bar", onsubmit: event => { event.preventDefault(); this.to({ prefix: this.prefix.value, cursor: undefined, back: undefined }); } },
      this.order && h("label", {}, "Order by", this.order), this.prefix, h("button", {}, "Find"), h("span", { class: "push" }), this.status, this.first, this.previous, this.next, this.last),
    this.bulk, h("div", { class: "split" }, h("div", {}, this.grid.box), this.pane));
  }
  /** What can be done with the selected records of the page. */
  showBulk(places) {
    const { source } = this, keys = places.map(at => this.rows[at].key), mayWrite = this.app.rights.mayWrite(source.db) && !source.whyReadOnly;
    this.bulk.hidden = !keys.length;
    const button = (label, run, kind) => h("button", { type: "button", class: kind, onclick: run }, label);
    const done = async () => { if (this.source === source) { await this.load(true); if (keys.includes(this.editor?.key)) this.to({ key: undefined }); } };
    const run = work => async event => { event.target.disabled = true; try { await work(); } finally { event.target.disabled = false; } };
    fill(this.bulk, h("b", {}, `${plural(keys.length, "record")} selected`), mayWrite && button("Delete selected", run(() => removeAll(source, keys, done)), "danger"),
      source.exports().map(([label, , name]) => button(`Export selected as ${label}`, run(() => exportAll(source, keys, name.split(".").pop())))), button("Select none", () => this.grid.choose([])));
  }
  to(changes) { go({ ...this.place, ...changes }); }
  /** Reads the page of the place, unless it is shown. */
  async load(again) {
    const { cursor, back, order, prefix } = this.place, name = JSON.stringify([this.name, cursor, back, order, prefix]);
    if (name === this.page && !again) return;
    // The fields show the place at once: what somebody types while the page is read, or read again, stays.
    if (name !== this.page) {
      if (this.order) this.order.value = order ?? "";
      this.prefix.value = prefix ?? "";
    }
    this.page = name;
    const asked = this.asked += 1;
    this.status.textContent = "Reading…";
    let page;
    try { page = await this.source.page({ cursor, back: Boolean(back), order, prefix }); } catch (error) {
      if (asked !== this.asked) return;
      this.status.textContent = "";
      this.page = null;
      fill(this.grid.box.parentElement, this.grid.box, h("p", { class: "bad", role: "alert" }, error.message));
      this.rows = [];
      this.grid.show([]);
      return;
    }
    if (asked !== this.asked) return;
    // Back at the beginning, the page is filled from there.
    if (back && cursor && !page.more && page.rows.length < PAGE) { go({ ...this.place, cursor: undefined, back: undefined }, { replace: true }); return; }
    this.rows = page.rows;
    fill(this.exports, this.source.exports({ order, prefix }).map(([label, address, name]) => h("a", { class: "button", href: address, download: name }, `Export ${prefix ? "what is found as " : ""}${label}`)));
    this.first.disabled = this.previous.disabled = back ? !page.more : !cursor;
    this.next.disabled = this.last.disabled = back ? !cursor : !page.more;
    const isEmpty = !page.rows.length;
    this.status.textContent = isEmpty ? "" : plural(page.rows.length, "record");
    fill(this.grid.box.parentElement, this.grid.box, isEmpty && h("p", { class: "empty" }, prefix ? "No record has such a key." : cursor ? "There are no more records here." : "The table has no records yet."));
    this.grid.active = 0;
    this.grid.show(page.rows.map(row => row.cells));
    this.grid.box.scrollTop = 0;
  }
  async edit(key) {
    const editor = new Editor({ source: this.source, mayWrite: this.app.rights.mayWrite(this.source.db),
      close: () => { this.to({ key: undefined, new: undefined }); this.grid.box.focus({ preventScroll: true }); },
      done: async written => {
        if (this.source !== editor.source) return;
        // After an undo the record is back in the page; what is open now stays open.
        if (this.editor === editor) {
          if (written !== null && written === editor.key) await editor.open(written);
          else { this.editor = null; go({ ...this.place, key: written ?? undefined, new: undefined }); }
        }
        await this.load(true);
      } });
    this.editor = editor;
    this.pane.hidden = false;
    fill(this.pane, editor.root);
    await editor.open(key);
    editor.root.querySelector("input:not([readonly]), textarea:not([readonly]), button")?.focus({ preventScroll: innerWidth > 1200 });
  }
}
