// A chart over time, with axes, gaps, and a line of figures under the pointer or the arrow keys. Areas are stacked, lines
// are not.
//
// Times count back from the newest point, and the clock is that of the server: a browser whose clock is wrong shows the
// same chart.
import { h, s, fill } from "./dom.js";

const HEIGHT = 150, LEFT = 58, BOTTOM = 22, TOP = 8;

/** `series`: `{kind, name}`; `say(value)` writes a value with its unit; `least`: the lowest top of the axis; `base`:
 * 1024 for bytes, so that the axis has round numbers. */
export class Chart {
  constructor({ label, series, say, least = 1, base = 10, lines = false, newest = "now" }) {
    Object.assign(this, { label, series, say, least, base, lines, newest, points: [], picked: null, others: [], length_ms: 3600e3 });
    this.svg = s("svg", { role: "img", height: HEIGHT, tabindex: 0 });
    this.tip = h("div", { class: "tip", hidden: true });
    this.keys = h("div", { class: "keys" }, series.map(({ kind, name }) => h("span", {}, h("i", { class: `c-${kind}` }), name)));
    this.box = h("div", { class: "chart" }, this.svg, this.tip, this.keys);
    this.svg.addEventListener("pointermove", event => this.pick(event.offsetX));
    for (const left of ["pointerleave", "blur"]) this.svg.addEventListener(left, () => { this.picked = null; this.drawCursor(); });
    this.svg.addEventListener("keydown", event => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step || !this.points.length) return;
      event.preventDefault();
      this.picked = Math.max(0, Math.min(this.points.length - 1, (this.picked ?? this.points.length) + step));
      this.drawCursor();
    });
    this.cursor = s("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM });
    new ResizeObserver(() => this.draw()).observe(this.box);
  }
  /** Shows points `{ago_ms, at_ms, values}`, oldest first; `values` is null in a gap, and each of them may be. */
  show(points, length_ms) { Object.assign(this, { points, length_ms }); this.draw(); }
  x(point) { return LEFT + (this.width - LEFT - 1) * (1 - point.ago_ms / this.length_ms); }
  pick(x) {
    let best = null;
    this.points.forEach((point, at) => { if (best === null || Math.abs(this.x(point) - x) < Math.abs(this.x(this.points[best]) - x)) best = at; });
    this.picked = best;
    this.drawCursor();
  }
  draw() {
    this.width = this.svg.clientWidth;
    if (!this.width) return;
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    const { series, points } = this, value = (point, kind) => point.values?.[kind] ?? 0;
    const height = point => this.lines ? Math.max(0, ...series.map(({ kind }) => value(point, kind))) : series.reduce((sum, { kind }) => sum + value(point, kind), 0);
    const most = points.reduce((most, point) => Math.max(most, height(point)), this.least), top = roundUp(most, this.base);
    const y = amount => (HEIGHT - BOTTOM - TOP) * (1 - amount / top) + TOP, shapes = [];
    for (const share of [0, .5, 1]) {
      shapes.push(s("line", { x1: LEFT, x2: this.width, y1: y(top * share), y2: y(top * share) }));
      shapes.push(s("text", { x: LEFT - 6, y: y(top * share) + 4, "text-anchor": "end" }, this.say(top * share)));
    }
    const minutes = this.length_ms / 60000, parts = this.width < 420 ? 2 : 4;
    for (let part = 0; part <= parts; part += 1) {
      const anchor = part === 0 ? "start" : part === parts ? "end" : "middle", ago = minutes * (1 - part / parts);
      shapes.push(s("text", { x: LEFT + (this.width - LEFT) * part / parts, y: HEIGHT - 4, "text-anchor": anchor }, part === parts ? this.newest : `−${Number(ago.toFixed(1))} min`));
    }
    for (const run of runs(points)) {
      if (this.lines) for (const { kind } of series) {
        // A line ends where there is no value, in a step without requests for example.
        for (const part of runs(run, point => point.values[kind] !== null)) {
          const ends = part.map(point => `${this.x(point).toFixed(1)},${y(point.values[kind]).toFixed(1)}`);
          if (ends.length === 1) ends.push(`${(this.x(part[0]) + 2).toFixed(1)},${y(part[0].values[kind]).toFixed(1)}`);
          shapes.push(s("polyline", { points: ends.join(" "), class: `l-${kind}` }));
        }
      } else {
        let base = run.map(() => 0);
        for (const { kind } of series) {
          if (!run.some(point => value(point, kind) > 0)) continue;
          const under = base;
          base = base.map((amount, at) => amount + value(run[at], kind));
          const upper = run.map((point, at) => `${this.x(point).toFixed(1)},${y(base[at]).toFixed(1)}`);
          const lower = run.map((point, at) => `${this.x(point).toFixed(1)},${y(under[at]).toFixed(1)}`).reverse();
          shapes.push(s("polygon", { points: [...upper, ...lower].join(" "), class: `c-${kind}` }));
        }
      }
    }
    const known = points.filter(point => point.values), last = known.at(-1);
    const now = last ? series.map(({ kind, name }) => `${name} ${last.values[kind] === null ? "none" : this.say(last.values[kind])}`).join(", ") : "nothing yet";
    this.svg.setAttribute("aria-label", `${this.label}, ${known.length} points; the newest: ${now}`);
    this.svg.replaceChildren(...shapes, this.cursor);
    if (this.picked !== null) this.drawCursor();
  }
  /** Draws the line at a moment, without figures: the one under the pointer in another chart. */
  mark(ago_ms) {
    const isThere = ago_ms !== null && ago_ms <= this.length_ms && Boolean(this.width);
    this.cursor.style.display = isThere ? "" : "none";
    if (isThere) for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.x({ ago_ms }));
  }
  drawCursor() {
    const picked = this.picked === null ? null : this.points[this.picked];
    for (const other of this.others) other.mark(picked?.ago_ms ?? null);
    this.tip.hidden = !picked;
    this.mark(picked?.ago_ms ?? null);
    if (!picked) return;
    const line = ({ kind, name }) => h("div", {}, h("i", { class: `c-${kind}` }), `${name}: ${picked.values[kind] === null ? "none" : this.say(picked.values[kind])}`);
    fill(this.tip, h("b", {}, new Date(picked.at_ms).toLocaleTimeString()), picked.values ? this.series.map(line) : h("div", {}, "no figures"));
    const right = this.x(picked) + 10 + this.tip.offsetWidth > this.width;
    this.tip.style.left = `${Math.max(0, right ? this.x(picked) - 10 - this.tip.offsetWidth : this.x(picked) + 10)}px`;
  }
}

/** The next round number: at most one and a half times as much. */
function roundUp(most, base) {
  const unit = base === 10 ? 1 : base ** Math.floor(Math.log(most) / Math.log(base)), step = 10 ** Math.floor(Math.log10(most / unit));
  return Math.ceil(most / unit / step * 2) / 2 * step * unit;
}

/** The stretches of neighbouring points that have values, or that `has` accepts. */
function runs(points, has = point => point.values !== null) {
  const found = [];
  let run = null;
  for (const point of points) {
    if (!has(point)) run = null;
    else if (run) run.push(point);
    else found.push(run = [point]);
  }
  return found;
}
