// Operations: maintenance and its progress, backups, open readers and their end, the layout that each table should have,
// and, for those who may, tokens and configuration.
import { h, fill, named, visible, confirm, toast, bytes, number, time, span, table, plural, count } from "./dom.js";
import { ask, at, json } from "./api.js";
import { Access } from "./access.js";

const MOST_READERS = 50, MOST_ENDED = 5;

export class Operations {
  constructor(app) {
    this.app = app;
    this.done = h("div", { role: "status" });
    this.readers = h("section", {}); this.advice = h("section", {}); this.options = h("section", {});
    this.work = h("section", {}); this.jobs = h("div", {}); this.backups = h("section", {});
    this.access = new Access(app);
    this.root = h("div", { class: "plain" }, this.work, this.backups, this.readers, this.advice, this.options, this.access.root);
  }
  async show({ db }) {
    const seesServer = this.app.rights.seesServer();
    this.access.root.hidden = !seesServer;
    if (seesServer && !this.knowsServer) { this.knowsServer = true; this.access.show(); }
    if (this.db === db) return;
    this.db = db;
    this.said = {};
    fill(this.done);
    for (const part of [this.jobs, this.backups]) fill(part);
    for (const part of [this.readers, this.advice, this.options]) fill(part, h("p", { class: "soft" }, "Reading…"));
    this.work.hidden = this.backups.hidden = !this.app.rights.mayAdminister(db);
    const button = (label, path, say) => h("button", { type: "button", onclick: event => this.run(event.target, path, say) }, label);
    fill(this.work, h("h2", {}, `Maintenance of ${db}`), h("div", { class: "bar" },
      button("Checkpoint", "checkpoint", () => "Written: everything in the log is in the data file now."),
      button("Compact", "compact", one => `The data file went from ${bytes(one.data_file_bytes_before)} to ${bytes(one.data_file_bytes)}, the log from ${bytes(one.log_file_bytes_before)} to ${bytes(one.log_file_bytes)}.`),
      button("Check", "check", one => one.sound ? `Sound: ${plural(one.tables, "table")}, ${plural(one.records_in_pages, "record")} in pages, ${plural(one.typed_rows, "typed row")}.` : [`${plural(one.problem_count, "problem")}. Take a backup of the files, then see “salvage” in the documents.`, ...one.problems]),
      button("Sync", "sync", () => "Every commit is on the disk.")),
    h("p", { class: "small soft" }, "All of these run while the database is in use."), this.done, this.jobs);
    await Promise.all([this.update(), this.showBackups(), this.showAdvice(), this.showOptions()]);
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
  async update() { await Promise.all([this.showReaders(), this.showJobs()]); }
  /** Whether a part is to be drawn: what is the same stays, with its focus. */
  isNew(part, shown) {
    const text = JSON.stringify(shown);
    if (this.said[part] === text) return false;
    this.said[part] = text;
    return true;
  }
  async showReaders() {
    const { db } = this;
    try {
      const { readers } = await json(at(db, "readers"));
      if (db !== this.db) return;
      const oldest = readers.sort((one, other) => other.age_ms - one.age_ms).slice(0, MOST_READERS), mayEnd = this.app.rights.mayAdminister(db);
      if (!this.isNew("readers", oldest)) return;
      const focused = this.readers.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
      fill(this.readers, h("h2", {}, `Open readers and transactions (${readers.length})`), oldest.length ? table(["kind", "open for", "unused for", "reads as of commit", "keeps memory", "keeps space", "", ...mayEnd ? [""] : []], oldest.map(one => [
        one.idle_ms !== null ? "interactive transaction" : one.is_transaction ? "transaction" : "snapshot", span(one.age_ms / 1000), one.idle_ms === null ? "" : span(one.idle_ms / 1000), count(one.commit), bytes(one.memory_bytes), bytes(one.space_bytes), one.expired ? "expired" : one.in_call ? "in use" : "",
        ...mayEnd ? [one.expired ? "" : h("button", { type: "button", class: "danger", "aria-label": `End ${one.is_transaction ? "the transaction" : "the snapshot"} ${one.id}`, onclick: () => this.end(one) }, "End")] : []]), { label: "Readers" })
        : h("p", { class: "small soft" }, "None. A reader keeps what it sees from being freed, so one that is open for long costs space."));
      if (focused) [...this.readers.querySelectorAll("[aria-label]")].find(one => one.getAttribute("aria-label") === focused)?.focus();
    } catch (error) { if (db === this.db) { this.said.readers = null; fill(this.readers, h("p", { class: "bad" }, error.message)); } }
  }
  async end(one) {
    const { db } = this, what = one.is_transaction ? "transaction" : "snapshot";
    const effect = one.is_transaction ? "What it has written is rolled back, and its program has to begin again." : "Its next read fails, and what only it sees is freed. A download or a backup that uses it breaks off.";
    if (!await confirm(`End the ${what}?`, effect, "End")) return;
    try { await ask(at(db, "readers", one.id), { method: "DELETE" }); toast(`Ended the ${what}.`); } catch (error) { toast(error.status === 404 ? `The ${what} had ended already.` : error.message, { bad: error.status !== 404 }); }
    await this.showReaders();
  }
  async showJobs() {
    const { db } = this;
    if (this.work.hidden) return;
    try {
      const { running, ended } = await json(at(db, "jobs"));
      const newest = ended.slice(0, MOST_ENDED);
      if (db !== this.db || !this.isNew("jobs", [running, newest])) return;
      const amount = (one, n) => one.unit === "bytes" ? bytes(n) : `${count(n)} ${one.unit}`;
      const bar = one => {
        const part = h("progress", { max: one.expected, "aria-label": `Progress of ${one.kind}` });
        // Without a value it only says that something goes on.
        if (one.expected) part.value = Math.min(one.done, one.expected);
        return part;
      };
      fill(this.jobs, running.map(one => h("p", { class: "job" }, h("b", {}, one.kind), bar(one), h("span", { class: "small soft" }, `${amount(one, one.done)}${one.expected ? ` of about ${amount(one, Math.max(one.expected, one.done))}` : ""}, for ${span(one.age_ms / 1000)}`))),
        newest.length > 0 && h("details", {}, h("summary", {}, `The last work (${newest.length})`), table(["work", "began", "took", "result"], newest.map(one => [one.kind, new Date(one.begun_ms).toLocaleTimeString(), one.took_ms ? time(one.took_ms * 1e6) : "< 1 ms", one.error === null ? "done" : { text: one.error, class: "bad" }]), { label: "The last work" })));
      const backups = ended.filter(one => one.kind === "scheduled backup").length;
      if (this.backupsEnded !== undefined && backups !== this.backupsEnded) this.showBackups();
      this.backupsEnded = backups;
    } catch (error) { if (db === this.db) { this.said.jobs = null; fill(this.jobs, h("p", { class: "bad" }, error.message)); } }
  }
  /** Backups, and the points to which the database can be restored. */
  async showBackups() {
    const { db } = this;
    if (this.backups.hidden) return;
    try {
      const { schedule, backups } = await json(at(db, "backups"));
      if (db !== this.db) return;
      const stats = this.app.stats.get(db) ?? {};
      fill(this.backups, h("div", { class: "bar" }, h("h2", {}, `Backups of ${db}`), h("a", { class: "button push", href: at(db, "backup"), download: `${db}.pando-backup` }, "Download a backup")),
        schedule ? h("p", { class: "small" }, `The server takes one every ${span(schedule.every_s)} into ${schedule.folder}. `, schedule.error === null ? (schedule.taken ? `The last one took ${time(schedule.last_ms * 1e6)} and has ${bytes(schedule.last_bytes)}.` : "None has been due since the server started.") : h("span", { class: "bad" }, `The last one failed: ${schedule.error}.`))
          : h("p", { class: "small soft" }, "The server takes no scheduled backups: start it with --backup-to DIR. Restore a download with: pando restore FILE DIR"),
        backups.length > 0 && h("h3", {}, "Restore points"),
        backups.length > 0 && table(["backup", "taken", "up to commit", "kind", "size", "restore it with"], backups.map(one => one.error ? [one.name, { text: one.error, class: "bad" }, "", "", bytes(one.bytes), ""]
          : [one.name, new Date(one.created_s * 1000).toLocaleString(), count(one.commit), one.is_full ? "full" : "incremental", bytes(one.bytes), { text: `pando restore ${schedule.folder} NEW-DIR --at ${one.name}`, class: "mono" }]), { label: "Restore points" }),
        stats.ship_shipped_commit !== undefined && h("p", { class: "small" }, `Shipping: every commit up to ${count(stats.ship_shipped_commit)} is in the bucket, from which pando restore URL NEW-DIR --at TIME restores any moment.`));
    } catch (error) { if (db === this.db) fill(this.backups, h("p", { class: "bad" }, error.message)); }
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
