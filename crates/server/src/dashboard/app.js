// The shell: the rail, the tabs, the view that the URL names, and figures that are read every two seconds.
import { h, fill, visible, span } from "./dom.js";
import { at, json, rights } from "./api.js";
import { TABS, go, link, onMove, place } from "./route.js";
import { Rail } from "./rail.js";
import { Overview, Present, findings } from "./overview.js";
import { Data } from "./data.js";
import { Changes } from "./changes.js";
import { Operations } from "./operations.js";
import { Sql } from "./sql.js";
import { Profile } from "./profile.js";

const PERIOD_MS = 2000, MOST_LOOKED_AT = 50;
const NAMES = { overview: "Overview", data: "Data", sql: "SQL", changes: "Changes", operations: "Operations", profile: "Profile" };
const VIEWS = { overview: Overview, data: Data, sql: Sql, changes: Changes, operations: Operations, profile: Profile };

const app = {
  rights, place: place(), server: null, databases: [], stats: new Map(), present: new Present(), views: new Map(), rail: null,
};

const $ = id => document.getElementById(id);
app.rail = new Rail($("rail"));

/** Whether this token has a use for a tab. */
function has(tab) {
  if (!VIEWS[tab]) return false;
  if (tab === "sql") return app.server.sql && app.databases.length > 0;
  return tab === "overview" || (tab === "profile" ? rights.seesServer() : app.databases.length > 0);
}

function showTabs() {
  const { tab, db } = app.place;
  const shown = TABS.filter(has), text = JSON.stringify([shown, tab, db]);
  // What is the same stays, with its focus.
  if ($("tabs").dataset.shown === text) return;
  const focused = $("tabs").contains(document.activeElement);
  $("tabs").dataset.shown = text;
  fill($("tabs"), shown.map(name => h("a", { href: link({ tab: name, db }), "aria-current": name === tab ? "page" : null }, NAMES[name])));
  if (focused) $("tabs").querySelector("[aria-current]")?.focus();
}

/** Shows the view of the place. Views are made once, and keep what was typed into them. */
function show(to) {
  app.place = to;
  if (!to.db && app.databases.length) {
    const usual = app.databases.find(({ name }) => name === "default") ?? app.databases[0];
    go({ ...to, db: usual.name }, { replace: true });
    return;
  }
  if (app.server && !has(to.tab)) { go({ tab: "overview", db: to.db }, { replace: true }); return; }
  const titled = to.typed ?? to.table;
  document.title = `${NAMES[to.tab]}${titled ? ` · ${visible(titled)}` : ""}${to.db ? ` · ${to.db}` : ""} · Pando`;
  showTabs();
  if (!app.views.has(to.tab)) app.views.set(to.tab, new VIEWS[to.tab](app));
  const view = app.views.get(to.tab);
  if (app.view !== view) {
    app.view?.hide?.();
    app.view = view;
    fill($("main"), view.root);
    $("main").scrollTop = 0;
  }
  view.show(to);
  app.rail.draw();
}

let looking = null;
/** Reads the figures; one look at a time, however slow the server is. */
function look() { return looking ??= read().finally(() => { looking = null; }); }
async function read() {
  try {
    const [server, list] = await Promise.all([json("v1/server"), json("v1/databases")]);
    const names = JSON.stringify(app.databases), isNew = names !== JSON.stringify(list.databases);
    rights.read(list);
    rights.isReplica = server.role === "replica";
    Object.assign(app, { server, databases: list.databases });
    app.present.add(server);
    const isHere = ({ name }) => name === app.place.db, others = list.databases.filter(one => one.open && !isHere(one));
    const known = [...list.databases.filter(isHere), ...others].slice(0, MOST_LOOKED_AT);
    const before = app.stats;
    app.stats = new Map(await Promise.all(known.map(async ({ name }) => [name, { ...await json(at(name, "stats")), before: before.get(name) }])));
    for (const one of app.stats.values()) if (one.before) delete one.before.before;
    $("about").textContent = `version ${server.version}, up ${span(server.uptime_ms / 1000)}${server.replica ? `, a replica of ${server.replica.source}: read-only` : ""}`;
    $("metrics").hidden = !rights.all;
    const { db } = app.place;
    // A database that was dropped, or that another token saw.
    if (db && list.databases.length && !list.databases.some(({ name }) => name === db)) go({ tab: app.place.tab === "profile" ? "profile" : "overview" }, { replace: true });
    if (isNew || !app.view) { showTabs(); if (!app.view) show(place()); await app.rail.show(list.databases); }
    showFindings(findings(server, app.present, app.stats, app.place.tab));
    await app.view?.update();
    document.body.dataset.ready = "yes";
  } catch (error) {
    showFindings([{ bad: true, text: error.message ?? String(error) }]);
    // A mistake of this page, not of the server, is for its developers as well.
    if (!("status" in error)) console.error(error);
  }
}
function showFindings(found) {
  const text = JSON.stringify(found);
  if ($("wrong").dataset.said === text) return;
  $("wrong").dataset.said = text;
  fill($("wrong"), found.slice(0, 4).map(({ text: said, to, bad }) => h("span", { class: bad ? "one bad" : "one" }, to ? h("a", { href: link(to) }, said) : said)));
}

onMove(show);
$("menu").addEventListener("click", () => { const open = document.body.classList.toggle("with-rail"); $("menu").setAttribute("aria-expanded", String(open)); });
document.querySelector(".skip").addEventListener("click", event => { event.preventDefault(); $("main").focus(); });
addEventListener("keydown", event => {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || event.ctrlKey || event.altKey || event.metaKey;
  if (event.key === "/" && !typing && !document.querySelector("dialog")) { event.preventDefault(); document.body.classList.add("with-rail"); app.rail.search.focus(); }
  if (event.key === "Escape" && document.body.classList.contains("with-rail")) { document.body.classList.remove("with-rail"); $("menu").setAttribute("aria-expanded", "false"); }
});
await look();
setInterval(() => { if (!document.hidden) look(); }, PERIOD_MS);
document.addEventListener("visibilitychange", () => { if (!document.hidden) look(); });
