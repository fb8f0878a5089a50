// Profile: flame graphs of the running server, drawn here from stacks as text, so that they fit the page and its colours.
import { h, fill, download, number, bytes } from "./dom.js";
import { ask, query } from "./api.js";

const KINDS = { cpu: ["CPU time", "samples"], alloc: ["Allocations", "bytes"], lock: ["Waiting for locks", "ns"] };
const ROW = 18, LEAST_WIDTH = 2, MOST_DEPTH = 90, COLOURS = ["#f6c177", "#f2b26b", "#efa35f", "#f5cf8e", "#eebb7c"];

export class Profile {
  constructor() {
    this.kind = h("select", { "aria-label": "Kind of profile" }, Object.entries(KINDS).map(([value, [text]]) => h("option", { value }, text)));
    this.seconds = h("select", { "aria-label": "Length of the recording" }, [2, 5, 15, 60].map(value => h("option", { value, selected: value === 5 }, `${value} seconds`)));
    this.run = h("button", { class: "main" }, "Record");
    this.search = h("input", { type: "search", placeholder: "Mark functions…", "aria-label": "Mark functions", hidden: true, oninput: () => this.draw() });
    this.whole = h("button", { type: "button", hidden: true, onclick: () => { this.top = this.tree; this.draw(); } }, "Show all");
    this.save = h("button", { type: "button", hidden: true, onclick: () => download(`pando-${this.kind.value}.folded`, "text/plain", [this.text]) }, "Download as text");
    this.note = h("p", { role: "status", class: "small soft" }, "A profile shows where the server spends its time, allocates memory or waits. Recording costs a few percent of its speed.");
    this.flame = h("div", { class: "flame", role: "group", "aria-label": "Flame graph" });
    this.root = h("section", {}, h("h2", {}, "Where the server spends its time"),
      h("form", { class: "bar", onsubmit: event => { event.preventDefault(); this.record(); } }, this.kind, this.seconds, this.run, this.search, this.whole, this.save), this.note, this.flame);
    new ResizeObserver(() => this.draw()).observe(this.flame);
  }
  show() {}
  update() {}
  async record() {
    const kind = this.kind.value, seconds = this.seconds.value;
    this.run.disabled = true;
    this.note.className = "small soft";
    this.note.textContent = `Recording for ${seconds} seconds…`;
    try {
      this.text = await (await ask(query("debug/profile", { kind, seconds, form: "folded" }))).text();
      this.tree = this.top = grow(this.text);
      this.unit = KINDS[kind][1];
      const isEmpty = this.tree.amount === 0;
      this.note.textContent = isEmpty ? `Nothing was recorded: in these ${seconds} seconds the server ${{ cpu: "used no measurable CPU time", alloc: "allocated nothing", lock: "never waited for a lock" }[kind]}. Record again while it is under load.`
        : `${KINDS[kind][0]}: ${this.amount(this.tree.amount)} in ${seconds} seconds. Width is the share; a block lies on its caller. Choose a block to look closer.`;
      for (const part of [this.search, this.whole, this.save]) part.hidden = isEmpty;
      this.draw();
    } catch (error) { this.note.className = "small bad"; this.note.textContent = error.message; }
    this.run.disabled = false;
  }
  amount(n) { return this.unit === "bytes" ? bytes(n) : this.unit === "ns" ? `${number(n / 1e6)} ms` : `${number(n)} ${this.unit}`; }
  draw() {
    const { tree, top, flame } = this, width = flame.clientWidth;
    if (!tree || !width) return;
    const blocks = [], wanted = this.search.value.toLowerCase();
    const place = (node, left, size, depth) => {
      const share = 100 * node.amount / tree.amount;
      const block = h("button", { type: "button", class: wanted && node.name.toLowerCase().includes(wanted) ? "found" : "", title: `${node.name}\n${this.amount(node.amount)}, ${share.toFixed(2)} %`,
        "aria-label": `${node.name}, ${share.toFixed(1)} percent`, tabIndex: size > 40 ? 0 : -1, onclick: () => { this.top = node; this.draw(); this.flame.querySelector("button")?.focus(); } }, size > 24 ? short(node.name) : "");
      block.style.left = `${left}px`; block.style.width = `${Math.max(1, size - 1)}px`; block.style.top = `${depth * ROW}px`;
      block.style.background = COLOURS[hash(node.name) % COLOURS.length];
      blocks.push(block);
      if (depth >= MOST_DEPTH) return depth + 1;
      let at = left, deepest = depth + 1;
      for (const child of [...node.children.values()].sort((one, other) => other.amount - one.amount)) {
        const part = size * child.amount / node.amount;
        if (part < LEAST_WIDTH) break;
        deepest = Math.max(deepest, place(child, at, part, depth + 1));
        at += part;
      }
      return deepest;
    };
    const depth = tree.amount ? place(top, 0, width, 0) : 0;
    flame.style.height = `${depth * ROW}px`;
    fill(flame, blocks);
    this.whole.disabled = top === tree;
  }
}
const short = name => name.replace(/::\{\{closure\}\}/g, "{}").replace(/<[^<>]*>/g, "").split("::").slice(-2).join("::");
const hash = text => [...text].reduce((sum, one) => (sum * 31 + one.charCodeAt(0)) >>> 0, 7);

/** A tree of calls from folded stacks: a line for each, its frames with `;` between them, and the amount. */
function grow(text) {
  const root = { name: "all", amount: 0, children: new Map() };
  for (const line of text.split("\n")) {
    const cut = line.lastIndexOf(" "), amount = Number(line.slice(cut + 1));
    if (cut < 1 || !Number.isFinite(amount)) continue;
    root.amount += amount;
    let node = root;
    for (const name of line.slice(0, cut).split(";")) {
      if (!node.children.has(name)) node.children.set(name, { name, amount: 0, children: new Map() });
      node = node.children.get(name);
      node.amount += amount;
    }
  }
  return root;
}
