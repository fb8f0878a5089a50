// Operations: maintenance, the backup, open readers, and the layout that each table should have.
import { h, fill, named, visible, confirm, bytes, number, time, table, plural } from "./dom.js";
import { ask, at, json } from "./api.js";

export class Operations {
  constructor(app) {
    this.app = app;
    this.done = h("div", { role: "status" });
    this.readers = h("section", {}); this.advice = h("section", {}); this.options = h("section", {});
    this.work = h("section", {});
    this.root = h("div", { class: "plain" }, this.work, this.readers, this.advice, this.options);
  }
  async show({ db }) {
    if (this.db === db) return;
    this.db = db;
    fill(this.done);
    for (const part of [this.readers, this.advice, this.options]) fill(part, h("p", { class: "soft" }, "Reading…"));
    this.work.hidden = !this.app.rights.mayAdminister(db);
    const button = (label, path, say) => h("button", { type: "button", onclick: event => this.run(event.target, path, say) }, label);
    fill(this.work, h("h2", {}, `Maintenance of ${db}`), h("div", { class: "bar" },
      button("Checkpoint", "checkpoint", () => "Written: everything in the log is in the data file now."),
      button("Compact", "compact", one => `The data file went from ${bytes(one.data_file_bytes_before)} to ${bytes(one.data_file_bytes)}, the log from ${bytes(one.log_file_bytes_before)} to ${bytes(one.log_file_bytes)}.`),
      button("Check", "check", one => one.sound ? `Sound: ${plural(one.tables, "table")}, ${plural(one.records_in_pages, "record")} in pages, ${plural(one.typed_rows, "typed row")}.` : [`${plural(one.problem_count, "problem")}. Take a backup of the files, then see “salvage” in the documents.`, ...one.problems]),
      button("Sync", "sync", () => "Every commit is on the disk."),
      h("a", { class: "button", href: at(db, "backup"), download: `${db}.pando-backup` }, "Download a backup")),
    h("p", { class: "small soft" }, "All of these run while the database is in use. Restore a backup with: pando restore FILE DIR"), this.done);
    await Promise.all([this.update(), this.showAdvice(), this.showOptions()]);
  }
  async run(button, path, say) {
    // The sentence names the database: another one may be shown when the work is done.
    const { db } = this, begun = performance.now(), work = `${button.textContent} of ${db}`;
    button.disabled = true;
    fill(this.done, h("p", { class: "small soft" }, `${work}: running…`));
    try {
      const response = await ask(at(db, path), { method: "POST" }), said = say(response.status === 204 ? null : await response.json());
      const [first, ...rest] = [said].flat();
      fill(this.done, h("p", { class: rest.length ? "bad" : "" }, `${work}: ${first} It took ${time((performance.now() - begun) * 1e6)}.`), rest.length > 0 && h("ul", {}, rest.map(one => h("li", { class: "mono" }, visible(one)))));
    } catch (error) { fill(this.done, h("p", { class: "bad" }, `${work}: ${error.message}`)); }
    button.disabled = false;
  }
  async update() {
    const { db } = this;
    try {
      const { readers } = await json(at(db, "readers"));
      if (db !== this.db) return;
      const oldest = readers.sort((one, other) => other.age_ms - one.age_ms).slice(0, 50);
      fill(this.readers, h("h2", {}, `Open readers and transactions (${readers.length})`), oldest.length ? table(["kind", "open for", "reads as of commit", "keeps memory", "keeps space", ""], oldest.map(one => [
        one.is_transaction ? "transaction" : "snapshot", time(one.age_ms * 1e6), String(one.commit), bytes(one.memory_bytes), bytes(one.space_bytes), one.expired ? "expired" : ""]), { label: "Readers" })
        : h("p", { class: "small soft" }, "None. A reader keeps what it sees from being freed, so one that is open for long costs space."));
    } catch (error) { if (db === this.db) fill(this.readers, h("p", { class: "bad" }, error.message)); }
  }
  async showAdvice() {
    const { db } = this;
    try {
      const { tables } = await json(at(db, "advise"));
      if (db !== this.db) return;
      const mayApply = this.app.rights.mayAdminister(db) && !this.app.rights.isReplica, advised = tables.filter(one => one.advised && one.advised !== one.layout);
      fill(this.advice, h("h2", {}, "Layout advice"), advised.length ? table(["table", "is", "should be", "reads", "writes", "a switch rewrites", mayApply ? "" : null].filter(text => text !== null), advised.map(one => [
        named(one.table), one.layout, one.advised, number(one.operations.reads), number(one.operations.writes), `${bytes(one.switch_bytes)}, about ${time(one.switch_seconds * 1e9)}`,
        ...mayApply ? [h("button", { type: "button", "aria-label": `Apply to ${visible(one.table)}`, onclick: () => this.apply(one) }, "Apply")] : []]), { label: "Advice" })
        : h("p", { class: "small soft" }, `Each of the ${plural(tables.length, "table")} has the layout that its operations want, or there were too few operations to say.`));
    } catch (error) { if (db === this.db) fill(this.advice, h("p", { class: "bad" }, error.message)); }
  }
  async apply({ table: name, advised, switch_bytes }) {
    const { db } = this;
    if (!await confirm("Change the layout?", `${visible(name)} becomes ${advised}. The server rewrites ${bytes(switch_bytes)} in the background, while the table is in use.`, "Change")) return;
    try {
      await ask(at(db, "tables", name), { method: "PATCH", body: JSON.stringify({ layout: advised }), headers: { "content-type": "application/json" } });
      fill(this.done, h("p", {}, `${visible(name)} of ${db} is being rewritten as ${advised}.`));
    } catch (error) { fill(this.done, h("p", { class: "bad" }, error.message)); }
    await this.showAdvice();
  }
  async showOptions() {
    const { db } = this;
    try {
      const { options } = await json(at(db, "options"));
      if (db !== this.db) return;
      fill(this.options, h("details", {}, h("summary", {}, `Options (${options.length})`), table(["option", "value", "set by", "range", "what it costs"], options.map(one => [{ text: one.name, class: "mono" }, `${one.value} ${one.unit}`, one.origin, one.range, one.cost]), { label: "Options" })));
    } catch (error) { if (db === this.db) fill(this.options, h("p", { class: "bad" }, error.message)); }
  }
}
