// Elements, texts and figures. Nothing that comes from a database is ever taken for markup: text is set as text.

/** Creates an element. `props` are attributes; `onclick` and the like are handlers; `class`, `hidden`, `value` work. */
export function h(name, props, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (PROPERTIES.has(key)) made[key] = value;
    else if (value === true) made.setAttribute(key, "");
    else if (value !== false) made.setAttribute(key, value);
  }
  add(made, children);
  return made;
}
const PROPERTIES = new Set(["value", "checked", "disabled", "hidden", "selected", "indeterminate", "tabIndex"]);
function add(parent, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(parent, child);
    else if (child !== undefined && child !== null && child !== false) parent.append(child);
  }
}
export function fill(parent, ...children) { parent.replaceChildren(); add(parent, children); return parent; }
export function s(name, props, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(props ?? {})) made.setAttribute(key, value);
  add(made, children);
  return made;
}

// Characters that would reorder or hide text are written as their number, so that a name cannot pass for another one.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
export const visible = text => text.replace(HIDDEN, one => `⟨${one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
/** A name from a database, isolated from the direction of the text around it. */
export const named = (text, props) => h("bdi", { dir: "auto", ...props }, text === "" ? "(empty)" : visible(text));

export const count = n => Number(n).toLocaleString("en");
export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
export const number = n => n >= 1e6 ? (n / 1e6).toFixed(n >= 1e7 ? 1 : 2) + " M" : n >= 1e5 ? Math.round(n / 1e3) + " k"
  : n >= 1e4 ? (n / 1e3).toFixed(1) + " k" : n >= 100 || Number.isInteger(n) ? Math.round(n).toString() : n.toFixed(1);
export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < 4) { n /= 1024; at += 1; }
  return (at && n < 100 ? n.toFixed(1) : Math.round(n)) + " " + units[at];
}
export const time = ns => ns === null ? "–" : ns < 1e6 ? Math.round(ns / 1e3) + " µs"
  : ns < 1e9 ? (ns / 1e6).toFixed(ns < 1e7 ? 2 : 1) + " ms" : (ns / 1e9).toFixed(2) + " s";
export const span = seconds => seconds < 120 ? `${Math.floor(seconds)} s` : seconds < 7200 ? `${Math.floor(seconds / 60)} min`
  : seconds < 172800 ? `${Math.floor(seconds / 3600)} h` : `${Math.floor(seconds / 86400)} days`;

export const toHex = bytes => Array.from(bytes, byte => byte.toString(16).padStart(2, "0")).join("");
export function fromHex(text) {
  const digits = text.replace(/\s/g, "");
  if (!/^([0-9a-f]{2})*$/i.test(digits)) throw new Error("Write two hexadecimal digits for each byte.");
  return Uint8Array.from(digits.match(/../g) ?? [], pair => parseInt(pair, 16));
}
export const utf8 = text => new TextEncoder().encode(text);

/** A table of few rows. A cell is a text, a node, or `{text, class}`. */
export function table(head, rows, props) {
  const cell = (name, content) => content !== null && typeof content === "object" && !(content instanceof Node)
    ? h(name, { class: content.class, title: content.title }, content.text) : h(name, {}, content);
  return h("div", { class: "wide", tabIndex: 0, role: "region", "aria-label": props?.label ?? "Table" }, h("table", {},
    h("thead", {}, h("tr", {}, head.map(text => h("th", { scope: "col" }, text)))),
    h("tbody", {}, rows.map(row => h("tr", {}, row.map(one => cell("td", one)))))));
}

/** Says something at the edge of the page for some seconds; `action` is a button: `{label, run}`. */
export function toast(text, { action, bad, seconds = 8 } = {}) {
  const close = () => { clearTimeout(timer); shown.remove(); };
  const shown = h("div", { class: bad ? "toast bad" : "toast" }, h("span", {}, text),
    action && h("button", { type: "button", onclick: () => { close(); action.run(); } }, action.label),
    h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: close }, "×"));
  document.getElementById("toasts").append(shown);
  const timer = setTimeout(close, seconds * 1000);
}

/** Opens a dialog and resolves to the value of the button that closed it; Escape is `null`. */
export function dialog(title, body, buttons, { wide } = {}) {
  return new Promise(resolve => {
    let result = null;
    const close = value => { result = value; shown.close(); };
    const shown = h("dialog", { class: wide ? "wide-dialog" : "", "aria-label": title },
      h("h2", {}, title), body,
      h("div", { class: "buttons" }, buttons.map(({ label, value, kind }) =>
        h("button", { type: "button", class: kind, onclick: () => close(value) }, label))));
    shown.addEventListener("close", () => { shown.remove(); resolve(result); });
    document.body.append(shown);
    shown.showModal();
  });
}
export const confirm = (title, body, label) => dialog(title, h("p", {}, body),
  [{ label: "Cancel", value: null }, { label, value: true, kind: "danger" }]);

/** Gives the browser a file. */
export function download(name, type, parts) {
  const address = URL.createObjectURL(new Blob(parts, { type }));
  h("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

/** Scrolls a tall list of rows of the same height, with only those on the screen as elements. */
export class Rows {
  constructor(box, height, render) {
    Object.assign(this, { box, height, render, total: 0 });
    this.tall = h("div", { class: "tall", role: "presentation" });
    box.append(this.tall);
    box.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(box);
  }
  show(total) {
    this.total = total;
    this.tall.style.height = `${total * this.height}px`;
    this.draw();
  }
  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - 6);
    const last = Math.min(this.total, Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.height) + 6);
    const shown = [];
    for (let at = first; at < last; at += 1) {
      const row = this.render(at);
      row.style.transform = `translateY(${at * this.height}px)`;
      shown.push(row);
    }
    this.tall.replaceChildren(...shown);
  }
  reveal(at) {
    const top = at * this.height;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    else if (top + this.height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + this.height - this.box.clientHeight;
    this.draw();
  }
}
