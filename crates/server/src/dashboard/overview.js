// Overview: what the server does now, what it costs, and what each database holds.
import { h, fill, named, visible, number, bytes, time, table, plural, count } from "./dom.js";
import { Chart } from "./chart.js";
import { Past, ofDatabase, ofServer } from "./history.js";
import { at, json } from "./api.js";
import { link, place } from "./route.js";

const KINDS = [
  { kind: "get", name: "reads" }, { kind: "put", name: "writes" }, { kind: "delete", name: "deletes" }, { kind: "range", name: "ranges" },
  { kind: "transaction", name: "batches and transactions" }, { kind: "sql", name: "SQL" }, { kind: "other", name: "others" },
];
const LENGTHS = [[5, "5 minutes"], [15, "15 minutes"], [60, "1 hour"]], MOST_TABLES = 200;
const micros = us => time(us * 1000), rate = n => `${number(n)}/s`;

/** The rates and latencies of the last two seconds. */
export class Present {
  constructor() { this.before = null; this.now = null; }
  add(server) {
    const { before } = this;
    // A server that was started again counts from zero.
    if (before && server.uptime_ms > before.uptime_ms) {
      const seconds = (server.uptime_ms - before.uptime_ms) / 1000, rates = {};
      for (const { kind } of KINDS) rates[kind] = (server.requests[kind].count - before.requests[kind].count) / seconds;
      this.now = { before, server, rates };
    }
    this.before = server;
  }
  /** The latency that this share of the requests of a kind stayed below since the look before. */
  latency(kind, share) {
    const earlier = new Map(this.now.before.requests[kind].latency_ns);
    const counts = this.now.server.requests[kind].latency_ns.map(([end, passed]) => [end, passed - (earlier.get(end) ?? 0)]);
    const total = counts.reduce((sum, [, passed]) => sum + passed, 0);
    let passed = 0;
    for (const [end, more] of counts) { passed += more; if (total && passed >= total * share) return end; }
    return null;
  }
}

/** What is wrong, worst first: `{text, to, bad}`. */
export function findings(server, present, stats, tab) {
  const found = [];
  const failed = present.now ? KINDS.reduce((sum, { kind }) => sum + present.now.server.requests[kind].errors_5xx - present.now.before.requests[kind].errors_5xx, 0) : 0;
  if (failed) found.push({ bad: true, text: `${plural(failed, "request")} failed in the server just now`, to: { tab: "overview" } });
  for (const [name, lag] of Object.entries(server.replica?.databases ?? {})) {
    if (lag.error) found.push({ bad: true, text: `Replica of ${name}: ${lag.error}`, to: { tab: "overview", db: name } });
    else if (lag.lag_seconds > 10) found.push({ text: `Replica of ${name} lags by ${Math.round(lag.lag_seconds)} s`, to: { tab: "overview", db: name } });
  }
  for (const [db, one] of stats) {
    const to = { tab: "operations", db };
    if (one.short_of_room) found.push({ bad: true, text: `${db}: the disk is full; writes are refused`, to });
    if (one.expired_readers > (one.before?.expired_readers ?? one.expired_readers)) found.push({ text: `${db}: readers expired because they kept too much`, to });
    const debt = Math.max(one.debt_memtables_permille, one.debt_log_permille);
    if (debt >= 800) found.push({ text: `${db}: merging is behind (${(debt / 10).toFixed(0)} % of what is allowed); writers are delayed`, to: { tab: "overview", db } });
  }
  return found.filter(one => one.to.tab !== tab || one.bad || one.to.db !== place().db);
}

export class Overview {
  constructor(app) {
    this.app = app;
    const figure = (title, box) => h("section", { class: "quarter" }, h("h2", {}, title), box);
    this.figures = ["rate", "get", "put", "connections"].map(() => h("div", {}));
    this.minutes = null;
    this.past = new Past("v1/history", ofServer(KINDS.map(({ kind }) => kind)));
    this.pasts = new Map();
    const chart = (label, say, series, rest) => new Chart({ label, say, series, ...rest });
    this.charts = {
      requests: chart("Requests a second", rate, KINDS, { least: 1 }),
      latency: chart("p99 latency", micros, [{ kind: "get", name: "reads" }, { kind: "put", name: "writes" }, { kind: "sql", name: "SQL" }], { lines: true, least: 100 }),
      memory: chart("Memory in use", bytes, [{ kind: "range", name: "all databases" }], { least: 1 << 20, base: 1024 }),
      commits: chart("Commits a second", rate, [{ kind: "put", name: "commits" }, { kind: "delete", name: "conflicts" }], { lines: true }),
      operations: chart("Records a second", rate, [{ kind: "get", name: "read" }, { kind: "put", name: "written" }, { kind: "range", name: "pages read from disk" }], { lines: true }),
      files: chart("Size of the files", bytes, [{ kind: "get", name: "data file" }, { kind: "transaction", name: "log" }, { kind: "put", name: "memtables" }], { lines: true, least: 1 << 20, base: 1024 }),
    };
    const { requests, latency, memory, commits, operations, files } = this.charts, all = Object.values(this.charts);
    // The same moment is marked in all of them.
    for (const one of all) one.others = all.filter(other => other !== one);
    const choose = this.choose = h("select", { "aria-label": "Length of the chart", onchange: event => { this.minutes = Number(event.target.value); this.drawCharts(); } },
      LENGTHS.map(([value, text]) => h("option", { value, selected: value === 60 }, text)));
    this.latency = h("div", {}); this.memory = h("div", {}); this.databases = h("div", {}); this.costs = h("div", {}); this.slow = h("section", { hidden: true });
    this.steps = h("div", {});
    this.root = h("div", { class: "cards" },
      figure("Requests a second", this.figures[0]), figure("Read latency", this.figures[1]), figure("Write latency", this.figures[2]), figure("Connections", this.figures[3]),
      h("section", {}, h("div", { class: "bar" }, h("h2", {}, "Requests a second"), h("span", { class: "push" }, choose)), requests.box,
        h("p", { class: "small soft" }, "The server keeps a point each five seconds, for an hour.")),
      h("section", { class: "half" }, h("h2", {}, "p99 latency"), latency.box), h("section", { class: "half" }, h("h2", {}, "Memory in use"), memory.box),
      this.ofDatabase = h("h2", { class: "over" }),
      h("section", { class: "third" }, h("h2", {}, "Commits a second"), commits.box), h("section", { class: "third" }, h("h2", {}, "Records a second"), operations.box), h("section", { class: "third" }, h("h2", {}, "Size of the files"), files.box),
      h("section", { class: "half" }, h("h2", {}, "Latency of the last seconds"), this.latency),
      h("section", { class: "half" }, h("h2", {}, "Memory and merging"), this.memory),
      h("section", {}, h("h2", {}, "Databases"), this.databases),
      h("section", {}, h("h2", {}, "What tables cost"), this.costs),
      this.slow);
  }
  show() { this.costs.replaceChildren(); this.shown = null; this.update(); }
  async update() {
    const { server, present, stats } = this.app, { db } = this.app.place;
    if (!server) return;
    const [requests, get, put, connections] = this.figures, { now } = present;
    const big = (box, text, rest) => fill(box, h("div", { class: "big" }, text), h("div", { class: "small soft" }, rest));
    if (now) {
      big(requests, number(KINDS.reduce((sum, { kind }) => sum + now.rates[kind], 0)), `${number(now.rates.get)} reads, ${number(now.rates.put + now.rates.delete)} writes`);
      for (const [box, kind] of [[get, "get"], [put, "put"]]) big(box, time(present.latency(kind, .99)), `p99; p50 ${time(present.latency(kind, .5))}`);
      const shares = [["p50", .5], ["p90", .9], ["p99", .99], ["p99.9", .999]];
      fill(this.latency, table(["", ...shares.map(([name]) => name)], KINDS.filter(({ kind }) => now.server.requests[kind].count)
        .map(({ kind, name }) => [name, ...shares.map(([, share]) => time(present.latency(kind, share)))]), { label: "Latency" }));
    }
    big(connections, number(server.connections), `${plural(server.open_databases, "open database")}, ${plural(server.transactions, "transaction")}, ${plural(server.streams, "stream")}`);
    this.showDatabases(stats);
    if (stats.get(db)) this.showMemory(db, stats.get(db));
    await this.readPast(db);
    if (db && this.shown !== db) { this.shown = db; await this.showCosts(db); }
    if (this.app.rights.seesServer()) await this.showSlow();
  }
  /** Reads what is new of the last hour, and draws it. */
  async readPast(db) {
    if (db && !this.pasts.has(db)) this.pasts.set(db, new Past(at(db, "history"), ofDatabase));
    const looks = [this.past, this.pasts.get(db)].filter(Boolean);
    const isNew = (await Promise.all(looks.map(one => one.read()))).some(Boolean);
    if (isNew || this.drawnOf !== db) { this.drawnOf = db; this.drawCharts(); }
  }
  drawCharts() {
    // Until somebody chooses, the chart is as long as what there is.
    const there = this.past.points.length * this.past.step_ms / 60e3, minutes = this.minutes ?? (LENGTHS.find(([most]) => there <= most) ?? LENGTHS.at(-1))[0];
    this.choose.value = minutes;
    const length = minutes * 60e3, { requests, latency, memory, commits, operations, files } = this.charts, db = this.drawnOf;
    requests.show(this.past.last(length, (value, seconds) => Object.fromEntries(KINDS.map(({ kind }) => [kind, value[`${kind}.count`] / seconds]))), length);
    latency.show(this.past.last(length, value => ({ get: value["get.p99_us"], put: value["put.p99_us"], sql: value["sql.p99_us"] })), length);
    memory.show(this.past.last(length, value => ({ range: value.memory_bytes })), length);
    const own = this.pasts.get(db);
    this.ofDatabase.textContent = db ? `The database ${db}` : "";
    for (const one of [commits, operations, files]) one.box.parentElement.hidden = !own;
    if (!own) return;
    commits.show(own.last(length, (value, seconds) => ({ put: value.commits / seconds, delete: value.conflicts / seconds })), length);
    operations.show(own.last(length, (value, seconds) => ({ get: value.reads / seconds, put: value.writes / seconds, range: value.pages_read / seconds })), length);
    files.show(own.last(length, value => ({ get: value.data_file_bytes, transaction: value.log_file_bytes, put: value.memtable_bytes })), length);
  }
  showDatabases(stats) {
    const rows = this.app.databases.map(({ name }) => {
      const one = stats.get(name), to = h("a", { href: link({ tab: "overview", db: name }) }, name);
      return one ? [to, ...[number(one.commits), number(one.conflicts), number(one.readers), bytes(one.data_file_bytes), bytes(one.data_used_bytes), bytes(one.log_file_bytes), number(one.pool_faults), number(one.checkpoints)]]
        : [to, "closed", "", "", "", "", "", "", ""];
    });
    // What is the same stays, with its focus.
    const text = JSON.stringify(rows.map(row => row.map(cell => cell.textContent ?? cell)));
    if (this.said === text) return;
    this.said = text;
    fill(this.databases, rows.length ? table(["name", "commits", "conflicts", "readers", "data file", "in use", "log", "pages read", "checkpoints"], rows, { label: "Databases" })
      : h("p", { class: "empty" }, "This token sees no database. Create one with PUT /v1/databases/NAME."));
  }
  showMemory(db, stats) {
    const parts = [["pages", "pool", "c-get"], ["memtables", "memtables", "c-put"], ["uncommitted", "write_sets", "c-delete"], ["checkpoint", "checkpoint", "c-range"], ["log", "log", "c-transaction"], ["filters", "filters", "c-sql"], ["idle chunks", "idle_chunks", "c-range"]]
      .map(([name, field, kind]) => [name, stats[`memory_${field}_bytes`] ?? 0, kind]);
    const limit = stats.memory_limit_bytes || 1, mine = parts.reduce((sum, [, held]) => sum + held, 0);
    parts.push(["other databases", Math.max(0, stats.memory_used_bytes - mine), "c-other"]);
    const delay = name => stats[`delays_${name}`] ? `${number(stats[`delays_${name}`])} × ${time(stats[`delays_${name}_ns`] / stats[`delays_${name}`])}` : "none";
    const percent = permille => `${(permille / 10).toFixed(1)} %`;
    const meter = h("div", { class: "meter" }, parts.map(([, held, kind]) => { const part = h("i", { class: kind }); part.style.width = `${100 * held / limit}%`; return part; }));
    fill(this.memory, h("p", { class: "small" }, `${bytes(stats.memory_used_bytes)} of the budget of ${bytes(limit)} are in use; the peak was ${bytes(stats.memory_peak_bytes)}.`), meter,
      h("div", { class: "keys" }, parts.map(([name, held, kind]) => h("span", {}, h("i", { class: kind }), `${name} ${bytes(held)}`))),
      table([`merging of ${db}`, "debt", "writers delayed"], [
        [`memtables, ${bytes(stats.memtable_bytes)}`, percent(stats.debt_memtables_permille), delay("memtables")],
        [`log to replay, ${bytes(stats.unabsorbed_log_bytes)}`, percent(stats.debt_log_permille), delay("log")],
        ["the memory budget", percent(stats.debt_budget_permille), delay("budget")],
      ], { label: "Merging" }));
  }
  async showCosts(db) {
    let tables;
    try { ({ tables } = await json(at(db, "tables"))); } catch (error) { if (db === this.shown) fill(this.costs, h("p", { class: "bad" }, error.message)); return; }
    if (db !== this.shown) return;
    const ratio = (over, under, plus) => under > 0 ? `${(plus + over / under).toFixed(2)} ×` : "–";
    const busiest = tables.sort((one, other) => other.gets + other.scans + other.writes - one.gets - one.scans - one.writes);
    const rows = busiest.slice(0, MOST_TABLES).map(one => [h("a", { href: link({ tab: "data", db, table: one.name }) }, named(one.name)), one.layout, number(one.gets), number(one.scans), number(one.writes),
      bytes(one.committed_bytes), ratio(one.written_bytes, one.committed_bytes, 1), String(one.get_pages), String(one.runs), ratio(one.stored_bytes, one.record_bytes, 0)]);
    fill(this.costs, h("p", { class: "small soft" }, `The ${tables.length > MOST_TABLES ? `${MOST_TABLES} busiest of ${count(tables.length)} tables` : "tables"} of ${db}, since it was opened. `,
      "Write amplification: bytes written to log and data file for each byte committed. Space amplification: bytes of pages for each byte of records."),
    rows.length ? table(["table", "layout", "gets", "scans", "writes", "committed", "write amplification", "pages a get", "runs", "space amplification"], rows, { label: "Costs" })
      : h("p", { class: "empty" }, "The database has no tables yet."));
  }
  async showSlow() {
    const { slow, threshold_us } = await json("debug/slow");
    const ms = us => us === null ? "" : time(us * 1000), list = slow.slice(0, 10);
    const text = JSON.stringify(list.map(({ ago_ms, ...rest }) => rest));
    if (this.slowSaid === text) return;
    this.slowSaid = text;
    this.slow.hidden = false;
    fill(this.slow, h("h2", {}, `Slow requests: ${ms(threshold_us)} and more, in the last ten minutes`),
      list.length ? table(["request", "status", "took", "waited for others", "own commit", "written with it", ""], list.map(one => [
        { text: visible(`${one.method} ${one.target}${one.sql ? ` – ${one.sql}` : ""}`.slice(0, 140)), class: "mono" }, String(one.status), ms(one.us), ms(one.queued_us), ms(one.committed_us), one.committed_together === null ? "" : number(one.committed_together),
        explainable(one.target) ? h("button", { type: "button", onclick: () => this.explain(one.target) }, "Explain") : "",
      ]), { label: "Slow requests" }) : h("p", { class: "soft small" }, "None."), this.steps);
  }
  async explain(target) {
    try {
      const explained = await json(explainable(target)), rows = [];
      for (const step of explained.steps) {
        rows.push([step.what, step.outcome, step.bytes ? bytes(step.bytes) : "", time(step.ns)]);
        for (const page of step.pages) rows.push([`– level ${page.level}, unit ${page.unit}`, `${page.entries} entries, ${page.was_resident ? "in memory" : "read from the file"}`, bytes(page.bytes), time(page.ns)]);
      }
      rows.push(["in all", `${explained.pages_in_memory} pages in memory, ${explained.pages_read} read`, "", time(explained.ns)]);
      fill(this.steps, h("h3", {}, "A get of this key as it is now, step by step"), table(["step", "outcome", "bytes", "time"], rows, { label: "Steps" }));
    } catch (error) { fill(this.steps, h("p", { class: "bad" }, error.message)); }
  }
}

/** The path that explains a request for one key; `null` for other requests. */
function explainable(target) {
  const [path, text = ""] = target.split("?"), id = text.match(/(?:^|&)id=([^&]+)/);
  if (path === "/v0/entity" && id) return `v1/databases/default/tables/entity/explain?key=${id[1]}`;
  const entry = path.match(/^\/(v1\/databases\/[^/]+\/tables\/[^/]+)\/entries\/(.+)$/);
  return entry ? `${entry[1]}/explain?key=${entry[2].replaceAll("&", "%26")}` : null;
}
